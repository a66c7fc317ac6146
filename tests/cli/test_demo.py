import re

import pytest

from mixfree.cli import main


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def test_mag_wins_on_the_slow_stream(tmp_path, capsys):
    assert run("demo", "--out", str(tmp_path / "demo.png"), "--seeds", "3") == 0
    out = capsys.readouterr().out
    gap = {
        method: float(re.search(rf"\b{method} +│ +([\d.e-]+) ±", out)[1])
        for method in ("sgd", "adagrad", "sgd-mlmc", "mag")
    }
    assert gap["mag"] < 0.3 * min(gap["adagrad"], gap["sgd-mlmc"], gap["sgd"])
    assert gap["sgd-mlmc"] < gap["sgd"]
    assert str(tmp_path / "demo.png") in out.replace("\n", "")
    assert (tmp_path / "demo.png").stat().st_size > 10_000


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
