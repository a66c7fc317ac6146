"""Least-squares TD against the exact fixed point; the same bits however cut; sparse as dense."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mixfree.td import RewardProcess, lstd, sparse_lstd
from mixfree.td.lstd import LSTD
from mixfree.td.sparse_lstd import SparseLSTD
from tests.td.helpers import random_path

STATES = 40


def walk(n, tilings=1):
    """A random path, with one or two features other than 0 per state."""
    states, rewards, after, ends = random_path(n, STATES)
    features = np.eye(STATES)
    if tilings == 2:
        features = np.hstack([features, np.repeat(np.eye(STATES // 4), 4, axis=0)])
    return features[states], rewards, features[after], ends


def learnt(kind, parts, pieces=(), **options):
    found = kind(parts[0].shape[1], 0.9, **options)
    for piece in np.split(np.arange(len(parts[1])), pieces):
        found.add(*(part[piece] for part in parts))
    return found


def expected(known, size, gamma):
    """LSTD of every possible transition, with its probability as its weight."""
    here, there = np.nonzero(known.P)
    root = np.sqrt(known.stationary[here] * known.P[here, there])
    found = LSTD(size, gamma)
    rows, ahead = (root[:, None] * known.features[states] for states in (here, there))
    found.add(rows, root * known.r[here], ahead, np.zeros(here.size, dtype=bool))
    return found


def test_rare_states_and_dependent_features_give_the_shortest_fixed_point():
    P = np.array([[0.0, 1.0, 0.0], [1.0 - 1e-9, 0.0, 1e-9], [1.0, 0.0, 0.0]])
    phi = np.diag([0.5, 0.7, 0.3])
    known = RewardProcess(P, [1.0, -1.0, 5.0], 0.9, np.c_[phi, 0.5 * phi[:, 1]])
    found = expected(known, 4, 0.9)
    np.testing.assert_allclose(found.theta, known.theta_star, rtol=1e-7)


def test_a_half_life_forgets():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30_001, 4)) / 4
    x, ahead, end = x[:-1], x[1:], rng.random(30_000) < 0.02
    change = x - 0.9 * np.where(end[:, None], 0.0, ahead)
    old, new = np.array([1.0, 2.0, 3.0, 4.0]), np.array([-4.0, 0.0, 1.0, 2.0])
    rewards = np.where(np.arange(30_000) < 20_000, change @ old, change @ new)
    for half_life, wanted in ((500.0, new), (None, (2 * old + new) / 3)):
        found = LSTD(4, 0.9, half_life=half_life)
        found.add(x, rewards, ahead, end)
        # After 20 half-lives a millionth is left; the other case is only about right.
        np.testing.assert_allclose(found.theta, wanted, atol=1e-4 if half_life else 0.3)


@pytest.mark.parametrize("tilings", [1, 2])
@pytest.mark.parametrize("options", [{}, {"lam": 0.8}, {"l2": 0.01}, {"lam": 1.0, "l2": 0.01}])
def test_values_and_errors_are_those_of_dense_sums(options, tilings):
    """Features of two tilings are dependent, which a plain factorisation does not survive."""
    parts = walk(3000, tilings)
    dense, found = LSTD(parts[0].shape[1], 0.9, **options), learnt(SparseLSTD, parts, **options)
    dense._batches = replace(dense._batches, most=sparse_lstd.MAX_BATCHES)
    dense.add(*parts)
    if tilings == 1:
        np.testing.assert_allclose(found.theta, dense.theta, rtol=1e-8, atol=1e-8)
    rows = parts[0][:200]
    np.testing.assert_allclose(rows @ found.theta, rows @ dense.theta, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(found.batches_met(rows), dense.batches_met(rows))
    np.testing.assert_allclose(found.errors(rows), dense.errors(rows), rtol=1e-6)
    assert found.remark == dense.remark


def test_sparse_rows_are_as_good_as_dense_ones(monkeypatch):
    """Also with zeros that are stored, unsorted wide indices, and rows solved for in pieces."""
    parts = walk(3000, 2)
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
    monkeypatch.setattr(lstd, "MAX_DENSE", 3 * asked.shape[1])
    np.testing.assert_allclose(found.errors(queried), dense.errors(asked), rtol=1e-12)


@pytest.mark.parametrize("limit", ["MAX_ENTRIES", "MAX_PRODUCTS"])
def test_sums_that_fill_are_refused_and_nothing_has_changed(monkeypatch, limit):
    parts = walk(1000)
    found = learnt(SparseLSTD, [part[:700] for part in parts])
    before = found.theta
    with monkeypatch.context() as patched:
        patched.setattr(sparse_lstd, limit, 1)
        with pytest.raises(ValueError, match=r"products of features.*'ladder'"):
            found.add(*(part[700:] for part in parts[:4]))
    assert found.samples == 700
    np.testing.assert_array_equal(found.theta, before)


def test_a_state_with_other_indices_is_refused():
    found = learnt(SparseLSTD, walk(500))
    state, before = found.state_dict(), found.theta
    state["sums"]["closed"][0]["indices"][0] = STATES + 7
    with pytest.raises(ValueError, match="indices"):
        found.load_state_dict(state)
    np.testing.assert_array_equal(found.theta, before)
