"""The ladder's lazy run over sparse rows against the NumPy reference and against dense rows."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from scipy.sparse import random_array

import mixfree as mf
from mixfree.linear.advance import advance_linear
from mixfree.linear.learner import Learner
from mixfree.linear.losses import Logistic, Softmax, Squared, linear_gradient
from mixfree.linear.sparse import SparseLinear, runs_sparse

ROWS, COLUMNS = 700, 60
FIRST = 0.05


def data(loss=None, rows=ROWS, columns=COLUMNS, seed=0):
    """Few entries per row, so that most columns rest for several blocks; some never occur."""
    rng = np.random.default_rng(seed)
    matrix = random_array((rows, columns), density=2.4 / columns, format="csr", rng=rng)
    matrix.data[matrix.indices % 7 == 6] = 0.0
    matrix.eliminate_zeros()
    targets = matrix @ rng.standard_normal(columns) + 0.1 * rng.standard_normal(rows)
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
            np.testing.assert_allclose(mine[name], value, rtol=1e-9, atol=scale, err_msg=name)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("block", [4, 64])
def test_twin_of_the_reference_step_by_step(loss, block):
    """Over several epochs; catches a lazy sum that a coordinate at rest does not follow."""
    rows, targets = data(loss)
    dense, weights = rows.toarray(), np.random.default_rng(1).uniform(0.5, 2.0, ROWS)
    make = partial(mf.Ladder, np.zeros(loss.outputs * (COLUMNS + 1)), block=block)
    reference, lazy = make(first=FIRST), SparseLinear(make(first=FIRST), loss)
    for i in range(ROWS):
        gradient = linear_gradient(loss, reference.x, dense[i], targets[i])
        reference.tell(weights[i] * gradient)
        lazy.advance(rows[i : i + 1], targets[i : i + 1], weights[i : i + 1])
        scale = 1e-11 * max(1.0, np.abs(reference.x).max())
        np.testing.assert_allclose(lazy.average, reference.average, rtol=1e-9, atol=scale)
        if i % 23 == 0 or i > ROWS - 3:
            assert_same(settled(lazy), settled(reference))
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


@pytest.mark.parametrize("options", [{"alpha": 0.3}, {"length": 3.0}], ids=str)
def test_twin_of_the_reference_with_a_fixed_scale_or_longer_steps(options):
    rows, targets = data()
    dense = rows.toarray()
    make = partial(mf.Ladder, np.zeros(COLUMNS), block=2, **options)
    reference, lazy = make(), SparseLinear(make(), Squared())
    for i in range(300):
        reference.tell(linear_gradient(Squared(), reference.x, dense[i], targets[i]))
    lazy.advance(rows[:300], targets[:300])
    assert_same(settled(lazy), settled(reference))


@pytest.mark.parametrize("output", ["average", "weighted", "tail", "last", "random"])
@pytest.mark.parametrize("block", [4, 64])
def test_neither_chunks_nor_saving_change_a_bit(output, block):
    """A list or a level that is not saved, or an order that depends on the call, would."""
    rows, targets = data()
    make = partial(mf.Ladder, np.zeros(COLUMNS + 1), block=block, output=output, first=FIRST)
    whole = SparseLinear(make(), Squared())
    whole.advance(rows, targets)
    parts, start = SparseLinear(make(), Squared()), 0
    for length in (1, 2, 61, 64, 70, 301, ROWS):
        piece = slice(start, min(start + length, ROWS))
        parts.advance(rows[piece], targets[piece])
        start = piece.stop
        resumed = SparseLinear(make(), Squared())
        resumed.load_state_dict(parts.state_dict())
        parts.settle()  # must leave the lazy form as it is
        parts = pickle.loads(pickle.dumps(resumed)) if length % 2 else copy.deepcopy(resumed)
    assert parts.average.tobytes() == whole.average.tobytes()
    mine, theirs = parts.state_dict(), whole.state_dict()
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("block", [4, 64])
def test_a_run_may_change_between_dense_and_sparse_inside_a_block(block):
    """Catches a sum that one of the two forms keeps and the other loses."""
    rows, targets = data()
    make = partial(mf.Ladder, np.zeros(COLUMNS), block=block, first=FIRST)
    dense, mixed = make(), make()
    advance_linear(dense, Squared(), rows.toarray(), targets)
    for start in range(0, ROWS, 35):
        run = SparseLinear(mixed, Squared())
        run.advance(rows[start : start + 18], targets[start : start + 18])
        run.settle()
        piece = slice(start + 18, start + 35)
        advance_linear(mixed, Squared(), rows[piece].toarray(), targets[piece])
    assert_same(settled(mixed), settled(dense))


def test_what_moves_weights_that_a_row_does_not_have_is_left_to_dense_rows():
    rows, targets = data()
    assert runs_sparse(mf.Ladder([0.0]), Squared()) and runs_sparse(mf.Ladder([0.0]), Logistic())
    assert not runs_sparse(mf.Ladder([0.0]), Squared(), l2=0.1)
    assert not runs_sparse(mf.Ladder([0.0], domain=mf.Ball(1.0)), Squared())
    pair = [Learner(Squared(), COLUMNS, "ladder", scale=None, l2=0.1, radius=2.0) for _ in range(2)]
    pair[0].advance(rows, targets)
    pair[1].advance(rows.toarray(), targets)
    np.testing.assert_allclose(pair[0].weights, pair[1].weights, rtol=1e-12)


def test_the_learner_begins_as_with_dense_rows_and_is_whole_after_an_error():
    """The first distance comes from the first row; a refused call leaves no trace, even of that."""
    rows, targets = data()
    pair = [Learner(Squared(), COLUMNS, "ladder", scale=None) for _ in range(2)]
    bad = np.ones(ROWS)
    bad[650] = np.inf
    for learner in pair:
        before = copy.deepcopy(learner.state_dict())
        with pytest.raises(ValueError, match="sample 651 is not finite"):
            learner.advance(rows, targets, bad)
        assert pickle.dumps(learner.state_dict()) == pickle.dumps(before)
    pair[0].advance(rows, targets)
    pair[1].advance(rows.toarray(), targets)
    np.testing.assert_allclose(pair[0].weights, pair[1].weights, rtol=1e-9, atol=1e-12)
    ratios = [learner.profile().ratios for learner in pair]
    np.testing.assert_allclose(*ratios, rtol=1e-9)


def test_calls_that_are_taken_back_use_memory_of_their_own():
    """Catches a copy for going back that shares memory with the state it was made of."""
    rows, targets = data()
    whole, parts = (Learner(Squared(), COLUMNS, "ladder", scale=None) for _ in range(2))
    whole.advance(rows, targets)
    bad = np.append(np.ones(99), np.inf)
    for start in range(0, ROWS, 100):
        piece = slice(start, start + 100)
        before = pickle.dumps(parts.state_dict())
        for _ in range(2):
            with pytest.raises(ValueError, match=f"sample {start + 100} is not finite"):
                parts.advance(rows[piece], targets[piece], bad)
            assert pickle.dumps(parts.state_dict()) == before
        parts.advance(rows[piece], targets[piece])
    assert pickle.dumps(parts.state_dict()) == pickle.dumps(whole.state_dict())


@pytest.mark.parametrize("output", ["weighted", "tail", "random"])
@pytest.mark.parametrize("start", [100, 127])
@pytest.mark.parametrize("loss", [Squared(), Softmax(3)], ids=repr)
def test_a_few_rows_that_are_refused_leave_no_trace(output, start, loss):
    """What they change elsewhere: the sketch, an epoch's end, a sum that turns."""
    rows, targets = data(loss, columns=20_000)
    learner = Learner(loss, 20_000, "ladder", scale=None, output=output, options={"block": 4})
    learner.advance(rows[:start], targets[:start])
    before = pickle.dumps(learner.state_dict())
    weights = np.append(np.ones(5), np.inf)
    few = rows[start : start + 6]
    with pytest.raises(ValueError, match=f"sample {start + 6} is not finite"):
        learner.advance(few, targets[start : start + 6], weights)
    assert pickle.dumps(learner.state_dict()) == before
    other = Learner(loss, 20_000, "ladder", scale=None, output=output, options={"block": 4})
    other.advance(rows[:start], targets[:start])
    weights[-1] = 1.0
    for each in (learner, other):
        each.advance(few, targets[start : start + 6], weights)
        each.advance(rows[start + 6 :], targets[start + 6 :])
    assert pickle.dumps(learner.state_dict()) == pickle.dumps(other.state_dict())


def test_a_damaged_state_is_refused():
    rows, targets = data()
    run = SparseLinear(mf.Ladder(np.zeros(COLUMNS), block=4), Squared())
    run.advance(rows[:698], targets[:698])
    kept = pickle.dumps(run.state_dict())
    for name, change in (
        ("sketch", lambda v: v[1:]),
        ("rates", lambda v: -v),
        ("cells", lambda v: -np.abs(v)),
        ("cells", lambda v: 2.0 * v),
        ("counts", lambda v: -v),
        ("earlier", lambda v: v * np.nan),
    ):
        state = pickle.loads(kept)
        state[name] = change(state[name])
        with pytest.raises(ValueError, match="does not fit"):
            run.load_state_dict(state)
        assert pickle.dumps(run.state_dict()) == kept, name
