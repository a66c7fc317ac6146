"""All commands: the version, fast help, and errors in one line."""

import re
import sys

import pytest
import typer

import mixfree
from mixfree.cli.app import COMMANDS, app
from mixfree.cli.fit import fit
from mixfree.cli.flags import in_flags
from tests.helpers import run_command as run
from tests.helpers import run_python


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == mixfree.__version__


def test_a_warning_is_one_line():
    """Catches a warning with the path and a source line of the package, or with escapes."""
    code = (
        "import warnings, mixfree.cli, mixfree.cli.methods as one\n"
        r"def methods(): warnings.warn('\x1b[33ma full disk\x1b[0m', stacklevel=1)"
        "\none.methods = methods\n"
        "mixfree.cli.main(['methods'])"
    )
    found = run_python("-c", code)
    assert (found.returncode, found.stderr) == (0, "mixfree: a full disk\n")


@pytest.mark.parametrize("command", [["inspect"], ["report", "-o", "page.html"]])
def test_a_file_that_is_not_there_is_named(command, capsys):
    """It was "[Errno 2] No such file or directory", or no model file."""
    assert run(*command, "no.mixfree") == 2
    assert capsys.readouterr().err == "mixfree: there is no file no.mixfree\n"


def test_an_option_by_the_name_that_it_has_elsewhere(capsys):
    """Catches the suggestion of --hash and --help for --alpha."""
    assert run("fit", "rows.csv", "--target", "y", "--alpha", "1") == 2
    hint = capsys.readouterr().err.rpartition("--alpha")[2]
    assert re.findall(r"--[\w-]+", hint) == ["--l2"]
    assert run("fit", "rows.csv", "--target", "y", "--lr=1") == 2
    error = capsys.readouterr().err
    assert "--set step_scale=VALUE" in error


def test_fit_has_few_options():
    """Catches an option added without thought: what few users need goes through --set."""
    options = typer.main.get_command(app).commands["fit"].params
    assert sum(each.param_type_name == "option" for each in options) <= 22


def test_help_needs_none_of_the_rooms():
    """Catches an import of NumPy at the top of a command's file, which slows all commands."""
    script = f"""
import sys
from mixfree.cli import main
for command in [[], *([each] for each in {[each.__name__ for each in COMMANDS]})]:
    try: main([*command, '--help'])
    except SystemExit as ended: assert ended.code == 0
print(*{{'numpy', 'numba', 'pyarrow'}} & set(sys.modules), file=sys.stderr)
"""
    found = run_python("-c", script)
    assert found.returncode == 0 and not found.stderr.split()
    assert "..." not in found.stdout.partition("Commands:")[2].partition("Usage:")[0]  # cut off


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("l2 must be positive", "--l2 must be positive"),
        ("column 'missing' is missing", "column 'missing' is missing"),
        ("`exclude=['a', 'b']`", "--leave-out a,b"),
        ("`fit_intercept=False`, `resume=False`", "--set fit_intercept=false, no --resume"),
        ('give `options={"mixing_time": …}`', "give --set mixing_time"),
        ("`not Python`", "not Python"),
    ],
)
def test_arguments_become_flags(text, said):
    """Words that are not arguments stay, and so do names unknown to the command."""
    assert in_flags(text, fit) == said


def test_a_terminal_without_all_letters():
    """Catches a UnicodeEncodeError for R² and α."""
    done = run_python("-m", "mixfree", "methods", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\u" in done.stdout or "\\x" in done.stdout


def test_ctrl_c_while_importing_is_no_traceback(monkeypatch):
    class Impatient:
        def find_spec(self, name, *others):
            if name == "mixfree.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "mixfree.cli.app")
    monkeypatch.setattr(sys, "meta_path", [Impatient(), *sys.meta_path])
    assert run("--version") == 130
