"""The ladder's lazy run over sparse rows against the NumPy reference and against dense rows."""

import copy
import pickle
from functools import partial

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import mixfree as mf
from mixfree.linear import sparse_ladder
from mixfree.linear.advance import advance_linear
from mixfree.linear.learner import Learner
from mixfree.linear.losses import Logistic, Softmax, Squared, linear_gradient
from mixfree.linear.sparse import SparseLinear, runs_sparse
from mixfree.sklearn import StreamRegressor

ROWS, COLUMNS = 700, 60
DISTANCE = mf.Distance(first=0.05)


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
    """What a run has come to, without halves that have gone up already."""
    opt = run.settle() if isinstance(run, SparseLinear) else run
    state = opt.export_run().plain()
    blocks = opt.steps // opt.step.block
    halves = state["step"]["halves"]
    halves[[blocks >> j & 1 == 0 for j in range(len(halves))]] = 0.0
    return state


def assert_same(mine, theirs):
    """Equal up to rounding, relative to the largest entry; sums of squares relative to Q."""
    for name, value in theirs.items():
        if isinstance(value, dict):
            assert_same(mine[name], value)
        else:
            unit = theirs["total"] if name in ("levels", "excess") else np.abs(value)
            scale = 1e-10 * float(np.max(unit, initial=0.0))
            np.testing.assert_allclose(mine[name], value, rtol=1e-9, atol=scale, err_msg=name)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("block", [4, 64])
def test_twin_of_the_reference_step_by_step(loss, block):
    """Past the early steps, over several epochs: levels left out, or completed with another Q."""
    rows, targets = data(loss)
    dense, weights = rows.toarray(), np.random.default_rng(1).uniform(0.5, 2.0, ROWS)
    make = partial(mf.Ladder, np.zeros(loss.outputs * (COLUMNS + 1)), block=block)
    reference, lazy = make(distance=DISTANCE), SparseLinear(make(distance=DISTANCE), loss)
    for i in range(ROWS):
        gradient = linear_gradient(loss, reference.x, dense[i], targets[i])
        reference.tell(weights[i] * gradient)
        lazy.advance(rows[i : i + 1], targets[i : i + 1], weights[i : i + 1])
        scale = 1e-11 * max(1.0, np.abs(reference.x).max())
        np.testing.assert_allclose(lazy.average, reference.average, rtol=1e-9, atol=scale)
        if i % 23 == 0 or i > ROWS - 3:
            assert_same(settled(lazy), settled(reference))
    assert reference.steps // block > 8 and np.abs(reference.x).max() > 0.1
    if block == 4:
        assert settled(reference)["step"]["excess"].max() > 0.0


def test_twin_of_the_reference_where_a_run_arrives():
    """The origin becomes the mean of all coordinates, those that have rested included."""
    rng = np.random.default_rng(0)
    rows = random_array((1100, 8), density=0.3, format="csr", rng=rng)
    # Noise, since residuals that vanish would be nothing but rounding.
    targets = rows @ rng.standard_normal(8) + 0.01 * rng.standard_normal(1100)
    targets[:130] = 0.0  # the first epoch has no gradients, and is no arrival
    dense = rows.toarray()
    make = partial(mf.Ladder, np.zeros(8), block=4, distance=mf.Distance(first=1.0))
    reference, lazy = make(), SparseLinear(make(), Squared())
    for start, stop in ((0, 255), (255, 256), (256, 513), (513, 1100)):
        for i in range(start, stop):
            reference.tell(linear_gradient(Squared(), reference.x, dense[i], targets[i]))
        lazy.advance(rows[start:stop], targets[start:stop])
        assert_same(settled(lazy), settled(reference))
    assert reference.export_run().step.distance.margin == 1.0


@pytest.mark.parametrize(
    "options", [{"alpha": 0.3}, {"max_levels": 0}, {"max_levels": 2, "length": 3.0}], ids=str
)
def test_twin_of_the_reference_with_a_fixed_scale_or_few_levels(options):
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
    make = partial(mf.Ladder, np.zeros(COLUMNS + 1), block=block, output=output, distance=DISTANCE)
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
    """Q at the last completion of a level is not in the dense state, and has to be made up."""
    rows, targets = data()
    make = partial(mf.Ladder, np.zeros(COLUMNS), block=block, distance=DISTANCE)
    dense, mixed = make(), make()
    advance_linear(dense, Squared(), rows.toarray(), targets)
    for start in range(0, ROWS, 35):
        run = SparseLinear(mixed, Squared())
        run.advance(rows[start : start + 18], targets[start : start + 18])
        run.settle()
        piece = slice(start + 18, start + 35)
        advance_linear(mixed, Squared(), rows[piece].toarray(), targets[piece])
    assert_same(settled(mixed), settled(dense))


@pytest.mark.parametrize("scale", [1e-160, 1e-100, 1e140])
def test_twin_of_the_dense_run_where_squares_are_out_of_range(scale):
    """The unit of the gradients changes, at first and after smaller ones."""
    rows, targets = data()
    factors = np.where(np.arange(ROWS) < 200, 1e-120, 1.0)
    make = partial(mf.Ladder, np.zeros(COLUMNS), block=4, distance=DISTANCE)
    dense, lazy = make(), SparseLinear(make(), Squared())
    advance_linear(dense, Squared(), rows.toarray(), targets, weights=scale * factors)
    lazy.advance(rows, targets, scale * factors)
    assert dense.export_run().step.unit != 0 and np.abs(dense.x).max() > 0.01
    assert_same(settled(lazy), settled(dense))


def test_a_million_columns_cost_no_more_than_the_non_zeros():
    """Where a coordinate stands, and how many there are, must not matter to the others."""
    rows, targets = data()
    places, width = 10_000 * rows.indices, 10_000 * COLUMNS
    far = csr_array((rows.data, places, rows.indptr), shape=(ROWS, width))
    near, wide = (
        SparseLinear(mf.Ladder(np.zeros(d), distance=DISTANCE), Squared()) for d in (COLUMNS, width)
    )
    near.advance(rows, targets)
    wide.advance(far, targets)
    assert wide.average[::10_000].tobytes() == near.average.tobytes()
    assert np.count_nonzero(wide.average) <= COLUMNS


def test_what_moves_weights_that_a_row_does_not_have_is_left_to_dense_rows():
    rows, targets = data()
    assert runs_sparse(mf.Ladder([0.0]), Squared()) and runs_sparse(mf.Ladder([0.0]), Logistic())
    assert not runs_sparse(mf.Ladder([0.0]), Squared(), l2=0.1)
    for options in ({"per_coordinate": False}, {"domain": mf.Ball(1.0)}):
        assert not runs_sparse(mf.Ladder([0.0], **options), Squared())
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
    pair[0].advance(rows[:100], targets[:100])
    kept = pickle.dumps(pair[0].state_dict())
    with pytest.raises(ValueError, match="sample 751 is not finite"):
        pair[0].advance(rows, targets, bad)
    assert pickle.dumps(pair[0].state_dict()) == kept
    pair[0].advance(rows[100:], targets[100:])
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


def test_records_that_need_more_memory_than_there_is(monkeypatch):
    """Catches levels that are lost or overwritten where the memory for them is enlarged."""
    rows, targets = data()
    runs = []
    for slots in (sparse_ladder.MORE, 1):
        monkeypatch.setattr(sparse_ladder, "ROOM", 0)
        monkeypatch.setattr(sparse_ladder, "MORE", slots)
        run = SparseLinear(mf.Ladder(np.zeros(COLUMNS), block=4, distance=DISTANCE), Squared())
        run.advance(rows[:500], targets[:500])
        resumed = SparseLinear(mf.Ladder(np.zeros(COLUMNS), block=4), Squared())
        resumed.load_state_dict(run.state_dict())
        for each in (run, resumed):
            each.advance(rows[500:], targets[500:])
            runs.append(pickle.dumps(each.state_dict()))
    assert len(set(runs)) == 1


@pytest.mark.parametrize("output", ["weighted", "tail", "random"])
@pytest.mark.parametrize("start", [100, 127])
@pytest.mark.parametrize("scale", [1.0, 1e100])
@pytest.mark.parametrize("loss", [Squared(), Softmax(3)], ids=repr)
def test_a_few_rows_that_are_refused_leave_no_trace(output, start, scale, loss):
    """What they change elsewhere: levels, an epoch's end, a sum that turns, another unit."""
    rows, targets = data(loss, columns=20_000)
    learner = Learner(loss, 20_000, "ladder", scale=None, output=output, options={"block": 4})
    learner.advance(rows[:start], targets[:start])
    before = pickle.dumps(learner.state_dict())
    weights = np.append(np.full(5, scale), np.inf)
    few = rows[start : start + 6]
    with pytest.raises(ValueError, match=f"sample {start + 6} is not finite"):
        learner.advance(few, targets[start : start + 6], weights)
    assert pickle.dumps(learner.state_dict()) == before
    other = Learner(loss, 20_000, "ladder", scale=None, output=output, options={"block": 4})
    other.advance(rows[:start], targets[:start])
    weights[-1] = scale
    for each in (learner, other):
        each.advance(few, targets[start : start + 6], weights)
        each.advance(rows[start + 6 :], targets[start + 6 :])
    assert pickle.dumps(learner.state_dict()) == pickle.dumps(other.state_dict())


@pytest.mark.parametrize("output", ["weighted", "tail"])
def test_many_rows_that_are_refused_after_a_change_of_unit_leave_no_trace(output):
    """Catches a copy for going back that was extended to all cells but shares the other arrays."""
    rows, targets = data(columns=20_000)
    learner = Learner(Squared(), 20_000, "ladder", scale=None, output=output, options={"block": 4})
    learner.advance(rows[:100], targets[:100])
    learner.advance(rows[100:102], targets[100:102], np.full(2, 1e100))
    before = pickle.dumps(learner.state_dict())
    with pytest.raises(ValueError, match="sample 700 is not finite"):
        learner.advance(rows[102:], targets[102:], np.append(np.ones(ROWS - 103), np.inf))
    assert pickle.dumps(learner.state_dict()) == before


def test_a_damaged_state_is_refused():
    rows, targets = data()
    run = SparseLinear(mf.Ladder(np.zeros(COLUMNS), block=4), Squared())
    run.advance(rows[:698], targets[:698])
    kept = pickle.dumps(run.state_dict())
    for name, change in (
        ("count", lambda v: v + 1),
        ("first", lambda v: v * 0 - 1),
        ("depth", lambda v: v + 1),
        ("waits", lambda v: v | 1 << 40),
        ("several", lambda v: v + 2),
        ("last", lambda v: v * 0 + ROWS + 1),
        ("halves", lambda v: v[1:]),
        ("over", lambda v: v[1:]),
        ("above", lambda v: v - 1e9),
        ("rates", lambda v: -v),
        ("cells", lambda v: -np.abs(v)),
        ("counts", lambda v: v * 0 + COLUMNS + 1),
    ):
        state = pickle.loads(kept)
        state[name] = change(state[name])
        with pytest.raises(ValueError, match="does not fit"):
            run.load_state_dict(state)
        assert pickle.dumps(run.state_dict()) == kept, name


@pytest.mark.parametrize("method", ["mag", "sgd-mlmc", "minibatch", "ladder"])
def test_copies_of_an_estimator_go_on_with_the_same_bits(method, tmp_path):
    """Lists inside the cells must not point into the original."""
    rows, targets = data()
    model = StreamRegressor(method=method).partial_fit(rows[:333], targets[:333])
    joblib.dump(model, tmp_path / "model")
    copies = [
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model"),
    ]
    model.partial_fit(rows[333:], targets[333:])
    for each in copies:
        each.partial_fit(rows[333:], targets[333:])
        assert each.coef_.tobytes() == model.coef_.tobytes()
        assert each.intercept_ == model.intercept_
