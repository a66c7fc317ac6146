"""Text from the data, printed literally with control characters escaped."""

from typing import Any

from mixfree.base.extras import require


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


def console() -> Any:
    """A Rich console that does not interpret markup in cells."""
    return require("rich.console").Console(markup=False, emoji=False, highlight=False)
