"""Commands never skip rows silently and never write over what they read."""

import pytest

from mixfree.cli import main

HEAD = "u,y\n"


def rows(count, slope):
    return HEAD + "".join(f"{i % 7},{slope * (i % 7)}\n" for i in range(count))


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code


@pytest.fixture
def files(tmp_path):
    for name, count, slope in (("first.csv", 300, 1), ("second.csv", 500, 2)):
        (tmp_path / name).write_text(rows(count, slope))
    model = tmp_path / "m.mixfree"
    assert run("fit", tmp_path / "first.csv", "--target", "y", "--model", model, "-q") == 0
    return tmp_path


def test_resuming_with_other_data_is_refused(files, capsys):
    model = files / "m.mixfree"
    before = model.read_bytes()
    options = ["--target", "y", "--model", model, "--resume", "-q"]
    assert run("fit", files / "second.csv", *options) == 2
    assert "begun with first.csv, not second.csv" in capsys.readouterr().err
    (files / "first.csv").write_text(rows(100, 1))
    assert run("fit", files / "first.csv", *options) == 2
    assert "100 rows, but 300 were learnt from before" in capsys.readouterr().err
    assert model.read_bytes() == before


def test_resuming_with_more_data_goes_on(files, capsys):
    options = ["--target", "y", "--model", files / "m.mixfree", "--resume", "-q"]
    assert run("fit", files / "first.csv", files / "second.csv", *options) == 0
    assert "800" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["first.csv", "m.mixfree"])
def test_predictions_never_replace_what_they_are_made_from(files, name, capsys):
    before = (files / name).read_bytes()
    code = run("predict", files / "first.csv", "--model", files / "m.mixfree", "-o", files / name)
    assert code == 2
    assert "which is read from" in capsys.readouterr().err
    assert (files / name).read_bytes() == before
