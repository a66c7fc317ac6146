"""The learner with steps: its first distance, and its state after an error."""

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import mixfree as mf
from mixfree.linear.learner import SHARE, Learner
from mixfree.linear.learner_for import SPARSE_ROWS, chosen_method, learner_for
from mixfree.linear.losses import Logistic, Squared
from tests.helpers import assert_same_bits

ROWS, COLUMNS, LATER = 100, 40, 60


def data():
    rng = np.random.default_rng(0)
    rows = csr_array(random_array((ROWS, COLUMNS), density=0.1, format="csr", rng=rng))
    return rows, rows @ rng.standard_normal(COLUMNS)


def learner():
    return Learner(Squared(), COLUMNS, "mag", scale=None)


@pytest.mark.parametrize("dense", [False, True])
def test_a_state_is_loaded_over_a_run_of_the_other_kind_of_rows(dense):
    """Catches what is left of the run before, for a state saved inside any window."""
    rows, targets = data()
    kinds = (lambda part: part, lambda part: part.toarray())
    first, second = kinds[::-1] if dense else kinds
    for cut in range(1, LATER):
        spoilt, fresh = learner(), learner()
        spoilt.advance(first(rows[:cut]), targets[:cut])
        state = spoilt.state_dict()
        spoilt.advance(second(rows[cut : cut + 5]), targets[cut : cut + 5])
        for each in (spoilt, fresh):
            each.load_state_dict(state)
            each.advance(rows[LATER:], targets[LATER:])
        assert spoilt.weights.tobytes() == fresh.weights.tobytes(), f"cut after {cut} rows"


def test_the_first_distance_is_the_parts_own():
    """Caught: a learner that sets the first distance r̄ and leaves the weight λ behind."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((40, 3))
    targets = rows @ [1.0, -2.0, 0.5] + 3.0
    first = SHARE * abs(targets[0]) / np.sqrt(1.0 + rows[0] @ rows[0])
    given = mf.Ladder(np.zeros(4), first=float(first))
    guessed = Learner(Squared(), 3, scale=None)
    for row, target in zip(rows, targets, strict=True):
        guessed.advance(row[None], np.array([target]))
        given.tell((row @ given.x[:3] + given.x[3] - target) * np.append(row, 1.0))
        np.testing.assert_allclose(guessed.optimizer.x, given.x, rtol=1e-9)


def test_a_refused_chunk_leaves_everything_as_it_was():
    """Caught: a learner that keeps the rows before the one that is refused."""
    rng = np.random.default_rng(2)
    rows, targets = rng.standard_normal((60, 4)), np.ones(60)
    for options in ({"scale": None}, {"scale": "running"}, {"method": "mag"}):
        run = Learner(Squared(), 4, **options)
        run.advance(rows[:30], targets[:30])
        state = run.state_dict()
        bad, weights = np.append(targets[31:], 1e75), np.append(targets[31:], 1e10)
        with pytest.raises(ValueError, match="gradient of sample 60"):
            run.advance(rows[30:], bad, weights)
        assert_same_bits(run.state_dict(), state)


@pytest.mark.parametrize("settings", [{}, {"scale": None}, {"memory": 100}])
def test_a_stream_that_begins_with_targets_of_zero_is_learnt(settings):
    """Catches epochs without a gradient that count as arrivals and shorten all later steps."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((6000, 3))
    targets = rows @ [1.0, -2.0, 0.5] + 3.0
    targets[:3000] = 0.0
    whole, parts = (Learner(Squared(), 3, **settings) for _ in range(2))
    whole.advance(rows, targets)
    for cut in np.split(np.arange(6000), [1, 700, 2999, 3000, 3001, 3010, 3065]):
        parts.advance(rows[cut], targets[cut])
    assert_same_bits(parts.state_dict(), whole.state_dict())
    # An average of a stream of zeros and one of these weights is between the two.
    assert 0.3 < whole.weights[0, 3] / 3.0 < 1.2


def test_sparse_rows_are_not_standardised_row_by_row():
    rows, targets = data()
    run = Learner(Squared(), COLUMNS, "mag", scale="running")
    before = run.state_dict()
    with pytest.raises(ValueError, match="needs dense rows: use `scale='auto'`"):
        run.advance(rows, targets)
    assert_same_bits(run.state_dict(), before)


def test_an_automatic_memory_keeps_more_sparse_rows_than_dense_ones():
    """Caught: sparse rows kept as dense ones, or dense ones after them, also after loading, and a
    memory that is gone after a refused call."""
    rows, targets = np.eye(4)[np.arange(40) % 4], np.ones(40)
    make = partial(learner_for, Squared(), 4, method="ladder", scale=None)
    sparse, dense, told = make(), make(), make(memory=SPARSE_ROWS)
    with pytest.raises(ValueError):
        dense.advance(csr_array(rows), np.full(40, np.nan))
    dense.advance(rows, targets)
    assert dense.optimizer.gradient.size == int(32e6 / 48)
    for learner in (sparse, told):
        learner.advance(csr_array(rows), targets)
        learner.advance(rows, targets)
    assert_same_bits(sparse.state_dict(), told.state_dict())
    assert len(sparse.state_dict()["sparse"]["memory"]["numbers"]) == 80
    for learner in (sparse, dense):
        again = make()
        again.load_state_dict(learner.state_dict())
        for each in (again, learner):
            each.advance(rows, targets)
        assert_same_bits(again.state_dict(), learner.state_dict())


@pytest.mark.parametrize(("loss", "most"), [(Squared(), 2000), (Logistic(), 1000)])
def test_auto_is_exact_up_to_a_number_of_weights(loss, most):
    found = [chosen_method("auto", loss, weights) for weights in (most, most + 1)]
    assert found == ["exact", "ladder"]
