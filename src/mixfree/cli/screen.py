"""All that the command line prints: literally, whatever the data holds."""

import sys
from typing import Any

from mixfree.base.literal import console, literal

__all__ = ["complain", "say", "show"]


def say(*lines: str) -> None:
    r"""Print lines on standard output, each in one line.

    Examples
    --------
    >>> say("[/x] is a name", "so is a\nb")
    [/x] is a name
    so is a\nb
    """
    for line in lines:
        print(literal(line))


def complain(line: str) -> None:
    """Print a line on standard error."""
    print(literal(line), file=sys.stderr)


def show(table: Any) -> None:
    """Print a table of Rich, in whose cells nothing is taken for markup."""
    console().print(table)
