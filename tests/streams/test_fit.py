"""``mixfree fit`` on the same rows in every form gives the same model."""

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from mixfree.sklearn import StreamClassifier, StreamRegressor
from mixfree.streams import StreamFit
from mixfree.streams.fit.reservoir import Reservoir
from mixfree.streams.read import formats
from tests.helpers import assert_same_bits
from tests.streams.data import run, table, write

CSV = ["--format", "csv"]


def fit(*arguments, target="load", quiet=True):
    return run("fit", *arguments, "--target", target, *(["-q"] if quiet else []))


def bits(path):
    fit = StreamFit.load(path)
    return fit.learner.weights.tobytes(), fit.used


def bits_of(estimator):
    return estimator.learner_.weights.tobytes(), estimator.n_samples_seen_


@pytest.fixture
def csv_model(tmp_path):
    write(table(), tmp_path / "all.csv")
    assert fit(tmp_path / "all.csv", "--model", tmp_path / "csv.mixfree") == 0
    return tmp_path / "csv.mixfree"


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl", "csv.gz", "csv.zst"])
def test_every_format_gives_the_same_bits(tmp_path, csv_model, ending):
    path = write(table(), tmp_path / f"all.{ending}")
    assert fit(path, "--model", tmp_path / "other.mixfree") == 0
    assert bits(tmp_path / "other.mixfree") == bits(csv_model)


def test_a_late_gap_among_doubles_is_that_of_a_null(tmp_path, capsys):
    """Catches rows before NaN that are learnt again, or left out, and a place in the batch only."""
    data, fits = table(9000).select(["u", "v", "load"]), []
    v, late = data["v"].to_numpy().copy(), slice(7000, 7020)
    v[late] = np.nan
    for name, nulls in (("nan", False), ("null", True)):
        gaps = data.set_column(1, "v", pa.array(v, from_pandas=nulls))
        path = write(gaps, tmp_path / "d.parquet")
        assert fit(path, "--model", tmp_path / name) == 0
        fits.append(StreamFit.load(tmp_path / name))
    one, two = fits
    assert (one.used, one.encoder.rows, one.learner.samples) == (9000, 9000, 9000)
    np.testing.assert_allclose(one.learner.weights, two.learner.weights, rtol=1e-9)
    np.testing.assert_array_equal(one.reservoir.rows, two.reservoir.rows)
    v[7777] = np.inf
    path = write(data.set_column(1, "v", pa.array(v)), tmp_path / "d.parquet")
    assert fit(path, "--model", tmp_path / "m") == 2
    assert "row 7778, column 'v' is infinite" in capsys.readouterr().err


def test_the_command_line_gives_the_weights_of_the_estimator(csv_model):
    data, found = table(), StreamFit.load(csv_model).model
    colour = np.array(data["colour"])[:, None] == [name[7:] for name in found.features[2:4]]
    X = np.column_stack([data["u"], data["v"], colour, data["on"]])
    model = StreamRegressor(scale="running").fit(X, np.array(data["load"]))
    np.testing.assert_allclose(found.learner.weights, model.learner_.weights, rtol=1e-10)


def test_folders_and_globs_are_read_by_name(tmp_path, csv_model):
    data = table()
    for name, part in (("b", data[1000:]), ("a", data[:1000])):
        write(part, tmp_path / f"part-{name}.csv")
    (tmp_path / "days").mkdir()
    write(data[:1000], tmp_path / "days" / "1.csv")
    write(data[1000:], tmp_path / "days" / "2.csv.gz")
    for about in ("_SUCCESS", ".days.csv"):
        (tmp_path / "days" / about).write_text("written by another program")
    (tmp_path / "mixed").mkdir()  # catches texts of two Arrow types that are not joined
    large = data.set_column(2, "colour", data["colour"].cast(pa.large_string()))
    write(data[:1000], tmp_path / "mixed" / "1.parquet")
    write(large[1000:], tmp_path / "mixed" / "2.arrow")
    folders = [tmp_path / "days"], [tmp_path / "days", *CSV], [tmp_path / "mixed"]
    for source in ([tmp_path / "part-*.csv"], *folders):
        assert fit(*source, "--model", tmp_path / "m") == 0
        assert bits(tmp_path / "m") == bits(csv_model)


@pytest.mark.parametrize("first", [0, 1])
def test_flags_that_one_of_two_files_has_as_numbers(tmp_path, csv_model, first):
    """Catches the categories true, 1 and 0, which come from files in one of their orders."""
    flags, numbers = table(), table().set_column(3, "on", table()["on"].cast(pa.int8()))
    for rows, part in ((slice(1000), first), (slice(1000, None), 1 - first)):
        write((flags, numbers)[part][rows], tmp_path / f"{rows.start}.parquet")
    assert fit(tmp_path / "None.parquet", tmp_path / "1000.parquet", "--model", tmp_path / "m") == 0
    found, expected = (StreamFit.load(path).model for path in (tmp_path / "m", csv_model))
    np.testing.assert_allclose(found.learner.weights, expected.learner.weights, rtol=1e-10)


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_standard_input(tmp_path, csv_model, monkeypatch, form):
    sink = pa.BufferOutputStream()
    if form == "csv":
        pa.csv.write_csv(table(), sink)
    else:
        with pa.ipc.new_stream(sink, table().schema) as writer:
            writer.write_table(table())
    monkeypatch.setattr(formats, "BLOCK", 20_000)  # several blocks; the first gives the schema
    stdin = io.TextIOWrapper(io.BytesIO(sink.getvalue().to_pybytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert fit("-", "--format", form, "--model", tmp_path / "m") == 0
    assert bits(tmp_path / "m") == bits(csv_model)


OPTIONS = {
    "exact": [],
    "ladder": ["--method", "ladder", "--set", "scale=running"],
    "memory": ["--method", "ladder", "--set", "memory=500"],
    "huber": ["--loss", "huber", "--set", "memory=500"],
    "forgetting": ["--half-life", "auto"],
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_resuming_gives_the_same_bits_wherever_it_was_cut(tmp_path, monkeypatch, options):
    path = write(table(), tmp_path / "all.parquet")
    assert fit(path, "--model", tmp_path / "whole", *options) == 0
    whole = StreamFit.load(tmp_path / "whole")
    monkeypatch.setattr(formats, "ROWS", 170)
    saves, save = [], StreamFit.save

    class Killed(BaseException):
        pass

    def save_twice_then_die(self, where):
        save(self, where)
        saves.append(self.read)
        if len(saves) % 2 == 0:
            raise Killed

    arguments = [path, "--model", tmp_path / "m", "--checkpoint-every", 300, "--resume", *options]
    monkeypatch.setattr(StreamFit, "save", save_twice_then_die)
    while not (saves and saves[-1] == len(table())):
        try:
            fit(*arguments)
        except Killed:
            monkeypatch.setattr(formats, "ROWS", formats.ROWS + 60)  # cut elsewhere next time
    assert len(saves) > 5
    assert bits(tmp_path / "m") == bits(tmp_path / "whole")
    found = StreamFit.load(tmp_path / "m")
    assert_same_bits(found.timeline.plain(), whole.timeline.plain())
    if options == OPTIONS["exact"]:
        ends = [each.learner.inference.conf_int().tobytes() for each in (found, whole)]
        assert ends[0] == ends[1]
    if options == OPTIONS["forgetting"]:
        assert found.learner.forgetting.history == whole.learner.forgetting.history


def test_classes(tmp_path, capsys):
    data = table()
    path = write(data, tmp_path / "all.csv")
    options = ["--features", "u,v,load", "--model", tmp_path / "m"]
    assert fit(path, *options, target="colour", quiet=False) == 0
    found = StreamFit.load(tmp_path / "m")
    X = np.column_stack([data["u"], data["v"], data["load"]])
    model = StreamClassifier(scale="running").fit(X, np.array(data["colour"]))
    assert (found.learner.weights.tobytes(), found.used) == bits_of(model)
    report = capsys.readouterr().out
    assert "3,000 read, 3,000 used, 0 left out" in report
    assert "the best constant prediction" in report


@pytest.mark.parametrize(("policy", "used"), [("skip", 2997), ("auto", 2999)])
def test_missing_values_are_counted(tmp_path, capsys, policy, used):
    data = table().to_pydict()
    data["u"][100] = data["u"][2000] = data["load"][5] = None
    path = write(pa.table(data), tmp_path / "gaps.csv")
    assert fit(path, "--missing", policy, "--model", tmp_path / "m") == 0
    assert StreamFit.load(tmp_path / "m").used == used
    out = capsys.readouterr().out
    assert "1 left out: 'load' is missing" in out
    assert ("2 left out: 'u' is missing" in out) == (policy == "skip")
    assert fit(path, "--missing", "error", "--model", tmp_path / "m") == 2
    assert "row 6, column 'load' is missing; --missing skip" in capsys.readouterr().err


@pytest.mark.parametrize(
    "parameters",
    [
        {"method": "mag", "step_scale": 20.0, "options": {"levels": 3}},
        {"method": "adagrad", "output": "last"},
        {"method": "ladder", "memory": 200, "draws": 3},
    ],
)
def test_options_reach_the_method(tmp_path, capsys, parameters):
    """Catches a setting that is parsed and dropped."""
    path = write(table(), tmp_path / "d.parquet")
    given = {**parameters, **parameters.get("options", {})}
    options = [f"--set={name}={given[name]}" for name in given if name not in ("method", "options")]
    command = [path, "--features", "u,v", "--model", tmp_path / "m", *options]
    assert fit(*command, "--method", given["method"]) == 0
    X = np.column_stack([table()["u"], table()["v"]])
    model = StreamRegressor(scale="running", **parameters).fit(X, np.array(table()["load"]))
    assert bits(tmp_path / "m") == bits_of(model)
    if "output" in given:
        assert fit(*command) == 2
        said = "--set output is for iterative methods, such as --method ladder"
        assert said in capsys.readouterr().err


def test_worse_than_a_constant_is_said(tmp_path, capsys):
    data = table()
    far = pa.array(np.array(data["load"]) + 1000.0)
    path = write(data.set_column(4, "load", far), tmp_path / "d.parquet")
    said = "worse than the best constant: more rows may help, or another --set step_scale; the"
    for method in (["mag"], ["sgd", "--set", "step_scale=1."]):
        assert fit(path, "--model", tmp_path / "m", "--method", *method) == 0
        assert said in capsys.readouterr().out
    assert fit(path, "--model", tmp_path / "m", "--method", "sgd", "--set", "step_scale=2") == 2
    diverged = "sgd has diverged by sample 927: alpha=2 is too large, type alpha=0.1, or --set step"
    assert diverged in capsys.readouterr().err
    ladder = ["--method", "ladder", "--set", "scale=running"]
    for options in (ladder, []):
        assert fit(path, "--model", tmp_path / "m", *options) == 0
        assert "warning" not in capsys.readouterr().out
    few = tmp_path / "few.csv"
    few.write_text("a,b,load\n1,2,3\n4,5,7\n2,0,1\n")
    assert fit(few, "--model", tmp_path / "m") == 0
    out = capsys.readouterr().out
    assert "warning" not in out
    assert "no intervals: 3 rows make 3 batches, and 8 are needed" in out
    assert "2 features can fit 3 rows whatever their targets" in out
    assert "too few rows to tell how correlated they are" in out


@pytest.mark.parametrize("target", ["count", "kind"])
def test_a_few_rare_targets_are_enough(tmp_path, capsys, target):
    """None of them is among the 2,048 rows sampled for the report."""
    rows, drawn = 60_000, Reservoir()
    path, places = tmp_path / "d.parquet", np.arange(rows, dtype=np.uint64)
    drawn.add(places[:, None], np.zeros(rows), path.name, places)
    rare = np.setdiff1d(np.arange(rows), drawn.rows)[11_111::11_111]
    count = np.zeros(rows)
    count[rare] = 1.0
    x = count + np.random.default_rng(0).standard_normal(rows)
    kind = np.where(count == 1.0, "fraud", "fair")
    write(pa.table({"x": x, "count": count, "kind": kind}), path)
    options = ["--features", "x", "--model", tmp_path / "m"]
    options += ["--set", "classes=fair,fraud"] if target == "kind" else []
    assert fit(path, *options, target=target) == 0
    found = StreamFit.load(tmp_path / "m")
    assert len(set(found.reservoir.targets)) == 1
    assert found.varied
    assert "are too rare to be in the sample of rows" in capsys.readouterr().out


def test_the_bar_is_shown_before_the_first_batch_is_learnt(tmp_path, capsys, monkeypatch):
    """Catches a bar that appears only after compilation."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    shown, learn = [], StreamFit.learn

    def learn_and_see(self, piece):
        shown.append(capsys.readouterr().err)
        learn(self, piece)

    monkeypatch.setattr(StreamFit, "learn", learn_and_see)
    path = write(table(), tmp_path / "d.parquet")
    for method, compiles in (("ladder", True), ("exact", False)):
        shown.clear()
        capsys.readouterr()  # what is left of the fit before: the bar is drawn anew while it learns
        assert fit(path, "--model", tmp_path / "m", "--method", method, quiet=False) == 0
        assert ("compiles, once" in shown[0]) == compiles
        assert "0/3000" in shown[0]


def test_the_gap_of_a_fit_with_little_memory_is_reported(tmp_path, capsys):
    path = write(table(), tmp_path / "d.parquet")
    for memory, gap in (("500", True), ("32MB", False)):
        options = ["--loss", "huber", "--set", f"memory={memory}", "--model", tmp_path / "m"]
        assert fit(path, *options) == 0
        out = capsys.readouterr().out
        found = StreamFit.load(tmp_path / "m").model.learner.gap
        said = f"optimality gap: about {found.estimate:.2g}, below {found.upper:.2g}"
        assert (said in out) == gap == (found.upper > 0.0)
        assert "minimises the loss of all rows" in out


def test_forgetting_is_reported(tmp_path, capsys):
    """Catches the half-life of the last rows only."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(12_000)
    slope = np.where(np.arange(len(x)) < 9000, 1.0, -1.0)
    data = pa.table({"x": x, "load": slope * x + 0.1 * rng.standard_normal(len(x))})
    path = write(data, tmp_path / "d.parquet")
    assert fit(path, "--model", tmp_path / "m", "--half-life", "auto") == 0
    out = capsys.readouterr().out
    forgetting = StreamFit.load(tmp_path / "m").learner.forgetting
    row, life = forgetting.history[-1]
    assert 9000 < row < 9200
    assert f"from row {row:,} on, the half-life that predicts best is {life:.0f} rows" in out
    assert f"{life:.0f} rows ({100 * forgetting.shares[life]:.0f} %)" in out
    assert "test-then-train" in out and "in-sample" not in out
    assert fit(path, "--model", tmp_path / "m", "--half-life", "300") == 0
    assert "a row counts half after 300 rows" in capsys.readouterr().out


def test_the_command_does_not_wait_for_what_it_does_not_need(tmp_path):
    """Numba and SciPy's distributions take longer to import than an exact fit takes."""
    path = write(table(rows=300), tmp_path / "d.parquet")
    script = (
        "import sys; sys.modules.update(dict.fromkeys(['sklearn', 'numba', 'scipy.stats'])); "
        "from mixfree.cli import main; main()"
    )
    command = [sys.executable, "-c", script, "fit", path, "--target", "load", "-q"]
    subprocess.run([*command, "--model", tmp_path / "m"], check=True, capture_output=True)
    assert StreamFit.load(tmp_path / "m").learner.samples == 300
