"""Merged fits of parts equal the fit of all rows, in whichever process the parts are."""

import dask
import numpy as np
import pyarrow as pa
import pytest

from mixfree.sklearn import StreamClassifier, StreamRegressor, fit_parts


def stream(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal([0.0, 1e3, -5.0], size=(rows, 3))
    return x, x @ [1.0, 2.0, -1.0] + rng.normal(size=rows), rng.integers(1, 4, rows)


def cut(*arrays, places=(500, 500, 1700)):
    return list(zip(*(np.split(array, places) for array in arrays), strict=True))


def frames(x, y):
    parts = (pa.table({"y": b, **{f"x{k}": a[:, k] for k in range(3)}}) for a, b in cut(x, y))
    return [part for part in parts if len(part)]


def test_parts_are_fitted_as_one_stream_weights_and_empty_parts_included():
    x, y, w = stream()
    whole = StreamRegressor().fit(x, y, w)
    model = StreamRegressor()
    found = fit_parts(model, iter(cut(x, y, w)))
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-10)
    assert found.n_samples_seen_ == 3000
    assert not hasattr(model, "n_features_in_")  # the model given stays as it is


@pytest.mark.parametrize("named", [False, True])
def test_delayed_parts_are_computed_by_dask(named):
    """The target taken for a feature, or parts merged out of order, would be another fit."""
    x, y, _ = stream()
    whole = StreamRegressor().fit(x, y)
    parts = frames(x, y) if named else cut(x, y)
    lazy = [dask.delayed(part) for part in parts]
    collection = type("Collection", (), {"to_delayed": lambda self: lazy})()
    with dask.config.set(scheduler="threads", num_workers=2):
        found = fit_parts(StreamRegressor(), collection, target="y" if named else None)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-10)


@pytest.mark.parametrize("lazy", [(0, 2), (1, 3), (0, 1)])
def test_delayed_and_computed_parts_stay_in_their_order(lazy):
    """Parts that wait for Dask and are merged last would give other intervals."""
    x, y, w = stream()
    whole = fit_parts(StreamRegressor(), cut(x, y, w))
    parts = [dask.delayed(p) if i in lazy else p for i, p in enumerate(cut(x, y, w))]
    with dask.config.set(scheduler="synchronous"):
        found = fit_parts(StreamRegressor(), parts)
    np.testing.assert_array_equal(found.coef_, whole.coef_)
    np.testing.assert_array_equal(found.bse_, whole.bse_)


def test_a_class_may_be_missing_in_a_part_if_all_are_given():
    x, y, _ = stream()
    labels = np.where(y > np.median(y), "high", "low")
    labels[:1700] = "low"
    whole = StreamClassifier().fit(x, labels)
    parts = cut(x, labels)
    found = fit_parts(StreamClassifier(), parts, classes=["high", "low"])
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)
    one, other = (StreamClassifier().fit(x, each) for each in (labels, y > np.median(y)))
    with pytest.raises(ValueError, match="cannot merge a fit of the classes"):
        one.merge(other)


def test_nothing_to_fit():
    with pytest.raises(ValueError, match="parts must have at least one row"):
        fit_parts(StreamRegressor(), [])
