import numpy as np
import pytest

from mixfree.reproduce.engine.report import Settings
from mixfree.reproduce.paper.problem import Regression
from mixfree.reproduce.theory import measures
from mixfree.reproduce.theory.experiment import (
    bias_claim,
    cells,
    claims,
    equality_claim,
    measure,
    values_of,
)
from mixfree.reproduce.theory.measures import Windows

HORIZON = 1 << 8
CLOSED = ("Eq. (7): E", "Lemma 3.1: E‖", "Lemma 3.1: T·E")


@pytest.fixture(scope="module")
def rows():
    settings = Settings(samples=HORIZON, seeds=8, p=(0.5, 0.05))
    return settings, [row for cell in cells(settings) for row in measure(cell)]


def verdicts(rows, settings):
    return {claim.text: claim for claim in claims(rows, settings)}


def of(found, beginning):
    """The claim that begins so."""
    (claim,) = (claim for text, claim in found.items() if text.startswith(beginning))
    return claim


def test_what_has_a_closed_form_is_measured(rows):
    found = verdicts(rows[1], rows[0])
    for beginning in (*CLOSED, "Lemma 3.1: E g", "Eq. (7) is"):
        assert of(found, beginning).holds, of(found, beginning)


@pytest.mark.parametrize(
    ("quantity", "beginning"),
    [("square error", CLOSED[0]), ("second moment", CLOSED[1])],
)
def test_measurements_five_times_too_large_are_seen(rows, quantity, beginning):
    """Bounds with the paper's constants would still hold."""
    settings, found = rows
    wrong = [
        {**row, "value": 5.0 * row["value"]} if row["quantity"] == quantity else row
        for row in found
    ]
    assert of(verdicts(wrong, settings), beginning).holds is False


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
    if name is not None:
        monkeypatch.setattr(measures, "algorithm", lambda horizon: WRONG[name][0])
    # How many steps there are is seen in short runs.
    longest = 512 if name in ("SGD", "five levels") else settings.samples * 4
    runs = [cell for cell in cells(settings) if cell["what"] == "rate"]
    measured = [row for cell in runs if cell["horizon"] <= longest for row in measure(cell)]
    others = [row for row in rows[1] if row["quantity"] not in {r["quantity"] for r in measured}]
    found = verdicts(measured + others, settings)
    if name is None:
        assert of(found, "Lemma 3.1: T·E").holds, found
        # These runs are short: at the full size it is T^−½ at least.
        assert of(found, "Theorem 3.3: the suboptimality falls").holds is not False
    else:
        assert of(found, WRONG[name][1]).holds is False


def test_the_bias_of_a_chain_that_changes_its_state_is_negative():
    """At p = 0.9 the first sample is most likely of the other state."""
    settings = Settings(samples=64, seeds=4, p=(0.9,))
    chosen = [cell for cell in cells(settings) if cell["what"] == "bias"]
    rows = [row for cell in chosen for row in measure(cell)]
    assert values_of(rows, "bias")[0.9][1] < [0.0] * 4
    assert bias_claim(rows, settings).holds


def test_an_equality_is_refuted_by_one_of_several_deviations():
    good, bad = ([0.9, 1.0, 1.1, 1.0], 1.0), ([0.9, 1.0, 1.1, 1.0], 2.0)
    assert equality_claim("t", [good, good]).holds is True
    assert equality_claim("t", [good, bad]).holds is False
    assert equality_claim("t", [([1.0], 2.0)]).holds is None


PROBLEM = Regression.draw(seed=2, per_state=6, dimension=3)


@pytest.mark.parametrize("p", [0.5, 0.1, 0.01, 0.9])
@pytest.mark.parametrize("length", [1, 2, 64])
def test_bias_is_that_of_the_chains_powers(p, length):
    windows = Windows(PROBLEM, p)
    transition = np.array([[1 - p, p], [p, 1 - p]])
    law = np.mean([np.linalg.matrix_power(transition, i)[0] for i in range(1, length + 1)], axis=0)
    off = law @ windows.state_gradients() - windows.gradients.mean(axis=0)
    assert abs(windows.offset(length)) == pytest.approx(np.linalg.norm(off), abs=1e-14)
    first, second = windows.state_gradients()
    along = (first - second) / np.linalg.norm(first - second)
    assert windows.offset(length) == pytest.approx(along @ off, abs=1e-14)
