"""Lazy runs over sparse rows against the NumPy reference and against dense rows."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import mixfree as mf
from mixfree.core.methods import start_method
from mixfree.linear.learner import Learner
from mixfree.linear.losses import Logistic, Softmax, Squared, linear_gradient
from mixfree.linear.sparse import SparseLinear, runs_sparse
from tests.helpers import assert_same_bits

ROWS, COLUMNS = 700, 60
FIRST = 0.05


def data(loss=None, columns=COLUMNS):
    """Few entries per row, so that most columns rest for several blocks; some never occur."""
    rng = np.random.default_rng(0)
    matrix = random_array((ROWS, columns), density=2.4 / columns, format="csr", rng=rng)
    matrix.data[matrix.indices % 7 == 6] = 0.0
    matrix.eliminate_zeros()
    targets = matrix @ rng.standard_normal(columns) + 0.1 * rng.standard_normal(ROWS)
    if isinstance(loss, Logistic):
        targets = np.where(targets > 0, 1.0, -1.0)
    if isinstance(loss, Softmax):
        targets = np.digitize(targets, [-0.1, 0.1]).astype(float)
    return matrix, targets


def settled(run):
    """What a run has come to."""
    opt = run.settle() if isinstance(run, SparseLinear) else run
    return opt.export_run().plain()


def assert_same(mine, theirs):
    """Equal up to rounding, relative to the largest entry."""
    for name, value in theirs.items():
        if isinstance(value, dict):
            assert_same(mine[name], value)
        else:
            scale = 1e-10 * float(np.max(np.abs(value), initial=0.0))
            np.testing.assert_allclose(mine[name], value, rtol=1e-10, atol=scale, err_msg=name)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("block, memory, draws", [(4, 0, 1), (64, 0, 1), (4, 50, 3), (4, 5000, 1)])
def test_twin_of_the_reference_step_by_step(loss, block, memory, draws):
    """Over several epochs; catches a lazy sum that a coordinate at rest does not follow.

    With memory: other rows kept or drawn, or a column of two rows of a step that moves twice.
    """
    rows, targets = data(loss)
    dense, weights = rows.toarray(), np.random.default_rng(1).uniform(0.5, 2.0, ROWS)
    start, options = np.zeros(loss.outputs * (COLUMNS + 1)), {"block": block, "first": FIRST}
    make = partial(start_method, "ladder", start, options, memory=memory, draws=draws)
    reference, lazy = make(), SparseLinear(make(), loss)
    for i in range(ROWS):
        for row, target, weight in reference.offer((dense[i], targets[i], weights[i])):
            reference.tell(weight * linear_gradient(loss, reference.x, row, target))
        lazy.advance(rows[i : i + 1], targets[i : i + 1], weights[i : i + 1])
        scale = 1e-11 * max(1.0, np.abs(reference.x).max())
        np.testing.assert_allclose(lazy.average, reference.average, rtol=1e-9, atol=scale)
        if i % 23 == 0 or i > ROWS - 3:
            mine, theirs = settled(lazy), settled(reference)
            if memory:
                kept = theirs["gradient"]["sample"]["columns"].pop(0)
                np.testing.assert_array_equal(lazy.plain()["data"], kept[kept != 0.0])
                theirs["gradient"].pop("group")
            assert_same(mine, theirs)
    assert np.abs(reference.x).max() > 0.1


def test_twin_of_the_reference_where_a_run_arrives():
    """The origin becomes the mean of all coordinates, those that have rested included."""
    rng = np.random.default_rng(0)
    rows = random_array((1100, 8), density=0.3, format="csr", rng=rng)
    # Noise, since residuals that vanish would be nothing but rounding.
    targets = rows @ rng.standard_normal(8) + 0.01 * rng.standard_normal(1100)
    targets[:130] = 0.0  # the first epoch has no gradients, and is no arrival
    dense = rows.toarray()
    make = partial(mf.Ladder, np.zeros(8), block=4, first=1.0)
    reference, lazy = make(), SparseLinear(make(), Squared())
    for start, stop in ((0, 255), (255, 256), (256, 513), (513, 1100)):
        for i in range(start, stop):
            reference.tell(linear_gradient(Squared(), reference.x, dense[i], targets[i]))
        lazy.advance(rows[start:stop], targets[start:stop])
        assert_same(settled(lazy), settled(reference))
    assert reference.export_run().step.margin == 1.0


@pytest.mark.parametrize("output", ["average", "weighted", "tail", "last", "random"])
@pytest.mark.parametrize("block, memory", [(4, 0), (64, 0), (4, 40)])
def test_neither_chunks_nor_saving_change_a_bit(output, block, memory):
    """A list or a level that is not saved, or an order that depends on the call, would."""
    rows, targets = data()
    options = {"block": block, "first": FIRST}
    settings = {"output": output, "memory": memory}
    make = partial(start_method, "ladder", np.zeros(COLUMNS + 1), options, **settings)
    whole = SparseLinear(make(), Squared())
    whole.advance(rows, targets)
    parts, start = SparseLinear(make(), Squared()), 0
    for length in (1, 2, 61, 64, 70, 301, ROWS):
        piece = slice(start, min(start + length, ROWS))
        parts.advance(rows[piece], targets[piece])
        start = piece.stop
        resumed = SparseLinear(make(), Squared()).restored(parts.plain(), "run")
        parts.settle()  # must leave the lazy form as it is
        parts = pickle.loads(pickle.dumps(resumed)) if length % 2 else copy.deepcopy(resumed)
    assert parts.average.tobytes() == whole.average.tobytes()
    mine, theirs = parts.plain(), whole.plain()
    assert_same_bits(mine, theirs)


def test_what_moves_weights_that_a_row_does_not_have_is_left_to_dense_rows():
    rows, targets = data()
    with pytest.raises(ValueError, match="mag has no sparse form for this loss: give it dense"):
        SparseLinear(mf.MAG(np.zeros(COLUMNS)), Squared())
    assert runs_sparse(mf.Ladder([0.0]), Squared()) and runs_sparse(mf.Ladder([0.0]), Logistic())
    assert not runs_sparse(mf.Ladder([0.0]), Squared(), l2=0.1)
    assert not runs_sparse(mf.Ladder([0.0], domain=mf.Ball(1.0)), Squared())
    for options in ({"method": "ladder", "l2": 0.1, "radius": 2.0}, {"method": "mag"}):
        one, other = (Learner(Squared(), COLUMNS, scale=None, **options) for _ in range(2))
        one.advance(rows, targets)
        other.advance(rows.toarray(), targets)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)


def test_the_learner_begins_as_with_dense_rows():
    """The first distance comes from the first row."""
    rows, targets = data()
    pair = [Learner(Squared(), COLUMNS, "ladder", scale=None) for _ in range(2)]
    pair[0].advance(rows, targets)
    pair[1].advance(rows.toarray(), targets)
    np.testing.assert_allclose(pair[0].weights, pair[1].weights, rtol=1e-9, atol=1e-12)
    ratios = [learner.profile().ratios for learner in pair]
    np.testing.assert_allclose(*ratios, rtol=1e-9)


@pytest.mark.parametrize("output", ["weighted", "tail", "random"])
@pytest.mark.parametrize("start", [0, 100, 127])
@pytest.mark.parametrize(
    "loss, columns, memory",
    [(Squared(), 20_000, 0), (Softmax(3), 20_000, 0), (Squared(), 60, 0), (Squared(), 20_000, 50)],
)
def test_a_few_rows_that_are_refused_leave_no_trace(output, start, loss, columns, memory):
    """What they change elsewhere: the sketch, an epoch's end, a sum that turns.

    Few columns are copied whole; refused twice, since the copy must have memory of its own.
    """
    rows, targets = data(loss, columns)
    settings = {"scale": None, "output": output, "options": {"block": 4}, "memory": memory}
    learner = Learner(loss, columns, "ladder", **settings)
    if start:  # else a refused call leaves no trace of the first distance, either
        learner.advance(rows[:start], targets[:start])
    before = pickle.dumps(learner.state_dict())
    weights = np.append(np.ones(5), np.inf)
    few = rows[start : start + 6]
    for _ in range(2):
        with pytest.raises(ValueError, match=f"sample {start + 6} is not finite"):
            learner.advance(few, targets[start : start + 6], weights)
        assert pickle.dumps(learner.state_dict()) == before
    other = Learner(loss, columns, "ladder", **settings)
    other.advance(rows[:start], targets[:start])
    weights[-1] = 1.0
    for each in (learner, other):
        each.advance(few, targets[start : start + 6], weights)
        each.advance(rows[start + 6 :], targets[start + 6 :])
    assert pickle.dumps(learner.state_dict()) == pickle.dumps(other.state_dict())


def test_duplicates_in_a_row_are_summed():
    twice = csr_array((np.ones(4), np.array([1, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3))
    once = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 1.0]]))
    runs = [SparseLinear(mf.Ladder(np.zeros(3)), Squared()) for _ in range(2)]
    for run, rows in zip(runs, (twice, once), strict=True):
        run.advance(rows, np.ones(2))
    np.testing.assert_array_equal(runs[0].average, runs[1].average)


def test_a_damaged_state_is_refused():
    """Catches another format, a count below 0, and arrays of other shapes or without numbers."""
    rows, targets = data()
    opt = mf.Ladder(np.zeros(COLUMNS))
    opt.remember(30)
    run = SparseLinear(opt, Squared())
    run.advance(rows, targets)
    kept = pickle.dumps(run.plain())
    damages = {
        "format": lambda v: v - 1,
        "counts": np.negative,
        "sketch": lambda v: v[1:],
        "earlier": lambda v: v * np.nan,
        "indices": lambda v: v + COLUMNS,
        "indptr": lambda v: v[:-1],
    }
    for name, change in damages.items():
        state = pickle.loads(kept)
        state[name] = change(state[name])
        with pytest.raises(ValueError, match=r"does not fit|has format"):
            run.restored(state, "run")
