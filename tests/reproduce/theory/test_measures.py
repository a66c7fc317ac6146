from itertools import pairwise, product

import numpy as np
import pytest

from mixfree.chains import two_state
from mixfree.gradients import MLMC
from mixfree.reproduce.engine.report import Claim
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.problem import Regression, problem_of
from mixfree.reproduce.theory import concentration, measures
from mixfree.reproduce.theory.claims import (
    TRIVIAL,
    bias_claim,
    claims,
    coupling_claim,
    deviation_claim,
    values_of,
    within,
)
from mixfree.reproduce.theory.concentration import LEMMAS
from mixfree.reproduce.theory.equality import equality_claim
from mixfree.reproduce.theory.experiment import cells, measure, report
from mixfree.reproduce.theory.measures import second_moments
from mixfree.reproduce.theory.windows import Windows

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
    appendix = ("Lemma A.1", "Lemma A.2", "Lemma A.3", "Lemma A.4")
    order = ("Lemma 3.1: E g", "Eq. (7) is")
    for beginning in (*CLOSED, *appendix, *order):
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


def test_bounds_that_say_nothing_are_not_said_to_hold(rows):
    """At this size every bound is that of ‖∇f‖ ≤ G, which holds for whatever is measured."""
    for beginning in ("Lemma A.5", "Lemma A.6", "Lemma 3.1: second moment", "Theorem 3.3: subopt"):
        trivial = [
            claim
            for text, claim in verdicts(rows[1], rows[0]).items()
            if text.startswith(beginning) and "bound" in text
        ]
        assert [(claim.holds, claim.measured) for claim in trivial] == [(None, TRIVIAL)]


@pytest.mark.parametrize("lemma", LEMMAS)
def test_a_chain_that_mixes_more_slowly_than_was_said_is_seen(monkeypatch, lemma):
    """Independent states that are not, and a chain with 1,000 times the mixing time."""
    settings = Settings(samples=1 << 10, seeds=4, p=(0.5, 0.1))
    states = concentration.states
    monkeypatch.setattr(
        concentration, "states", lambda rng, p, *given: states(rng, p / 1000.0, *given)
    )
    chosen = [cell for cell in cells(settings) if cell["what"] == "concentration"]
    rows = [row for cell in chosen for row in measure(cell)]
    assert deviation_claim(rows, lemma).holds is False


@pytest.mark.parametrize("known", [True, False])
def test_the_states_are_those_of_the_chain(known):
    """Changes with probability p, from the state 1 or from either: 5 standard errors."""
    rng = np.random.default_rng(1)
    path = np.vstack([concentration.states(rng, 0.03, 400, known) for _ in range(20)])
    changed = np.mean(path[:, 1:] != path[:, :-1])
    assert abs(changed - 0.03) < 5 * (0.03 * 0.97 / path[:, 1:].size) ** 0.5
    first = np.mean(path[:, 0] == 1)
    expected = 0.97 if known else 0.5
    assert abs(first - expected) < 5 * (expected * (1 - expected) / len(path)) ** 0.5


def test_states_half_as_far_apart_as_was_said_are_seen(monkeypatch):
    settings = Settings(samples=64, seeds=1, p=(0.1, 0.01))
    assert coupling_claim(settings).holds
    assert max(concentration.coupling_ratios(0.01, 35)) == pytest.approx(1.0)  # for two states
    exact = concentration.subsample_distance
    monkeypatch.setattr(
        concentration, "subsample_distance", lambda p, delay, n: exact(p, delay // 2, n)
    )
    assert coupling_claim(settings).holds is False


def test_the_distance_of_subsamples_is_that_over_all_sequences():
    """Against all 2^5 sequences of states one by one, and d(K) against the chain's own."""
    p, delay = 0.07, 3
    P = np.linalg.matrix_power(two_state(p).P, delay)
    off = [
        abs(0.5 * np.prod([P[a, b] for a, b in pairwise(path)]) - 0.5**5)
        for path in product((0, 1), repeat=5)
    ]
    assert concentration.subsample_distance(p, delay, 5) == pytest.approx(0.5 * sum(off))
    assert concentration.distance(p, delay) == pytest.approx(0.5 * np.abs(P[0] - 0.5).sum())


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


def test_the_bias_is_seen_and_not_only_noise(rows):
    """Of the last window: five standard errors from zero, and none from what is exact."""
    measured = [
        row["value"]
        for row in rows[1]
        if row["quantity"] == "bias" and row["p"] == 0.05 and row["size"] == 8
    ]
    exact = [abs(Windows(problem_of(seed), 0.05).offset(8)) for seed in range(8)]
    error = np.std(np.subtract(measured, exact), ddof=1) / 8**0.5
    assert np.mean(measured) > 5 * error
    assert abs(np.mean(measured) - np.mean(exact)) < 4.0 * error


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
    assert len(undecided) == 14, undecided
    (table,) = report(rows, settings).tables
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


def test_an_equality_is_refuted_by_one_of_several_deviations():
    good, bad = ([0.9, 1.0, 1.1, 1.0], 1.0), ([0.9, 1.0, 1.1, 1.0], 2.0)
    assert equality_claim("t", [good, good]).holds is True
    assert equality_claim("t", [good, bad]).holds is False
    assert equality_claim("t", [([1.0], 2.0)]).holds is None


def test_means_within_their_bounds():
    """Catches bounds that say nothing and are counted, and one that is broken among others."""
    found = {0.1: {2: [1.0, 1.1, 0.9], 4: [2.0, 2.1, 1.9]}, 0.2: {2: [9.0, 9.1, 8.9]}}

    def claim(factor):
        limits = {(0.1, 2): 4.0, (0.1, 4): 2.5 * factor, (0.2, 2): 100.0}
        return within("t", found, lambda p, size: limits[p, size], lambda size: 50.0)

    assert claim(1.0) == Claim("t", "largest ratio 8.0e-01 at 2 sizes", True)
    assert claim(0.5) == Claim("t", "largest ratio 1.6e+00 at 2 sizes", False)
