"""Printing, with control characters and markup in the data shown literally."""

import sys

from mixfree.base.literal import literal


def say(*lines: str) -> None:
    r"""Print each line on standard output, with line breaks escaped.

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
