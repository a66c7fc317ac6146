from itertools import pairwise, product

import numpy as np
import pytest

from mixfree.reproduce.engine.report import Settings
from mixfree.reproduce.paper.problem import Regression, mixing_time
from mixfree.reproduce.theory import measures
from mixfree.reproduce.theory.claims import claims, equality_claim, in_mixing
from mixfree.reproduce.theory.experiment import cells, measure
from mixfree.reproduce.theory.measures import Windows, second_moments
from tests.reproduce.helpers import cross

HORIZON = 1 << 8
CLOSED = ("Eq. (7): E", "Lemma 3.1: E‖")


@pytest.fixture(scope="module")
def rows():
    settings = Settings(samples=HORIZON, seeds=8, p=(0.5, 0.05))
    return settings, [row for cell in cells(settings) for row in measure(cell)]


def verdict(rows, settings, beginning):
    """That on the claim that begins so."""
    (claim,) = (each for each in claims(rows, settings) if each.text.startswith(beginning))
    return claim.holds


def test_what_has_a_closed_form_is_measured(rows):
    """Catches a missing level, and five levels instead of all."""
    for beginning in (*CLOSED, "Lemma 3.1: E g", "Eq. (7) is"):
        assert verdict(rows[1], rows[0], beginning), beginning


@pytest.mark.parametrize(
    ("quantity", "beginning"), [("square error", CLOSED[0]), ("second moment", CLOSED[1])]
)
def test_measurements_five_times_too_large_are_seen(rows, quantity, beginning):
    """Bounds with the paper's constants would still hold."""
    settings, found = rows
    wrong = [
        {**row, "value": 5.0 * row["value"]} if row["quantity"] == quantity else row
        for row in found
    ]
    assert verdict(wrong, settings, beginning) is False


WRONG = {
    "SGD": ({"method": "sgd", "options": {}}, "Lemma 3.1: T·E"),
    "five levels": ({"method": "mag", "options": {"alpha": 2.0**0.5}}, "Lemma 3.1: T·E"),
    "hardly a step": (
        {"method": "mag", "options": {"alpha": 1e-12, "levels": None, "horizon": 4096}},
        "Theorem 3.3: the suboptimality falls",
    ),
}


@pytest.mark.parametrize("name", [None, *WRONG])
def test_the_rate_is_that_of_algorithm_1_and_of_no_other(rows, monkeypatch, name):
    """A bound that holds for an optimiser that never moves would be no check."""
    settings = Settings(samples=1 << 12, seeds=8, p=(0.5, 0.05))
    assert measures.algorithm(8)["options"]["alpha"] == pytest.approx(2**0.5)  # D/√2
    if name is not None:
        monkeypatch.setattr(measures, "algorithm", lambda horizon: WRONG[name][0])
    # How many steps there are is seen in short runs.
    longest = 512 if name in ("SGD", "five levels") else settings.samples * 4
    runs = [cell for cell in cells(settings) if cell["what"] == "rate"]
    measured = [row for cell in runs if cell["horizon"] <= longest for row in measure(cell)]
    others = [row for row in rows[1] if row["quantity"] not in {r["quantity"] for r in measured}]
    found = measured + others
    if name is None:
        # These runs are short: at the full size both are decided.
        for beginning in ("Lemma 3.1: T·E", "Theorem 3.3: the suboptimality falls"):
            assert verdict(found, settings, beginning) is not False, beginning
    else:
        assert verdict(found, settings, WRONG[name][1]) is False


def test_an_equality_is_decided_by_the_worst_interval():
    """Catches a claim that holds because nothing is known, and one that only excess refutes."""
    exact, wide = [1.0, 1.01, 0.99, 1.0], [0.7, 1.3, 0.8, 1.2]
    for other, holds in ((exact, True), ([0.5] * 4, False), ([1.5] * 4, False), (wide, None)):
        found = equality_claim("t", {"a": (exact, [1.0] * 4), "b": (other, [1.0] * 4)})
        assert found.holds is holds
    assert equality_claim("t", {"a": ([2.0], [1.0])}).holds is None


def test_exponents_in_the_mixing_time_are_those_of_the_longest_runs():
    rows = cross(quantity=["error"], p=(0.1, 0.01), size=(8, 64), seed=range(3))
    for row in rows:
        row["value"] = mixing_time(row["p"]) ** (0.3 if row["size"] == 64 else 2.0)
    assert in_mixing(rows, "error").value == pytest.approx(0.3)


PROBLEM = Regression.draw(seed=2, per_state=2, dimension=3)


def paths(p, length):
    """All sequences of rows of a window that begins one step after state 0, with probabilities."""
    for rows in product(range(4), repeat=length):
        states = [0, *(row // 2 for row in rows)]
        chances = [0.5 * (p if a != b else 1.0 - p) for a, b in pairwise(states)]
        yield np.prod(chances), np.array(rows)


@pytest.mark.parametrize("p", [0.5, 0.1, 0.9])
def test_closed_forms_are_the_sums_over_all_paths(p):
    """Also of a chain that mostly changes its state, whose bias is negative."""
    windows = Windows(PROBLEM, p)
    bias, square, moment = np.zeros(3), 0.0, 0.0
    for chance, rows in paths(p, 4):
        g = windows.gradients[rows]
        bias += chance * (g.mean(axis=0) - windows.gradients.mean(axis=0))
        square += chance * np.sum((g.mean(axis=0) - windows.gradients.mean(axis=0)) ** 2)
        # Eq. (6): g^0 + 2^J(g^J − g^(J−1)) with probability 2^−J, else g^0.
        levels = g[0] + 2 * (g[:2].mean(axis=0) - g[0]), g[0] + 4 * (g.mean(axis=0) - g[:2].mean(0))
        squares = [np.sum(each**2) for each in (*levels, g[0])]
        moment += chance * np.dot([0.5, 0.25, 0.25], squares)
        means = np.array([[g[0], g[:2].mean(axis=0), g.mean(axis=0)]])
        assert second_moments(means)[0] == pytest.approx(np.dot([0.5, 0.25, 0.25], squares))
    first, second = windows.state_gradients()
    along = (first - second) / np.linalg.norm(first - second)
    np.testing.assert_allclose(windows.offset(4) * along, bias, atol=1e-14)
    assert windows.mean_square_error(4) == pytest.approx(square)
    assert windows.second_moment(2) == pytest.approx(moment)
