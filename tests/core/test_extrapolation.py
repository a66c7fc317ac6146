"""Richardson–Romberg: by hand, the orders that it removes, bad input."""

import numpy as np
import pytest
from scipy import stats

import mixfree as mf
from mixfree.gradients import Plain
from mixfree.reproduce.after_td.exact import limit
from mixfree.reproduce.td.processes import sticky
from mixfree.steps import Constant
from mixfree.td import TDLearner


def sgd(alpha):
    return mf.Optimizer([0.0, 0.0], Plain(), Constant(alpha))


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 2))
    return x, x @ [1.0, -2.0] + rng.standard_normal(count)


def by_hand(alpha, batches, length):
    """2·mean(α) − mean(2α) of SGD's iterates, batch by batch; the first half left out."""
    x, y = rows(batches * length)
    means = []
    for step in (alpha, 2.0 * alpha):
        w, path = np.zeros(2), []
        for row, target in zip(x, y, strict=True):
            path.append(w)
            w = w - step * (row @ w - target) * row
        means.append(np.reshape(path, (batches, length, 2)).mean(axis=1))
    return (2.0 * means[0] - means[1])[batches // 2 :]


def test_it_is_the_equation():
    """Catches the weights exchanged, all batches instead of the second half, and a spread that is
    not divided by the root of their number."""
    found = mf.RichardsonRomberg(sgd, 0.05)
    x, y = rows(300)
    for k in range(0, 300, 30):
        part = range(k, k + 30)
        found.advance(lambda run, part=part: [run.tell((x[i] @ run.x - y[i]) * x[i]) for i in part])
    expected = by_hand(0.05, 10, 30)
    np.testing.assert_allclose(found.batches, expected, rtol=1e-9)
    np.testing.assert_allclose(found.average, expected.mean(axis=0), rtol=1e-9)
    half = stats.t.ppf(0.95, 4) * stats.sem(expected)
    ends = np.stack([expected.mean(axis=0) - half, expected.mean(axis=0) + half], axis=1)
    np.testing.assert_allclose(found.interval(0.9), ends, rtol=1e-9)


@pytest.mark.parametrize(("multiples", "order"), [((1.0,), 1), ((1.0, 2.0), 2), ((1, 2, 4), 3)])
def test_m_steps_leave_the_order_m(multiples, order):
    """The exact limits of TD, combined: half of α leaves 2^−m of the bias. Catches coefficients
    that sum to one and remove nothing, such as equal ones."""
    process = sticky(0.05)

    def bias(alpha):
        found = mf.RichardsonRomberg(sgd, alpha, multiples)
        limits = np.array([limit(process, alpha * k) for k in multiples])
        return np.linalg.norm(found.coefficients @ limits - process.theta_star)

    assert np.log2(bias(0.02) / bias(0.01)) == pytest.approx(order, abs=0.05)


def test_on_a_trajectory_the_bias_goes():
    """20 streams, within four standard errors: the plain average has the exact bias of its step,
    the extrapolation only what is of second order. Catches 2·mean(2α) − mean(α)."""
    process, found = sticky(0.05), {(1.0,): [], (1.0, 2.0): []}
    for seed in range(20):
        pieces = list(process.pieces([1000] * 40, seed))
        for multiples, ends in found.items():
            run = mf.RichardsonRomberg(
                lambda a: TDLearner(
                    process.features, 0.9, method="averaged-td", alpha=a, output="average"
                ),
                0.4,
                multiples,
            )
            for piece in pieces:
                run.advance(lambda learner, piece=piece: learner.update_many(*piece))
            ends.append(run.average)
    bias = limit(process, 0.4) - process.theta_star
    along = bias / np.linalg.norm(bias)
    for multiples, ends in found.items():
        off = (np.array(ends) - process.theta_star) @ along
        error = 4.0 * off.std(ddof=1) / np.sqrt(len(off))
        left = np.linalg.norm(bias) if multiples == (1.0,) else 0.0
        second = 0.0 if left else along @ (2 * bias - limit(process, 0.8) + process.theta_star)
        assert off.mean() == pytest.approx(left + second, abs=error)
        assert error < 0.5 * np.linalg.norm(bias)


def test_mistakes_are_named():
    for alpha, multiples, message in (
        (-1.0, (1.0, 2.0), "alpha must be positive"),
        (0.1, (1.0, 1.0), "multiples must be different"),
        (0.1, (1.0, -2.0), "multiples must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            mf.RichardsonRomberg(sgd, alpha, multiples)
    with pytest.raises(ValueError, match="output must be 'average'"):
        mf.RichardsonRomberg(
            lambda a: TDLearner(np.eye(2), 0.5, method="averaged-td", alpha=a), 0.1
        )
    found = mf.RichardsonRomberg(sgd, 0.1)
    with pytest.raises(ValueError, match="no batch yet"):
        found.interval()
    found.advance(lambda run: run.tell([1.0, 0.0]))
    assert np.isinf(found.interval()).all()
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        found.interval(95)
    with pytest.raises(ValueError, match="batches must have one length"):
        found.advance(lambda run: [run.tell([1.0, 0.0]) for _ in range(2)])


def test_a_batch_of_another_length_is_left_out():
    """Catches all batches refused ever after, and a short one that counts in the next."""
    x, y = rows(250)
    found = mf.RichardsonRomberg(sgd, 0.05, np.array([1.0, 2.0]))

    def advance(batch):
        pairs = list(zip(x[batch], y[batch], strict=True))
        found.advance(lambda run: [run.tell((run.x @ row - target) * row) for row, target in pairs])

    advance(slice(0, 100))
    with pytest.raises(ValueError, match="the numbers of steps were 50, 100"):
        advance(slice(100, 150))
    totals = [run.steps * run.average for run in found.runs]
    advance(slice(150, 250))
    means = [
        (250 * run.average - total) / 100 for run, total in zip(found.runs, totals, strict=True)
    ]
    np.testing.assert_allclose(found.batches[-1], 2.0 * means[0] - means[1], rtol=1e-9)
