"""The examples run and find what they say."""

import importlib.util
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["td_frozen_lake", "td_cliff_walking"])
def test_values_are_within_their_intervals(name, capsys):
    assert load(name).main(samples=50_000)
    assert "within their intervals" in capsys.readouterr().out


def test_cart_pole_agrees_with_monte_carlo(capsys):
    """Within Monte Carlo's own interval, which is narrow: values range from 1 to 20."""
    learned, mean, half = load("td_cart_pole").main(samples=40_000, episodes=500)
    assert abs(learned - mean) <= half, capsys.readouterr().out
    assert half < 0.3


def test_digits_are_learned_and_best_if_shuffled(tmp_path, capsys):
    """One of 397 digits is 0.25 %, and the standard error at an accuracy of a tenth 1.5 %."""
    example = load("torch_digits")
    found = example.main(samples=1_500, seeds=1, figure=tmp_path / "digits")
    start, out = example.accuracy(example.network(0), example.data()[1]), capsys.readouterr().out
    assert max(found, key=lambda key: found[key][0])[0] == "Adam, shuffled", out
    assert min(found["Ladder", 10]) > 0.6, out
    assert min(found["MLMC(Adam)", 10]) > start + 4.0 * 0.015, out
    assert (tmp_path / "digits.png").stat().st_size > 10_000


def test_a_series_is_learned_to_better_than_its_spread(tmp_path, capsys):
    example = load("torch_series")
    found = example.main(samples=1_000, lasting=15, seeds=1, figure=tmp_path / "series")
    spread = float(example.series(20_000, 50, seed=99).var())
    for name in ("Adam, shuffled", "MLMC(Adam)", "Ladder"):
        assert max(found[name]) < 0.8 * spread, (name, capsys.readouterr().out)
    assert (tmp_path / "series.png").stat().st_size > 10_000


def test_without_an_average_mag_is_nearer_than_usual_rates(capsys):
    found = load("torch_regimes").main(rows=2_000, seeds=2)
    out = capsys.readouterr().out
    assert found["MAG"][0] < min(found[f"SGD, lr {lr}"][0] for lr in (0.1, 0.01)), out
    # The ladder's average is about as near as the best of the others.
    assert found["Ladder"][1] < 1.25 * min(average for _, average in found.values()), out


def test_a_value_network_learns_from_one_trajectory(tmp_path, capsys):
    example, asked = load("optax_cart_pole"), 5_000
    found = example.main(
        samples=20_000, seeds=1, marks=2_000, asked=asked, figure=tmp_path / "values"
    )
    constant = example.returns(example.trajectory(asked, seed=1000)[2]).var()
    out = capsys.readouterr().out
    assert max(found["adam"], found["mlmc(adam)"]) < constant, out
    assert found["ladder, averaged"] < 0.6 * constant, out  # half of it is noise
    assert (tmp_path / "values.png").stat().st_size > 10_000


def test_what_is_kept_decides_what_the_order_costs():
    found = load("three_ways").main(times=(1, 300), rows=4_000, seeds=2)
    exact, kept, chosen, nothing, _, shuffled = (means[1] for means in found.values())
    assert exact < 2.0 * shuffled
    assert max(kept, chosen) < 0.5 * nothing
    assert exact < kept
