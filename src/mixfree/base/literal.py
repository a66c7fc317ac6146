"""Texts of the data as they are, with letters that cannot be seen written out."""

from typing import Any

from mixfree.base.extras import require

__all__ = ["console", "literal"]


def literal(text: str) -> str:
    r"""The text in one line, as it is shown: control characters and the like become escapes.

    A terminal obeys control characters, and marks of the direction of writing hide what is there.

    Examples
    --------
    >>> literal("load\n\x1b[31m"), literal("straße")
    ('load\\n\\x1b[31m', 'straße')
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def console() -> Any:
    """A console of Rich for tables in whose cells nothing is taken for markup."""
    return require("rich.console").Console(markup=False, emoji=False, highlight=False)
