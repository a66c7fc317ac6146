"""Text from the data, printed literally with control characters escaped."""

import sys


def literal(text: str) -> str:
    r"""Return the text as one line with unprintable characters escaped.

    A terminal would obey control characters, and direction marks can hide text.

    Examples
    --------
    >>> literal("load\n\x1b[31m"), literal("straße")
    ('load\\n\\x1b[31m', 'straße')
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


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
