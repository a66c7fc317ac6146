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
    """Within both errors: that of Monte Carlo, and that of TD by its own interval."""
    learned, mean, half = load("td_cart_pole").main(samples=40_000, episodes=500)
    assert abs(learned - mean) < half + 0.4, capsys.readouterr().out
    assert half < 0.4
