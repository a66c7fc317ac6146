"""The running scale: its statistics, its units, and how they change."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.advance import advance_linear
from mixfree.linear.learner import Learner
from mixfree.linear.losses import Squared, predictions
from mixfree.linear.scaling import LIMIT, Rescaling, RunningScale, Units
from tests.helpers import assert_same_bits

COLUMNS = 4


def reference(rows, centred):
    """Standardised rows by the definition, each with all statistics computed anew."""
    shift, scale, farthest = np.zeros(COLUMNS), np.ones(COLUMNS), np.zeros(COLUMNS)
    found = []
    for i, row in enumerate(rows):
        count = i + 1
        if count & (count - 1) == 0 or (np.abs(row - shift) > LIMIT * scale).any():
            shift = rows[:count].mean(axis=0) if centred else np.zeros(COLUMNS)
            farthest = np.maximum(farthest, np.abs(row - shift))
            spread = np.sqrt(((rows[:count] - shift) ** 2).mean(axis=0))
            scale = np.maximum(spread, farthest / LIMIT)
            scale = np.where(scale > 0.0, scale, 1.0)
        found.append((row - shift) / scale)
    return np.array(found)


def standardised(scale, rows):
    found = []
    while len(rows):
        piece = scale.take(rows, np.empty_like(rows))
        found.extend(piece)
        rows = rows[len(piece) :]
        if scale.due:
            scale.change(rows[0])
    return np.array(found)


@pytest.mark.parametrize("centred", [True, False])
def test_twin_of_the_definition(centred):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, COLUMNS)) * [1e-3, 1.0, 1e3, 0.0] + [0.0, 5.0, 0.0, 7.0]
    rows[200, 1] = 1e6  # far outside, between two powers of two
    found = standardised(RunningScale(COLUMNS, centred), rows)
    np.testing.assert_allclose(found, reference(rows, centred), rtol=1e-7, atol=1e-9)
    assert np.abs(found).max() <= LIMIT * (1.0 + 1e-12)


@pytest.mark.parametrize("name", ["mag", "ladder"])
def test_one_call_learns_what_rows_one_by_one_teach(name):
    """Catches a row that is lost, counted twice or learnt in old units where units change."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((300, COLUMNS)) * 5.0 + 3.0
    rows[200, 1] = 1e3
    targets, weights = rows[:, 0] - rows[:, 2], rng.uniform(0.5, 2.0, 300)
    at_once, one_by_one = (Learner(Squared(), COLUMNS, name, scale="running") for _ in range(2))
    at_once.advance(rows, targets, weights)
    for row in range(300):
        here = slice(row, row + 1)
        one_by_one.advance(rows[here], targets[here], weights[here])
    assert_same_bits(at_once.state_dict(), one_by_one.state_dict())


def units(seed):
    rng = np.random.default_rng(seed)
    return Units(rng.standard_normal(COLUMNS), rng.uniform(0.1, 10.0, COLUMNS))


@pytest.mark.parametrize("intercepts", [0, 1])
def test_points_are_the_same_function_and_gradients_its_gradient(intercepts):
    rng = np.random.default_rng(1)
    outputs, rows = 3, rng.standard_normal((5, COLUMNS))
    x = rng.standard_normal(outputs * (COLUMNS + intercepts))
    old, new = units(2), units(3)
    if not intercepts:
        old, new = (each._replace(shift=np.zeros(COLUMNS)) for each in (old, new))
    before = predictions(x, (rows - old.shift) / old.scale, outputs)
    there, back = (Rescaling(outputs, intercepts, *pair) for pair in ((old, new), (new, old)))
    moved = there.function(x)
    after = predictions(moved, (rows - new.shift) / new.scale, outputs)
    np.testing.assert_allclose(after, before, rtol=1e-10)
    np.testing.assert_allclose(back.function(moved), x, rtol=1e-10)
    # A gradient is slope · row, and rows change units as they are standardised.
    slope = rng.standard_normal(outputs)
    gradients = [
        np.hstack(
            [s * np.append((rows[0] - u.shift) / u.scale, np.ones(intercepts)) for s in slope]
        )
        for u in (old, new)
    ]
    np.testing.assert_allclose(there.gradients(gradients[0]), gradients[1], rtol=1e-9)


def test_weights_shrink_where_the_scale_grew():
    zero = np.zeros(COLUMNS)
    old, new = Units(zero, zero + 1.0), Units(zero, np.array([1.0, 10.0, 0.5, 1.0]))
    kept = Rescaling(1, 0, old, new).points(np.ones(COLUMNS))
    np.testing.assert_allclose(kept, [1.0, 0.1, 0.5, 1.0])


def in_units(rows, units):
    return np.column_stack([(rows - units.shift) / units.scale, np.ones(len(rows))])


def test_a_pending_window_goes_on_in_new_units():
    """Its sum is then that of the same samples' gradients in the new units."""
    rng = np.random.default_rng(4)
    rows, targets = rng.standard_normal((40, COLUMNS)), rng.standard_normal(40)
    old, new = units(5), units(6)
    before, windows = in_units(rows, old), 0
    for cut in range(40):
        opt = mf.MAG(np.zeros(COLUMNS + 1), levels=4)
        advance_linear(opt, Squared(), before[:cut], targets[:cut])
        slopes = before @ opt.x - targets  # the point stands still in a window
        windows += opt.pending > 0
        length, x = opt.state_dict()["gradient"]["length"], opt.x.copy()
        opt.change_units(Rescaling(1, 1, old, new))
        expected = np.zeros(COLUMNS + 1)
        for position, i in enumerate(range(cut - opt.pending, cut)):
            gradient = slopes[i] * in_units(rows, new)[i]
            expected += opt.gradient.weight(position, length) * gradient
        if opt.pending:
            found = opt.state_dict()["gradient"]["sum"]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(opt.x, Rescaling(1, 1, old, new).points(x))
        assert opt.samples == cut
    assert windows > 20


@pytest.mark.parametrize("shifted", [False, True])
def test_a_ladder_goes_on_in_new_units(shifted):
    """Its sums are those of the same samples' gradients in the new units.

    Squares of the columns are, too, as far as the old center was right; the sketch has no units.
    """
    samples, rng = 100, np.random.default_rng(7)
    rows, targets = rng.standard_normal((samples, COLUMNS)), rng.standard_normal(samples)
    old, new = units(5), units(6)
    if not shifted:
        new = new._replace(shift=old.shift)
    opt = mf.Ladder(np.ones(COLUMNS + 1), alpha=0.3, block=4)
    gradients = []
    for row, after, target in zip(in_units(rows, old), in_units(rows, new), targets, strict=True):
        slope = row @ opt.x - target
        gradients.append(slope * after)
        opt.tell(slope * row)
    before, change = opt.state_dict()["step"], Rescaling(1, 1, old, new)
    opt.change_units(change)
    state, g = opt.state_dict()["step"], np.array(gradients)
    np.testing.assert_allclose(state["weighted_sum"], g.sum(axis=0), rtol=1e-9, atol=1e-12)
    for point in ("origin", "mean", "before"):
        np.testing.assert_array_equal(state[point], change.points(before[point]))
    for name in ("halves", "carry", "totals"):
        np.testing.assert_array_equal(state[name], before[name])
    if not shifted:
        np.testing.assert_allclose(state["squares"], (g**2).sum(axis=0), rtol=1e-9)


def test_methods_whose_state_has_units_are_refused():
    """Catches rows of a block that are replayed in old units."""
    with pytest.raises(ValueError, match="does not work with sgd-er, which replays"):
        Learner(Squared(), COLUMNS, "sgd-er", scale="running", options={"mixing_time": 2})
