"""The commands of ``mixfree``, each loaded when it is called."""

import functools
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from mixfree.base.extras import require
from mixfree.cli.flags import in_flags
from mixfree.cli.screen import complain
from mixfree.cli.version import options

__all__ = ["COMMANDS", "app", "load"]

typer = require("typer")

# Command `NAME` is the function of that name in `mixfree.cli.NAME`; its docstring begins with
# what is said about it here, so that the list of commands needs none of them.
COMMANDS = {
    "chain": "Tell how fast a Markov chain mixes.",
    "demo": "Compare the package's methods with SGD and AdaGrad on a slowly mixing stream.",
    "diagnose": "Tell how correlated the rows of a stream are.",
    "fit": "Fit a linear model to rows in time order.",
    "inspect": "Show what a model file holds.",
    "methods": "List the methods with their options.",
    "predict": "Write a model's prediction for every row.",
    "report": "Write the report of a fit as a page for a browser.",
    "reproduce": "Run an experiment of the paper or of this project, or all of them.",
    "td": "Evaluate a policy in an environment with finitely many states.",
    "version": "Print the version.",
}


# What an option is called elsewhere, and what may be meant here.
ELSEWHERE = {
    "--alpha": ("--l2", "--step-scale"),
    "--learning-rate": ("--step-scale",),
    "--lr": ("--step-scale",),
    "--eta0": ("--step-scale",),
    "--ridge": ("--l2",),
    "--max-iter": ("--epochs",),
    "--algorithm": ("--method",),
    "--solver": ("--method",),
    "--label": ("--target",),
    "--drop": ("--leave-out",),
    "--jobs": ("--workers",),
    "--out": ("--output", "--model"),
}


def load(name: str) -> Callable[..., None]:
    """The function of a command; what it refuses is one line on stderr and exit code 2.

    Examples
    --------
    >>> load("version")()
    0.1.0
    """
    function: Callable[..., None] = getattr(import_module(f"mixfree.cli.{name}"), name)

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> None:
        try:
            function(*arguments, **named)
        except BrokenPipeError:  # whoever read the output wants no more; the group ends quietly
            raise
        except (ValueError, OSError, ImportError) as error:
            if os.environ.get("MIXFREE_DEBUG"):
                raise
            complain(f"mixfree: {in_flags(_said(error), function)}")
            raise typer.Exit(2) from None

    return run


def _said(error: Exception) -> str:
    """An error in words, without the number that the system has for it."""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | os.PathLike):
        folder = Path(error.filename).parent
        missing = f"file {error.filename}" if folder.is_dir() else f"folder {folder}"
        return f"there is no {missing}"
    if isinstance(error, OSError) and error.filename is None and error.strerror:
        return error.strerror
    return str(error)


class _Command(typer.core.TyperCommand):  # type: ignore[name-defined]
    """A command that also knows what its options are called elsewhere."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        try:
            return super().make_context(*arguments, **named)
        except Exception as error:  # NoSuchOption of click, of which typer may have its own
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
    # Plain help: importing what would decorate it takes longer than all the rest.
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings
    )


app = _typer(name="mixfree", no_args_is_help=True, cls=_Commands)
app.callback()(options)
