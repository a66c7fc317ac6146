"""``mixfree predict`` and ``inspect``, and what ``mixfree fit`` says about a stream."""

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from mixfree.base import files
from mixfree.steps import Profile
from mixfree.streams import StreamFit
from mixfree.streams.fit import model_file
from mixfree.streams.predict import ENDINGS
from mixfree.streams.report.correlation import Correlation
from mixfree.streams.report.facts import Facts
from tests.streams.data import run, table, write


def json_of(capsys, *arguments):
    capsys.readouterr()
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def said_of(capsys, tmp_path, data):
    """Fit a table; return the model file and what is printed."""
    path = write(data, tmp_path / "d.parquet")
    assert run("fit", path, "--target", "y", "--model", tmp_path / "m", "-q") == 0
    return tmp_path / "m", capsys.readouterr().out


def test_a_model_without_features_predicts_every_row(tmp_path, capsys):
    """Catches rows counted by their features alone."""
    data = pa.table({"one": np.ones(30), "y": np.arange(30.0)})
    model, _ = said_of(capsys, tmp_path, data)
    for path in (write(data, tmp_path / "new.csv"), tmp_path / "d.parquet"):
        assert run("predict", model, path, "-o", tmp_path / "p.csv") == 0
        found = pa.csv.read_csv(tmp_path / "p.csv")["prediction"]
        np.testing.assert_allclose(found, np.full(30, 14.5))


LADDER = ["--method", "ladder", "--set", "scale=running"]


@pytest.fixture
def fitted(tmp_path):
    path = write(table(), tmp_path / "d.parquet")
    assert run("fit", path, "--target", "load", "--model", tmp_path / "m", "-q") == 0
    return path, tmp_path / "m"


def rows(fit):
    """Return the features of the table, by their names."""
    columns = {name: np.asarray(table()[name]) for name in table().column_names}
    texts = {f"colour={text}": columns["colour"] == text for text in set(columns["colour"])}
    return np.column_stack([(columns | texts)[name] for name in fit.model.features]).astype(float)


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_predictions_are_those_of_the_estimator(tmp_path, fitted, ending):
    data, model = fitted
    out = tmp_path / f"p.{ending}"
    assert run("predict", model, data, "-o", out, "--keep", "u") == 0
    readers = {
        "parquet": pa.parquet.read_table,
        "csv": pa.csv.read_csv,
        "arrow": lambda path: pa.ipc.open_file(path).read_all(),
    }
    found = readers[ending](str(out))
    fit = StreamFit.load(model)
    expected = fit.model.learner.predict(rows(fit))
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-12)
    np.testing.assert_array_equal(found["u"], table()["u"])


def test_columns_are_copied_without_losing_a_character(tmp_path):
    """Catches identifiers copied as numbers, of which 00123 becomes 123, and lost units."""
    texts = ["00123", "12345678901234567891", "7%", "1,5"]
    path, out = tmp_path / "d.csv", tmp_path / "p.parquet"
    path.write_text("x;y\n" + "".join(f"{i % 7};{2 * (i % 7)}\n" for i in range(50)))
    assert run("fit", path, "--target", "y", "--model", tmp_path / "m", "-q") == 0
    path.write_text("x;k\n" + "".join(f"{i};{text}\n" for i, text in enumerate(texts)))
    assert run("predict", tmp_path / "m", path, "-o", out, "--keep", "k,x") == 0
    found = pa.parquet.read_table(out).to_pydict()
    assert (found["k"], found["x"]) == (texts, ["0", "1", "2", "3"])
    assert found["prediction"] == pytest.approx([0.0, 2.0, 4.0, 6.0], abs=1e-9)


def test_a_column_to_copy_changes_its_type(tmp_path, fitted, capsys):
    """Catches the writer's own error, and texts written without quotation marks to a CSV file."""
    for number, k in enumerate([["a,b", "c"], [1.5, 2.0], [[1], []]]):
        data = table(2).append_column("k", pa.array(k))
        pa.parquet.write_table(data, tmp_path / f"k{number}.parquet")

    def predict(*names):
        paths = (tmp_path / f"{name}.parquet" for name in names)
        return run("predict", fitted[1], *paths, "-o", tmp_path / "p.parquet", "--keep", "k")

    assert predict("k0", "k1") == 0
    found = pa.parquet.read_table(tmp_path / "p.parquet")["k"].to_pylist()
    assert found == ["a,b", "c", "1.5", "2"]
    assert predict("k1", "k2") == 2
    said = r"k2.parquet: .* to double .*: remove columns that change their type from --keep"
    assert re.search(said, capsys.readouterr().err)


def test_predictions_with_intervals(tmp_path, fitted, capsys):
    """Catches intervals of means for those of rows, and the reverse."""
    data, model = fitted
    out = ["-o", tmp_path / "p.parquet", "--interval"]
    fit = StreamFit.load(model)
    learner, x = fit.model.learner, rows(fit)
    of_rows = learner.ahead.ends(learner.loss, learner.predict(x), 0.9)
    of_means = learner.mean_interval(x, 0.9)
    for kind, mark, ends in (("row", "", of_rows), ("mean", "mean_", of_means)):
        assert run("predict", model, data, *out, 0.9, "--interval-of", kind) == 0
        found = pa.parquet.read_table(tmp_path / "p.parquet")
        for name, end in zip(("lower", "upper"), ends, strict=True):
            np.testing.assert_allclose(found[mark + name], end, rtol=1e-9)
    assert run("predict", model, data, *out, 1.5) == 2
    assert "--interval must be between 0 and 1, not 1.5" in capsys.readouterr().err
    assert run("fit", data, "--target", "load", "--model", model, "-q", "--half-life", 99) == 0
    assert run("predict", model, data, *out, 0.9, "--force") == 0
    assert run("predict", model, data, *out, 0.9, "--interval-of", "mean", "--force") == 2
    assert "needs a model without a half-life" in capsys.readouterr().err
    assert run("fit", data, "--target", "load", "--model", model, "-q", *LADDER) == 0
    assert run("predict", model, data, *out, 0.9, "--force") == 2
    assert "--interval needs a model of the method exact" in capsys.readouterr().err


def test_missing_values_in_a_prediction(tmp_path, fitted, capsys):
    """Every policy writes as many rows as it reads; the means are those of the training rows."""
    data = table().to_pydict()
    data["u"][7] = data["colour"][8] = None
    path, model = write(pa.table(data), tmp_path / "gaps.csv"), fitted[1]
    options = ["-o", tmp_path / "p.parquet"]
    assert run("predict", model, path, *options, "--missing", "error") == 2
    error = capsys.readouterr().err
    assert "gaps.csv, row 8, column 'u' is missing; --missing skip" in error
    assert run("predict", model, path, *options, "--missing", "skip") == 0
    assert "3,000 rows, 2 of them without a prediction" in capsys.readouterr().out
    found = pa.parquet.read_table(tmp_path / "p.parquet")["prediction"]
    assert [place for place in range(len(found)) if found[place].as_py() is None] == [7, 8]
    alone = ["-o", tmp_path / "p.csv", "--missing", "skip"]
    assert run("predict", model, path, *alone) == 0
    assert len(pa.csv.read_csv(tmp_path / "p.csv")) == 3000
    capsys.readouterr()
    assert run("predict", model, path, *options) == 0
    assert "3,000 rows, 0 of them without a prediction" in capsys.readouterr().out
    fit, found = StreamFit.load(model), pa.parquet.read_table(tmp_path / "p.parquet")["prediction"]
    row = rows(fit)[7:9]
    row[0, fit.model.features.index("u")] = np.mean(table()["u"])
    texts = [name.startswith("colour=") for name in fit.model.features]
    row[1, texts] = rows(fit)[:, texts].mean(axis=0)
    expected = fit.model.learner.predict(row)
    assert [each.as_py() for each in found[7:9]] == pytest.approx(expected, rel=1e-12)


def test_a_prediction_that_would_overflow_is_refused(tmp_path, capsys):
    x = np.arange(50.0)
    model, _ = said_of(capsys, tmp_path, pa.table({"x": x, "y": 1000.0 * x}))
    x[7] = -1.7e308
    huge = write(pa.table({"x": x}), tmp_path / "huge.csv")
    assert run("predict", model, huge, "-o", tmp_path / "p.csv") == 2
    said = "huge.csv, row 8, has values too large to predict"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_unknown_categories_are_counted(tmp_path, fitted, capsys):
    data = table().to_pydict()
    data["colour"][3] = data["colour"][9] = "violet"
    path = write(pa.table(data), tmp_path / "new.parquet")
    for _ in range(2):  # the model file does not remember the first time
        assert run("predict", fitted[1], path, "-o", tmp_path / "p.csv") == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == "2 rows with an unknown category in 'colour'"


def test_texts_instead_of_numbers_are_counted(tmp_path, capsys):
    """Catches the mean in place of numbers with another decimal separator, without a word."""
    x = np.arange(20) / 4
    model, _ = said_of(capsys, tmp_path, pa.table({"x": x, "y": 2 * x}))
    (tmp_path / "new.csv").write_text("x;y\n1;2\n1,25;2,5\n1,5;3\n")
    assert run("predict", model, tmp_path / "new.csv") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    place = f"{tmp_path / 'new.csv'}, row 2, column 'x' is '1,25'"
    assert last == f"2 values treated as missing, the first: {place}"


def test_predict_refuses(tmp_path, fitted, capsys):
    """Catches what would be found only after all rows are predicted."""
    data, model = fitted
    model_file.save(tmp_path / "other", {"kind": "recipe"})
    named = write(table().append_column("prediction", table()["u"]), tmp_path / "named.parquet")
    out = ["-o", tmp_path / "p.csv"]
    for arguments, said in (
        ([data, data, *out], "is not a mixfree model file"),
        ([tmp_path / "other", data, *out], "contains a 'recipe', not a 'stream fit'"),
        ([model, data, "-o", tmp_path / "p.xls"], "must end in .parquet, .csv, .arrow"),
        ([model, named, *out, "--keep", "u,prediction"], "keep must not contain 'prediction'"),
        ([model, data, *out, "--missing", "drop"], "missing must be one of 'auto', 'skip'"),
    ):
        assert run("predict", *arguments) == 2
        assert said in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["d.parquet", "m", "named.parquet", "other"]
    assert run("predict", model, data) == 0
    assert len(pa.parquet.read_table(tmp_path / "d-predictions.parquet")) == 3000


def test_a_place_that_cannot_be_written_is_named_before_the_fit(
    tmp_path, fitted, capsys, monkeypatch
):
    """Catches the name of a temporary file, and a fit that is lost when it is saved."""
    data, model = fitted

    def refuse(dir):
        raise PermissionError(errno.EACCES, "Permission denied", f"{dir}/temporary")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    fit, predict = ["fit", data, "--target", "load", "--model"], ["predict", model, data, "-o"]
    for name, command in (("new", fit), ("p.csv", predict)):
        assert run(*command, tmp_path / name) == 2
        said = f"mixfree: cannot write {tmp_path / name}: Permission denied\n"
        assert capsys.readouterr() == ("", said)


def test_only_earlier_outputs_are_replaced(tmp_path, fitted, capsys):
    """Catches data, models and notes that a command writes over, and outputs it cannot renew."""
    data, model = fitted
    writers = {
        "w.csv": ["inspect", model, "--weights"],
        **{f"p{end}": ["predict", model, data, "-o"] for end in ENDINGS},
        "r.html": ["report", model, "-o"],
        "c.png": ["chain", "two-state", "0.1", "--plot"],
        "m2": ["fit", data, "--target", "load", "-q", "--model"],
    }
    others = [data, model, write(table(), tmp_path / "other.csv")]
    for name, command in writers.items():
        for other in others:
            (tmp_path / name).write_bytes(Path(other).read_bytes())
            before = (tmp_path / name).read_bytes()
            if name != "m2" or other != model:
                assert run(*command, tmp_path / name) == 2, name
                said = "no earlier output of this kind: give another name, or --force"
                assert said in capsys.readouterr().err
            assert (tmp_path / name).read_bytes() == before
        assert run(*command, tmp_path / name, "--force") == 0, name
        assert run(*command, tmp_path / name) == 0, name
    with pytest.raises(ValueError, match="is not a file"):
        files.check_place(os.devnull, "output", b"mixfree")


def test_classes_have_sets(tmp_path, capsys):
    """Catches sets without the predicted class, and intervals of the mean of a class."""
    path = write(table(), tmp_path / "d.parquet")
    assert run("fit", path, "--target", "on", "--model", tmp_path / "m", "-q") == 0
    options = "-o", tmp_path / "p.parquet", "--interval", 0.9
    assert run("predict", tmp_path / "m", path, *options) == 0
    found = pa.parquet.read_table(tmp_path / "p.parquet").to_pydict()
    names = ["probability of false", "probability of true"]
    assert [*found] == ["prediction", *names, "set"]
    np.testing.assert_allclose(np.sum([found[name] for name in names], axis=0), 1.0)
    pairs = zip(found["prediction"], found["set"], strict=True)
    assert all(str(own) in text.split("|") for own, text in pairs)
    assert run("predict", tmp_path / "m", path, *options, "--interval-of", "mean", "--force") == 2
    assert "applies to regressions only" in capsys.readouterr().err


def test_inspect_a_fit_with_steps(tmp_path, fitted, capsys):
    options = ["--target", "load", "--model", fitted[1], "-q", *LADDER]
    assert run("fit", fitted[0], *options) == 0
    assert "including compilation" in capsys.readouterr().out
    assert run("inspect", fitted[1], "--top", 2) == 0
    out = capsys.readouterr().out
    assert "squared loss, ladder, complete" in out
    assert "3,000 read, 3,000 used, 0 left out" in out
    assert "2 of 5 in the units of the data, those with the largest effects per standard" in out
    assert "in-sample: 2,048 rows drawn at random" in out
    assert "interval" not in out
    numbers = dict(re.findall(r"^ *([\w=]+) +(-?[\d.]+(?:e-?\d+)?)$", out, re.MULTILINE))
    fit = StreamFit.load(fitted[1])
    *weights, constant = fit.learner.weights[0]
    effects = np.abs(weights) * fit.model.rows.std(axis=0)
    expected = {fit.model.features[k]: weights[k] for k in np.argsort(effects)[-2:]}
    expected["intercept"] = constant
    assert {name: float(text) for name, text in numbers.items()} == pytest.approx(expected, 1e-4)


NUMBER = r"(-?[\d.]+(?:e[-+]?\d+)?)"


def test_inspect_an_exact_fit(tmp_path, capsys):
    """Catches intervals of another weight, and marks by the size of the weight."""
    rng = np.random.default_rng(0)
    columns = {name: rng.standard_normal(4000) for name in ("a", "none")}
    data = pa.table({**columns, "y": 3.0 * columns["a"] + 0.5 + rng.standard_normal(4000)})
    _, report = said_of(capsys, tmp_path, data)
    assert "minimises the loss of all rows" in report
    assert "compilation" not in report
    assert run("inspect", tmp_path / "m") == 0
    out = capsys.readouterr().out
    assert "squared loss, exact, complete" in out
    learner = StreamFit.load(tmp_path / "m").learner
    expected = zip(
        ["a", "none", "intercept"],
        learner.weights[0],
        learner.inference.bse[0],
        *learner.inference.conf_int(0.05)[0].T,
        strict=True,
    )
    for name, *values in expected:
        numbers = rf"{NUMBER} +{NUMBER} +{NUMBER} +(?:< )?{NUMBER} +{NUMBER} +{NUMBER}"
        found = re.search(rf"^ *{name} +{numbers}( +\*+)?$", out, re.MULTILINE)
        shown = [float(found[k]) for k in (1, 2, 5, 6)]
        assert shown == pytest.approx(values, rel=1e-3)
        assert float(found[3]) == pytest.approx(values[0] / values[1], abs=0.006)
        assert (found[7] is None) == (name == "none")
    assert "* p < 0.05" in out
    assert f"effective rows  {learner.inference.effective_rows:,.0f}" in out


def test_inspect_says_when_intervals_cannot_be_trusted(tmp_path, capsys):
    """Catches a slow walk, in which nothing changes by more than chance, without a word on it."""
    rows = np.cumsum(np.random.default_rng(0).standard_normal((2000, 2)), axis=0)
    said_of(capsys, tmp_path, pa.table({"x": rows[:, 0], "y": rows[:, 1]}))
    assert run("inspect", tmp_path / "m") == 0
    out = capsys.readouterr().out
    assert "note       intervals are too narrow: errors are" in out
    assert "drift      the data changes over time: R² is 0." in out
    assert "rows carry as much information about the weights as at most" in out


def regimes(stay, rows=60_000):
    rng = np.random.default_rng(0)
    state = np.cumsum(rng.random(rows) > stay) % 2
    x = rng.standard_normal(rows)
    return pa.table({"x": x, "y": x + np.where(state == 0, 3.0, -3.0)})


def test_what_correlation_costs_is_found(tmp_path, capsys):
    """The regime's sign has the autocorrelation ρ^k with ρ = 2·0.99 − 1: a scale of −1/ln ρ = 49.5.

    Its autocorrelation time is (1 + ρ)/(1 − ρ) = 99; half of a gradient is of the intercept,
    which shows it, and half of x, which does not: the inflation is 50. The plateau's levels have
    60 blocks or less: a standard error of 18 % and more. The scale at half of the plateau has the
    same relative error.
    """
    _, out = said_of(capsys, tmp_path, regimes(0.5))
    assert "no correlation of the rows was found" in out
    model, out = said_of(capsys, tmp_path, regimes(0.99))
    worth = re.search(r"your 60,000 rows carry .* as about ([\d,]+) independent ones", out)
    independent = float(worth[1].replace(",", ""))
    assert 50.0 / 1.6 < 60_000 / independent < 50.0 * 1.4, out
    assert 49.5 / 1.6 < Facts(StreamFit.load(model)).correlation.scale < 49.5 * 1.4
    learner = StreamFit.load(model).learner
    assert independent == pytest.approx(learner.inference.effective_rows, rel=5e-3)
    options = ["--model", tmp_path / "m", "-q", *LADDER, "--set", "memory=0"]
    assert run("fit", tmp_path / "d.parquet", "--target", "y", *options) == 0
    assert "about the weights as at most" in capsys.readouterr().out  # the path hides a part


def test_what_a_profile_says():
    """Catches a bound told as an estimate, and rows told to be independent because they are few."""
    lengths, blocks = 16 * np.array([2, 4, 8, 16]), np.array([64, 32, 16, 4])

    def said(*ratios, rows=2048, by=1, **given):
        counts = blocks if by == 1 else rows // (lengths // by)
        found = Correlation.of(Profile(lengths // by, np.array(ratios), counts), rows, **given)
        return found, str(found)

    rising, text = said(1.0, 2.0, 4.0, 8.0, effective=512.4)
    assert rising.lengths.tolist() == [32, 64, 128]  # the last level has too few blocks
    assert rising.rises and text.endswith("weights as at most 512 independent ones")
    assert said(1.0, 4.0, 3.9, 8.0, effective=525.0)[1].endswith("as about 525 independent ones")
    flat, text = said(1.0, 1.1, 0.9, 1.0)
    assert (flat.exists, flat.scale) == (False, 1) and "they count as independent" in text
    assert said(1.0, 1.1, 0.9, 1.0, effective=1024.0)[1].endswith("as about 1,020 independent ones")
    assert said(0.5, 0.6, 1.2, 1.0)[1] == "too few rows to tell how correlated they are"
    # Yearly numbers of sunspots were told to be independent but for the next row.
    spots = said(1.0, 1.81, 2.71, 1.91, rows=309, by=32, effective=90.0)[1]
    assert spots.endswith("weights as about 90 independent ones")


def test_errors_of_rounding_are_not_told_to_be_correlated(tmp_path, capsys):
    """Catches "an effective sample size of at most 40" for a target that is a sum of columns."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(-1000, 1000, 3000).cumsum() / 8.0 for name in "abc"}
    model, out = said_of(capsys, tmp_path, pa.table({**columns, "y": sum(columns.values())}))
    assert run("inspect", model) == 0
    for text in (out, capsys.readouterr().out):
        assert "'y' is computed from other columns, up to rounding: 'a', 'b', 'c'; --leave" in text
        assert not re.search("effective|correlated|independent ones|intervals are too", text)
    assert json_of(capsys, "inspect", model)["correlation"] is None
    assert run("report", model, "-o", tmp_path / "r.html") == 0
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "the model fits every row up to rounding" in html and "independent ones" not in html
    for size, offset in ((1e-4, 0.0), (1.0, 1e12)):
        y = offset + columns["a"] + size * rng.standard_normal(3000)
        table = pa.table({"x": columns["a"], "y": y})
        assert "computed from" not in said_of(capsys, tmp_path, table)[1]


@pytest.mark.parametrize(("codes", "said"), [(60, True), (1, False)])
def test_a_code_for_gaps_is_named_but_not_a_single_large_value(tmp_path, capsys, codes, said):
    """Catches the elephant among 83 mammals, and -2e-16 for the R² of a constant."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 90))
    x[:codes] = -200.0
    _, out = said_of(capsys, tmp_path, pa.table({"x": x, "y": y + 0.1}))
    assert ("'x' is -200 in about 67 % of the rows, far from all other values" in out) == said
    assert "means a gap" in out or not said
    assert re.search(r"^ +0 .*the best constant prediction$", out, re.MULTILINE), out


LEAKS = {
    "text": (lambda which, rng: np.where(which, rng.choice(["a", "b"], 3000), "c"), True),
    "threshold": (lambda which, rng: which + 0.9 * rng.random(3000), True),
    "overlap": (lambda which, rng: which + 1.1 * rng.random(3000), False),
    "group": (lambda which, rng: rng.choice([*"abcdefgh"], 3000), False),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_column_that_tells_the_classes_apart_is_named(tmp_path, capsys, kind):
    """Catches good columns that are called leaks, and classes of one row, told by chance."""
    rng = np.random.default_rng(3)
    which = rng.integers(0, 2 if kind == "text" else 3, 3000)
    make, leaks = LEAKS[kind]
    data = {"u": rng.standard_normal(3000), kind: make(which, rng)}
    _, out = said_of(capsys, tmp_path, pa.table(data | {"y": np.array([*"pqr"])[which]}))
    assert (f"'{kind}' alone explains 100 % of 'y'" in out) == leaks
    rare = np.where(np.arange(3000) == np.argmax(data["u"]), "p", "q")
    _, out = said_of(capsys, tmp_path, pa.table(data | {"y": rare}))
    assert "alone explains" not in out


def test_a_weight_without_an_interval_has_no_infinite_one(tmp_path, capsys):
    """Catches infinite ends in the tables."""
    place = np.arange(600)
    side, y = np.array([*"ab"])[place % 2], np.array(["no", "yes"])[place % 2]
    model, _ = said_of(capsys, tmp_path, pa.table({"side": side, "x": place % 7, "y": y}))
    assert run("inspect", model) == 0
    out = capsys.readouterr().out
    assert re.search("no interval$", out, re.MULTILINE) and not re.search(r"\binf\b", out)
    assert run("report", model, "-o", tmp_path / "r.html") == 0
    assert "<td>no interval</td>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_resumed_fit_says_what_was_new(tmp_path, capsys):
    """Catches a resumed fit that does not tell whether there were new rows."""
    lines = [f"{i % 7},{i % 7 + i % 3}.5\n" for i in range(100)]
    path = tmp_path / "d.csv"
    command = ["fit", path, "--target", "y", "--model", tmp_path / "m", "-q", "--resume"]
    said = {90: None, 91: "resumed    1 new row", 100: "resumed    9 new rows"}
    for count, line in [*said.items(), (100, "resumed    no new rows")]:
        path.write_text("x,y\n" + "".join(lines[:count]))
        assert run(*command) == 0
        out = capsys.readouterr().out
        assert line in out if line else "\nresumed" not in out


def test_too_few_rows_at_first_may_be_why_predictions_ahead_were_bad(tmp_path, capsys):
    """Catches rare categories reported as a change of the stream, and a ridge without a word."""
    rng = np.random.default_rng(0)
    calls, place = rng.poisson(3.0, 3000), rng.zipf(1.5, 3000) % 200
    leaves = rng.random(3000) < 1.0 / (1.0 + np.exp(2.5 - 0.5 * calls))
    columns = {"calls": calls, "place": [f"p{each}" for each in place], "y": leaves}
    assert "classes can be separated, or nearly" in said_of(capsys, tmp_path, pa.table(columns))[1]
    fit = ["fit", tmp_path / "d.parquet", "--target", "y", "--model", tmp_path / "m", "--l2", "0"]
    assert run(*fit) == 0
    said = r"than the best constant: the first rows were too few for \d+ features \(--l2 helps\)"
    assert re.search(said, capsys.readouterr().out)


def test_a_change_of_the_stream_is_told_from_noise(tmp_path, capsys):
    """Catches noise, which no weights predict ahead, called a difference of later rows."""
    rng = np.random.default_rng(0)
    x, noise, *others = rng.standard_normal((10, 4000))
    for slope, changed in ((np.zeros(4000), False), (np.repeat([1.0, -1.0], 2000), True)):
        columns = {f"z{k}": other for k, other in enumerate(others)}
        columns |= {"x": x, "y": slope * x + noise}
        model, out = said_of(capsys, tmp_path, pa.table(columns))
        metrics = json_of(capsys, "inspect", model)["metrics"]
        ahead, constant = metrics["test_then_train"], metrics["test_then_train_constant"]
        assert ahead["loss"] > constant["loss"]
        assert ("drift      the data changes over time: R² is" in out) == changed
        assert "worse than the best constant" not in out
    ends = {"x": x[:1200], "y": np.where(np.arange(1200) < 1000, x[:1200] + 5.0, 0.0)}
    assert "nan" not in said_of(capsys, tmp_path, pa.table(ends))[1]  # one value is predicted ahead


def test_one_row_predicted_ahead_explains_nothing(tmp_path, capsys):
    """Catches R² of a variance that is rounding, and advice from a single row."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1001)
    y = 7.0 + x + rng.standard_normal(1001)
    y[-1] += 9.0
    _, out = said_of(capsys, tmp_path, pa.table({"x": x, "y": y}))
    assert "test-then-train" not in out and "unknown" not in out
    assert "worse than the best constant" not in out


def test_inspect_shows_the_weights_of_every_class(tmp_path, capsys):
    """Catches classes in another order than their weights, in print or in the file."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 3000)
    columns = {"x": rng.standard_normal(3000) + which, "y": np.array(["b", "a", "c"])[which]}
    (model, _), out = said_of(capsys, tmp_path, pa.table(columns)), tmp_path / "w.csv"
    assert run("inspect", model, "--weights", out) == 0
    text = capsys.readouterr().out
    assert f"written    6 weights to {out}" in text
    slopes = dict(zip("abc", StreamFit.load(model).learner.weights[:, 0], strict=True))
    assert slopes["b"] < slopes["a"] < slopes["c"]
    printed = dict(re.findall(r"^ *class +(\w)\n +x +(-?[\d.e-]+)", text, re.MULTILINE))
    assert {name: float(each) for name, each in printed.items()} == pytest.approx(slopes, 1e-3)


def test_counts_are_fitted_by_poisson_only_if_asked(tmp_path, capsys):
    """Catches a loss chosen by itself, a note on numbers that do not count, and logarithms."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    columns = {"x": x, "visits": rng.poisson(np.exp(0.7 * x + 1.0)), "size": x + 9.5}
    path = write(pa.table(columns), tmp_path / "d.parquet")
    fit = ["--model", tmp_path / "m", "-q", "--force", "--features", "x"]
    assert run("fit", path, "--target", "size", *fit) == 0
    assert "poisson" not in capsys.readouterr().out
    assert run("fit", path, "--target", "visits", *fit) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "if 'visits' counts something, --loss poisson is made for it" in out
    assert StreamFit.load(tmp_path / "m").plan.loss == "squared"
    assert run("fit", path, "--target", "visits", "--loss", "poisson", *fit) == 0
    assert "is made for it" not in capsys.readouterr().out
    weights = StreamFit.load(tmp_path / "m").learner.weights[0]
    np.testing.assert_allclose(weights, [0.7, 1.0], atol=0.06)
    assert run("predict", tmp_path / "m", path, "-o", tmp_path / "p.parquet") == 0
    found = pa.parquet.read_table(tmp_path / "p.parquet")["prediction"]
    np.testing.assert_allclose(found, np.exp(weights[0] * x + weights[1]), rtol=1e-9)
