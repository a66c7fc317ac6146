import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.losses import Squared, linear_gradient
from mixfree.reproduce.paper.problem import Regression, ball_minimizer, start, trace


def quadratic(rng, dimension, rank=None):
    factor = rng.standard_normal((rank or 2 * dimension, dimension))
    return factor.T @ factor, factor.T @ rng.standard_normal(len(factor))


@pytest.mark.parametrize("radius", [1e-3, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("rank", [None, 4])
def test_minimizer_on_the_ball_satisfies_the_optimality_conditions(radius, rank):
    hessian, linear = quadratic(np.random.default_rng(1), 9, rank)
    point = ball_minimizer(hessian, linear, radius)
    gradient = hessian @ point - linear
    size = np.linalg.norm(point)
    assert size <= radius * (1 + 1e-12)
    multiplier = -gradient @ point / size**2
    np.testing.assert_allclose(gradient, -multiplier * point, atol=1e-11 * np.abs(linear).max())
    assert multiplier >= -1e-12
    assert size == pytest.approx(radius, rel=1e-12) or abs(multiplier) < 1e-11


@pytest.mark.parametrize("radius", [0.3, 1.0])
def test_suboptimality_is_the_difference_of_objectives(radius):
    drawn = Regression.draw(seed=3, per_state=40, dimension=6)
    problem = Regression(drawn.rows, drawn.targets, drawn.per_state, radius)

    def objective(w):
        return np.sum((problem.rows @ w - problem.targets) ** 2) / (4 * problem.per_state)

    rng = np.random.default_rng(0)
    points = rng.standard_normal((50, 6))
    points *= radius * rng.random((50, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    direct = [objective(w) - objective(problem.minimizer) for w in points]
    np.testing.assert_allclose(problem.suboptimality(points), direct, rtol=1e-9)
    assert (problem.suboptimality(points) >= 0).all()


def test_the_data_has_the_papers_law():
    problem = Regression.draw(seed=0)
    assert problem.rows.shape == (500, 100)
    # Means of 50,000 normal numbers and of their squares: 5 standard errors.
    assert abs(problem.rows.mean()) < 5 / 50_000**0.5
    assert abs(problem.rows.var() - 1) < 5 * (2 / 50_000) ** 0.5
    for state in (slice(0, 250), slice(250, 500)):
        rows, targets = problem.rows[state], problem.targets[state]
        truth, residual = np.linalg.lstsq(rows, targets)[:2]
        # 150 degrees of freedom are left of 250: the residual variance is 1e-3 ± 12 %.
        assert residual[0] / 150 == pytest.approx(1e-3, rel=5 * (2 / 150) ** 0.5)
        assert np.linalg.norm(truth) ** 2 == pytest.approx(1, rel=5 * (2 / 100) ** 0.5)


@pytest.mark.parametrize("p", [0.5, 0.02, 0.9])
def test_the_stream_is_the_chain_with_uniform_rows(p):
    samples = 200_000
    problem = Regression.draw(seed=0, per_state=10, dimension=2)
    order = problem.order(4, p, samples)
    states = order // 10
    assert set(states) == {0, 1}
    changes = np.count_nonzero(np.diff(states))
    assert abs(changes / samples - p) < 5 * (p * (1 - p) / samples) ** 0.5
    counts = np.bincount(order % 10, minlength=10)
    assert np.abs(counts / samples - 0.1).max() < 5 * (0.09 / samples) ** 0.5


def test_streams_begin_alike_and_start_in_either_state():
    problem = Regression.draw(seed=0, per_state=10, dimension=2)
    stream = problem.stream(1, 0.1)
    pieces = [stream.take(n) for n in (0, 1, 49, 450)]
    np.testing.assert_array_equal(np.concatenate(pieces), problem.order(1, 0.1, 500))
    np.testing.assert_array_equal(problem.order(1, 0.1, 50), problem.order(1, 0.1, 500)[:50])
    first = [problem.order(seed, 1e-4, 1)[0] // 10 for seed in range(400)]
    assert abs(np.mean(first) - 0.5) < 5 * 0.5 / 20


@pytest.mark.parametrize("method", list(mf.methods()))
def test_the_trace_is_that_of_the_reference_loop(method):
    problem = Regression.draw(seed=1, per_state=15, dimension=4)
    order = problem.order(1, 0.1, 700)
    options = {"horizon": 1000} if method == "algorithm-1" else {}
    samples, steps, gaps = trace(start(problem, method, 0.1, seed=5, **options), problem, order)
    opt = start(problem, method, 0.1, seed=5, **options)
    assert type(opt) is mf.methods()[method]
    assert method != "sgd-dd" or opt.gradient.mixing_time == 4
    assert method != "mag" or opt.step.alpha == 1.0
    expected = {}
    for row in order:
        for due in opt.offer((problem.rows[row], problem.targets[row])):
            opt.tell(linear_gradient(Squared(), opt.x, *due))
        expected[opt.samples] = problem.suboptimality(opt.average[None])[0]
    assert len(samples) > 10 and samples[-1] > 650
    assert steps[-1] == opt.steps
    np.testing.assert_allclose(gaps, [expected[count] for count in samples.tolist()], rtol=1e-9)
