import re

import pytest

from mixfree.cli import main
from mixfree.reproduce.paper.demo import run_demo
from mixfree.reproduce.paper.fig1 import final


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def test_mag_wins_on_the_slow_stream():
    rows, _ = run_demo(2_000_000, 3)
    gap = {method: found.mean for method, found in final(rows).items()}
    assert gap["mag"] < 0.3 * min(gap["adagrad"], gap["sgd-mlmc"], gap["sgd"])
    assert gap["sgd-mlmc"] < gap["sgd"]


def test_the_table_and_the_figure_show_every_method(tmp_path, capsys):
    """A method that was run but left out of the report would be missed here."""
    assert run("demo", "--out", str(tmp_path / "demo.png"), "--samples", "3000") == 0
    out = capsys.readouterr().out
    picture = (tmp_path / "demo.svg").read_text(encoding="utf-8")
    for method in ("sgd", "adagrad", "sgd-mlmc", "mag"):
        assert re.search(rf"(?<![\w-]){method}(?![\w-])", out)
        assert method in picture
    assert str(tmp_path / "demo.png") in out.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "/proc/nowhere/demo.png"], "cannot write in the folder /proc/nowhere"),
        (["--out", "demo.pdf"], "saved as .png and .svg"),
        (["--samples", "3"], "--samples"),
        (["--seeds", "0"], "--seeds"),
    ],
)
def test_mistakes_are_one_message_and_code_two(arguments, message, capsys):
    assert run("demo", *arguments) == 2
    assert message in capsys.readouterr().err
