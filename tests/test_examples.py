"""The examples run and find what they say."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


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


def test_shuffled_digits_are_learned_best(tmp_path, capsys):
    found = load("torch_digits").main(samples=600, seeds=1, figure=tmp_path / "digits")
    best = max(found, key=lambda key: found[key][0])
    assert best[0] == "Adam, shuffled", capsys.readouterr().out
    assert (tmp_path / "digits.png").stat().st_size > 10_000


def test_a_series_is_learned_to_better_than_its_spread(tmp_path, capsys):
    example = load("torch_series")
    found = example.main(samples=400, seeds=1, figure=tmp_path / "series")
    spread = float(example.series(20_000, 50, seed=99).var())
    assert found["Adam, shuffled"][0] < 0.8 * spread, capsys.readouterr().out
    assert (tmp_path / "series.png").stat().st_size > 10_000


def test_without_an_average_mag_is_nearer_than_usual_rates(capsys):
    found = load("torch_regimes").main(rows=2_000, seeds=2)
    assert found["MAG"][0] < min(found[f"SGD, lr {lr}"][0] for lr in (0.1, 0.01)), (
        capsys.readouterr().out
    )


def test_a_value_network_learns_from_one_trajectory(tmp_path, capsys):
    found = load("optax_cart_pole").main(
        samples=6_000, seeds=1, marks=1_000, asked=5_000, figure=tmp_path / "values"
    )
    assert found["adam"] < 20.0, capsys.readouterr().out  # a tenth of it is noise
    assert (tmp_path / "values.png").stat().st_size > 10_000
