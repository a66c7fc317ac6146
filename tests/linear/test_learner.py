"""A learner restored to an earlier state has nothing left of the later one."""

import numpy as np
from scipy.sparse import csr_array, random_array

from mixfree.linear.learner import Learner
from mixfree.linear.losses import Squared

ROWS, COLUMNS, LATER = 100, 40, 60


def data():
    rng = np.random.default_rng(0)
    rows = csr_array(random_array((ROWS, COLUMNS), density=0.1, format="csr", rng=rng))
    return rows, rows @ rng.standard_normal(COLUMNS)


def learner():
    return Learner(Squared(), COLUMNS, "mag")


def goes_on_from(state, spoilt):
    """Whether a learner that has seen more goes on from a state as a new one does."""
    rows, targets = data()
    fresh = learner()
    spoilt.load_state_dict(state)
    fresh.load_state_dict(state)
    for each in (spoilt, fresh):
        each.advance(rows[LATER:], targets[LATER:])
    return spoilt.weights.tobytes() == fresh.weights.tobytes()


def test_a_sparse_state_over_any_window():
    rows, targets = data()
    for cut in range(1, LATER):
        run = learner()
        run.advance(rows[:cut], targets[:cut])
        state = run.state_dict()
        run.advance(rows[cut : cut + 5].toarray(), targets[cut : cut + 5])
        assert goes_on_from(state, run), f"cut after {cut} rows"


def test_a_dense_state_over_a_sparse_run():
    rows, targets = data()
    run = learner()
    run.advance(rows[:LATER].toarray(), targets[:LATER])
    state = run.state_dict()
    run.advance(rows[:7], targets[:7])
    assert goes_on_from(state, run)
