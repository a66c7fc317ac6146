"""The oracle, the problems and the draws against straightforward computations."""

from dataclasses import replace

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.losses import Huber, Logistic, Squared, loss_twin
from mixfree.reproduce import experiment
from mixfree.reproduce.ladder.contenders import CONTENDERS, MEMORY, WITHOUT, gap_of, run_of
from mixfree.reproduce.ladder.draws import FAMILIES, LOSSES, STREAMS, draw
from mixfree.reproduce.ladder.experiment import measure
from mixfree.reproduce.ladder.hindsight import POWERS, gaps_in_hindsight
from mixfree.reproduce.ladder.hindsight_kernel import constant_step
from mixfree.reproduce.ladder.problem import between_two, excess_under
from mixfree.reproduce.ladder.report import EACH, FITTED, ORACLE, SHUFFLED, TUNED


def with_loss(seed, p, loss):
    """The paper's problem with 20 columns and another loss, classes being the signs."""
    problem = between_two(seed, p, dimension=20)
    targets = np.sign(problem.targets) if isinstance(loss, Logistic) else problem.targets
    law = np.full(len(targets), 1.0 / len(targets))
    excess = excess_under(law, problem.rows, targets, loss)
    return replace(problem, targets=targets, loss=loss, excess=excess)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.1)], ids=repr)
def test_the_oracle_is_sgd_with_three_averages(loss):
    problem = with_loss(0, 0.5, loss)
    order, step = problem.order(0, 301), 0.01
    path, x = [], np.zeros(problem.rows.shape[1])
    for r in order:
        path.append(x)
        slope = problem.loss.derivative(problem.rows[r] @ x, problem.targets[r])
        x = x - step * slope * problem.rows[r]
    path = np.array(path)
    weights = np.arange(1.0, 302.0)
    expected = [path.mean(axis=0), weights @ path / weights.sum(), path[150:].mean(axis=0)]
    found = constant_step(loss_twin(problem.loss), step, problem.rows, problem.targets, order)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)


def test_a_step_that_diverges_is_infinitely_bad():
    problem = between_two(0, p=0.5, dimension=20)
    found = constant_step(
        loss_twin(problem.loss), 9.0, problem.rows, problem.targets, np.arange(400)
    )
    assert np.isinf(found).all()
    gaps = gaps_in_hindsight(problem, problem.order(0, 4000))
    assert np.isinf(gaps[POWERS == 1.0]).all() and np.isfinite(gaps[POWERS == -3.0]).all()


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(0.1)], ids=repr)
def test_no_point_is_better_than_the_minimiser(loss):
    problem = with_loss(3, 0.1, loss)
    points = np.random.default_rng(0).standard_normal((50, 20))
    gaps = problem.gap(points)
    assert (gaps > 0).all()
    opt = mf.Ladder(np.zeros(20))
    problem.advance(opt, problem.order(3, 200_000))
    assert 0 < problem.gap(opt.average[None])[0] < 1e-2 * gaps.min()


def drawn(family, loss):
    """The first case of this kind."""
    kinds = (draw(seed, 4000) for seed in range(500))
    return next(case for case in kinds if (case.family, case.loss) == (family, loss))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_origin_and_the_minimiser_of_a_drawn_case(family, loss):
    """A wrong covariance, scale or minimiser gives points that are better than the best."""
    case = drawn(family, loss)
    problem = case.problem()
    near = np.random.default_rng(0).standard_normal((200, case.dimension)) / case.scale
    gaps = problem.gap(np.concatenate([np.zeros((1, case.dimension)), near]))
    assert gaps.min() > -1e-12 and gaps[0] > 0.0
    far = np.full((1, case.dimension), 1e200)
    assert problem.gap(far)[0] > 1e100
    streams = [problem.order(i, case.samples) for i in range(STREAMS)]
    assert not any((streams[0] == other).all() for other in streams[1:])
    assert all(len(order) == case.samples for order in streams)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_drawn_stream_is_correlated_over_its_mixing_scale(family):
    """A chain with the wrong laziness forgets too early or too late."""
    case = next(c for s in range(500) if (c := draw(s)).family == family and 30 < c.mixing < 100)
    problem = case.problem()
    order = problem.order(0, case.samples)
    state = order // (len(problem.rows) // {"two states": 2, "ring": 10}.get(family, 12))
    if family == "autoregressive":
        series = problem.rows[order]
    elif family == "ring":
        series = np.stack([np.cos(0.2 * np.pi * state), np.sin(0.2 * np.pi * state)], axis=1)
    else:
        series = (state < {"two states": 1, "cliques": 4}[family]).astype(float)[:, None]
    series = series - series.mean(axis=0)
    lag = round(case.mixing)
    kept = (series[:-lag] * series[lag:]).mean(axis=0).sum() / (series**2).mean(axis=0).sum()
    # exp(−1), give or take three standard errors of a correlation over so many scales.
    assert abs(kept - np.exp(-1.0)) < 3.0 * np.sqrt(2.0 * case.mixing / case.samples)


@pytest.mark.parametrize("loss", LOSSES)
def test_suboptimality_over_a_stream_is_that_of_its_samples(loss):
    """Rows observed several times count as often; the law of the chain does not enter."""
    case = drawn("ring", loss)
    problem = case.problem()
    order = problem.order(1, case.samples)
    points = np.random.default_rng(0).standard_normal((2, case.dimension)) / case.scale
    rows, targets = problem.rows[order], problem.targets[order]
    means = [problem.loss.value(rows @ point, targets).mean() for point in points]
    over = problem.over(order)
    np.testing.assert_allclose(np.subtract(*over.gap(points)), np.subtract(*means), rtol=1e-6)
    assert over.gap(points).min() > 0.0


def test_draws_differ_and_are_named():
    texts = {str(draw(seed)) for seed in range(50)}
    assert len(texts) == 50
    assert draw(7) == draw(7) and "samples, d = " in str(draw(7))


def test_a_run_far_away_is_infinitely_bad():
    """Its square overflows, which is no cause for a warning."""
    problem = between_two(0, p=0.5, dimension=20)
    assert problem.gap(np.full((1, 20), 1e200))[0] == np.inf
    with pytest.raises(ValueError, match="order must hold row numbers"):
        gap_of(problem, np.array([10**9]), run_of(mf.AdaGrad))


def test_the_report_of_a_few_cells():
    study = experiment("ladder")
    chosen = [
        {"study": "drawn", "longest": 2000, "seed": 0},
        {"study": "drawn", "longest": 2000, "seed": 1},
        {"study": "paper", "p": 0.5, "samples": 2000, "seeds": [0, 1]},
        {"study": "memory", "p": 0.5, "samples": 2000, "seeds": [0]},
        {"study": "profile", "p": 0.01, "samples": 20_000, "seed": 0},
    ]
    rows = [row for cell in chosen for row in measure(cell)]
    report = study.report(rows, study.QUICK)
    text = report.markdown()
    assert "geometric mean" in text and str(draw(0, 2000)) in text
    assert list(report.figures) == ["ladder", "profile"]
    paper = {r["method"]: r["suboptimality"] for r in rows if r["study"] == "paper"}
    assert paper[EACH] <= paper[ORACLE] <= 1.5 * paper[EACH]
    lines = report.figures["profile"].axes[0].lines
    opt, problem = mf.Ladder(np.zeros(100)), between_two(0, p=0.01)
    problem.advance(opt, problem.order(0, 20_000))
    lengths, ratios, blocks = opt.profile()
    np.testing.assert_array_equal(lines[0].get_xdata(), lengths[blocks >= 16])
    np.testing.assert_array_equal(lines[0].get_ydata(), ratios[blocks >= 16])
    assert lines[1].get_xdata()[0] == 50.0


def made_up(ladder, paper, memory=0.25):
    """Suboptimalities that are known: a method's is its ratio times an oracle's of 1e-3."""
    others = dict.fromkeys(CONTENDERS, 8.0)
    rows = []
    for seed, ratio in enumerate(ladder):
        about = {"study": "drawn", "seed": seed, "family": "ring", "case": f"case {seed}"}
        found = {ORACLE: 1.0, **others, "ladder": ratio, WITHOUT: ratio, MEMORY: memory}
        rows += [{**about, "method": n, "suboptimality": 1e-3 * v} for n, v in found.items()]
    for p in (0.5, 0.01):
        found = {ORACLE: 1.0, EACH: 0.9, TUNED: 2.0, **others, "ladder": paper}
        beside = {"ladder": 2.0, SHUFFLED: 1.0, FITTED: 1.0, MEMORY: 5.0 * memory}
        for study, methods in (("paper", found), ("memory", beside)):
            about = {"study": study, "p": p}
            rows += [{**about, "method": n, "suboptimality": 1e-3 * v} for n, v in methods.items()]
    return rows


@pytest.mark.parametrize(
    ("ladder", "paper", "memory", "mean", "fail"),
    [
        ((1.0, 1.21), 1.4, 0.25, "1.10", []),
        ((1.0, 4.41), 1.6, 1.2, "2.10", [0, 1, 3, 4, 5, 8]),
        ((1.0, 25.0), 3.5, 0.27, "5.00", [0, 1, 2, 5, 7, 8]),
        ((1.0, 1.0), 5.0, 0.25, "1.00", [5, 6, 7]),
    ],
)
def test_claims_about_the_ladder(ladder, paper, memory, mean, fail):
    """Mean, quantile and worst of the draws; with memory its mean and the cases that it harms.

    On the paper's problem beside oracle, MAG and AdaGrad, and memory beside shuffling.
    """
    study = experiment("ladder")
    report = study.report(made_up(ladder, paper, memory), study.QUICK)
    assert report.claims[0].measured == mean
    assert [i for i, claim in enumerate(report.claims) if not claim.holds] == fail
