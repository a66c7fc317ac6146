"""The transformer that encodes a table as ``mixfree fit`` encodes a file."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline

from mixfree.sklearn import StreamEncoder, StreamRegressor
from mixfree.streams import StreamFit
from tests.helpers import run_command

ROWS = 600


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    times = np.datetime64("2019-11-20", "us") + np.arange(ROWS) * np.timedelta64(1, "h")
    return pa.table(
        {
            "No": np.arange(ROWS),
            "when": [f"{time:%d/%m/%Y %H:%M}" for time in times.tolist()],
            "city": [f"c{number}" for number in rng.integers(0, 200, ROWS)],
            "x": rng.standard_normal(ROWS),
            "y": rng.standard_normal(ROWS) + np.arange(ROWS) % 24,
        }
    )


def test_a_pipeline_gives_the_weights_of_the_command_line(tmp_path, table):
    """An encoder of its own would choose other columns or other categories."""
    pa.csv.write_csv(table, tmp_path / "d.csv")
    given = ["--target", "y", "--time", "cyclic", "--model", tmp_path / "m", "-q"]
    assert run_command("fit", tmp_path / "d.csv", *given) == 0
    fit = StreamFit.load(tmp_path / "m")
    pipeline = make_pipeline(StreamEncoder(time="cyclic"), StreamRegressor())
    pipeline.fit(table.drop_columns(["y"]), np.array(table["y"]))
    assert pipeline[0].get_feature_names_out().tolist() == fit.model.features
    assert pipeline[0].left_out_ == {"No": "row numbers"} == fit.model.design.left_out
    found = pipeline[1].learner_.weights
    np.testing.assert_allclose(found, fit.model.learner.weights, rtol=1e-9, atol=1e-12)


def test_missing_values_have_the_mean(table):
    x = table["x"].to_pylist()
    x[7] = None
    gaps = pa.table({"x": x, "z": table["y"]})
    filled = StreamEncoder().fit_transform(gaps)
    assert filled[7, 0] == pytest.approx(np.mean([v for v in x if v is not None]), rel=1e-12)


def test_views_of_strings_as_polars_has_them(tmp_path, table):
    """PyArrow cannot do with them what it does with strings: an error in it, or a column left out.

    Files of Arrow that Polars writes have them, too.
    """
    words = pa.array(table["city"].to_pylist(), pa.string_view())
    index = pa.array(np.arange(ROWS) % 2, pa.int32())
    coded = pa.DictionaryArray.from_arrays(index, pa.array(["u", "v"], pa.string_view()))
    views = table.select(["x", "y"]).append_column("city", words).append_column("code", coded)
    plain = views.set_column(2, "city", table["city"])
    plain = plain.set_column(3, "code", pa.array(["u", "v"] * (ROWS // 2)))
    expected = StreamEncoder().fit(plain).transform(plain)
    np.testing.assert_array_equal(StreamEncoder().fit(views).transform(views), expected)
    with pa.ipc.new_file(tmp_path / "d.arrow", views.schema) as file:
        file.write_table(views)
    given = ["--target", "y", "--model", tmp_path / "m", "-q"]
    assert run_command("fit", tmp_path / "d.arrow", *given) == 0
    features = StreamFit.load(tmp_path / "m").model.features
    names = StreamEncoder().fit(plain.drop_columns(["y"])).get_feature_names_out()
    assert features == names.tolist()


def test_matrices_and_a_column_without_a_name(table):
    """Catches the name that the encoder gave to a target which it does not have."""
    encoder = StreamEncoder(exclude=["c*"]).fit(table.to_reader())
    assert encoder.get_feature_names_out().tolist()[-2:] == ["x", "y"]
    named = {"": [1.0, 2.0, 5.0], "x": [1.0, 0.0, 0.0]}
    matrix = np.c_[*named.values()]
    for given in (named, matrix):
        np.testing.assert_array_equal(StreamEncoder().fit_transform(given), matrix)


def test_a_record_batch_is_encoded_as_its_table(table):
    """Catches a batch taken as it is, whose dictionaries and structs would be left out."""
    coded = table.set_column(2, "city", table["city"].dictionary_encode())
    inner = pa.StructArray.from_arrays([coded["x"].combine_chunks()], ["x"])
    nested = coded.set_column(3, "inner", inner).combine_chunks()
    (batch,) = nested.to_batches()
    encoder = StreamEncoder().fit(nested)
    assert "inner.x" in encoder.get_feature_names_out()
    assert any(name.startswith("city=") for name in encoder.get_feature_names_out())
    np.testing.assert_array_equal(StreamEncoder().fit_transform(batch), encoder.transform(nested))


def test_parts_may_begin_with_a_single_row(table):
    """Catches a refusal of a first part in which every column is constant."""
    encoder, whole = StreamEncoder().partial_fit(table[:1]), StreamEncoder().fit(table)
    assert encoder.transform(table).shape == (ROWS, 0)
    found = encoder.partial_fit(table[1:]).transform(table)
    np.testing.assert_array_equal(found, whole.transform(table))


def test_tables_that_cannot_be_encoded(table):
    encoder = StreamEncoder().fit(table)
    with pytest.raises(ValueError, match="X has no column 'x'"):
        encoder.transform(table.drop_columns(["x"]))
    with pytest.raises(ValueError, match="X must have 2 dimensions, not 1"):
        encoder.transform(np.zeros(3))
    with pytest.raises(
        TypeError, match="X must be a table that PyArrow can convert, not coo_array"
    ):
        encoder.transform(sparse.coo_array((2, 2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "drop"}, "missing must be one of 'auto', 'error'"),
        ({"time": "daily"}, "time must be one of"),
        ({"hash_columns": -1}, "hash_columns must be a whole number"),
        ({"exclude": ["q*"]}, "there is no column 'q\\*'"),
        ({"exclude": ["*"]}, "X has no column to learn from"),
    ],
)
def test_what_is_refused_changes_nothing(table, options, message):
    encoder = StreamEncoder(**options)
    with pytest.raises(ValueError, match=message):
        encoder.partial_fit(table)
    assert not hasattr(encoder, "encoder_")


def test_refused_rows_change_nothing(table):
    """Means or counts of the rows before the bad one would stay behind."""
    gaps = table.to_pydict()
    gaps["city"][3], gaps["x"][9] = "new", None
    begun = StreamEncoder(missing="error").partial_fit(table)
    before = begun.encoder_.state_dict()
    for see in (begun.partial_fit, begun.transform, StreamEncoder(missing="error").fit):
        with pytest.raises(ValueError, match="X, row 10, column 'x' is missing"):
            see(pa.table(gaps))
    begun.transform(table)
    after = begun.encoder_.state_dict()
    assert pickle.dumps(before) == pickle.dumps(after)
