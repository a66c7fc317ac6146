"""What all commands share: the version, and mistakes in one line."""

import pytest

import mixfree
from mixfree.cli import main


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    assert capsys.readouterr().out.strip() == mixfree.__version__


def test_a_wrong_option_of_a_method_is_one_line(tmp_path, capsys):
    table = tmp_path / "rows.csv"
    table.write_text("x,y\n" + "1,2\n3,4\n" * 20)
    with pytest.raises(SystemExit) as stopped:
        main(["fit", str(table), "--target", "y", "--method", "emd", "-q"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "needs to know the mixing time" in error
    assert error.count("\n") == 1
