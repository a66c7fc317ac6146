"""The estimators: bits, units, inputs and errors."""

import inspect

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from mixfree.linear.losses import Softmax
from mixfree.sklearn import StreamClassifier, StreamRegressor
from mixfree.steps.profile import BLOCK_AT_HALF, SUM_AT_HALF

ROWS, COLUMNS = 700, 6


def stream(seed=0, rows=ROWS):
    """Features that move as a slow walk, so that order matters."""
    rng = np.random.default_rng(seed)
    X = 0.1 * np.cumsum(rng.standard_normal((rows, COLUMNS)), axis=0)
    y = X @ np.arange(1.0, COLUMNS + 1) + 3.0 + 0.1 * rng.standard_normal(rows)
    return X, y


def three_classes(y):
    return np.array(["low", "middle", "top"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))]


def cuts(seed):
    rng = np.random.default_rng(seed)
    inner = np.sort(rng.choice(np.arange(1, ROWS), 9, replace=False))
    return zip([0, *inner], [*inner, ROWS], strict=True)


def bits(model):
    return np.asarray(model.coef_).tobytes() + np.asarray(model.intercept_).tobytes()


SETTINGS = [
    {},
    {"method": "adagrad", "output": "tail"},
    {"method": "sgd", "step_scale": 0.01, "l2": 0.1},
    {"method": "sgd-rer", "step_scale": 0.01, "options": {"mixing_time": 5}},
    {"method": "ladder", "scale": "running"},
    {"scale": "running", "method": "mag", "output": "tail"},
    {"scale": "running", "radius": 1.0, "method": "mag", "options": {"levels": None}},
    {"method": "ladder", "radius": 2.0, "fit_intercept": False},
    {"method": "ladder", "memory": 60, "draws": 2},
    {"method": "exact"},
    {"method": "exact", "fit_intercept": False},
    {"method": "exact", "half_life": 50},
    {"loss": "huber", "memory": 100},
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_chunks_give_the_same_bits_as_the_whole(settings, dtype):
    X, y = stream()
    X = X.astype(dtype)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, ROWS)
    whole = StreamRegressor(**settings).fit(X, y, sample_weight=weight)
    chunked = StreamRegressor(**settings)
    for start, stop in cuts(1):
        chunked.partial_fit(X[start:stop], y[start:stop], sample_weight=weight[start:stop])
    assert bits(chunked) == bits(whole)
    assert chunked.n_samples_seen_ == ROWS
    assert whole.coef_.dtype == dtype


@pytest.mark.parametrize("make", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("labels", [three_classes, lambda y: y > y.mean()], ids=["3", "2"])
def test_chunks_of_a_classifier_give_the_same_bits(labels, make):
    X, y = stream()
    labels = labels(y)
    whole = StreamClassifier(l2=0.01).fit(make(X), labels)
    chunked = StreamClassifier(l2=0.01)
    for start, stop in cuts(2):
        chunked.partial_fit(make(X[start:stop]), labels[start:stop], classes=np.unique(labels))
        assert np.isfinite(chunked.coef_).all()  # looking changes nothing
    assert bits(chunked) == bits(whole)
    np.testing.assert_allclose(chunked.predict_proba(X).sum(axis=1), 1.0)


def test_epochs_are_passes_in_the_same_order():
    X, y = stream()
    twice = StreamRegressor(method="ladder", epochs=2).fit(X, y)
    by_hand = StreamRegressor(method="ladder").partial_fit(X, y).partial_fit(X, y)
    assert bits(twice) == bits(by_hand)
    assert twice.n_samples_seen_ == 2 * ROWS


@pytest.mark.parametrize("method", ["mag", "sgd-rer"])
def test_sparse_rows_are_the_same_model(method):
    X, y = stream()
    X[np.random.default_rng(5).random(X.shape) < 0.7] = 0.0
    settings = {"method": method, "step_scale": 0.05, "scale": None}
    if method == "sgd-rer":
        settings["options"] = {"mixing_time": 4}
    dense = StreamRegressor(**settings).fit(X, y)
    sparse = StreamRegressor(**settings).fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-10)
    mixed = StreamRegressor(**settings).partial_fit(csr_array(X[:400]), y[:400])
    mixed.partial_fit(X[400:500], y[400:500]).partial_fit(csr_array(X[500:]), y[500:])
    np.testing.assert_allclose(mixed.coef_, dense.coef_, rtol=1e-10)


@pytest.mark.parametrize("place", ["X", "y", "sample_weight"])
def test_masked_values_are_refused(place):
    """Catches the numbers under a mask, learnt as if they had been measured."""
    X, y = stream()
    given = {"X": X, "y": y, "sample_weight": np.ones(ROWS)}
    model = StreamRegressor().fit(**given)
    given[place] = np.ma.masked_greater(given[place], 0.5)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=f"{place} has masked values"):
            learn(**given)
    if place == "X":
        with pytest.raises(ValueError, match="X has masked values"):
            model.predict(given["X"])


def test_classes_must_be_known():
    X, y = stream()
    with pytest.raises(ValueError, match="classes must be given"):
        StreamClassifier().partial_fit(X, y > 0)
    with pytest.raises(ValueError, match="only one class"):
        StreamClassifier().fit(X, np.ones(ROWS))
    model = StreamClassifier()
    with pytest.raises(ValueError, match="classes has only one class"):
        model.partial_fit(X, np.zeros(ROWS), classes=[0])
    with pytest.raises(ValueError, match=r"labels \[2\.0\], which are not among"):
        model.partial_fit(X, np.full(ROWS, 2.0), classes=[0, 1])
    assert model.partial_fit(X, 2 * (y > 0), classes=[0, 2]).n_samples_seen_ == ROWS


@pytest.mark.parametrize("estimator", [StreamRegressor, StreamClassifier])
def test_help_names_every_parameter_once(estimator):
    lines = inspect.getdoc(estimator).splitlines()
    for name in estimator().get_params():
        assert lines.count(name) == 1, name
    assert "{shared}" not in estimator.__doc__


@pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("row", [255, 300])
def test_a_value_that_is_not_finite_is_found_on_the_way(value, said, row):
    """Catches one that enters the units, at row 256 or later, or that is called too far away."""
    X, y = stream()
    model = StreamRegressor(method="ladder", memory=0).partial_fit(X[:100], y[:100])
    before, bad = bits(model), X.copy()
    bad[row, 2] = value
    with pytest.raises(ValueError, match=f"X contains {said}"):
        model.partial_fit(bad[100:], y[100:])
    assert bits(model) == before


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[s]", "i1", "U2"])
def test_a_state_keeps_the_kind_of_the_classes(kind):
    X, y = stream()
    labels = np.where(y > y.mean(), 7, 3).astype(kind)
    model = StreamClassifier().fit(X, labels)
    other = StreamClassifier().load_state_dict(model.state_dict())
    assert other.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="classes of the state must be two or more"):
        other.load_state_dict(model.state_dict() | {"classes": "ab"})
    other.partial_fit(X, labels)
    assert bits(other) == bits(model.partial_fit(X, labels))


def test_intervals_of_every_loss_have_a_row_per_weight():
    """Fits whose loss is not squared once had no intervals at all."""
    X, y = stream()
    two = StreamClassifier().fit(X, y > np.median(y) + np.random.default_rng(4).normal(size=ROWS))
    assert two.conf_int().shape == (COLUMNS + 1, 2)
    assert two.bse_.shape == (1, COLUMNS + 1)
    noisy = three_classes(y + 3.0 * np.random.default_rng(5).normal(size=ROWS))
    three = StreamClassifier().fit(X, noisy)
    assert three.conf_int().shape == (*three.bse_.shape, 2) == (3, COLUMNS + 1, 2)
    assert 0.0 < three.effective_rows_ < ROWS
    assert three.optimality_gap_ == 0.0
    few = StreamClassifier(memory=100).fit(X, noisy)
    assert few.optimality_gap_ == few.learner_.gap.upper > few.learner_.gap.estimate
    huber = StreamRegressor("huber").fit(X, y)
    low, high = huber.conf_int().T
    assert low.shape == huber.bse_.shape == (COLUMNS + 1,)
    assert (low[:-1] < huber.coef_).all() and (huber.coef_ < high[:-1]).all()
    found, low, high = huber.predict(X[:5], interval=0.9, interval_of="mean")
    assert found.shape == low.shape == high.shape == (5,)
    assert (low < found).all() and (found < high).all()
    without = StreamRegressor("huber", fit_intercept=False).fit(X, y)
    assert without.conf_int().shape == (COLUMNS, 2)


def test_memory_of_iterative_methods():
    """Caught: memory that is ignored or not the ladder's default, draws given to an exact fit."""
    X, y = stream(rows=3000)
    default, auto, kept, without = (
        StreamRegressor(method="ladder", memory=memory).fit(X, y)
        for memory in (None, "auto", "16KB", 0)
    )
    assert kept.learner_.optimizer.gradient.size == 16_000 // (8 * (COLUMNS + 2))
    assert bits(default) == bits(auto)
    assert len({bits(model) for model in (default, kept, without)}) == 3
    with pytest.raises(ValueError, match="`draws` is for iterative methods"):
        StreamRegressor(draws=2).fit(X, y)
    with pytest.raises(ValueError, match="memory does not go with sgd-rer"):
        StreamRegressor(method="sgd-rer", memory=9, options={"mixing_time": 5}).fit(X, y)


def unequal_classes(rows=600):
    rng = np.random.default_rng(5)
    y = (rng.random(rows) < 0.1).astype(int)
    return rng.standard_normal((rows, 2)) + y[:, None], y


@pytest.mark.parametrize("method", ["exact", "sgd"])
def test_weights_of_classes_are_weights_of_rows(method):
    """Weights of the wrong class, or instead of those of the rows, would give other fits."""
    X, y = unequal_classes()
    rows = np.random.default_rng(6).random(len(y))
    by_label = StreamClassifier(method=method, class_weight={1: 4.0}).fit(X, y, rows)
    by_row = StreamClassifier(method=method).fit(X, y, rows * np.where(y == 1, 4.0, 1.0))
    np.testing.assert_array_equal(by_label.coef_, by_row.coef_)
    stream = StreamClassifier(method=method, class_weight={1: 4.0})
    for part in (slice(0, 250), slice(250, None)):
        stream.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=rows[part])
    np.testing.assert_array_equal(stream.coef_, by_row.coef_)


def test_balanced_classes_count_the_same():
    """A fit that ignores the weights says the frequent class almost always."""
    X, y = unequal_classes()
    model = StreamClassifier(class_weight="balanced").fit(X, y)
    half = {label: len(y) / (2 * (y == label).sum()) for label in (0, 1)}
    np.testing.assert_array_equal(model.coef_, StreamClassifier(class_weight=half).fit(X, y).coef_)
    assert model.predict(X).mean() > 0.2 > StreamClassifier().fit(X, y).predict(X).mean()
    with pytest.raises(ValueError, match="class_weight='balanced' is for fit"):
        StreamClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="class_weight must be"):
        StreamClassifier(class_weight="even").fit(X, y)


@pytest.mark.parametrize("method", ["exact", "ladder", "mag"])
def test_the_estimator_tells_how_correlated_its_rows_are(method):
    """That of mag, which keeps no profile, must be None and no error."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((512, 2)), 8, axis=0)
    model = StreamRegressor(method=method, memory=None if method == "exact" else 0)
    model.fit(X, X[:, 0] + rng.standard_normal(512).repeat(8))
    if method == "mag":
        assert model.profile_ is model.correlation_scale_ is None
        return
    assert model.profile_.ratios.max() > 3.0
    at = SUM_AT_HALF if method == "exact" else BLOCK_AT_HALF
    assert model.correlation_scale_ == model.profile_.correlation_scale(at)


@pytest.mark.parametrize("method", ["exact", "ladder", "mag"])
def test_a_part_may_be_of_weight_0(method):
    """Catches a chunk that is refused because none of its rows counts."""
    rng = np.random.default_rng(8)
    X, weight = rng.standard_normal((300, 2)), np.repeat([0.0, 1.0, 0.0], 100)
    y = X @ [1.0, -1.0]
    whole = StreamRegressor(method=method).fit(X, y, sample_weight=weight)
    parts, classes = StreamRegressor(method=method), StreamClassifier(class_weight={0: 1, 1: 2})
    for part in (slice(0, 100), slice(100, 200), slice(200, 300)):
        parts.partial_fit(X[part], y[part], sample_weight=weight[part])
        classes.partial_fit(X[part], y[part] > 0, classes=[0, 1], sample_weight=weight[part])
    assert parts.coef_.tobytes() == whole.coef_.tobytes()
    assert classes.coef_[0, 0] > 0 > classes.coef_[0, 1]


def test_names_of_features_survive_a_state():
    """Catches names that are lost, or checked against the rows in another order."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    named = pa.table({"a": x[:, 0], "b": x[:, 1]})
    model = StreamRegressor().fit(named, x[:, 0])
    loaded = StreamRegressor().load_state_dict(model.state_dict())
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(loaded.predict(named), model.predict(named))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(named.select(["b", "a"]))
    state = model.state_dict() | {"feature_names_in": ["a"]}
    with pytest.raises(ValueError, match="must be 2 names"):
        loaded.load_state_dict(state)


def merged(x, y, **other):
    return StreamRegressor().fit(x, y).merge(StreamRegressor(**other).fit(x, y))


def fitted_in_parts(x, y):
    model = StreamClassifier().partial_fit(x, y > 0, classes=[False, True])
    return model.partial_fit(x, y > 0, classes=[0, 1, 2])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"loss": "cubic"}, "loss must be one of 'squared', 'huber', 'robust', 'poisson', not 'cu"),
        ({"loss": Softmax(3)}, "with one output"),
        ({"loss": "huber", "half_life": 5}, "squared"),
        ({"scale": "max"}, "scale must be one of 'auto', 'running', not 'max'"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"epochs": 5}, "`epochs=5` is for iterative methods"),
        ({"memory": 64}, "`memory=64` keeps rows, and the exact fit with the squared loss needs "),
        ({"l2": -1.0}, "l2 must be at least 0 and finite, not -1.0"),
        ({"method": "mag", "radius": 0.0}, "radius must be positive and finite, not 0.0"),
        ({"radius": 1.0}, "`radius` is for iterative methods, such as `method='ladder'`"),
        ({"scale": "running", "method": "sgd-er", "options": {"mixing_time": 2}}, "replays"),
        ({"method": "emd"}, r"emd .* give `mixing_time`, as in options=\{"),
        (lambda x, y: StreamClassifier("squared").fit(x, y > 0), "of 'logistic', not 'squared'"),
        (
            lambda x, y: StreamRegressor().fit(x, y).predict(x, interval=95),
            "interval must be between 0 and 1, not 95",
        ),
        (lambda x, y: merged(x, y, method="mag"), "'exact', but this model was fitted by 'mag'"),
        (lambda x, y: merged(x, y, loss="huber"), "cannot merge a fit with Huber"),
        (
            lambda x, y: StreamClassifier().fit(x, np.array([*["a", "b"] * 24, "c", None])),
            "labels must be all texts or all numbers, without gaps",
        ),
        (fitted_in_parts, r"classes must be \[False, True\] as before, not \[0, 1, 2\]"),
    ],
)
def test_what_is_wrong_is_named(wrong, message):
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises((ValueError, AttributeError), match=message):
        StreamRegressor(**wrong).fit(x, x[:, 0]) if isinstance(wrong, dict) else wrong(x, x[:, 0])
