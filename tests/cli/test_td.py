"""``mixfree td``."""

import inspect
import json

import pytest

from mixfree.cli.td import td
from mixfree.td import evaluate_policy
from tests.helpers import run_command


def run(capsys, *arguments):
    code = run_command("td", *arguments)
    return code, *capsys.readouterr()


def test_exact_answer_stands_beside_the_estimate(capsys):
    code, out, _ = run(capsys, "FrozenLake-v1", "--policy", "uniform", "--samples", "3000")
    assert code == 0  # the exact value of state 14, and the method that ran, as none was given
    assert all(each in out for each in ("0.3915", "3,000 transitions", "mixing time 4", "lstd"))


def test_defaults_are_those_of_python():
    flags, arguments = (inspect.signature(each).parameters for each in (td, evaluate_policy))
    for name in ("gamma", "samples", "policy", "radius", "method", "seed"):
        assert flags[name].default == arguments[name].default, name


def test_a_half_life_prints_values_without_intervals(capsys):
    arguments = ("FrozenLake-v1", "--samples", "500", "--half-life", "100", "--lam", "0.5")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "no intervals with a half-life" in out
    assert "% interval" not in out
    assert "0.3915" in out
    answer = json.loads(run(capsys, *arguments, "--json")[1])
    assert answer["level"] is None
    assert "low" not in answer["states"][0]


def test_policy_from_a_file_and_json(capsys, tmp_path):
    file = tmp_path / "policy.csv"
    file.write_text("\n".join(["0"] + ["1"] * 47))
    arguments = ("CliffWalking-v1", "--policy", str(file), "--gamma", "0.5", "--samples", "1000")
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    (line,) = json.loads(out)["states"]
    assert (line["state"], line["exact"]) == (36, pytest.approx(-200.0))


@pytest.mark.parametrize("method", ["lstd", "ladder"])
def test_states_without_an_interval_say_why(capsys, method):
    arguments = ("FrozenLake-v1", "--samples", "200", "--seed", "3", "--level", "0.999")
    code, out, _ = run(capsys, *arguments, "--method", method)
    assert code == 0
    assert out.count("never visited") == 2
    assert "99.9 % interval" in out
    assert out.count("too few visits") == 2
    assert out.count("n/a (zero variance)") == 7  # no reward was seen
    assert "11 unbounded intervals" in out
    assert "autocorrelation time unknown" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["NoSuch-v0"], "environment 'NoSuch-v0' cannot be made"),
        (["CartPole-v1"], "CartPole-v1 must have numbered states, but its observations are of Box"),
        (["FrozenLake-v1", "--policy", "best"], "policy must be uniform or a CSV file"),
        (["FrozenLake-v1", "--method", "mag"], "mag takes its step size from --radius"),
        (["FrozenLake-v1", "--lam", "1.5"], "--lam must be in [0, 1]"),
        (["FrozenLake-v1", "--policy", __file__], "test_td.py must contain numbers"),
        (["FrozenLake-v1", "--radius", "1", "--lam", "0.5"], "--lam needs --method lstd"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert err.strip().count("\n") == 0
