"""Tables and streams of batches are learnt as the rows of a file."""

from functools import partial

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from mixfree.linear.losses import Huber
from mixfree.sklearn import StreamClassifier, StreamRegressor, fit_parts
from mixfree.streams import StreamFit
from tests.helpers import assert_same_bits, run_command

ROWS = 900


def rows_in_order():
    """Dates, a category that appears late, gaps, a constant, and rows without a target."""
    rng = np.random.default_rng(0)
    t = np.datetime64("2024-01-01", "us") + np.arange(ROWS) * np.timedelta64(1, "h")
    x, sky = rng.normal(size=ROWS), np.where(np.arange(ROWS) < 600, "sun", "rain").astype(object)
    sky[rng.random(ROWS) < 0.1] = "fog"
    y = x + 2.0 * (sky == "rain") + np.arange(ROWS) % 24 + rng.normal(size=ROWS)
    gap = pa.array(x, mask=rng.random(ROWS) < 0.1)
    target = pa.array(y, mask=np.arange(ROWS) % 50 == 7)
    return pa.table({"t": t, "x": gap, "sky": sky, "one": np.ones(ROWS), "y": target})


TABLE = rows_in_order()
SOURCES = {
    "table": lambda table: table,
    "reader": lambda table: table.to_reader(max_chunksize=70),
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: pl.from_arrow(table),
    "lazy": lambda table: pl.from_arrow(table).lazy().filter(pl.col("one") > 0),
    "duckdb": lambda rows: duckdb.sql("select * from rows order by t"),
}


@pytest.fixture(scope="module")
def from_file(tmp_path_factory):
    """The fits that the command line makes of the same rows in a file."""
    folder = tmp_path_factory.mktemp("fits")
    pa.parquet.write_table(TABLE, folder / "d.parquet")

    def fit(loss):
        given = ["--target", "y", "--loss", loss, "--model", folder / loss, "-q"]
        assert run_command("fit", folder / "d.parquet", *given) == 0
        return StreamFit.load(folder / loss)

    return fit


@pytest.mark.parametrize("kind", SOURCES)
def test_every_engine_gives_the_weights_of_the_file(from_file, kind):
    """Catches an order of its own, batches that are lost, and columns decided by the first rows."""
    fit = from_file("squared")
    model = StreamRegressor().fit(SOURCES[kind](TABLE), target="y")
    assert model.encoder_.get_feature_names_out().tolist() == fit.model.features
    np.testing.assert_allclose(model.learner_.weights, fit.model.learner.weights, rtol=1e-12)
    assert model.n_samples_seen_ == ROWS - 18
    expected = model.predict(TABLE)
    np.testing.assert_allclose(model.predict(SOURCES[kind](TABLE)), expected, rtol=1e-12)


def test_other_losses_and_the_ladder_as_from_a_file(from_file):
    fit = from_file("huber")
    model = StreamRegressor("huber").fit(SOURCES["reader"](TABLE), target="y")
    np.testing.assert_allclose(model.learner_.weights, fit.model.learner.weights, rtol=1e-9)
    ladder = StreamRegressor(method="ladder", epochs=2).fit(SOURCES["reader"](TABLE), target="y")
    assert (ladder.learner_.method, ladder.n_samples_seen_) == ("ladder", 2 * (ROWS - 18))
    assert np.isfinite(ladder.predict(TABLE)).all()


def test_categories_that_appear_later_grow():
    """Catches the columns of the first call, in which a later category has no weight."""
    known = TABLE.filter(pa.compute.is_valid(TABLE["y"]))
    whole = StreamRegressor().fit(known, target="y")
    X, y = known.drop_columns(["y"]), np.array(known["y"])
    named, given = StreamRegressor(), StreamRegressor()
    for start in range(0, len(y), 100):
        named.partial_fit(known.slice(start, 100), target="y")
        given.partial_fit(X.slice(start, 100).to_pandas(), y[start : start + 100])
    parts = fit_parts(StreamRegressor(), [known.slice(0, 500), known.slice(500)], target="y")
    assert "sky=rain" in whole.encoder_.get_feature_names_out()
    for model in (named, given, parts):
        assert model._names == whole._names
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(named.coef_, whole.coef_, rtol=1e-12, atol=1e-12)


def test_a_loaded_fit_continues_as_the_saved_one():
    """Catches rows that only a loaded fit predicts before it learns them, which takes long."""
    saved = StreamRegressor().partial_fit(TABLE, target="y")
    loaded = StreamRegressor().load_state_dict(saved.state_dict())
    for model in (saved, loaded):
        model.partial_fit(TABLE, target="y")  # weights to predict are due every 1,000 rows
    assert_same_bits(saved.state_dict(), loaded.state_dict())


@pytest.mark.parametrize(
    "labels", [["a", "b", "c"], [3, 5, 10], [-1.0, 2.0, 7.0], [False, True]], ids=str
)
def test_labels_come_back_as_they_were(labels):
    """Catches labels as texts, 10 sorted before 3, and places taken for labels."""
    y = np.array(labels)[np.searchsorted([0.0, 1.0][: len(labels) - 1], np.array(TABLE["x"]))]
    given = TABLE.drop_columns(["y"]).append_column("y", pa.array(y))
    model = StreamClassifier().fit(given.to_reader(max_chunksize=70), target="y")
    assert model.classes_.tolist() == labels
    likeliest = model.classes_[model.predict_proba(given)[:3].argmax(1)]
    assert model.predict(given).tolist()[:3] == likeliest.tolist()
    assert model.score(given, y) > 0.8
    loaded = StreamClassifier().load_state_dict(model.state_dict())
    np.testing.assert_array_equal(loaded.predict_proba(given), model.predict_proba(given))
    other = StreamClassifier().fit(given.drop_columns(["y"]), y)
    np.testing.assert_array_equal(other.coef_, model.coef_)


def test_weights_and_losses_of_any_kind():
    """Catches weights of other rows where targets are missing, and counts that are weighted."""
    weight = np.random.default_rng(3).integers(1, 4, ROWS)
    repeated = StreamRegressor().fit(TABLE.take(np.arange(ROWS).repeat(weight)), target="y")
    weighted = StreamRegressor().fit(TABLE, None, weight, target="y")
    parts = StreamRegressor().partial_fit(TABLE.slice(0, 300), target="y")
    parts.partial_fit(TABLE.slice(300), None, np.ones(600), target="y")
    unweighted = StreamRegressor(Huber()).fit(TABLE.to_reader(), target="y")
    huber = StreamRegressor("huber").fit(TABLE, target="y")
    plain = StreamRegressor().fit(TABLE, target="y")
    for one, other in ((weighted, repeated), (parts, plain), (unweighted, huber)):
        assert len(one._names) == len(other._names)  # which category is the reference may differ
        np.testing.assert_allclose(one.predict(TABLE), other.predict(TABLE), rtol=1e-7)
    loaded = StreamRegressor().load_state_dict(weighted.state_dict())
    np.testing.assert_array_equal(loaded.predict(TABLE), weighted.predict(TABLE))
    with pytest.raises(ValueError, match=r"sample_weight\.shape"):
        StreamRegressor().fit(TABLE, None, weight[1:], target="y")


def test_weights_of_the_classes_of_a_column():
    label = pa.array(np.where(np.array(TABLE["x"]) > 0.5, "high", "low"))
    given = TABLE.append_column("label", label)
    by_class = StreamClassifier(class_weight={"high": 3.0}).fit(given, target="label")
    rows = np.where(np.array(label) == "high", 3.0, 1.0)
    by_row = StreamClassifier().fit(given.drop_columns(["label"]), np.array(label), rows)
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    with pytest.raises(ValueError, match="class_weight='balanced' is for fit with y"):
        StreamClassifier(class_weight="balanced").fit(given, target="label")


def test_batches_are_read_one_after_the_other():
    """Catches a stream that is collected first: of 60 MB, a few are in memory at a time."""
    made = []

    def batches():
        rng = np.random.default_rng(0)
        for _ in range(60):
            x = rng.normal(size=(2, 62_500))
            made.append(pa.total_allocated_bytes())
            yield pa.record_batch({"x": pa.array(list(x[0])), "y": pa.array(list(x[0] + x[1]))})

    schema = pa.schema([("x", pa.float64()), ("y", pa.float64())])
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    model = StreamRegressor().fit(reader, target="y")
    assert model.n_samples_seen_ == 60 * 62_500
    assert max(made) - made[0] < 12e6


def used_up():
    reader = TABLE.to_reader()
    reader.read_all()
    return reader


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.fit(TABLE), r"target must be the column to predict, as in fit\(table, target"),
        (lambda m: m.fit(SOURCES["duckdb"](TABLE)), "target must be the column to predict"),
        (lambda m: m.fit(TABLE, target="yy"), "X: there is no target column 'yy'; did you mean"),
        (lambda m: m.fit(used_up(), target="y"), "X has no rows: a reader or a query can be read"),
        (lambda m: m.fit(TABLE, np.zeros(ROWS), target="y"), "give y or target, not both"),
        (lambda m: m.set_params(epochs=2).fit(TABLE, target="y"), "`epochs=2` is for iterative"),
        (lambda m: m.fit(TABLE, target="sky"), "'sky' is text, such as 'fog': StreamClassifier"),
        (lambda m: m.fit(TABLE.slice(7, 1), target="y"), "target"),
        (lambda m: m.fit({"x": [1, "a"], "y": [1, 2]}, target="y"), r"X\[name\].astype\(str\)"),
    ],
)
def test_what_cannot_be_learnt_is_named_and_changes_nothing(ask, message):
    model = StreamRegressor()
    with pytest.raises(ValueError, match=message):
        ask(model)
    assert not model.__sklearn_is_fitted__()


def test_a_refused_part_changes_nothing():
    """Catches sums and categories of the batches before the bad one, which would stay behind."""
    model = StreamRegressor().partial_fit(TABLE, target="y")
    before, coef = model.predict(TABLE), model.coef_
    bad = TABLE.slice(0, 50).set_column(1, "x", pa.array([1.0] * 49 + [np.inf]))
    bad = pa.concat_tables([TABLE.slice(600), bad])
    for given, message in (
        ({"X": bad, "target": "y"}, "X, row 1250, column 'x' is infinite"),
        ({"X": TABLE, "target": "x"}, "target must be 'y' as before, not 'x'"),
        ({"X": TABLE.drop_columns(["sky"]), "target": "y"}, "there is no column 'sky'"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(**given)
    np.testing.assert_array_equal(model.predict(TABLE), before)
    np.testing.assert_array_equal(model.coef_, coef)
    plain = StreamRegressor().fit(np.eye(3), np.arange(3.0))
    with pytest.raises(ValueError, match="target must not be given: the fit was begun with X and"):
        plain.partial_fit(TABLE, target="y")


def test_unknown_labels_name_the_rule():
    """Catches a label that is learnt as a gap, or an error that does not say what to type."""
    sorted_by_label = TABLE.drop_columns(["y"]).append_column(
        "y", pa.array(["a"] * 300 + ["b"] * 300 + ["c"] * 300)
    )
    assert len(StreamClassifier().fit(sorted_by_label, target="y").classes_) == 3
    long = pa.concat_tables([sorted_by_label.slice(0, 600)] * 20 + [sorted_by_label])
    message = r"'y' has labels \['c'\], which are not among the classes \['a', 'b'\]: name all"
    with pytest.raises(ValueError, match=message):
        StreamClassifier().fit(long.to_reader(), target="y")
    model = StreamClassifier().fit(long.to_reader(), target="y", classes=["a", "b", "c"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        StreamClassifier().partial_fit(sorted_by_label, target="y")


@pytest.mark.parametrize("labels", [None, ["a", "b"], ["a", "b", "c"]])
def test_scikit_learn_s_own_models_predict_the_same(labels):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 3))
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    make = partial(StreamRegressor, "robust") if labels is None else StreamClassifier
    model = make().fit(X, y if labels is None else np.array(labels)[y.clip(max=len(labels) - 1)])
    plain = model.to_sklearn()
    assert type(plain).__module__.startswith("sklearn.")
    for name in ("predict",) if labels is None else ("predict_log_proba", "decision_function"):
        found, expected = (getattr(each, name)(X) for each in (plain, model))
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_scikit_learn_s_own_model_of_a_table_has_the_names_of_its_features():
    model = StreamRegressor().fit(TABLE, target="x")
    plain = model.to_sklearn()
    assert plain.feature_names_in_.tolist() == model._names
    features = pa.table(dict(zip(model._names, model.encoder_.transform(TABLE).T, strict=True)))
    np.testing.assert_allclose(plain.predict(features.to_pandas()), model.predict(TABLE), rtol=1e-9)


def test_what_is_not_linear_has_no_plain_counterpart():
    """Catches a LinearRegression that predicts logarithms of counts."""
    with pytest.raises(ValueError, match=r"a fit with Poisson\(.* is no LinearRegression"):
        StreamRegressor("poisson").fit(np.eye(4), np.arange(4)).to_sklearn()


@pytest.mark.parametrize("kind", ["squared", "logistic", "poisson"])
def test_what_others_determine_has_no_weight_and_the_rest_has_intervals(kind):
    """Catches repeated categories and columns that take the intervals of their likes along."""
    rng, n = np.random.default_rng(0), 3000
    net, months = rng.choice(["fibre", "wire", "none"], n), rng.integers(1, 70, n)
    table = {"net": net, "months": months, "days": 30.0 * months + 1.0}
    for name in ("backup", "video"):
        table[name] = np.where(net == "none", "no net", rng.choice(["yes", "no"], n))
    size = 0.5 * (net == "fibre") - 0.02 * months
    y = {
        "squared": size + rng.normal(size=n),
        "logistic": rng.random(n) < 1.0 / (1.0 + np.exp(-size)),
        "poisson": rng.poisson(np.exp(size)),
    }[kind]
    make = StreamClassifier if kind == "logistic" else partial(StreamRegressor, loss=kind)
    order = rng.permutation(n)
    model = make().fit(pa.table(table), y)
    other = make().fit(pa.table({k: v[order] for k, v in table.items()}), y[order])
    names = model.encoder_.get_feature_names_out().tolist()
    assert len(names) == 5 and names == other.encoder_.get_feature_names_out().tolist()
    assert model.encoder_.left_out_ == {"days": "determined by columns before it"}
    assert np.isfinite(model.bse_).all() and (model.bse_ > 0.0).all()
    np.testing.assert_allclose(np.ravel(model.coef_), np.ravel(other.coef_), rtol=1e-7)
