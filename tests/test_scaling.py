"""The running scale: its statistics, its units, and how they change."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear import advance_linear
from mixfree.losses import Squared, linear_gradient, predictions
from mixfree.scaling import (
    LIMIT,
    RunningScale,
    Units,
    change_units,
    gradients_in,
    original,
    points_in,
    points_kept,
)

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
        piece = scale.take(rows)
        found.extend(piece)
        rows = rows[len(piece) :]
        scale.change()
    return np.array(found)


@pytest.mark.parametrize("centred", [True, False])
def test_twin_of_the_definition(centred):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, COLUMNS)) * [1e-3, 1.0, 1e3, 0.0] + [0.0, 5.0, 0.0, 7.0]
    rows[200, 1] = 1e6  # far outside, between two powers of two
    found = standardised(RunningScale(COLUMNS, centred), rows)
    np.testing.assert_allclose(found, reference(rows, centred), rtol=1e-7, atol=1e-9)
    assert np.abs(found).max() <= LIMIT * (1.0 + 1e-12)


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
    moved = points_in(x, outputs, old, new)
    np.testing.assert_allclose(
        predictions(moved, (rows - new.shift) / new.scale, outputs), before, rtol=1e-10
    )
    np.testing.assert_allclose(points_in(moved, outputs, new, old), x, rtol=1e-10)
    # A gradient is slope · row, and rows change units as they are standardised.
    slope = rng.standard_normal(outputs)
    gradients = [
        np.hstack(
            [s * np.append((rows[0] - u.shift) / u.scale, np.ones(intercepts)) for s in slope]
        )
        for u in (old, new)
    ]
    np.testing.assert_allclose(
        gradients_in(gradients[0], outputs, old, new), gradients[1], rtol=1e-9
    )


def test_weights_shrink_where_the_scale_grew():
    old, new = original(COLUMNS), Units(np.zeros(COLUMNS), np.array([1.0, 10.0, 0.5, 1.0]))
    kept = points_kept(np.ones(COLUMNS), 1, old, new)
    np.testing.assert_allclose(kept, [1.0, 0.1, 0.5, 1.0])


@pytest.mark.parametrize("name", ["mag", "ladder"])
def test_a_pending_window_goes_on_in_new_units(name):
    """After a change of scale the next step is along the gradient in the new units."""
    rng = np.random.default_rng(4)
    rows, targets = rng.standard_normal((40, COLUMNS)), rng.standard_normal(40)
    old, new = original(COLUMNS), Units(np.zeros(COLUMNS), np.full(COLUMNS, 0.5))
    opt = mf.methods()[name](np.zeros(COLUMNS))
    advance_linear(opt, Squared(), rows, targets)
    row, target = rows[0], targets[0]
    slope = Squared().derivative(row @ opt.x, target)
    change_units(opt, 1, old, new)
    gradient = linear_gradient(Squared(), opt.x, row / 0.5, target)
    np.testing.assert_allclose(gradient, slope * row / 0.5, rtol=1e-9)  # the same function
    assert opt.samples == 40


def test_replaying_methods_are_refused():
    opt = mf.SGDER(np.zeros(COLUMNS), mixing_time=2)
    with pytest.raises(ValueError, match="does not go with sgd-er"):
        change_units(opt, 1, original(COLUMNS), units(0))
