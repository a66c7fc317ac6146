"""The commands of ``mixfree``, each loaded when it is called."""

import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from mixfree.base.extras import require
from mixfree.cli.flags import in_flags
from mixfree.cli.version import options

__all__ = ["COMMANDS", "app", "load"]

typer = require("typer")

# Command `NAME` is the function of that name in `mixfree.cli.NAME`; its docstring begins with
# what is said about it here, so that the list of commands needs none of them.
COMMANDS = {
    "chain": "Tell how fast a Markov chain mixes.",
    "demo": "Compare MAG with its baselines on a slowly mixing stream.",
    "diagnose": "Tell how correlated the rows of a stream are.",
    "fit": "Fit a linear model to rows in time order.",
    "inspect": "Show what a model file holds.",
    "methods": "List the methods with their options.",
    "predict": "Write a model's prediction for every row.",
    "report": "Write the report of a fit as a page for a browser.",
    "reproduce": "Run an experiment of the paper or of this project.",
    "td": "Evaluate a policy in an environment with finitely many states.",
    "version": "Print the version.",
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
        except (ValueError, OSError, ImportError) as error:
            if os.environ.get("MIXFREE_DEBUG"):
                raise
            print(f"mixfree: {in_flags(str(error), function)}", file=sys.stderr)
            raise typer.Exit(2) from None

    return run


class _Commands(typer.core.TyperGroup):  # type: ignore[name-defined]
    """The commands of the table above."""

    def list_commands(self, context: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        alone = _typer()
        alone.command(name)(load(name))
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
