"""Least-squares TD: against the exact fixed point, one row at a time, and bits."""

import numpy as np
import pytest

from mixfree.td import RewardProcess
from mixfree.td.lstd import LSTD
from tests.helpers import assert_same_bits


def process(states=20, features=5, seed=0, gamma=0.9):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(states, 0.2), size=states)
    phi = rng.normal(size=(states, features))
    phi /= np.linalg.norm(phi, axis=1).max()
    return RewardProcess(P, rng.normal(size=states), gamma, phi)


def trajectory(rows=3000, size=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows + 1, size)) / size
    return x[:-1], rng.normal(size=rows), x[1:], rng.random(rows) < 0.02


def added(parts, pieces=1, **options):
    lstd = LSTD(parts[0].shape[1], 0.9, **options)
    for piece in zip(*(np.array_split(each, pieces) for each in parts), strict=True):
        lstd.add(*piece)
    return lstd


def expected(known, size, gamma):
    """LSTD of every possible transition, with its probability as its weight."""
    here, there = np.nonzero(known.P)
    root = np.sqrt(known.stationary[here] * known.P[here, there])
    lstd = LSTD(size, gamma)
    rows, ahead = (root[:, None] * known.features[states] for states in (here, there))
    lstd.add(rows, root * known.r[here], ahead, np.zeros(here.size, dtype=bool))
    return lstd


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.999])
def test_the_fixed_point_of_the_expected_transitions(gamma):
    known = process(gamma=gamma)
    lstd = expected(known, 5, gamma)
    np.testing.assert_allclose(lstd.theta, known.theta_star, rtol=0, atol=1e-8)


def test_rare_states_and_dependent_features_give_the_shortest_fixed_point():
    P = np.array([[0.0, 1.0, 0.0], [1.0 - 1e-9, 0.0, 1e-9], [1.0, 0.0, 0.0]])
    phi = np.diag([0.5, 0.7, 0.3])
    known = RewardProcess(P, [1.0, -1.0, 5.0], 0.9, np.c_[phi, 0.5 * phi[:, 1]])
    lstd = expected(known, 4, 0.9)
    np.testing.assert_allclose(lstd.theta, known.theta_star, rtol=1e-7)


def test_a_half_life_forgets():
    x, _, ahead, end = trajectory(30_000)
    change = x - 0.9 * np.where(end[:, None], 0.0, ahead)
    old, new = np.array([1.0, 2.0, 3.0, 4.0]), np.array([-4.0, 0.0, 1.0, 2.0])
    rewards = np.where(np.arange(30_000) < 20_000, change @ old, change @ new)
    for half_life, wanted in ((500.0, new), (None, (2 * old + new) / 3)):
        lstd = LSTD(4, 0.9, half_life=half_life)
        lstd.add(x, rewards, ahead, end)
        # After 20 half-lives a millionth is left; the other case is only about right.
        np.testing.assert_allclose(lstd.theta, wanted, atol=1e-4 if half_life else 0.3)


@pytest.mark.parametrize("lam, half_life", [(0.0, None), (0.7, None), (0.7, 100.0)])
def test_any_chunking_and_saving_at_any_row_gives_the_same_bits(lam, half_life):
    parts = trajectory(70_000)
    whole = added(parts, lam=lam, half_life=half_life)
    for pieces in (3, 501):
        assert_same_bits(added(parts, pieces, lam=lam, half_life=half_life).plain(), whole.plain())
    for cut in (0, 100, 33_333):
        lstd = LSTD(4, 0.9, lam=lam, half_life=half_life)
        head = added([each[:cut] for each in parts], lam=lam, half_life=half_life)
        lstd = lstd.restored(head.plain(), "lstd")
        lstd.add(*(each[cut:] for each in parts))
        assert_same_bits(lstd.plain(), whole.plain())


def test_errors_hold_the_fixed_point_and_know_what_was_never_met():
    known = process(gamma=0.95)
    inside = []
    for seed in range(30):
        path = known.simulate(20_000, seed=seed)
        lstd = LSTD(5, 0.95)
        rows = known.features[path.states], known.features[path.next_states]
        lstd.add(rows[0], path.rewards, rows[1], path.terminated)
        error = np.abs(known.features @ (lstd.theta - known.theta_star))
        half = [lstd.errors(row[None], 0.9)[0] for row in known.features]
        inside.append(np.mean(error <= half))
    # States share five features: of 30 streams about 150 intervals are independent.
    assert 0.9 - 4 * np.sqrt(0.9 * 0.1 / 150) < np.mean(inside) < 0.97
    lstd = LSTD(2, 0.9)
    lstd.add(np.tile([[1.0, 0.0]], (500, 1)), np.arange(500.0), np.zeros((500, 2)), np.ones(500))
    assert np.isfinite(lstd.errors([[1.0, 0.0], [0.0, 1.0]])).tolist() == [True, False]


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda x, r, n, t: (x[:, :3], r, n, t), "rows must have shape"),
        (lambda x, r, n, t: (x, r[:-1], n, t), "rewards must have shape"),
        (lambda x, r, n, t: (x, r, n, t[:4]), "terminated must have shape"),
        (lambda x, r, n, t: (x * np.where(x == x.max(), np.nan, 1.0), r, n, t), "rows must be fin"),
        (lambda x, r, n, t: (x, np.where(r == r.max(), np.inf, r), n, t), "rewards must be finite"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_has_changed(spoil, message):
    parts = trajectory(50_000)
    lstd = added(parts, lam=0.5)
    before = lstd.copy()
    with pytest.raises(ValueError, match=message):
        lstd.add(*spoil(*parts))
    assert_same_bits(lstd.plain(), before.plain())


@pytest.mark.parametrize(
    "options", [{"gamma": 1.5}, {"lam": -0.1}, {"l2": np.nan}, {"half_life": 0.0}, {"size": 0}]
)
def test_wrong_options_are_named(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        LSTD(**{"size": 2, "gamma": 0.9, **options})
