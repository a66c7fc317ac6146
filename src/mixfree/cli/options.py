"""Options that several commands have."""

import json
import math
from typing import Annotated, Any

from mixfree.base.extras import require

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


def print_json(answer: dict[str, Any]) -> None:
    """Print an answer as JSON, which knows neither infinity nor blanks in names worth typing.

    Examples
    --------
    >>> print_json({"upper bound": float("inf")})
    {
      "upper_bound": null
    }
    """
    print(json.dumps(_plain(answer), indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name.replace(" ", "_"): _plain(item) for name, item in value.items()}
    return value
