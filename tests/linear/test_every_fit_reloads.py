"""Every model that a fit writes loads, predicts the same bits and goes on."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import mixfree as mf
from mixfree.core.optimizer import GradientRefused
from mixfree.linear.losses import Huber
from mixfree.sklearn import StreamClassifier, StreamRegressor
from tests.helpers import needed

CLASSES = {"logistic": 2, "softmax": 3}
EXACT = {
    "squared": {},
    "squared, small memory": {"memory": "20KB"},
    "squared, half-life": {"half_life": 300.0},
    "squared, half-lives": {"half_life": "auto"},
    "huber": {"loss": "huber"},
    "huber, memory": {"loss": Huber(0.05), "memory": 64},
    "robust, memory": {"loss": "robust", "memory": 64},
    "logistic": {},
    "logistic, memory": {"memory": 64},
    "softmax": {},
    "softmax, memory": {"memory": 64},
}
STEPS = {name: {"method": name, "options": needed(name, 4) or None} for name in mf.methods()}
STEPS |= {f"{name}, memory": {"method": name, "memory": 64} for name in ("ladder", "mag")}
STEPS |= {f"{name}, sparse": {"method": name} for name in ("ladder", "mag")}


def column(rng, t):
    """A column as real tables have them."""
    n, length = len(t), int(rng.choice([3, 100, 1440]))
    kinds = (
        rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4),
        t // length % 2 * rng.choice([0.1, 1.0, 19.99]),  # constant in blocks
        t // length % 7 * 0.1,  # a weekday
        1.7e9 + 60.0 * t,  # seconds since 1970
        (rng.random(n) < 2.0 / max(n, 100)).astype(float),  # a rare indicator
        np.full(n, rng.choice([0.0, 0.1, 1e6 + 0.1])),
        np.where(t > 0.9 * n, np.round(20.0 + rng.standard_normal(n), 1), 20.1),  # on late
        1e3 + 0.01 * np.cumsum(rng.random(n) < 0.001),  # a price that changes rarely
    )
    return kinds[rng.integers(len(kinds))]


def stream(seed, classes=None):
    """Rows, targets and weights of a random stream."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 5, 40, 300, 3000, 10_000], p=[0.05, 0.05, 0.1, 0.1, 0.2, 0.2, 0.3]))
    n = max(n, 5) if classes else n
    t = np.arange(n)
    columns = [column(rng, t) for _ in range(rng.integers(1, 7))]
    columns += [columns[0] * rng.choice([1.0, 3.0])] * int(rng.random() < 0.3)
    x = np.column_stack(columns)
    size = np.abs(x).max(axis=0)
    y = (x / np.where(size > 0.0, size, 1.0)) @ rng.standard_normal(x.shape[1])
    y = y + rng.choice([0.0, 0.1, 1.0]) * rng.standard_normal(n)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)).astype(float)
        y[:classes] = np.arange(classes)
    elif rng.random() < 0.3:
        y = np.round(1e5 + y)
    weights = rng.choice([0.0, 1.0, 0.3, 2.5], n) if rng.random() < 0.2 else None
    if weights is not None:
        weights[:5] = 1.0
    return x.astype(np.float32 if rng.random() < 0.1 else np.float64), y, weights


def frozen(state):
    """A state in a form in which equal means: the same types, shapes and bits."""
    if isinstance(state, dict):
        return {name: frozen(each) for name, each in state.items()}
    if isinstance(state, list | tuple):
        return [type(state), *map(frozen, state)]
    if isinstance(state, np.ndarray | np.generic):
        return type(state), state.dtype.str, state.shape, state.tobytes()
    return type(state), state


def check(name, settings, seed):
    """Fit part of a stream, load the model into another, and go on with both."""
    classes = next((count for loss, count in CLASSES.items() if loss in name), None)
    x, y, weights = stream(seed, classes)
    intercept = seed % 5 > 0
    make = StreamClassifier if classes else StreamRegressor
    first = {"classes": np.arange(float(classes))} if classes else {}
    one, other = (make(**settings, fit_intercept=intercept) for _ in range(2))
    x = csr_array(x) if "sparse" in name else x
    cut = int(np.random.default_rng(seed).integers(1, len(y) + 1))
    for part in (slice(0, cut), slice(cut, None)):
        if len(y[part]):
            given = None if weights is None else weights[part]
            try:
                one.partial_fit(x[part], y[part], sample_weight=given, **first)
            except GradientRefused:  # steps of a fixed scale have led away
                return
            if part.start:
                other.partial_fit(x[part], y[part], sample_weight=given)
                assert frozen(other.state_dict()) == frozen(one.state_dict())
        other.load_state_dict(one.state_dict())
        assert frozen(other.state_dict()) == frozen(one.state_dict())
        assert other.predict(x[:50]).tobytes() == one.predict(x[:50]).tobytes()
        first = {}


@pytest.mark.parametrize("name", [*EXACT, *STEPS])
def test_every_fit_reloads(name):
    """Squares that rounding made negative, and scalars that came back as arrays."""
    settings = {**EXACT, **STEPS}[name]
    for seed in range(7 if name in EXACT and "softmax" not in name else 2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check(name, settings, seed)
