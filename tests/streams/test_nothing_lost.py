"""Commands never skip rows silently and never overwrite their inputs."""

import pytest

from tests.streams.data import run

HEAD = "u,y\n"


def rows(count, slope):
    return HEAD + "".join(f"{i % 7},{slope * (i % 7)}\n" for i in range(count))


@pytest.fixture
def files(tmp_path):
    for name, count, slope in (("first.csv", 300, 1), ("second.csv", 500, 2)):
        (tmp_path / name).write_text(rows(count, slope))
    model = tmp_path / "m.mixfree"
    assert run("fit", tmp_path / "first.csv", "--target", "y", "--model", model, "-q") == 0
    return tmp_path


def test_resuming_with_more_data_goes_on(files, capsys):
    options = ["--target", "y", "--model", files / "m.mixfree", "--resume", "-q"]
    (files / "empty.csv").write_text(HEAD)
    assert run("fit", files / "first.csv", files / "empty.csv", files / "second.csv", *options) == 0
    assert "800 read, 800 used" in capsys.readouterr().out
    (files / "second.csv").write_text(rows(550, 2))
    assert run("fit", files / "first.csv", files / "empty.csv", files / "second.csv", *options) == 0
    assert "850 read, 850 used" in capsys.readouterr().out
    assert run("fit", files / "first.csv", *options, "--method", "sgd") == 2
    assert "cannot be resumed with --method sgd" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first.csv": rows(301, 1)}, "first.csv has 301 rows, but the model has learnt from 300"),
        ({"first.csv": rows(300, 3)}, "first.csv has changed since the model learnt from it"),
        ({"second.csv": rows(500, 2).replace("4,8", "4,9", 1)}, "second.csv has changed since"),
        ({"second.csv": rows(499, 2)}, "the data has 799 rows, but the model has learnt from 800"),
        ({"second.csv": None, "third.csv": rows(500, 2)}, "third.csv is not second.csv, with"),
        ({"second.csv": None}, "the data has 300 rows, but the model has learnt from 800"),
    ],
)
def test_every_file_that_was_read_must_be_the_same(files, capsys, change, message):
    model = files / "m.mixfree"
    options = ["--target", "y", "--model", model, "--resume", "-q"]
    assert run("fit", files / "*.csv", *options) == 0
    before = model.read_bytes()
    for name, text in change.items():
        (files / name).unlink(missing_ok=True)
        if text is not None:
            (files / name).write_text(text)
    assert run("fit", files / "*.csv", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "give the same data from its beginning" in error
    assert model.read_bytes() == before
