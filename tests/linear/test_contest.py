"""The learner that fits kept rows: bits, saving, units, classes, weights."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from mixfree.core import contest as contests
from mixfree.linear.contest import SOME, ChoosingLearner, add_gradients
from mixfree.linear.learner import Learner
from mixfree.linear.losses import Huber, Logistic, Robust, Softmax, Squared, linear_gradient
from tests.helpers import assert_same_bits

ROWS, COLUMNS, KEPT = 3000, 3, 400


@pytest.fixture
def few_kept(monkeypatch):
    monkeypatch.setattr(contests, "MEMORY", KEPT)


def data(shift=50.0, length=300):
    """Rows that stay around one place for a long time, of unequal size and far from zero."""
    rng = np.random.default_rng(8)
    places = np.repeat(rng.standard_normal((ROWS // length, COLUMNS)), length, axis=0)
    rows = (places + 0.3 * rng.standard_normal(places.shape)) * [1.0, 100.0, 0.01] + shift
    targets = (rows - shift) @ [1.0, -0.02, 300.0] + 2.0 + rng.standard_normal(ROWS)
    return rows, targets


def learner(**settings):
    return ChoosingLearner(Squared(), COLUMNS, **settings)


def test_the_same_bits_however_cut_and_after_saving(few_kept):
    """Caught: anchors, sums or choices that depend on the chunks, or on units at their ends."""
    rows, targets = data()
    whole, cut = learner(), learner()
    whole.advance(rows, targets)
    for piece in np.split(np.arange(ROWS), [1, 2, 65, 1000, 1024, 2500]):
        cut.weights  # noqa: B018  # asking on the way must not change anything
        saved = cut.state_dict()
        cut = learner()
        cut.load_state_dict(saved)
        cut.advance(rows[piece], targets[piece])
    assert cut.weights.tobytes() == whole.weights.tobytes()
    assert cut.choice == whole.choice
    assert cut.choice.memory == KEPT
    assert_same_bits(cut.state_dict(), whole.state_dict())


def best(rows, targets):
    """The weights of least squares, the intercept last."""
    x = np.column_stack([rows, np.ones(len(rows))])
    return np.linalg.lstsq(x, targets, rcond=None)[0]


@pytest.mark.parametrize("scale", ["auto", None])
def test_the_fit_is_that_of_all_rows(scale):
    """Caught: kept rows in the units of their time; a fit in units where it does not converge."""
    rows, targets = data(shift=0.0 if scale is None else 50.0)
    chosen, plain = learner(scale=scale), Learner(Squared(), COLUMNS, scale=scale)
    for each in (chosen, plain):
        each.advance(rows, targets)
    assert chosen.choice.fitted
    np.testing.assert_allclose(chosen.weights[0], best(rows, targets), rtol=1e-3, atol=1e-3)
    assert_same_bits(chosen.optimizer.state_dict(), plain.optimizer.state_dict())
    assert chosen.samples == ROWS
    assert chosen.profile() is not None


@pytest.mark.parametrize("first", [0.3, 0.0])
def test_a_column_that_is_constant_at_first(first):
    """Caught: units from the first rows, or from the rounding errors of a constant column."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((3 * SOME, COLUMNS))
    rows[: 2 * SOME, 1] = first + 1e-16 * rng.standard_normal(2 * SOME)
    targets = rows @ [1.0, 2.0, 3.0] + rng.standard_normal(len(rows))
    one = learner(scale=None)
    one.advance(rows, targets)
    np.testing.assert_allclose(one.weights[0], best(rows, targets), rtol=1e-3, atol=1e-3)


def test_rows_that_are_not_kept_count(few_kept):
    """Caught: the fit to the kept rows alone, which is ten times as far from that of all rows."""
    rows, targets = data()
    chosen = learner()
    chosen.advance(rows, targets)
    (kept, aims, _), x = chosen._contest.memory.columns, np.column_stack([rows, np.ones(ROWS)])
    assert len(kept) == KEPT
    truth = best(rows, targets)
    errors = [np.mean((x @ (w - truth)) ** 2) for w in (chosen.weights[0], best(kept, aims))]
    assert errors[0] < 0.1 * errors[1]


@pytest.mark.parametrize(
    "loss", [Squared(), Logistic(), Huber(0.5), Robust(), Softmax(3)], ids=lambda loss: str(loss)
)
def test_sums_of_gradients_are_those_of_the_reference(loss):
    """Caught: a twin without weights, without the intercept or with another derivative."""
    rng = np.random.default_rng(2)
    rows, weights = rng.standard_normal((50, COLUMNS)), rng.random(50)
    targets = np.sign(rng.standard_normal(50))
    if isinstance(loss, Softmax):
        targets = rng.integers(3, size=50).astype(float)
    for intercept in (0, 1):
        x = rng.standard_normal(loss.outputs * (COLUMNS + intercept))
        found = rng.standard_normal(x.size)
        expected = found.copy()
        add_gradients(loss, x, rows, targets, weights, found)
        for row, target, weight in zip(rows, targets, weights, strict=True):
            expected += linear_gradient(loss, x, row, target, weight=weight)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("loss", [Huber(0.5), Softmax(3)], ids=["huber", "softmax"])
def test_losses_and_slopes_belong_together(loss):
    """Caught: slopes of another loss, sign or class, which would make the judges' noise larger."""
    rows, targets = data(shift=0.0)
    targets = np.digitize(targets, [-1.0, 3.0]).astype(float)
    one = ChoosingLearner(loss, COLUMNS)
    one.advance(rows[:100], targets[:100], np.linspace(0.0, 2.0, 100))
    objective, judges = one._contest._objective, one._contest._judges
    rng, size = np.random.default_rng(1), loss.outputs * (COLUMNS + 1)
    x, along = 0.1 * rng.standard_normal(size), rng.standard_normal(size)
    ahead, behind = (objective.losses(x + h * along, judges) for h in (1e-6, -1e-6))
    slopes = objective.slopes(x, along, judges)
    np.testing.assert_allclose(slopes, (ahead - behind) / 2e-6, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(slopes.sum(), objective.total(x, judges) @ along, rtol=1e-9)


def test_single_precision_stays_single():
    rows, targets = data(shift=0.0)
    one = learner(dtype=np.float32)
    one.advance(rows.astype(np.float32), targets)
    assert one.weights.dtype == np.float32
    assert one._contest.memory.column(0).dtype == np.float32
    np.testing.assert_allclose(one.weights[0], best(rows, targets), rtol=1e-2, atol=1e-2)


def test_kept_rows_follow_the_running_scale():
    """Caught: rows kept in the units that were in force when they came."""
    rows, targets = data()
    kept = Learner(Squared(), COLUMNS, memory=200)
    kept.advance(rows, targets)
    sample, units = kept.optimizer._run.gradient.sample, kept._scale.units
    expected = (rows[sample.numbers - 1] - units.shift) / units.scale
    np.testing.assert_allclose(sample.column(0), expected, atol=1e-9)


def test_a_bad_row_changes_nothing(few_kept):
    rows, targets = data()
    one = learner()
    one.advance(rows[:1500], targets[:1500])
    before, weights = one.state_dict(), one.weights
    spoilt = targets[1500:].copy()
    spoilt[-1] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        one.advance(rows[1500:], spoilt)
    assert one.weights.tobytes() == weights.tobytes()
    assert one.choice.samples == 1500
    assert_same_bits(one.state_dict(), before)
    other = learner()
    other.load_state_dict(before)
    for each in (one, other):
        each.advance(rows[1500:], targets[1500:])
    assert one.weights.tobytes() == other.weights.tobytes()


def test_a_bad_first_call_leaves_a_learner_that_can_begin():
    rows, targets = data()
    one, other = learner(), learner()
    with pytest.raises(ValueError, match="not finite"):
        one.advance(rows, np.full(ROWS, np.nan))
    assert one.choice is None
    for each in (one, other):
        each.advance(rows, targets)
    assert one.weights.tobytes() == other.weights.tobytes()


def test_classes_and_weights():
    """Caught: judging by rows that weigh nothing, or by one margin of several classes."""
    rows, targets = data(shift=0.0)
    classes = np.digitize(targets, [-1.0, 3.0]).astype(float)
    found = ChoosingLearner(Softmax(3), COLUMNS)
    weights = np.where(np.arange(ROWS) < 1500, 1.0, 0.0)
    found.advance(rows, classes, weights)
    assert found.weights.shape == (3, COLUMNS + 1)
    assert found.losses(rows[:1500], classes[:1500]).mean() < np.log(3.0)
    part = ChoosingLearner(Softmax(3), COLUMNS)
    part.advance(rows[:1500], classes[:1500])
    one, other = (each.predict(rows) for each in (found, part))
    one, other = (each - each.mean(axis=1, keepdims=True) for each in (one, other))
    np.testing.assert_allclose(one, other, rtol=0.01, atol=0.01)


def test_sparse_rows_are_learnt_without_memory():
    rows, targets = data(shift=0.0)
    one, other = learner(), Learner(Squared(), COLUMNS)
    for each in (one, other):
        each.advance(csr_array(rows), targets)
    assert one.choice is None
    assert one.weights.tobytes() == other.weights.tobytes()
    fresh = learner()
    fresh.load_state_dict(one.state_dict())
    assert fresh.weights.tobytes() == one.weights.tobytes()


def test_a_state_of_another_learner_is_refused():
    plain = Learner(Squared(), COLUMNS)
    with pytest.raises(ValueError, match="memory='auto'"):
        learner().load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match="must be of a learner"):
        plain.load_state_dict(learner().state_dict())


@pytest.mark.parametrize("scale", ["auto", None])
def test_ridge_is_part_of_the_fit(scale):
    """Caught: weights that are not shrunk, or in other units than those of the steps."""
    rows, targets = data(shift=0.0)
    ridge = learner(l2=2.0, fit_intercept=False, scale=scale)
    ridge.advance(rows, targets)
    size = 1.0 if scale is None else ridge._scale.units.scale
    x = rows / size
    best = np.linalg.solve(x.T @ x / ROWS + 2.0 * np.eye(COLUMNS), x.T @ targets / ROWS)
    assert ridge.choice.fitted
    np.testing.assert_allclose(ridge.weights[0] * size, best, rtol=1e-3, atol=1e-4)


def test_the_fit_stays_in_the_ball():
    rows, targets = data(shift=0.0)
    near = learner(radius=0.1, scale=None)
    near.advance(rows, targets)
    assert np.linalg.norm(near.weights) <= 0.1 * (1.0 + 1e-12)


def test_too_many_sparse_rows_to_keep():
    wide = Learner(Squared(), 1_000_000, memory=1000, fit_intercept=False)
    with pytest.raises(ValueError, match="give `memory=134` at most, or `memory=0`"):
        wide.advance(csr_array((1, 1_000_000)), np.ones(1))
