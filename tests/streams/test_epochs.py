"""``mixfree fit --epochs``: several passes over files, for methods with steps."""

import io
import sys

import numpy as np
import pyarrow as pa
import pytest

from mixfree.cli import main
from mixfree.sklearn import StreamRegressor
from mixfree.streams import FitPlan, Source, StreamFit, find_files
from mixfree.streams.metrics import metrics
from tests.helpers import assert_same_bits
from tests.streams.data import table, write

SGD = {"method": "sgd", "scale": None, "step_scale": 0.001}


def gappy(path):
    rows = table(1500).to_pydict()
    rows["u"][4] = rows["v"][1490] = None
    return write(pa.table(rows), path)


def begun(path, **settings):
    source = Source(find_files([str(path)]))
    return StreamFit.begin(source, FitPlan("load", **settings)), source


def test_passes_are_those_of_the_estimator_and_are_tested_only_once(tmp_path):
    """Catches a pass that is skipped, or tested again."""
    path = write(table(1500).drop(["colour", "on"]), tmp_path / "d.parquet")
    fits = {}
    for epochs in (1, 3):
        fit, source = begun(path, parameters=SGD, epochs=epochs)
        fit.run(source.pieces())
        assert fit.complete == (epochs == 1)
        fit.run_again(source)
        fits[epochs] = fit
    X = np.column_stack([table(1500)["u"], table(1500)["v"]])
    model = StreamRegressor(**SGD, epochs=3).fit(X, np.array(table(1500)["load"]))
    np.testing.assert_array_equal(fits[3].learner.weights[0, :2], model.coef_)
    one, three = (metrics(fits[epochs]) for epochs in (1, 3))
    assert one["test_then_train"] == three["test_then_train"]
    assert one["in_sample"] != three["in_sample"]
    assert (fits[3].read, fits[3].used, fits[3].passes) == (1500, 1500, 3)


@pytest.mark.parametrize("missing", ["skip", "mean"])
def test_a_stopped_pass_goes_on_with_the_same_bits(tmp_path, missing):
    """Catches means that keep changing, or rows counted again."""
    path = gappy(tmp_path / "d.parquet")
    settings = {"parameters": SGD, "epochs": 2, "missing": missing}
    whole, source = begun(path, **settings)
    whole.run(source.pieces())
    whole.run_again(source)
    fit, source = begun(path, **settings)
    fit.run(source.pieces())
    left_out = fit.encoder.left_out.copy()

    def stop(fit):
        if fit.read_again:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit.run_again(source, show=stop)
    fit.save(tmp_path / "m")
    again, source = StreamFit.load(tmp_path / "m"), Source(find_files([str(path)]))
    assert 0 < again.read_again < 1500
    again.resume(source, FitPlan("load", **settings))
    again.run(source.pieces())
    again.run_again(source)
    assert again.encoder.left_out == left_out == whole.encoder.left_out
    assert_same_bits(
        {"weights": again.learner.weights, **again.encoder.state_dict()["left_out"]},
        {"weights": whole.learner.weights, **whole.encoder.state_dict()["left_out"]},
    )


def test_what_passes_cannot_do_is_said(tmp_path, monkeypatch, capsys):
    path = write(table(1500), tmp_path / "d.csv")
    steps = ["--target", "load", "--model", str(tmp_path / "m"), "-q", "--method", "sgd"]

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["fit", *arguments, *steps])
        return ended.value.code

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,load\n1,2\n2,3\n")))
    assert run("-", "--epochs", "2") == 2
    assert "--epochs needs files: standard input can be read only once" in capsys.readouterr().err
    assert run(path, "--epochs", "2") == 0
    assert "2 of 2 passes, test-then-train in the first" in capsys.readouterr().out
    assert run(path, "--epochs", "3", "--resume") == 2
    said = "the model was begun with --epochs 2: it cannot be resumed with --epochs 3"
    assert said in capsys.readouterr().err
    with open(path, "a") as file:
        file.write("1,2,red,true,3\n")
    assert run(path, "--epochs", "2", "--resume") == 2
    assert "row 1501, is new, but the second pass has" in capsys.readouterr().err
