import numpy as np
import pytest

from mixfree.experiments import theory
from mixfree.experiments.problem import problem_of
from mixfree.experiments.statistics import estimate
from mixfree.experiments.theory_report import claims, largest_chance
from mixfree.experiments.windows import Windows

HORIZON = 1 << 8


@pytest.fixture(scope="module")
def rows():
    settings = theory.Settings(samples=HORIZON, seeds=8, p=(0.5, 0.05))
    return settings, [row for cell in theory.cells(settings) for row in theory.measure(cell)]


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
    assert abs(np.mean(measured) - np.mean(exact)) < largest_chance(8, 1) * error


def test_second_moment_is_that_of_the_estimator(rows):
    """Against plain estimates, level and data drawn together."""
    law = theory.MLMC(levels=None, horizon=HORIZON, seed=9)
    windows = Windows(problem_of(0), 0.05)
    rng = np.random.default_rng(5)
    squares = []
    for step in range(6000):
        gradients = windows.gradients[windows.rows(rng, 1, law.length(step, 0))[0]]
        length = len(gradients)
        signs = [law.weight(i, length) if length > 1 else 1.0 for i in range(length)]
        squares.append(np.sum((law.scale(length) * np.array(signs) @ gradients) ** 2))
    plain = np.mean(squares), np.std(squares) / 6000**0.5
    found = estimate(
        [theory.measure({"what": "windows", "p": 0.05, "seed": 0, "horizon": HORIZON})[-1]["value"]]
    )
    # The two have their own noise: 25 windows a level there, heavy tails here.
    assert found.mean == pytest.approx(plain[0], rel=0.3, abs=5 * plain[1])


def test_the_gradient_bound_is_reached_and_never_passed():
    problem = problem_of(0)
    bound = theory.largest_gradient(problem)
    row = int(
        np.argmax(
            np.linalg.norm(problem.rows, axis=1)
            * (np.linalg.norm(problem.rows, axis=1) + np.abs(problem.targets))
        )
    )
    x, y = problem.rows[row], problem.targets[row]
    worst = -np.sign(y) * x / np.linalg.norm(x)
    assert np.linalg.norm((x @ worst - y) * x) == pytest.approx(bound)
