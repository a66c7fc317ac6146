"""Columns of real files: their encoding, independent of the format and the blocks."""

import io
import json
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from mixfree.cli import main
from mixfree.streams import FitPlan, Source, StreamFit, find_files, write_predictions
from mixfree.streams.columns.column import Category, Number, Time, column_from_plain
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.columns.kinds import Choices, columns_of
from mixfree.streams.fit import model_file, stream_fit
from mixfree.streams.fit.look import first_look
from mixfree.streams.read import dialect, formats
from mixfree.streams.read.source import Piece
from tests.streams.data import write

ROWS = 1200


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return ended.value.code


def fit(path, *options, target="y", model="m"):
    place = path.parent / model
    return run("fit", path, "--target", target, "--model", place, "-q", *options)


def numbers(rows=ROWS, seed=0):
    x, z, noise = np.random.default_rng(seed).standard_normal((3, rows))
    return x, z, 2.0 * x - z + 0.1 * noise


def csv_text(head, *columns, separator=","):
    lines = [head, *(separator.join(map(str, row)) for row in zip(*columns, strict=True))]
    return "\n".join(lines) + "\n"


def look(path, **asked):
    return first_look(Source(find_files([str(path)])), FitPlan("y", **asked))


def opened(path, names):
    source = Source(find_files([str(path)]))
    source.open(names)
    return source.pieces()


def comma(values):
    return [f"{value:.6f}".replace(".", ",") for value in values]


X, Z, Y = numbers()
INDEX = range(1, ROWS + 1)
PLAIN = csv_text("x,z,y", *(np.char.mod("%.6f", values) for values in (X, Z, Y)))
SHAPES = {
    "semicolons and decimal commas": csv_text("x;z;y", comma(X), comma(Z), comma(Y), separator=";"),
    "a byte order mark": "\ufeff" + PLAIN,
    "lines as of Windows": PLAIN.replace("\n", "\r\n"),
    "lines as of old Macs": PLAIN.replace("\n", "\r"),
    "quotes": "\n".join(",".join(f'"{v}"' for v in row.split(",")) for row in PLAIN.split()) + "\n",
    "blanks": PLAIN.replace(",", " , "),
    "bars": PLAIN.replace(",", "|"),
    "tabs": PLAIN.replace(",", "\t"),
    "comments above the head": "# made by hand\n# in C, m, W\n" + PLAIN,
    "a currency": re.sub(r"\n(-?)(\d)", r"\n\1$\2", PLAIN),
    "per cent": PLAIN.replace(",", " %,").replace("x %,z %,", "x,z,"),
    "row names of R": PLAIN.replace("\n", "\n§,")[: -len("§,")],
    "a delimiter at the end": "\n".join(
        row + ("," if row[-1] != "y" else "") for row in PLAIN.split()
    )
    + "\n",
    "columns without a name": csv_text("x;z;y;;", comma(X), comma(Z), comma(Y), [""] * ROWS,
                                       [""] * ROWS, separator=";"),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_csv_gives_the_same_bits(tmp_path, shape):
    text = SHAPES[shape]
    for number in INDEX:  # row names that R writes
        text = text.replace("§", f'"{number}"', 1)
    (tmp_path / "plain.csv").write_text(PLAIN)
    (tmp_path / "d.csv").write_text(text.replace(" , ", ", "), newline="", encoding="utf-8")
    assert fit(tmp_path / "plain.csv", model="plain") == 0
    assert fit(tmp_path / "d.csv") == 0
    found, plain = (StreamFit.load(tmp_path / name) for name in ("m", "plain"))
    assert found.used == ROWS
    assert found.encoder.features == plain.encoder.features == ["x", "z"]
    assert found.learner.weights.tobytes() == plain.learner.weights.tobytes()


def test_digits_may_be_grouped(tmp_path):
    """Catches grouped digits taken for different texts, and left out."""
    numbers = [f"{value:,.2f}" for value in 1e5 * X]
    for number, changed in enumerate((",_._", " _,_", "'_._", "\u202f_,_", "._,_")):
        group, point, _ = changed.split("_")
        texts = [each.translate({44: group, 46: point}) for each in numbers]
        path = tmp_path / f"{number}.csv"
        path.write_text(csv_text("x;y", texts, Y, separator=";"), encoding="utf-8")
        found = look(path).encoder.encode(next(iter(opened(path, ["x", "y"]))))
        np.testing.assert_array_equal(found.rows[:, 0], np.round(1e5 * X, 2))


def test_quoted_texts_may_have_several_lines(tmp_path, monkeypatch):
    """Catches blocks that end within a text, which worked only in files of one block."""
    for module in (dialect, formats):
        monkeypatch.setattr(module, "BLOCK", 4_000)
    notes = [f'"one{{}}or, ""{"two" if x > 0 else "three"}"""' for x in X]
    weights = []
    for blank in (" ", "\n"):
        path = tmp_path / "d.csv"
        path.write_text(csv_text("x,note,y", X, [note.format(blank) for note in notes], Y))
        assert fit(path) == 0
        found = StreamFit.load(tmp_path / "m")
        assert found.used == ROWS
        assert found.encoder.features[1:] == [f'note=one{blank}or, "{n}"' for n in ("three", "two")]
        weights.append(found.learner.weights.tobytes())
    assert weights[0] == weights[1]


def test_a_quotation_mark_that_is_not_closed(tmp_path, capsys):
    """Catches the remark of PyArrow on its own option."""
    head, rows = PLAIN.split("\n", 1)
    text = f'{head}\n{rows}"{rows * 200}'
    (tmp_path / "d.csv").write_text(text)
    assert fit(tmp_path / "d.csv") == 2
    said = "a line is longer than 2,097,152 bytes, or a quotation mark is not closed"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_objects_within_objects_have_their_own_columns(tmp_path, ending):
    """Catches nested objects left out as "of the type struct"."""
    values = [{"x": X[n], "at": {"z": Z[n]} if n % 7 else None} for n in range(ROWS)]
    # With the type not given, PyArrow of 2025 and before sorts the fields by name.
    kind = pa.struct([("x", pa.float64()), ("at", pa.struct([("z", pa.float64())]))])
    inner = pa.array(values, kind)
    write(pa.table({"in": inner, "list": [[1]] * ROWS, "y": Y}), tmp_path / f"d.{ending}")
    assert look(tmp_path / f"d.{ending}", missing="skip").left_out == {
        "list": "lists cannot be features"
    }
    assert fit(tmp_path / f"d.{ending}", "--missing", "skip") == 0
    found = StreamFit.load(tmp_path / "m")
    assert found.encoder.features == ["in.x", "in.at.z"]
    assert found.used == ROWS - len(range(0, ROWS, 7))
    if ending == "jsonl":  # a null in a row's place is read by Python
        lines = (tmp_path / "d.jsonl").read_text().splitlines()
        lines[9] = lines[9].replace('"list": [1]', '"list": "none"')
        (tmp_path / "d.jsonl").write_text("\n".join(lines) + "\n")
        assert fit(tmp_path / "d.jsonl", "--missing", "skip", "--leave-out", "list", model="p") == 0
        by_python = StreamFit.load(tmp_path / "p").learner.weights
        assert by_python.tobytes() == found.learner.weights.tobytes()


def test_a_letter_may_lie_across_what_is_read_for_the_head(tmp_path, monkeypatch):
    """Catches decoding the header together with a part of the rows."""
    monkeypatch.setattr(formats, "PAGE", 64)
    texts = ["ü" * 40, "ß" * 40] * 20
    for before in range(1, 9):
        text = csv_text("x" * before + ",c,y", X[:40], texts, Y[:40])
        (tmp_path / "d.csv").write_text(text, encoding="utf-8")
        assert len(look(tmp_path / "d.csv").encoder.features) == 3


def test_dates_have_the_same_bits_in_every_format_and_after_a_resume(tmp_path, monkeypatch):
    """Catches parts chosen anew from the rows of a resumed run or of a block."""
    times = np.datetime64("2019-11-20", "us") + np.arange(ROWS) * np.timedelta64(1, "h")
    data = pa.table({"when": pa.array(times), "x": X, "y": Y + np.arange(ROWS) % 24})
    weights = []
    for ending in ("parquet", "arrow", "csv", "jsonl"):
        if ending in ("csv", "jsonl"):
            texts = [f"{time:%d/%m/%Y %H:%M}" for time in times.tolist()]
            data = data.set_column(0, "when", pa.array(texts))
        path = tmp_path / f"d.{ending}"
        write(data, path)
        assert fit(path, model=ending) == 0
        weights.append(StreamFit.load(tmp_path / ending).learner.weights.tobytes())
    assert len(set(weights)) == 1
    found = StreamFit.load(tmp_path / "csv")
    assert found.encoder.features[:2] == ["when: hour sin", "when: hour cos"]
    assert not any("season" in name for name in found.encoder.features)
    write(data[:400], tmp_path / "d.csv")
    assert fit(tmp_path / "d.csv", model="cut") == 0
    write(data, tmp_path / "d.csv")
    monkeypatch.setattr(formats, "BLOCK", 7_000)
    assert fit(tmp_path / "d.csv", "--resume", model="cut") == 0
    assert StreamFit.load(tmp_path / "cut").learner.weights.tobytes() == weights[0]


@pytest.mark.parametrize(
    ("time", "features"),
    [
        ("none", []),
        ("linear", ["when: days"]),
        ("cyclic", ["when: hour sin", "when: weekday sin", "when: season sin"]),
        ("auto", ["when: hour sin", "when: weekday sin"]),
    ],
)
def test_what_becomes_of_dates(tmp_path, capsys, time, features):
    """Catches an encoding chosen by the type alone, such as the season of a month."""
    times = np.datetime64("2019-11-20", "us") + np.arange(ROWS) * np.timedelta64(1, "h")
    texts = [f"{time:%m/%d/%y %H:%M}" for time in times.tolist()]
    (tmp_path / "d.csv").write_text(csv_text("when,x,y", texts, X, Y))
    assert fit(tmp_path / "d.csv", "--set", f"time={time}", "--dates", "when=%m/%d/%y") == 0
    found = StreamFit.load(tmp_path / "m").encoder.features
    assert [each for each in found if each.endswith((" sin", "days"))] == features
    out = capsys.readouterr().out
    assert ("left out: 'when'" in out) == (time == "none")
    if time == "auto":
        said = "'when' is a date (%m/%d/%y), used as hour, weekday: the first 1,200 rows cover "
        assert said + "50 days, too short for season" in out


def test_a_date_that_is_none_is_a_missing_value(tmp_path, capsys):
    texts = [f"{1 + row % 28}.{1 + row // 28}.2019" for row in range(300)]
    texts[200] = "31.2.2019"
    (tmp_path / "d.csv").write_text(csv_text("when,x,y", texts, X[:300], Y[:300]))
    assert fit(tmp_path / "d.csv", "--missing", "error") == 2
    assert "row 201, column 'when' is '31.2.2019', not a date (%d.%m.%Y); --missing skip" in (
        capsys.readouterr().err
    )


def test_row_numbers_are_left_out_and_named(tmp_path, capsys):
    """Catches a rule by the name alone, or one that allows no missing number."""
    instant = np.arange(ROWS) + np.repeat([0, 7], ROWS // 2)
    no = pa.array(np.arange(ROWS) + 5.0)
    data = {"No": no, "instant": instant, "hour": np.arange(ROWS) % 24, "x": X, "y": Y}
    write(pa.table(data), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet") == 0
    assert "columns    left out: 'No', 'instant' (row numbers)" in capsys.readouterr().out
    assert StreamFit.load(tmp_path / "m").encoder.features == ["hour", "x"]
    assert look(tmp_path / "d.parquet", features=["No", "x"]).encoder.features == ["No", "x"]
    write(pa.table({"No": no, "y": Y}), tmp_path / "only.parquet")
    assert look(tmp_path / "only.parquet").encoder.features == ["No"]
    (tmp_path / "two").mkdir()
    for name in ("1", "2"):  # numbers that begin anew in each file
        text = csv_text("No,x,y", range(600), X[:600], Y[:600])
        (tmp_path / "two" / f"{name}.csv").write_text(text)
    assert look(tmp_path / "two").encoder.features == ["x"]


@pytest.mark.parametrize("row", [5_000, 20_000])
@pytest.mark.parametrize("block", [1 << 14, 1 << 20])
def test_one_stray_text_does_not_make_a_column_of_texts(tmp_path, capsys, monkeypatch, row, block):
    """Catches a type that depends on the rows of a block."""
    monkeypatch.setattr(formats, "BLOCK", block)
    u = [str(number % 97) for number in range(30_000)]
    y = 3.0 * (np.arange(30_000) % 97) + 0.5
    u[row] = "error"
    (tmp_path / "d.csv").write_text(csv_text("u,y", u, y))
    assert fit(tmp_path / "d.csv", "--missing", "skip") == 0
    said = f"d.csv, row {row + 1}, column 'u' is 'error'"
    assert f"1 treated as missing, the first: {tmp_path}/{said}" in capsys.readouterr().out
    found = StreamFit.load(tmp_path / "m")
    assert found.encoder.features == ["u"]
    assert found.learner.predict(np.array([[150.0]]))[0] == pytest.approx(450.5)
    assert fit(tmp_path / "d.csv", "--missing", "error") == 2
    assert f"{said}, not a number; --missing skip leaves out" in capsys.readouterr().err


def test_many_texts_share_columns(tmp_path, capsys):
    """Catches one feature per text, or none for a new text."""
    rng = np.random.default_rng(0)
    city = [f"c{number}" for number in rng.zipf(1.3, 12_000) % 500]
    name = [f"user {number}" for number in range(12_000)]
    city[11_000] = "new"
    x, _, y = numbers(12_000)
    write(pa.table({"city": city, "name": name, "x": x, "y": y}), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet") == 0
    out = capsys.readouterr().out
    assert "left out: 'name' (almost every row has a different text, such as 'user 0')" in out
    column = StreamFit.load(tmp_path / "m").encoder.columns[0]
    kinds, counts = np.unique(city[:10_000], return_counts=True)
    assert sorted(column.categories) == list(column.categories)
    assert min(counts[np.isin(kinds, column.categories)]) >= np.sort(counts)[-65]
    assert (len(column.categories), column.hashed) == (64, 16)
    shared = int(np.isin(city, column.categories, invert=True).sum())
    assert f"{shared:,} with a hashed category in 'city'" in out
    row = np.zeros((1, 80))
    assert column.fill(pa.array(["new"]), row) == {"hashed": 1}
    assert row[0, 64:].sum() == 1.0
    assert fit(tmp_path / "d.parquet", "--set", "hash_columns=4") == 0
    assert StreamFit.load(tmp_path / "m").encoder.columns[0].hashed == 4


def test_few_rows_of_rare_texts_share_few_features(tmp_path):
    """Catches features of one row each, whose wild weights a text that is new would get."""
    often = [f"c{number}" for number in range(64) for _ in range(10)]
    rare = [f"r{number}" for number in range(50)]
    y = np.random.default_rng(0).standard_normal(690)
    write(pa.table({"city": often + rare, "y": y}), tmp_path / "d.parquet")
    (column,) = look(tmp_path / "d.parquet").encoder.columns
    assert (len(column.categories), column.hashed) == (64, 2)


def test_columns_of_a_model_are_restored():
    for column in (Category("a", ("x", "y"), 3), Category("$kind", ("x",))):
        assert column_from_plain(column.plain()) == column


@pytest.mark.parametrize("target", ["both", "copy", "label"])
def test_columns_that_give_the_target_away_are_named(tmp_path, capsys, target):
    """Catches a rule by weights or correlation alone, which misses a sum of two columns."""
    rng = np.random.default_rng(0)
    one, other = rng.poisson(30, ROWS), rng.poisson(90, ROWS)
    data = {"one": one, "other": other, "x": X, "near": one + other + 5.0 * Z}
    data["y"] = {"both": one + other, "copy": 1000.0 + 3.0 * one, "label": one > 30}[target]
    write(pa.table(data), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet") == 0
    out = capsys.readouterr().out
    if target == "both":
        said = "'one' and 'other' together explain 100 % of 'y'; if it is not known before the "
        assert f"warning    {said}target, give --leave-out one,other" in out
    else:
        share = (
            "explains 100 % of 'y'"
            if target == "copy"
            else "classifies 100 % of the rows correctly"
        )
        assert f"warning    'one' alone {share}; if it is not known before" in out
    assert out.count("--leave-out") == 1
    assert fit(tmp_path / "d.parquet", "--leave-out", "o*") == 0
    assert "warning" not in capsys.readouterr().out
    assert StreamFit.load(tmp_path / "m").encoder.features == ["x", "near"]


def test_names_with_commas_and_wildcards(tmp_path, capsys):
    data = pa.table({"a,b": Z, "lag1": X, "lag2": Z, "l?": X, "y": Y})
    write(data, tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet", "--features", '"a,b",lag*') == 0
    assert StreamFit.load(tmp_path / "m").encoder.features == ["a,b", "lag1", "lag2"]
    assert fit(tmp_path / "d.parquet", "--leave-out", '"a,b",l?') == 0
    assert StreamFit.load(tmp_path / "m").encoder.features == ["lag1", "lag2"]
    assert fit(tmp_path / "d.parquet", "--leave-out", "log*") == 2
    assert "there is no column 'log*'; did you mean 'lag2', 'lag1'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "loss", "classes"),
    [
        ([0, 1], "logistic", ["0", "1"]),
        ([-1.5, 2.0], "logistic", ["-1.5", "2"]),
        ([10, 9, 2], "logistic", ["2", "9", "10"]),
        ([True, False], "logistic", ["false", "true"]),
        (["b", "a"], "logistic", ["a", "b"]),
        ([0.5, 1.0, 1.5], "squared", None),
        (list(range(30)), "squared", None),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_target_of_few_values_has_classes(tmp_path, ending, values, loss, classes):
    """Catches a rule by the type alone, which always regresses numbers."""
    y = (values * ROWS)[:ROWS]
    write(pa.table({"x": X, "y": y}), tmp_path / f"d.{ending}")
    found = look(tmp_path / f"d.{ending}")
    assert (found.loss, found.encoder.classes) == (loss, classes)
    said = [note for note in found.notes if "`loss='squared'` predicts a number" in note]
    assert len(said) == (classes is not None and not isinstance(values[0], bool | str))


def test_classes_of_numbers_reach_the_report_and_the_predictions(tmp_path, capsys):
    write(pa.table({"x": X, "y": 1.0 * (X + 0.5 * Z > 0)}), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet") == 0
    said = "note       'y' has 2 classes, 0 and 1; --loss squared predicts a number"
    assert said in capsys.readouterr().out
    out = tmp_path / "p.parquet"
    assert run("predict", tmp_path / "d.parquet", "--model", tmp_path / "m", "-o", out) == 0
    assert set(pa.parquet.read_table(out)["prediction"].to_pylist()) == {"0", "1"}


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (
            [f"k{row % 300}" for row in range(ROWS)],
            [],
            "the target 'y' has 300 classes in the first 1,200 rows, such as 'k0', 'k1', 'k10': "
            "for a number give --loss squared; more than 50 classes must be given as --classes",
        ),
        (["red", "blue"] * 600, ["--loss", "squared"], "'y' is text, such as 'blue': --loss logis"),
        (["2019-01-01", "2019-01-02"] * 600, [], "'y' is a date (%Y-%m-%d): give another column"),
        (["a" * 2_000, "b"] * 600, [], "has a class of 2,000 characters, 'aaaaaaaaaaaaaaaaaaaa'"),
        ([*[0, 1] * 599, 0, 2], [], None),
    ],
)
def test_targets_that_are_refused_in_one_line(tmp_path, capsys, y, options, message):
    """Catches an error that prints thirty kilobytes of class names."""
    write(pa.table({"x": X, "y": [str(each) for each in y]}), tmp_path / "d.parquet")
    code = fit(tmp_path / "d.parquet", *options)
    error = capsys.readouterr().err
    assert code == (0 if message is None else 2)
    assert message is None or (message in error and error.count("\n") == 1 and len(error) < 400)


def test_a_new_number_among_classes_says_how_to_regress(tmp_path, capsys):
    y = [0, 1] * 6000 + [7]
    write(pa.table({"x": np.arange(12_001) % 5 + 0.5, "y": y}), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet") == 2
    error = capsys.readouterr().err
    assert (
        "row 12001, column 'y' has the unknown class '7'; the classes are 0, 1: give all" in error
    )
    assert "as --classes, or --loss squared to predict a number" in error
    assert fit(tmp_path / "d.parquet", "--loss", "squared") == 0


def test_missing_values_of_the_first_rows_are_known(tmp_path, capsys):
    """Catches a fit stopped by rows without a target, or by gaps that the first rows show."""
    x, y = X.astype(object), Y.astype(object)
    x[[3, 700]], y[[3, 5]] = "", "NA"
    (tmp_path / "d.csv").write_text(csv_text("x,z,y", x, Z, y))
    assert fit(tmp_path / "d.csv") == 0
    out = capsys.readouterr().out
    assert "1,200 read, 1,197 used, 3 left out" in out
    assert "2 left out: 'y' is missing" in out
    assert (
        "missing in the first 1,200 rows: 'x' in 2; such rows are left out; --missing mean" in out
    )
    x[:400] = "?"
    (tmp_path / "d.csv").write_text(csv_text("x,z,y", x, Z, y))
    assert fit(tmp_path / "d.csv") == 2
    error = capsys.readouterr().err
    assert "399 of the first 1,200 rows have a missing value ('x' in 401): --missing skip" in error
    assert error.endswith("--leave-out x leaves out the column\n")


def test_a_dry_run_tells_every_column_and_fits_nothing(tmp_path, capsys):
    texts = ["red", "blue"] * (ROWS // 2)
    days = np.datetime64("2019-01-01") + np.arange(ROWS)
    data = {"No": np.arange(ROWS), "day": days, "colour": texts, "gaps\x1b": [None, 1.5] * 600}
    write(pa.table({**data, "y": Y}), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet", "--dry-run", "--missing", "mean") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "No number 0 left out: row numbers" in lines
    assert "day date 0 weekday, season, trend: 7 features; covers 1,199 days" in lines
    assert "colour text 0 2 categories, one-hot" in lines
    assert "gaps\\x1b number 600 1 feature" in lines  # no escape reaches the terminal
    assert "y number 0 the target" in lines
    assert lines[-1] == "plan squared loss, exact; nothing was fitted"
    assert not (tmp_path / "m").exists()


def test_a_last_line_counts_when_it_ends(tmp_path, capsys):
    """Catches a half-written 3,3 learnt as 3 before 57 follows; a resumed fit never saw 357."""
    lines = csv_text("x,y", X, Y)
    path = tmp_path / "log.csv"
    path.write_text(lines + "3,3")
    assert fit(path) == 0
    out = capsys.readouterr().out
    assert "1,200 read" in out
    assert "log.csv is left out until it ends in a newline" in out
    path.write_text(lines + "3,357\n1")
    assert fit(path, "--resume") == 0
    assert "1,201 read" in capsys.readouterr().out
    assert 357.0 in StreamFit.load(tmp_path / "m").reservoir.targets
    out = tmp_path / "p.parquet"
    path.write_text("x\n1\n2")
    assert run("predict", path, "--model", tmp_path / "m", "-o", out) == 0
    assert len(pa.parquet.read_table(out)) == 2


def test_a_small_file_does_not_need_a_large_memory(tmp_path, capsys):
    """Catches a long text, stored once, that is repeated in every row."""
    rows = 40_000
    words = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * 1_000_000])
    data = pa.table({"t": words, "x": np.tile(X, 34)[:rows], "y": np.tile(Y, 34)[:rows]})
    pa.parquet.write_table(data, tmp_path / "d.parquet", compression="zstd")
    assert fit(tmp_path / "d.parquet") == 2
    said = "column 't' has a text of 1,000,000 bytes, more than 16,384: --leave-out t"
    assert said in capsys.readouterr().err
    assert fit(tmp_path / "d.parquet", "--leave-out", "t") == 0


def test_many_features_are_encoded_a_few_rows_at_a_time(tmp_path, monkeypatch):
    """Catches a batch with many features per text that takes gigabytes."""
    rng = np.random.default_rng(0)
    texts = {f"t{k}": [f"v{v}" for v in rng.integers(0, 300, ROWS)] for k in range(3)}
    write(pa.table({**texts, "y": Y}), tmp_path / "d.parquet")
    sizes, encode = [], Encoder.encode

    def watched(self, piece):
        found = encode(self, piece)
        sizes.append(found[0].size)
        return found

    monkeypatch.setattr(Encoder, "encode", watched)
    monkeypatch.setattr(stream_fit, "CELLS", 30_000)
    assert fit(tmp_path / "d.parquet") == 0
    found = StreamFit.load(tmp_path / "m")
    assert len(found.encoder.features) == 240
    assert max(sizes) <= 30_000
    assert found.read_record.rows == ROWS


def test_predictions_of_many_columns_take_no_list_of_names_per_name(tmp_path, monkeypatch):
    """Catches 20,000 names looked up in a new list each, which took 81 seconds."""
    data = pa.table({**{f"c{k}": X[:40] + k % 7 for k in range(50)}, "y": Y[:40]})
    write(data, tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet") == 0
    source = Source(find_files([str(tmp_path / "d.parquet")]))

    class Counted:
        lists = 0

        @property
        def names(self):
            self.lists += 1
            return data.schema.names

    source.schema = Counted()
    write_predictions(StreamFit.load(tmp_path / "m"), source, tmp_path / "p.csv")
    assert source.schema.lists < 5


def test_a_column_may_have_any_name(tmp_path):
    """Catches a column name beginning with a dollar that cannot be saved."""
    kind = (["a", "b", None] * ROWS)[:ROWS]
    for name in ("$kind", "$array", "$$x"):
        write(pa.table({name: kind, "x": X, "y": Y}), tmp_path / "d.parquet")
        assert fit(tmp_path / "d.parquet", "--missing", "skip") == 0
        assert StreamFit.load(tmp_path / "m").encoder.left_out == {f"{name!r} is missing": 400}
        assert fit(tmp_path / "d.parquet", "--categories", f"{name}=a,b", "--missing", "skip") == 0
        assert StreamFit.load(tmp_path / "m").plan.categories == {name: ("a", "b")}


def test_a_linked_model_goes_on_being_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    model_file.save(tmp_path / "link", {"a": 1})
    assert (tmp_path / "link").is_symlink()
    assert model_file.load(tmp_path / "real") == {"a": 1}


def test_texts_that_all_differ_are_names_also_in_a_short_file(tmp_path, capsys):
    """Catches a short file that is learnt by heart, one weight per row."""
    x, _, y = numbers(40)
    path = tmp_path / "data.csv"
    path.write_text(csv_text("state,x,y", [f"state {i}" for i in range(40)], x, y))
    assert [*look(path).left_out] == ["state"]
    path.write_text(csv_text("state,x,y", [f"state {i // 2}" for i in range(40)], x, y))
    assert not look(path).left_out


@pytest.mark.parametrize(("values", "said"), [(12, True), (45, False)])
def test_numbers_that_hardly_come_again_are_not_offered_as_classes(tmp_path, values, said):
    x, *_ = numbers(100)
    path = tmp_path / "data.csv"
    path.write_text(csv_text("x,y", x, np.arange(100) % values))
    assert any("whole numbers" in note for note in look(path).notes) == said


@pytest.mark.parametrize(("slope", "said"), [(0.1, True), (0.0, False)])
def test_a_target_that_grows_with_the_date_is_named(tmp_path, capsys, slope, said):
    """Catches a trend that only the weekday is fitted to, without a word."""
    days = np.arange("1950-01-01", "1951-06-01", dtype="M8[D]")
    y = slope * np.arange(len(days)) + np.random.default_rng(0).standard_normal(len(days))
    path = tmp_path / "data.csv"
    path.write_text(csv_text("day,y", days, y))
    assert fit(path) == 0
    text = (
        "'day' as a number explains 100 % of 'y'; --set time=linear uses it so, instead of as "
        "weekday, season"
    )
    assert (text in re.sub(r"\s+", " ", capsys.readouterr().out)) == said
    assert not any("as a number" in note for note in look(path, time="linear").notes)


def test_dates_of_years_have_a_trend_beside_the_season(tmp_path):
    """Catches a season alone, which leaves 92 % of a growing record unexplained."""
    months = np.arange("1950-01", "1962-01", dtype="M8[M]")
    y = 0.1 * np.arange(144) + np.sin(2 * np.pi * np.arange(144) / 12)
    path = tmp_path / "data.csv"
    path.write_text(csv_text("month,y", months, y))
    found = look(path)
    assert found.encoder.features == ["month: season sin", "month: season cos", "month: days"]
    assert "used as season, trend" in found.notes[0]
    path.write_text(csv_text("month,y", months[:23], y[:23]))  # a season looks like a trend
    assert look(path).encoder.features == ["month: season sin", "month: season cos"]
    years = np.arange("1950", "2000", dtype="M8[Y]").astype("M8[D]")
    path.write_text(csv_text("when,x,y", years, X[:50], Y[:50]))
    assert look(path).encoder.features == ["when: days", "x"]


def test_a_time_that_counts_the_rows_is_a_trend(tmp_path):
    """Catches the rule for row numbers, applied to a column that is called a time."""
    path = tmp_path / "data.csv"
    path.write_text(csv_text("TIME,No,x,y", range(50), range(50), X[:50], Y[:50]))
    assert look(path).encoder.features == ["TIME", "x"]


def test_days_without_a_cycle_are_left_out_with_a_reason_that_is_true(tmp_path):
    years = np.repeat(np.array(["1950-01-01", "1951-01-01"]), 25)
    path = tmp_path / "data.csv"
    path.write_text(csv_text("when,x,y", years, X[:50], Y[:50]))
    assert "without an hour, a weekday or a season that varies" in look(path).left_out["when"]


def test_texts_that_name_the_rows_of_a_short_file(tmp_path):
    """Catches one feature per row, and a category left out because of its name."""
    head = "id,x,y\n"
    (tmp_path / "d.csv").write_text(head + "".join(f"n{i},{i % 3},{i}.5\n" for i in range(12)))
    assert look(tmp_path / "d.csv").verdicts["id"].why == "row names"
    (tmp_path / "d.csv").write_text(head + "".join(f"n{i % 4},{i % 3},{i}.5\n" for i in range(12)))
    assert look(tmp_path / "d.csv").encoder.features == ["id=n0", "id=n1", "id=n2", "id=n3", "x"]


def test_a_column_that_begins_empty_has_numbers_if_it_is_asked_for():
    """Catches a column that is left out although it was asked for."""
    found = columns_of({"late": pa.array([None, None], pa.string())}, [0], Choices(("late",)))
    assert found["late"].column == Number("late")
    found = columns_of({"late": pa.array([None, None], pa.string())}, [0], Choices())
    assert found["late"].column is None
    assert found["late"].why == "empty in the first 2 rows"


def test_stored_dates_without_a_valid_value_are_left_out():
    """Catches the first of no dates; the smallest integer is what NumPy stores for none."""
    none = pa.array([np.iinfo(np.int64).min] * 3, pa.int64()).cast(pa.timestamp("us"))
    for asked in ((), ("when",)):
        found = columns_of({"when": none}, [0], Choices(asked))["when"]
        assert (found.column, found.why) == (None, "a date without a valid value")


def test_classes_given_as_numbers(tmp_path, capsys):
    """Catches classes sorted as texts, two names of one class, and a message about its number."""
    rows = "".join(f"{0.7 * i % 3},{[1, 2, 10][i % 3]}\n" for i in range(60))
    (tmp_path / "d.csv").write_text("x,y\n" + rows)
    assert look(tmp_path / "d.csv", classes=("10", "2.0", "1")).encoder.classes == ["1", "2", "10"]
    assert fit(tmp_path / "d.csv", "--classes", "1,1.0") == 2
    assert "--classes must be different numbers, not '1', '1.0'" in capsys.readouterr().err


def test_columns_change_their_type_between_files():
    """Catches a type of the first file that a later file is assumed to have."""
    column = Category("sky", ("rain", "sun"))
    out = np.zeros((3, 2))
    column.fill(pa.array(["sun", None, "rain"], pa.large_string()), out)
    np.testing.assert_array_equal(out, [[0.0, 1.0], [np.nan, np.nan], [1.0, 0.0]])
    when = Time("when", "%d/%m/%Y", ("days",), 0.0)
    out = np.zeros((2, 1))
    when.fill(pa.array([3.0, 20200101.0]), out)
    assert np.isnan(out).all()


def test_dates_beyond_the_range_of_python_are_read_again(tmp_path, capsys):
    """Catches dates that the record of the rows read cannot compare, and a changed date."""
    count = np.arange(60)
    days = 4_000_000 + count  # the year 12921
    columns = {"when": pa.array(days, pa.int32()).cast(pa.date32()), "x": count % 5, "y": count % 7}
    data, path = pa.table(columns), tmp_path / "d.parquet"
    options = "--resume", "--loss", "squared", "--set", "time=linear"
    for rows in (40, 60):
        write(data[:rows], path)
        assert fit(path, *options) == 0
    whole = StreamFit.load(tmp_path / "m")
    assert whole.read == 60
    assert fit(path, "--loss", "squared", "--set", "time=linear", model="once") == 0
    once = StreamFit.load(tmp_path / "once")
    np.testing.assert_allclose(whole.learner.weights, once.learner.weights, rtol=1e-9)
    days[0] += 1
    changed = data.set_column(0, "when", pa.array(days, pa.int32()).cast(pa.date32()))
    write(changed, path)
    capsys.readouterr()
    assert fit(path, *options) == 2
    assert "d.parquet" in capsys.readouterr().err


def test_all_rows_are_left_out(tmp_path, capsys):
    """Catches a model of no rows, and reasons without their counts."""
    rows = "".join(f"{i},,{i}.5\n" if i % 4 else f",{i},{i}.5\n" for i in range(40))
    (tmp_path / "d.csv").write_text("x,w,y\n" + rows)
    assert fit(tmp_path / "d.csv", "--missing", "skip") == 2
    said = "all 40 rows were left out (10: 'x' is missing; 30: 'w' is missing)"
    assert said in capsys.readouterr().err


def test_columns_that_are_left_out_of_a_pipe(tmp_path, monkeypatch):
    """A pipe cannot be read again without them; catches features of the wrong columns."""
    x, z, y = numbers()
    names = [f"n{number}" for number in range(ROWS)]
    text = csv_text("name,z,x,y", names, z, x, y)
    (tmp_path / "d.csv").write_text(text)
    assert fit(tmp_path / "d.csv", model="file") == 0
    stdin = SimpleNamespace(buffer=io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("fit", "-", "--target", "y", "--model", tmp_path / "pipe", "-q") == 0
    piped, filed = (StreamFit.load(tmp_path / name) for name in ("pipe", "file"))
    assert piped.encoder.features == ["z", "x"]
    assert piped.learner.weights.tobytes() == filed.learner.weights.tobytes()


def test_stray_texts_of_parts_are_added_up():
    """Catches counts of the first part alone, and the place of a later one."""
    parts = [Encoder([Number("x")], Number("y"), missing="skip") for _ in range(3)]
    for number, texts in enumerate([["1", "2"], ["a", "3"], ["b", "c"]]):
        batch = pa.record_batch({"x": texts, "y": [1.0, 2.0]})
        parts[number].encode(Piece(f"f{number}", 0, batch))
    for part in parts[1:]:
        parts[0].merge(part)
    assert parts[0].strays == {"x": [3, "f1, row 1, column 'x' is 'a'"]}
    assert parts[0].left_out == {"'x' is missing": 3}
    assert parts[1].strays["x"][0] == 1


def test_json_lines_that_pyarrow_cannot_read(tmp_path):
    """Catches booleans as numbers, and integers beyond doubles that end the fit."""
    huge = 10**400
    rows = [
        {"mixed": 1, "on": True, "size": huge, "gap": None},
        {"mixed": "a", "on": None, "size": -huge, "gap": None},
        {"mixed": [2], "on": False, "size": 3, "gap": None},
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (piece,) = opened(tmp_path / "d.jsonl", ["mixed", "on", "size", "gap"])
    assert piece.batch.to_pydict() == {
        "mixed": ["1", "a", "[2]"],
        "on": [True, None, False],
        "size": [np.inf, -np.inf, 3.0],
        "gap": [None, None, None],
    }
