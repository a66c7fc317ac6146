import numpy as np
import pytest

from mixfree.gradients import MLMC
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.problem import Regression, problem_of
from mixfree.reproduce.theory.experiment import cells, measure
from mixfree.reproduce.theory.measures import second_moments
from mixfree.reproduce.theory.report import bias_claim, claims, largest_t, tables, values_of
from mixfree.reproduce.theory.windows import Windows

HORIZON = 1 << 8


@pytest.fixture(scope="module")
def rows():
    settings = Settings(samples=HORIZON, seeds=8, p=(0.5, 0.05))
    return settings, [row for cell in cells(settings) for row in measure(cell)]


def test_every_claim_about_a_lemma_holds(rows):
    for claim in claims(rows[1], rows[0]):
        assert claim.holds, claim


def test_the_bias_is_seen_and_not_only_noise(rows):
    """Of the last window: five standard errors from zero, and none from what is exact."""
    measured = [
        row["value"]
        for row in rows[1]
        if row["quantity"] == "bias" and row["p"] == 0.05 and row["size"] == 8
    ]
    exact = [Windows(problem_of(seed), 0.05).bias(8) for seed in range(8)]
    error = np.std(np.subtract(measured, exact), ddof=1) / 8**0.5
    assert np.mean(measured) > 5 * error
    assert abs(np.mean(measured) - np.mean(exact)) < largest_t(8, 1) * error


def test_the_bias_of_a_chain_that_changes_its_state_is_negative():
    """At p = 0.9 the first sample is most likely of the other state."""
    settings = Settings(samples=64, seeds=4, p=(0.9,))
    chosen = [cell for cell in cells(settings) if cell["what"] == "bias"]
    rows = [row for cell in chosen for row in measure(cell)]
    assert values_of(rows, "bias")[0.9][1] < [0.0] * 4
    assert bias_claim(rows, settings).holds


def test_one_seed_decides_nothing_that_has_noise():
    settings = Settings(samples=64, seeds=1, p=(0.5,))
    rows = [row for cell in cells(settings) for row in measure(cell)]
    undecided = [claim.text for claim in claims(rows, settings) if claim.holds is None]
    assert len(undecided) == 5, undecided
    for table in tables(rows, settings):
        assert ("error of a mean, in τ", "not measured", "+0.5") in table.lines


def test_second_moment_is_that_of_the_estimator():
    """Against plain estimates, level and data drawn together."""
    law = MLMC(levels=None, horizon=HORIZON, seed=9)
    windows = Windows(Regression.draw(seed=0, per_state=50, dimension=10), 0.05)
    rng = np.random.default_rng(5)
    squares = []
    lengths, counts = np.unique([law.length(t, 0) for t in range(200_000)], return_counts=True)
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        signs = [law.weight(i, length) if length > 1 else 1.0 for i in range(length)]
        gradients = windows.gradients[windows.rows(rng, count, length)]
        estimates = law.scale(length) * np.einsum("i,nid->nd", signs, gradients)
        squares.append(np.sum(estimates**2, axis=1))
    summed = second_moments(windows.doubling_means(rng, 2000, HORIZON.bit_length() - 1))
    (plain, one), (found, other) = (
        (np.mean(each), np.std(each) / len(each) ** 0.5)
        for each in (np.concatenate(squares), summed)
    )
    error = np.hypot(one, other)
    assert abs(plain - found) < 5 * error, (plain, found, error)
    # A level left out or counted twice would be seen: there are nine, of about equal shares.
    assert 5 * error < plain / HORIZON.bit_length(), (plain, error)


def test_the_gradient_bound_is_reached_and_never_passed():
    problem = problem_of(0)
    bound = problem.largest_gradient
    row = int(
        np.argmax(
            np.linalg.norm(problem.rows, axis=1)
            * (np.linalg.norm(problem.rows, axis=1) + np.abs(problem.targets))
        )
    )
    x, y = problem.rows[row], problem.targets[row]
    worst = -np.sign(y) * x / np.linalg.norm(x)
    assert np.linalg.norm((x @ worst - y) * x) == pytest.approx(bound)
