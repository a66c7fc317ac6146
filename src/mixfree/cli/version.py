"""``mixfree version`` and ``mixfree --version``."""

from typing import Annotated

import mixfree
from mixfree.base.extras import require
from mixfree.cli.screen import say

__all__ = ["options", "version"]

typer = require("typer")


def version() -> None:
    """Print the version."""
    say(mixfree.__version__)


def _print_and_exit(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit()


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_and_exit, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Learn from ordered, correlated data without knowing its mixing time."""
