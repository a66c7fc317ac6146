"""The examples run and find what they say."""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow
TWO_GRADIENTS = {"Adam + Memory", "Ladder + Memory", "Adam, shuffled, 2 gradients"}  # per step
EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def as_a_script(monkeypatch):
    """Python finds what is beside a script."""
    monkeypatch.syspath_prepend(EXAMPLES)


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path, lines):
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_values_are_within_their_intervals():
    example = load("td_coverage")
    assert all(example.covered(policy, 50_000, seed=0) for policy in example.POLICIES.values())


def test_cart_pole_agrees_with_monte_carlo():
    """Within Monte Carlo's own interval, which is narrow: values range from 1 to 20."""
    example = load("td_cart_pole")
    mean, half = example.monte_carlo(500)
    assert abs(example.learned("lstd", 40_000) - mean) <= half, (mean, half)
    assert half < 0.3


def test_digits_are_learned_and_best_if_shuffled_or_remembered(tmp_path, capsys):
    """One of 397 digits is 0.25 %."""
    example = load("torch_digits")
    found = example.main(1_500, seeds=[0], runs_of=(10, 200), figure=tmp_path / "digits")
    out = capsys.readouterr().out
    one_gradient = {key: value for key, value in found.items() if not TWO_GRADIENTS & {*key}}
    assert max(one_gradient, key=lambda key: found[key][0])[0] == "Adam, shuffled", out
    assert found["Ladder", 10][1] > 0.6, out
    for name in ("Adam", "Ladder"):
        assert found[f"{name} + Memory", 200][0] > found[name, 200][0] + 0.3, out
    assert found["Ladder + Memory", 10][1] > found["Adam, shuffled, 2 gradients", 10][1], out
    assert (tmp_path / "digits.png").stat().st_size > 10_000


def test_bicycle_rentals_are_learned_best_with_a_memory(tmp_path, capsys):
    """Caught: a memory that returns its newest hours, or nothing learnt; without a file.

    A constant has an error of more than 1 on the new hours. These follow on the last ones of the
    stream, so that forgetting the first ones costs nothing there, but on the hours of the stream.
    """
    example = load("torch_bike_hours")
    found = example.main(seeds=range(5), hours=2_000, figure=tmp_path / "bike-hours")
    out = capsys.readouterr().out
    assert max(found["Ladder + Memory"][0], found["Ladder"][0]) < 0.5, out
    assert found["Ladder + Memory"][2] < 0.5 * found["Ladder"][2], out  # hours of the stream
    assert found["Adam + Memory, lr 0.001"][0] < 0.8 * found["Adam, lr 0.001"][0], out
    assert (tmp_path / "bike-hours.png").stat().st_size > 10_000


def test_bicycle_rentals_are_read_by_the_names_of_their_columns(tmp_path):
    example = load("torch_bike_hours")
    columns = example.drawn(50)
    names = sorted(columns)
    lines = [",".join(["instant", *names])]
    lines += [",".join(map(repr, [i, *(float(columns[n][i]) for n in names)])) for i in range(50)]
    path = write(tmp_path / "hour.csv.gz", lines)
    for name, values in example.read(path).items():
        assert values.tolist() == columns[name].tolist()


def test_without_an_average_mag_is_nearer_than_usual_rates(capsys):
    found = load("torch_regimes").main(rows=1_000, seeds=[0, 1])
    out = capsys.readouterr().out
    assert found["MAG"][0] < min(found[f"SGD, lr {lr}"][0] for lr in (0.1, 0.01)), out
    # The ladder's average is about as near as the best of the others.
    assert found["Ladder"][1] < 1.25 * min(average for _, average in found.values()), out


def test_a_value_network_learns_from_one_trajectory(tmp_path, capsys):
    example, asked = load("optax_cart_pole"), 5_000
    found = example.main(
        samples=20_000, seeds=[0], marks=2_000, asked=asked, figure=tmp_path / "values"
    )
    constant = example.returns(example.trajectory(asked, seed=1000)[2]).var()
    out = capsys.readouterr().out
    assert max(found["adam"], found["mlmc(adam)"]) < constant, out
    assert found["ladder, averaged"] < 0.6 * constant, out  # half of it is noise
    assert (tmp_path / "values.png").stat().st_size > 10_000


def test_drift_is_forecast_best_by_forgetting(tmp_path):
    """A comparison that learns before it predicts would have errors of nearly 0."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 6))
    level = 5.0 * np.sin(np.arange(1500) / 150.0)
    lines = ["date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT"]
    for k, row in enumerate(rows):
        cells = [*row, level[k] + row[0] + rng.normal()]
        lines.append(f"2016-07-01 {k % 24:02}:00:00," + ",".join(map(str, cells)))
    path = write(tmp_path / "transformer-oil.csv.gz", lines)
    example = load("drift_records")
    X, y = example.record(path)
    assert X.shape == (1500, 30) and X[25, 6:].argmax() == 1
    found = example.forecast_errors(X, y)
    assert 0.05 < found["auto"] < min(found["never"], found["SGD, averaged"], found["SGD"])


def test_defaults_lose_nothing_to_the_order_of_a_record(tmp_path):
    """Rows read one column off, or a loss other than the estimator's, would not be 0."""
    rng = np.random.default_rng(0)
    rows = np.sort(rng.normal(size=(3000, 4)), axis=0)
    seen = rng.random(3000) < 1.0 / (1.0 + np.exp(-2.0 * rows[:, 0]))
    lines = ["date,Temperature,Humidity,CO2,HumidityRatio,Occupancy"]
    for k, row in enumerate(rows):
        cells = ",".join(map(str, [*row, int(seen[k])]))
        lines.append(f"{k},2015-02-04 {k % 24:02}:00:00,{cells}")
    path = write(tmp_path / "room-occupancy.csv.gz", lines)
    X, y = load("records").record(path)
    np.testing.assert_array_equal(y, seen)
    assert X.shape == (3000, 28) and X[25, 4:].argmax() == 1
    lost = load("order_of_records").gain_lost
    assert abs(lost(X, y)) < 1e-6
    assert abs(lost(X[:, :4], X[:, 0] - 3.0 * X[:, 1])) < 1e-8
    assert lost(X, y, method="mag") > 1e-3


def test_a_csv_file_becomes_the_page_and_the_table_of_the_readme(tmp_path, capsys):
    """Catches a README whose table no command prints any more."""
    example = load("report_heating")
    example.main(tmp_path)
    assert "open it in a browser" in capsys.readouterr().out
    assert "What was learnt about" in (tmp_path / "report.html").read_text(encoding="utf-8")
    example.run("inspect", tmp_path / "heating.mixfree")
    printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    table = readme.split("```text\n")[1].split("```")[0].splitlines()
    assert len(table) > 3 and {" ".join(line.split()) for line in table} <= printed


def test_what_is_kept_decides_what_the_order_costs():
    found = load("three_ways").main(times=(1, 300), rows=4_000, seeds=2)
    exact, kept, chosen, nothing, _, shuffled = (means[1] for means in found.values())
    assert exact < 2.0 * shuffled
    assert max(kept, chosen) < 0.5 * nothing
    assert exact < kept
