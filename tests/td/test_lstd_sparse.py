"""Sparse LSTD: equal to dense LSTD, and refused where the sums would not be sparse."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mixfree.td import fixed_point, lstd
from mixfree.td.lstd import LSTD, SparseLSTD

STATES = 40


def trajectory(n, tilings=1, seed=0):
    """A walk that sometimes ends or goes on elsewhere, with one or two features other than 0."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.integers(-2, 4, n + 1)) % STATES
    features = np.eye(STATES)
    if tilings == 2:
        features = np.hstack([features, np.repeat(np.eye(STATES // 4), 4, axis=0)])
    rewards = np.sin(states[:-1]) + rng.normal(size=n)
    after = np.where(rng.random(n) < 0.02, (states[1:] + 7) % STATES, states[1:])
    return features[states[:-1]], rewards, features[after], rng.random(n) < 0.02


def learnt(kind, parts, pieces=(), **options):
    found = kind(parts[0].shape[1], 0.9, **options)
    for piece in np.split(np.arange(len(parts[1])), pieces):
        found.add(*(part[piece] for part in parts))
    return found


@pytest.mark.parametrize("tilings", [1, 2])
@pytest.mark.parametrize("options", [{}, {"lam": 0.8}, {"l2": 0.01}, {"lam": 1.0, "l2": 0.01}])
def test_values_and_errors_are_those_of_dense_sums(options, tilings):
    """Features of two tilings are dependent, which a plain factorisation does not survive."""
    parts = trajectory(3000, tilings)
    dense, found = LSTD(parts[0].shape[1], 0.9, **options), learnt(SparseLSTD, parts, **options)
    dense._batches = replace(dense._batches, most=lstd.MAX_BATCHES)
    dense.add(*parts)
    if tilings == 1:
        np.testing.assert_allclose(found.theta, dense.theta, rtol=1e-8, atol=1e-8)
    rows = parts[0][:200]
    np.testing.assert_allclose(rows @ found.theta, rows @ dense.theta, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(found.batches_met(rows), dense.batches_met(rows))
    np.testing.assert_allclose(found.errors(rows), dense.errors(rows), rtol=1e-6)
    assert found.remark == dense.remark


@pytest.mark.parametrize("lam", [0.0, 0.8])
def test_same_bits_however_cut_and_after_saving(lam):
    parts = trajectory(1500)
    whole = learnt(SparseLSTD, parts, lam=lam)
    cut = learnt(SparseLSTD, parts, (1, 7, 300, 301, 990), lam=lam)
    np.testing.assert_array_equal(cut.theta, whole.theta)
    np.testing.assert_array_equal(cut.errors(np.eye(STATES)), whole.errors(np.eye(STATES)))
    half = learnt(SparseLSTD, [part[:777] for part in parts], lam=lam)
    again = SparseLSTD(STATES, 0.9, lam=lam)
    again = again.restored(half.plain(), "lstd")
    rows, rewards, ahead, stop = (part[777:] for part in parts)
    again.add(sparse.csr_array(rows), rewards, sparse.csr_array(ahead), stop)
    np.testing.assert_array_equal(again.theta, whole.theta)


def test_sparse_rows_are_as_good_as_dense_ones(monkeypatch):
    """Also with zeros that are stored, unsorted wide indices, and rows solved for in pieces."""
    parts = trajectory(3000, 2)
    dense = learnt(SparseLSTD, parts, lam=0.8)
    rows = [sparse.csr_array(parts[i][:, ::-1].copy())[:, ::-1] for i in (0, 2)]
    for each in rows:
        each.indices, each.indptr = each.indices.astype(np.int64), each.indptr.astype(np.int64)
    assert not rows[0].has_sorted_indices
    found = learnt(SparseLSTD, [rows[0], parts[1], rows[1], *parts[3:]], lam=0.8)
    np.testing.assert_array_equal(found.theta, dense.theta)
    # With indices of 64 bits, the sums would take a third more memory.
    assert {each.indices.dtype for each in found._all} == {np.dtype(np.int32)}
    asked, queried = parts[0][:50].copy(), sparse.csr_array(parts[0][:50])
    asked[7] = 0.0
    queried.data[queried.indptr[7] : queried.indptr[8]] = 0.0
    np.testing.assert_array_equal(found.batches_met(queried), dense.batches_met(asked))
    np.testing.assert_array_equal(found.errors(queried), dense.errors(asked))
    monkeypatch.setattr(fixed_point, "MAX_DENSE", 3 * asked.shape[1])
    np.testing.assert_allclose(found.errors(queried), dense.errors(asked), rtol=1e-12)
    asked[3, 3] = np.nan
    for wrong, message in ((queried[:, 1:], "must have 50 columns"), (asked, "must be finite")):
        with pytest.raises(ValueError, match=message):
            found.errors(wrong)


@pytest.mark.parametrize("kind", [SparseLSTD, LSTD])
@pytest.mark.parametrize("cut", [64, 300])  # 64 transitions fill four batches: none is pending
def test_a_trace_ends_between_calls_where_the_trajectory_goes_on_elsewhere(cut, kind):
    parts = trajectory(600)
    parts[2][cut - 1], parts[3][cut - 1] = parts[0][cut], False
    going_on = learnt(kind, parts, (cut,), lam=0.9)
    parts[2][cut - 1] = np.roll(parts[0][cut], 5)
    broken = learnt(kind, parts, (cut,), lam=0.9)
    np.testing.assert_array_equal(broken.theta, learnt(kind, parts, lam=0.9).theta)
    assert np.abs(broken.theta - going_on.theta).max() > 1e-4


@pytest.mark.parametrize("kind", [SparseLSTD, LSTD])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["rows", "rewards", "next rows"])
def test_values_whose_products_overflow_are_refused_before_they_are_stored(place, kind):
    """Catches pending transitions that every later call refuses, or sums that become infinite."""
    parts = trajectory(600)
    found = learnt(kind, parts)
    before = found.theta
    few = [part[:3] for part in parts[:3]]
    few[place] = 1e76 * few[place]
    with pytest.raises(ValueError, match=r"(rows|rewards) must be finite and at most 1e\+75"):
        found.add(*few, np.zeros(3, bool))
    assert found.samples == 600
    np.testing.assert_array_equal(found.theta, before)


@pytest.mark.parametrize("limit", ["MAX_ENTRIES", "MAX_PRODUCTS"])
def test_sums_that_fill_are_refused_and_nothing_has_changed(monkeypatch, limit):
    parts = trajectory(1000)
    found = learnt(SparseLSTD, [part[:700] for part in parts])
    before = found.theta
    with monkeypatch.context() as patched:
        patched.setattr(lstd, limit, 1)
        with pytest.raises(ValueError, match=r"products of features.*'ladder'"):
            found.add(*(part[700:] for part in parts[:4]))
    wrong = parts[0].copy()
    wrong[3, 3] = np.nan
    with pytest.raises(ValueError, match="rows must be finite"):
        found.add(wrong, *parts[1:4])
    assert found.samples == 700
    np.testing.assert_array_equal(found.theta, before)


def test_a_wrong_state_is_refused():
    found = learnt(SparseLSTD, trajectory(500))
    state = found.plain()
    state["closed"][0]["indices"][0] = STATES + 7
    with pytest.raises(ValueError, match="indices"):
        found.restored(state, "lstd")


@pytest.mark.parametrize("kind", [SparseLSTD, LSTD])
def test_a_state_with_too_many_batches_and_a_wrong_level_are_refused(kind):
    """Catches batches that are never joined because their number has passed the limit."""
    found = learnt(kind, trajectory(500))
    state, before = found.plain(), found.theta
    state["closed"] = [state["closed"][0]] * 64
    with pytest.raises(ValueError, match=r"must have fewer than \d+ batches, not 64"):
        found.restored(state, "lstd")
    np.testing.assert_array_equal(found.theta, before)
    for level in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match=f"level must be between 0 and 1, not {level}"):
            found.errors(np.eye(STATES), level)
