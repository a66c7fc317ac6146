"""Options that several commands have."""

from typing import Annotated

from mixfree.extras import require

typer = require("typer")

Data = Annotated[
    list[str],
    typer.Argument(
        help="Files (CSV, Parquet, Arrow, JSON lines, also compressed), folders, globs, "
        "or - for standard input; read once, in this order, and by name within a folder.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(help="csv, parquet, arrow or jsonl, where the name does not say it."),
]


def names(text: str | None) -> list[str]:
    """The words of a list with commas.

    Examples
    --------
    >>> names("a, b")
    ['a', 'b']
    """
    return [name.strip() for name in text.split(",")] if text else []
