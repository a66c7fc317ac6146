"""``mixfree chain``: output, figures and errors."""

import json
from pathlib import Path

import pytest

from mixfree.chains import two_state
from tests.helpers import run_command


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run the command in an empty folder; return its exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    return lambda *arguments: (run_command("chain", *arguments), "".join(capsys.readouterr()))


def lines(name: str, *rows: str) -> None:
    Path(name).write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def test_a_named_chain_and_a_matrix_with_and_without_titles(run):
    code, text = run("two-state", "1e-4")
    assert code == 0 and "3,466" in text and "Theorems 12.4 and 12.5" in text
    lines("plain.csv", "0.9, 0.1", "0.3, 0.7")
    lines("titled.csv", "up,down", "0.9,0.1", "0.3,0.7", "")
    for name in ("plain.csv", "titled.csv"):
        code, text = run(name, "--json", "--eps", "0.01")
        assert code == 0
        assert json.loads(text)["mixing_time"] == 9


def test_a_path_is_estimated(run):
    path = two_state(0.05).simulate(20_000, seed=0)
    lines("path.csv", "state", *map(str, path))
    lines(
        "days.csv", "day,sky", *(f"{day},{'clear' if s else 'rain'}" for day, s in enumerate(path))
    )
    code, text = run("path.csv", "--estimate", "--plot", "decay.png")
    assert code == 0
    assert "With 95 % confidence the mixing time is between" in text
    assert "decay.png, decay.svg" in text
    assert "mixing time" in Path("decay.svg").read_text(encoding="utf-8")
    answers = []
    for options in (["path.csv"], ["days.csv", "--column", "sky"], ["days.csv", "--column", "2"]):
        answers.append(json.loads(run(*options, "--estimate", "--json")[1]))
    assert all(answer["samples"] == 20_000 and answer["states"] == 2 for answer in answers)
    assert len({(answer["lower"], answer["upper"]) for answer in answers}) == 1
    assert answers[0]["lower"] <= two_state(0.05).mixing_time() <= answers[0]["upper"]


def test_a_first_word_that_never_comes_again_is_the_header(run):
    words = [("clear", "rain")[s] for s in two_state(0.05).simulate(2_000, seed=0)]
    lines("words.csv", "sky", *words)
    lines("bare.csv", *words)
    code, text = run("words.csv", "--estimate", "--json")
    headed = json.loads(text)
    code, text = run("bare.csv", "--estimate", "--json")
    assert (code, headed.pop("column")) == (0, "sky")
    assert headed == json.loads(text)
    assert headed["samples"] == 2_000 and headed["states"] == 2


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ([], [], "file.csv is empty"),
        (["\udcff\udcfe"], [], "file.csv is not a CSV file of text"),
        (["0.5,0.5", "0.5,0.6"], [], "row 2 of P sums to 1.1"),
        (["0.5,0.5"], [], "a transition matrix must be square; for a path"),
        (["0.5,x", "0.5,0.5"], [], "row 1, column 2: 'x' is not a number"),
        (["sky", "sun", "rain"], [], "'sun' is not a number; for a path of states give --estimate"),
        (["1,2", "2,1"], ["--estimate", "--column", "sky"], "no column 'sky'; it has 1, 2"),
        (["0,1", "1,0"], [], "period 2 and visits these sets in turn: {1}, {2}"),
        (["1", "nan", "2"], ["--estimate"], "state 2 of the path is missing ('nan')"),
        (["1,2", "2,1"], ["--estimate"], "2 columns: choose one with --column"),
        (["1", "2"], ["--estimate", "--eps", "0.25"], "--eps cannot be combined with --estimate"),
        (None, ["nowhere.csv"], "neither a file nor the name of a chain: two-state"),
        (None, ["two-state"], "needs a parameter, as in: mixfree chain two-state 0.1"),
        (None, ["cycle", "4.5"], "takes a whole number, not '4.5'"),
    ],
)
def test_mistakes_are_one_line_and_code_2(run, rows, arguments, message):
    if rows is not None:
        text = "".join(row + "\n" for row in rows)
        Path("file.csv").write_text(text, encoding="utf-8", errors="surrogateescape")
        arguments = ["file.csv", *arguments]
    code, text = run(*arguments)
    assert code == 2
    assert message in text
    assert text.count("\n") == 1
