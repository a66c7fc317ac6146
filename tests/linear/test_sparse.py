"""The lazy sparse run against the NumPy reference and against the dense kernel."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import mixfree as mf
from mixfree.kernels.run import LENGTH, SEEN
from mixfree.kernels.sparse import A
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Logistic, Softmax, Squared
from mixfree.linear.sparse import SparseLinear, runs_sparse
from tests.helpers import needed

ROWS, COLUMNS = 600, 40


def data(loss):
    rng = np.random.default_rng(0)
    rows = random_array((ROWS, COLUMNS), density=0.1, format="csr", rng=rng)
    targets = rows @ rng.standard_normal(COLUMNS)
    if isinstance(loss, Logistic):
        targets = np.where(targets > 0, 1.0, -1.0)
    if isinstance(loss, Softmax):
        targets = np.digitize(targets, [-0.3, 0.3]).astype(float)
    return rows, targets


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("output", ["average", "weighted", "tail", "last", "random"])
@pytest.mark.parametrize("name", ["sgd", "adagrad", "mag", "minibatch", "sgd-mlmc"])
def test_twin_of_the_dense_run(name, output, loss):
    rows, targets = data(loss)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, ROWS)
    for domain in (None, mf.Ball(0.5)):
        for l2 in (0.0, 0.1, 30.0):
            for intercept in (0, 1):
                make = partial(
                    mf.methods()[name],
                    np.zeros(loss.outputs * (COLUMNS + intercept)),
                    domain=domain,
                    alpha=0.8 / (1.0 + l2),
                    output=output,
                )
                dense = make()
                advance_linear(dense, loss, rows.toarray(), targets, weights=weights, l2=l2)
                first = SparseLinear(make(), loss, l2)
                first.advance(rows[:301], targets[:301], weights[:301])
                second = SparseLinear(make(), loss, l2)
                second.load_state_dict(first.state_dict())
                second.advance(rows[301:], targets[301:], weights[301:])
                whole = SparseLinear(make(), loss, l2)
                whole.advance(rows, targets, weights)
                assert whole.average.tobytes() == second.average.tobytes()
                settled = second.settle()
                assert (settled.samples, settled.steps) == (dense.samples, dense.steps)
                scale = 1e-11 * max(1.0, np.abs(dense.x).max())
                np.testing.assert_allclose(settled.x, dense.x, rtol=1e-10, atol=scale)
                np.testing.assert_allclose(second.average, dense.average, rtol=1e-10, atol=scale)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("scale", [1e-60, 1e60])
@pytest.mark.parametrize("name", ["adagrad", "mag"])
def test_twin_of_the_dense_run_at_any_scale(name, scale, radius, intercept, ridge):
    """All sizes of gradients: all outputs, the intercept and l2 still count."""
    loss = Softmax(3)
    rows, targets = data(loss)
    rows = scale * rows
    weights = np.full(ROWS, 1e-60 if intercept and scale < 1.0 else 1.0)
    l2 = ridge * max(scale, 1e-60) if intercept else ridge * scale  # as large as the gradients
    pair = [
        mf.methods()[name](
            np.zeros(3 * (COLUMNS + intercept)),
            domain=None if radius is None else mf.Ball(radius),
            alpha=0.3,
        )
        for _ in range(2)
    ]
    advance_linear(pair[0], loss, rows.toarray(), targets, weights=weights, l2=l2)
    run = SparseLinear(pair[1], loss, l2)
    run.advance(rows, targets, weights)
    run.settle()
    assert np.abs(pair[0].x).max() > 1e-3
    np.testing.assert_allclose(pair[1].x, pair[0].x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pair[1].average, pair[0].average, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("alpha", [1e8, 1e20])
@pytest.mark.parametrize("name", ["sgd", "minibatch"])
def test_steps_far_out_of_the_ball_cost_no_digits(name, alpha):
    rows, targets = data(Squared())
    options = {"batch": 3} if name == "minibatch" else {}
    pair = [
        mf.methods()[name](np.zeros(COLUMNS), domain=mf.Ball(0.5), alpha=alpha, **options)
        for _ in range(2)
    ]
    advance_linear(pair[0], Squared(), rows.toarray()[:50], 1e10 * targets[:50])
    run = SparseLinear(pair[1], Squared())
    run.advance(rows[:50], 1e10 * targets[:50])
    run.settle()
    np.testing.assert_allclose(pair[1].x, pair[0].x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pair[1].average, pair[0].average, rtol=1e-9, atol=1e-12)


def test_the_norm_that_is_summed_anew_is_that_of_the_point():
    """Every 1,024 steps. Catches ‖v‖² in place of ‖x‖², where x is a multiple of v."""
    rows, targets = data(Squared())
    many = np.arange(1026) % ROWS
    dense, other = (mf.SGD(np.zeros(COLUMNS), domain=mf.Ball(0.5), alpha=9.0) for _ in range(2))
    advance_linear(dense, Squared(), rows.toarray()[many], targets[many])
    run = SparseLinear(other, Squared())
    run.advance(rows[many], targets[many])
    run.settle()
    np.testing.assert_allclose(other.x, dense.x, rtol=1e-9, atol=1e-12)


def test_a_run_may_change_between_dense_and_sparse_inside_a_window():
    rows, targets = data(Squared())
    dense, mixed = mf.MAG(np.zeros(COLUMNS)), mf.MAG(np.zeros(COLUMNS))
    advance_linear(dense, Squared(), rows.toarray(), targets, l2=0.1)
    for start in range(0, ROWS, 7):
        run = SparseLinear(mixed, Squared(), 0.1)
        run.advance(rows[start : start + 4], targets[start : start + 4])
        run.settle()
        piece = slice(start + 4, start + 7)
        advance_linear(mixed, Squared(), rows[piece].toarray(), targets[piece], l2=0.1)
    np.testing.assert_allclose(mixed.x, dense.x, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(mixed.average, dense.average, rtol=1e-10, atol=1e-13)


def test_a_million_columns_cost_no_more_than_the_non_zeros():
    """Weights of columns never seen stay exactly zero, and the seen ones are right."""
    rows, targets = data(Squared())
    far = csr_array((rows.data, rows.indices * 25_000, rows.indptr), shape=(ROWS, 10**6))
    near, wide = (SparseLinear(mf.MAG(np.zeros(d)), Squared()) for d in (COLUMNS, 10**6))
    near.advance(rows, targets)
    wide.advance(far, targets)
    assert wide.average[::25_000].tobytes() == near.average.tobytes()
    assert np.count_nonzero(wide.average) <= COLUMNS


def test_duplicates_in_a_row_are_summed():
    twice = csr_array((np.ones(4), np.array([1, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3))
    once = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 1.0]]))
    runs = [SparseLinear(mf.AdaGrad(np.zeros(3)), Squared()) for _ in range(2)]
    for run, rows in zip(runs, (twice, once), strict=True):
        run.advance(rows, np.ones(2))
    np.testing.assert_array_equal(runs[0].average, runs[1].average)


def test_an_infinite_gradient_is_refused_where_it_is():
    rows, targets = data(Squared())
    targets[100] = np.nan
    opt = mf.MAG(np.zeros(COLUMNS))
    with pytest.raises(ValueError, match="gradient of sample 101 is not finite"):
        SparseLinear(opt, Squared()).advance(rows, targets)
    assert opt.samples == 100


def test_a_damaged_state_is_refused():
    """Catches a window that is full before it begins, and weights that are divided by 0."""
    rows, targets = random_array((20, 9), density=0.3, format="csr", rng=0), np.ones(20)
    with pytest.raises(ValueError, match=r"has no sparse twin for this loss and l2=0.1: give"):
        SparseLinear(mf.Ladder(np.zeros(9)), Squared(), l2=0.1)
    run = SparseLinear(mf.MAG(np.zeros(9), levels=3), Squared())
    run.advance(rows, targets)
    kept = pickle.dumps(run.state_dict())
    for name, place, value in (("counts", LENGTH, 0), ("numbers", A, 0.0), ("counts", SEEN, -1)):
        state = pickle.loads(kept)
        state[name][place] = value
        with pytest.raises(ValueError, match="state of the sparse run does not fit"):
            run.load_state_dict(state)
        assert pickle.dumps(run.state_dict()) == kept


def test_which_methods_run_sparse():
    able = {
        name
        for name, method in mf.methods().items()
        if runs_sparse(method([0.0], **needed(name, 3)), Squared())
    }
    assert {"sgd", "adagrad", "mag", "ladder", "sgd-mlmc", "minibatch", "sgd-dd", "emd"} <= able
    assert not able & {"sgd-er", "sgd-rer"}
