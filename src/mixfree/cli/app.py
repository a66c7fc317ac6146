"""The commands of ``mixfree``, each imported only when it is called."""

import functools
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import mixfree
from mixfree.base.extras import require
from mixfree.cli.flags import in_flags
from mixfree.cli.screen import complain, say

__all__ = ["COMMANDS", "app", "load"]

typer = require("typer")

# Command `NAME` is the function `NAME` in `mixfree.cli.NAME`. The first line of its docstring is
# repeated here, so that `mixfree --help` imports no command.
COMMANDS = {
    "chain": "Compute or estimate the mixing time of a Markov chain.",
    "demo": "Compare the package's methods with SGD and AdaGrad on a slowly mixing stream.",
    "diagnose": "Measure how correlated the rows of a stream are.",
    "fit": "Fit a linear model to rows in time order.",
    "inspect": "Show the settings, report and weights of a model file.",
    "methods": "List the methods and their options.",
    "predict": "Predict the target of every row with a fitted model.",
    "report": "Write the report of a fit as an HTML page.",
    "reproduce": "Run an experiment of the paper or of this project, or all of them.",
    "td": "Evaluate a policy in an environment with finitely many states.",
}


# Names that other tools use for an option, with the options of mixfree that may be meant.
ELSEWHERE = {
    "--alpha": ("--l2", "--step-scale"),
    "--learning-rate": ("--step-scale",),
    "--lr": ("--step-scale",),
    "--eta0": ("--step-scale",),
    "--ridge": ("--l2",),
    "--algorithm": ("--method",),
    "--solver": ("--method",),
    "--label": ("--target",),
    "--drop": ("--leave-out",),
    "--jobs": ("--workers",),
    "--out": ("--output", "--model"),
}


def load(name: str) -> Callable[..., None]:
    """Load the function of a command; print its errors as one line and exit with code 2.

    Examples
    --------
    >>> load("methods").__name__
    'methods'
    """
    function: Callable[..., None] = getattr(import_module(f"mixfree.cli.{name}"), name)

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> None:
        try:
            function(*arguments, **named)
        except BrokenPipeError:  # the reader of the output has gone; the group ends quietly
            raise
        except (ValueError, OSError, ImportError) as error:
            if os.environ.get("MIXFREE_DEBUG"):
                raise
            complain(f"mixfree: {in_flags(_message_of(error), function)}")
            raise typer.Exit(2) from None

    return run


def _message_of(error: Exception) -> str:
    """Return the message of an error, without the system's error number."""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | os.PathLike):
        folder = Path(error.filename).parent
        missing = f"file {error.filename}" if folder.is_dir() else f"folder {folder}"
        return f"there is no {missing}"
    if isinstance(error, OSError) and error.filename is None and error.strerror:
        return error.strerror
    return str(error)


class _Command(typer.core.TyperCommand):  # type: ignore[name-defined]
    """A command that suggests its own options for those of other tools."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        try:
            return super().make_context(*arguments, **named)
        except Exception as error:  # click's NoSuchOption, or the copy of it within typer
            own = {name for option in self.params for name in option.opts}
            meant = ELSEWHERE.get(getattr(error, "option_name", None) or "", ())
            if found := [name for name in meant if name in own]:
                error.possibilities = found  # type: ignore[attr-defined]
            raise


class _Commands(typer.core.TyperGroup):  # type: ignore[name-defined]
    """The commands of the table above."""

    def list_commands(self, context: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        alone = _typer()
        alone.command(name, cls=_Command)(load(name))
        return typer.main.get_command(alone)

    def format_commands(self, context: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(COMMANDS.items())


def _typer(**settings: Any) -> Any:
    # Plain help, since importing Rich would take longer than everything else.
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings
    )


def _print_version(asked: bool) -> None:
    if asked:
        say(mixfree.__version__)
        raise typer.Exit()


app = _typer(name="mixfree", no_args_is_help=True, cls=_Commands)


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Learn from ordered, correlated data without knowing its mixing time."""
