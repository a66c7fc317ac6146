"""Columns of real files: their encoding, independent of the format and the blocks."""

import io
import json
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from mixfree.streams import FitPlan, Source, StreamFit, find_files
from mixfree.streams.columns.column import Number, truths_in
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.fit.look import first_look
from mixfree.streams.read import dialect, formats
from mixfree.streams.read.source import Piece
from tests.streams.data import run, write

ROWS = 1200


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


def design(path, **asked):
    """The features that the first rows suggest."""
    return look(path, **asked).encoder.design()


def stored(folder, data):
    """Write a table, or the text of a CSV file."""
    path = folder / ("d.csv" if isinstance(data, str) else "d.parquet")
    path.write_text(data, encoding="utf-8") if isinstance(data, str) else write(data, path)
    return path


def fitted(folder, data, *options):
    """Fit a table or the text of a CSV file."""
    assert fit(stored(folder, data), *options) == 0
    return StreamFit.load(folder / "m")


def opened(path, names):
    source = Source(find_files([str(path)]))
    source.open(names)
    return source.pieces()


def comma(values):
    return [f"{value:.6f}".replace(".", ",") for value in values]


X, Z, Y = numbers()
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
    "a currency": re.sub(r"\n(-?)(\d)", r"\n\1$\2", PLAIN),
    "per cent": PLAIN.replace(",", " %,").replace("x %,z %,", "x,z,"),
    "row names of R": "".join(
        f'"{number}",{row}\n' if number else f"{row}\n" for number, row in enumerate(PLAIN.split())
    ),
    "a delimiter at the end of rows": PLAIN.replace("\n", ",\n").replace("y,", "y", 1),
    "columns without a name": csv_text("x;z;y;;", comma(X), comma(Z), comma(Y), [""] * ROWS,
                                       [""] * ROWS, separator=";"),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_csv_gives_the_same_bits(tmp_path, shape):
    (tmp_path / "plain.csv").write_text(PLAIN)
    text = SHAPES[shape].replace(" , ", ", ")
    (tmp_path / "d.csv").write_text(text, newline="", encoding="utf-8")
    assert fit(tmp_path / "plain.csv", model="plain") == 0
    assert fit(tmp_path / "d.csv") == 0
    found, plain = (StreamFit.load(tmp_path / name) for name in ("m", "plain"))
    assert found.used == ROWS
    assert found.model.features == plain.model.features == ["x", "z"]
    weights, expected = found.model.learner.weights, plain.model.learner.weights
    if shape.startswith(("columns", "row names", "a delimiter")):
        np.testing.assert_allclose(weights, expected, rtol=1e-12)  # summed in blocks of their own
    else:
        assert weights.tobytes() == expected.tobytes()


def test_truth_values_may_be_written_in_any_case():
    """Catches other texts that are taken for false."""
    assert truths_in(pa.array(["True", "FALSE ", "2"])).to_pylist() == [1.0, 0.0, None]


def test_digits_may_be_grouped(tmp_path):
    """Catches grouped digits taken for different texts, and left out."""
    numbers = [f"{value:,.2f}" for value in 1e5 * X]
    for number, changed in enumerate((",_._", " _,_", "'_._", "\u202f_,_", "._,_")):
        group, point, _ = changed.split("_")
        texts = [each.translate({44: group, 46: point}) for each in numbers]
        path = tmp_path / f"{number}.csv"
        path.write_text(csv_text("x;y", texts, Y, separator=";"), encoding="utf-8")
        found = look(path).encoder.encode(next(iter(opened(path, ["x", "y"]))))
        np.testing.assert_array_equal(np.asarray(found.rows)[:, 0], np.round(1e5 * X, 2))


def test_quoted_texts_may_have_several_lines(tmp_path, monkeypatch):
    """Catches blocks that end within a text, which worked only in files of one block."""
    monkeypatch.setattr(dialect, "MAX_LINE", 4_000)
    notes = [f'"one{{}}or, ""{"two" if x > 0 else "three"}"""' for x in X]
    weights = []
    for blank in (" ", "\n"):
        text = csv_text("x,note,y", X, [note.format(blank) for note in notes], Y)
        found = fitted(tmp_path, text)
        assert found.used == ROWS
        assert found.model.features[1:] == [f'note=one{blank}or, "two"']
        weights.append(found.model.learner.weights.tobytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_objects_within_objects_have_their_own_columns(tmp_path, ending):
    """Catches objects left out as structs, and texts within them that PyArrow cannot read."""
    values = [
        {"x": X[n], "at": {"z": Z[n]} if n % 7 else None, "side": "aab"[n % 3]} for n in range(ROWS)
    ]
    # With the type not given, PyArrow of 2025 and before sorts the fields by name.
    at = pa.struct([("z", pa.float64())])
    kind = pa.struct([("x", pa.float64()), ("at", at), ("side", pa.string())])
    inner = pa.array(values, kind)
    write(pa.table({"in": inner, "list": [[1]] * ROWS, "y": Y}), tmp_path / f"d.{ending}")
    left_out = {} if ending == "jsonl" else {"list": "lists cannot be features"}
    assert look(tmp_path / f"d.{ending}", missing="skip").left_out == left_out
    assert fit(tmp_path / f"d.{ending}", "--missing", "skip") == 0
    found = StreamFit.load(tmp_path / "m")
    assert sorted(found.model.features) == ["in.at.z", "in.side=b", "in.x"]
    assert found.used == ROWS - len(range(0, ROWS, 7))


def test_a_letter_may_lie_across_what_is_read_for_the_head(tmp_path, monkeypatch):
    """Catches decoding the header together with a part of the rows."""
    monkeypatch.setattr(formats, "BLOCK", 64)
    texts = ["ü" * 40, "ß" * 40] * 20
    for before in range(1, 9):
        text = csv_text("x" * before + ",c,y", X[:40], texts, Y[:40])
        assert len(design(stored(tmp_path, text)).features) == 2


def test_dates_are_the_same_in_every_format_and_after_a_resume(tmp_path, monkeypatch):
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
        weights.append(StreamFit.load(tmp_path / ending).model.learner.weights)
        # Hours that appear in another batch are placed elsewhere: equal up to rounding.
        np.testing.assert_allclose(weights[-1], weights[0], rtol=1e-12)
    found = StreamFit.load(tmp_path / "csv")
    assert found.model.features[:2] == ["when: 01 h", "when: 02 h"]
    assert not any("season" in name for name in found.model.features)
    write(data[:400], tmp_path / "d.csv")
    assert fit(tmp_path / "d.csv", model="cut") == 0
    write(data, tmp_path / "d.csv")
    monkeypatch.setattr(formats, "BLOCK", 7_000)
    assert fit(tmp_path / "d.csv", "--resume", model="cut") == 0
    again = StreamFit.load(tmp_path / "cut").model.learner.weights
    np.testing.assert_allclose(again, weights[0], rtol=1e-12)


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
    text = csv_text("when,x,y", texts, X, Y)
    found = fitted(tmp_path, text, "--time", time, "--dates", "when=%m/%d/%y").model.features
    assert [each for each in found if each.endswith((" sin", "days"))] == features
    out = capsys.readouterr().out
    assert ("left out: 'when'" in out) == (time == "none")
    if time == "auto":
        said = "'when' is a date (%m/%d/%y), used as hour, weekday: rows cover "
        assert said + "50 days, too short for season" in out


def test_row_numbers_are_left_out_and_named(tmp_path, capsys):
    """Catches a rule by the name alone, or one that allows no missing number."""
    instant = np.random.default_rng(0).permutation(np.arange(ROWS) + np.repeat([0, 7], ROWS // 2))
    no = pa.array(np.arange(ROWS) + 5.0)
    data = {"No": no, "instant": instant, "hour": np.arange(ROWS) % 24, "x": X, "y": Y}
    assert fitted(tmp_path, pa.table(data)).model.features == ["hour", "x"]
    assert "columns    left out: 'No', 'instant' (row numbers)" in capsys.readouterr().out
    assert design(tmp_path / "d.parquet", features=["No", "x"]).features == ["No", "x"]
    assert design(stored(tmp_path, pa.table({"No": no, "y": Y}))).features == ["No"]
    (tmp_path / "two").mkdir()
    for name in ("1", "2"):  # numbers that begin anew in each file
        text = csv_text("No,x,y", range(600), X[:600], Y[:600])
        (tmp_path / "two" / f"{name}.csv").write_text(text)
    assert design(tmp_path / "two").features == ["x"]


@pytest.mark.parametrize("row", [5_000, 20_000])
@pytest.mark.parametrize("block", [1 << 14, 1 << 20])
def test_one_stray_text_does_not_make_a_column_of_texts(tmp_path, capsys, monkeypatch, row, block):
    """Catches a type that depends on the rows of a block."""
    monkeypatch.setattr(dialect, "MAX_LINE", block)
    u = [str(number % 97) for number in range(30_000)]
    y = 3.0 * (np.arange(30_000) % 97) + 0.5
    u[row] = "error"
    found = fitted(tmp_path, csv_text("u,y", u, y), "--missing", "skip")
    said = f"d.csv, row {row + 1}, column 'u' is 'error'"
    assert f"1 treated as missing, the first: {tmp_path}/{said}" in capsys.readouterr().out
    assert found.model.features == ["u"]
    assert found.model.learner.predict(np.array([[150.0]]))[0] == pytest.approx(450.5)
    assert fit(tmp_path / "d.csv", "--missing", "error") == 2
    assert f"{said}, not a number; --missing skip leaves out" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["copy", "label"])
def test_columns_that_give_the_target_away_are_named(tmp_path, capsys, target):
    """Catches a rule by correlation, which misses a threshold."""
    rng = np.random.default_rng(0)
    one, other = rng.poisson(30, ROWS), rng.poisson(90, ROWS)
    data = {"one": one, "other": other, "x": X, "near": one + other + 5.0 * Z}
    data["y"] = {"copy": 1000.0 + 3.0 * one, "label": one > 30}[target]
    fitted(tmp_path, pa.table(data))
    out = capsys.readouterr().out
    computed = "'y' is computed from other columns, up to rounding: 'one';"
    said = computed if target == "copy" else "'one' alone explains 100 % of"
    assert f"warning    {said}" in out
    assert out.count("--leave-out") == 1
    assert fit(tmp_path / "d.parquet", "--leave-out", "o*") == 0
    assert "warning" not in capsys.readouterr().out
    assert StreamFit.load(tmp_path / "m").model.features == ["x", "near"]


def test_names_with_commas_and_wildcards(tmp_path, capsys):
    data = pa.table({"a,b": Z, "lag1": X, "lag2": Z**2, "l?": X, "y": Y})
    names = fitted(tmp_path, data, "--features", '"a,b",lag*').model.features
    assert names == ["a,b", "lag1", "lag2"]
    names = fitted(tmp_path, data, "--leave-out", '"a,b",l?').model.features
    assert names == ["lag1", "lag2"]
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


def test_a_new_number_among_classes_says_how_to_regress(tmp_path, capsys):
    y = [0, 1] * 6000 + [7]
    write(pa.table({"x": np.arange(12_001) % 5 + 0.5, "y": y}), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet") == 2
    said = capsys.readouterr().err
    assert "row 12001, column 'y' has the unknown class '7'; the classes are 0, 1: give all" in said
    assert "as --set classes, or --loss squared to predict a number" in said
    for options in (["--loss", "squared"], ["--set", "classes=0,1,7"]):
        assert fit(tmp_path / "d.parquet", *options) == 0


def test_a_dry_run_tells_every_column_and_fits_nothing(tmp_path, capsys):
    texts = ["red", "blue"] * (ROWS // 2)
    days = np.datetime64("2019-01-01") + np.arange(ROWS)
    data = {"No": np.arange(ROWS), "day": days, "colour": texts, "gaps\x1b": [None, 1.5] * 600}
    write(pa.table({**data, "y": Y}), tmp_path / "d.parquet")
    assert fit(tmp_path / "d.parquet", "--dry-run") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "No number 0 row numbers" in lines
    assert "day date 0 7 features" in lines
    assert "colour text 0 1 feature" in lines
    assert "gaps\\x1b number 600 1 feature" in lines  # no escape reaches the terminal
    assert "y number the target" in lines
    assert lines[-1] == "plan squared loss, exact; nothing was fitted"
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_last_line_without_a_newline_is_a_row_until_it_grows(tmp_path, capsys, ending):
    """Catches a row left out, and half a number learnt that a resumed fit would keep."""
    rows = [{"x": round(a, 3), "y": round(b, 3)} for a, b in zip(X, Y, strict=True)]
    text = csv_text("x,y", *zip(*(row.values() for row in rows), strict=True))
    if ending == "jsonl":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    last = {"csv": "3,3", "jsonl": '{"x": 3, "y": 3}'}[ending]
    path = tmp_path / f"log.{ending}"
    path.write_text(text + last)
    assert fit(path) == 0
    assert "1,201 read" in capsys.readouterr().out
    path.write_text(text + last + "\n" + last.replace("3", "4") + "\n")
    assert fit(path, "--resume") == 0
    assert "1,202 read" in capsys.readouterr().out
    path.write_text(text + last)
    assert fit(path) == 0
    path.write_text(text + last.replace("3}", "357}").replace("3,3", "3,357") + "\n")
    capsys.readouterr()
    assert fit(path, "--resume") == 2
    said = "has changed in the last line since the model learnt from it: give"
    assert said in capsys.readouterr().err


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


def test_texts_that_all_differ_are_names_also_in_a_short_file(tmp_path, capsys):
    """Catches a short file that is learnt by heart, one weight per row."""
    for rows, left_out in ((1, ["state"]), (2, [])):
        states = [f"state {i // rows}" for i in range(40)]
        path = stored(tmp_path, csv_text("state,x,y", states, X[:40], Y[:40]))
        assert [*design(path).left_out] == left_out


@pytest.mark.parametrize(("values", "said"), [(12, True), (45, False)])
def test_numbers_that_hardly_come_again_are_not_offered_as_classes(tmp_path, values, said):
    path = stored(tmp_path, csv_text("x,y", X[:100], np.arange(100) % values))
    assert any("whole numbers" in note for note in look(path).notes) == said


@pytest.mark.parametrize(("slope", "said"), [(0.1, True), (0.0, False)])
def test_a_target_that_grows_with_the_date_is_named(tmp_path, capsys, slope, said):
    """Catches a trend that only the weekday is fitted to, without a word."""
    days = np.arange("1950-01-01", "1951-06-01", dtype="M8[D]")
    y = slope * np.arange(len(days)) + np.random.default_rng(0).standard_normal(len(days))
    fitted(tmp_path, csv_text("day,y", days, y))
    text = "'day' as a number explains 100 % of 'y'; --time linear uses it so"
    assert (text in re.sub(r"\s+", " ", capsys.readouterr().out)) == said


def test_dates_of_years_have_a_trend_beside_the_season(tmp_path):
    """Catches a season alone, which leaves 92 % of a growing record unexplained."""
    months = np.arange("1950-01", "1962-01", dtype="M8[M]")
    y = 0.1 * np.arange(144) + np.sin(2 * np.pi * np.arange(144) / 12)
    found = design(stored(tmp_path, csv_text("month,y", months, y)))
    assert found.features == ["month: season sin", "month: season cos", "month: days"]
    assert "used as season, trend" in found.notes[0]
    short = stored(tmp_path, csv_text("month,y", months[:23], y[:23]))
    assert design(short).features == found.features[:2]  # a season looks like a trend
    years = np.arange("1950", "2000", dtype="M8[Y]").astype("M8[D]")
    path = stored(tmp_path, csv_text("when,x,y", years, X[:50], Y[:50]))
    assert design(path).features == ["when: days", "x"]
    path = stored(tmp_path, csv_text("when,x,y", np.repeat(years[:2], 25), X[:50], Y[:50]))
    assert "without an hour, weekday or season that varies" in design(path).left_out["when"]


def test_a_time_that_counts_the_rows_is_a_trend(tmp_path):
    """Catches the rule for row numbers, applied to a column that is called a time."""
    text = csv_text("TIME,No,x,y", range(50), range(50), X[:50], Y[:50])
    assert design(stored(tmp_path, text)).features == ["TIME", "x"]


def test_classes_given_as_numbers_or_truth_values(tmp_path, capsys):
    """Catches classes sorted as texts, not as the file has them, and two names of one class."""
    rows = "".join(f"{0.7 * i % 3},{[1, 2, 10][i % 3]}\n" for i in range(60))
    (tmp_path / "d.csv").write_text("x,y\n" + rows)
    assert look(tmp_path / "d.csv", classes=("10", "2.0", "1")).encoder.classes == ["1", "2", "10"]
    assert fit(tmp_path / "d.csv", "--set", "classes=1,1.0") == 2
    said = "classes must be different values as in the target, not '1', '1.0'"
    assert said in capsys.readouterr().err
    (tmp_path / "d.csv").write_text("x,y\n1,True\n2,False\n4,True\n")
    assert fit(tmp_path / "d.csv", "--set", "classes=True,False") == 0


def test_columns_that_are_left_out_of_a_pipe(tmp_path, monkeypatch):
    """A pipe cannot be read again without them; catches features of the wrong columns."""
    text = csv_text("name,z,x,y", [f"n{number}" for number in range(ROWS)], Z, X, Y)
    filed = fitted(tmp_path, text)
    stdin = SimpleNamespace(buffer=io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("fit", "-", "--target", "y", "--model", tmp_path / "pipe", "-q") == 0
    piped = StreamFit.load(tmp_path / "pipe")
    assert piped.model.features == ["z", "x"]
    assert piped.model.learner.weights.tobytes() == filed.model.learner.weights.tobytes()


def test_stray_texts_of_parts_are_added_up():
    """Catches counts of the first part alone, and the place of a later one."""
    parts = [Encoder([Number("x")], Number("y"), missing="skip") for _ in range(3)]
    for number, texts in enumerate([["1", "2"], ["a", "3"], ["b", "c"]]):
        batch = pa.record_batch({"x": texts, "y": [1.0, 2.0]})
        parts[number].encode(Piece(f"f{number}", 0, batch))
    for part in parts[1:]:
        parts[0].merge(part)
    assert parts[0].not_parsed == {"x": [3, "f1, row 1, column 'x' is 'a'"]}
    assert parts[0].left_out == {"'x' is missing": 3}
    assert parts[1].not_parsed["x"][0] == 1


def test_json_lines_of_different_values_in_a_column(tmp_path):
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
        "mixed": ["1", "a", "[2.0]"],
        "on": [True, None, False],
        "size": [np.inf, -np.inf, 3.0],
        "gap": [None, None, None],
    }


def test_a_column_that_begins_empty_is_used_once_it_has_values(tmp_path):
    """Catches a column judged by the first rows alone."""
    x, _, y = numbers(15_000)
    late = np.where(np.arange(15_000) < 12_000, "", np.char.mod("%.6f", x))
    found = fitted(tmp_path, csv_text("late,y", late, y)).model
    assert found.features == ["late", "late: missing"]
    expected = np.polyfit(x[12_000:], y[12_000:], 1)[0]
    assert found.learner.weights[0, 0] == pytest.approx(expected, rel=1e-4)


def test_gaps_have_the_mean_and_a_weight_of_their_own_if_they_are_many(tmp_path):
    """Catches the mean of earlier values, and a row with a gap that is left out."""
    for gaps, features in ((300, ["x", "x: missing", "z"]), (3, ["x", "z"])):
        holes = np.where(np.arange(ROWS) < gaps, np.nan, X)
        table = pa.table({"x": pa.array(holes, from_pandas=True), "z": Z, "y": Y})
        found = fitted(tmp_path, table)
        assert (found.used, found.model.features) == (ROWS, features)
        filled = np.where(np.isnan(holes), np.nanmean(holes), holes)
        indicator = [np.isnan(holes) * 1.0] * (gaps == 300)
        rows = np.column_stack([filled, *indicator, Z, np.ones(ROWS)])
        expected = np.linalg.lstsq(rows, Y, rcond=None)[0]
        np.testing.assert_allclose(found.model.learner.weights[0], expected, rtol=1e-7)


def test_year_month_day_and_hour_are_one_date(tmp_path, capsys):
    """Catches months as numbers, and a date in parts that has no weekday."""
    times = np.datetime64("2019-01-01T00", "h") + np.arange(2 * 8760)
    stamp = [time.timetuple()[:4] for time in times.astype("M8[us]").tolist()]
    rng = np.random.default_rng(0)
    y = (times.astype(int) % 24 == 7) * 5.0 + rng.standard_normal(len(times))
    parts = dict(zip(("year", "month", "day", "hour"), np.array(stamp).T, strict=True))
    one = fitted(tmp_path, pa.table({"when": times.astype("M8[us]"), "y": y}))
    capsys.readouterr()
    found = fitted(tmp_path, pa.table({**parts, "y": y}))
    said = "'date' is a date in 4 columns, year, month, day, hour, used as hours"
    assert said in capsys.readouterr().out
    a, b = (each.model.learner.weights for each in (found, one))
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_file_without_a_header(tmp_path):
    """Catches a first row taken for names."""
    (tmp_path / "d.csv").write_text(PLAIN.partition("\n")[2])
    assert fit(tmp_path / "d.csv", "--no-header", target="c3") == 0
    assert StreamFit.load(tmp_path / "m").used == ROWS


def test_texts_of_a_dictionary_that_no_row_has_are_no_texts(tmp_path):
    """Catches a stored dictionary taken for the texts of its rows: too many, in another order."""
    x, _, y = numbers(400)
    texts = pa.array([f"unit {k:03}" for k in range(300)])
    codes = pa.array([None, 7, 3, 299] * 100, pa.int16())
    found = []
    for where in (pa.DictionaryArray.from_arrays(codes, texts), texts.take(codes)):
        write(pa.table({"x": x, "unit": where, "y": y}), tmp_path / "d.arrow")
        assert fit(tmp_path / "d.arrow") == 0
        found.append(StreamFit.load(tmp_path / "m").model)
    assert found[0].features == found[1].features
    assert (found[0].learner.weights == found[1].learner.weights).all()
    assert sum("unit" in name for name in found[0].features) == 3
