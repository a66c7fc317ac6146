"""Options that several commands share."""

import csv
import json
import math
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from mixfree.base.terminal import say

# Versions of the output in `docs/reference/json.csv`; adding a name keeps the version.
VERSIONS = {"chain": 1, "fit": 2, "inspect": 2, "td": 1}

Model = Annotated[Path, Argument(help="Model file written by `mixfree fit`.")]
Data = Annotated[
    list[str],
    Argument(
        help="Files (CSV or JSON lines, also compressed; Parquet; Arrow), folders, globs, or - for "
        "standard input. Read in the given order; within a folder or a glob in quotes, sorted by "
        "name, day9 before day10."
    ),
]
Format = Annotated[
    str | None, Option(help="csv, parquet, arrow or jsonl. Default: by the extension, else csv.")
]
NoHeader = Annotated[
    bool, Option("--no-header", help="The first line of CSV is a row; columns are c1, c2, ….")
]
Target = Annotated[str, Option(help="Column to predict.")]
Loss = Annotated[
    str | None,
    Option(
        help="squared, huber, robust, poisson or logistic. Default: logistic if the target is "
        "text, boolean, two-valued or at most five whole numbers, else squared."
    ),
]
Features = Annotated[
    str | None,
    Option(
        "--features",
        "--columns",
        help="Columns to learn from, separated by commas; lag* selects all that begin with lag; "
        'quote a name that contains a comma: "a,b". Default: all.',
    ),
]
Exclude = Annotated[
    str | None,
    Option("--leave-out", "--exclude", help="Columns to leave out: a,b,lag*. Default: none."),
]
Missing = Annotated[
    str,
    Option(
        help="How to treat missing values. auto: leave out rows without a target, use the mean for "
        "missing features; skip: leave out the row; error: stop."
    ),
]
Force = Annotated[
    bool,
    Option("--force", help="Replace any file, not only an earlier output of this kind."),
]
Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Show no progress.")]


def names(text: str | None) -> list[str]:
    """Split a list at its commas; a name that contains a comma is in quotes.

    Examples
    --------
    >>> names('a, "b,c"')
    ['a', 'b,c']
    """
    try:
        words = next(csv.reader([text], skipinitialspace=True)) if text else []
    except csv.Error as error:
        raise ValueError(f"{text!r} is not a list of names separated by commas: {error}") from error
    return [name.strip() for name in words]


def print_json(command: str, answer: dict[str, Any]) -> None:
    """Print a command's answer as JSON; infinity and NaN become null, blanks in names ``_``.

    Examples
    --------
    >>> print_json("chain", {"upper bound": float("inf")})
    {
      "schema": "mixfree chain",
      "version": 1,
      "upper_bound": null
    }
    """
    head = {"schema": f"mixfree {command}", "version": VERSIONS[command]}
    for line in json.dumps(_as_json(head | answer), indent=2, ensure_ascii=False).split("\n"):
        say("".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line))


def _as_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, dict):
        return {name.replace(" ", "_"): _as_json(item) for name, item in value.items()}
    return value
