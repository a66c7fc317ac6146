"""``mixfree chain``: the mixing time of a chain, from its name, its matrix or a path."""

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixfree.base.literal import literal
from mixfree.cli.options import Force, Json, print_json
from mixfree.cli.screen import say, show

if TYPE_CHECKING:
    from mixfree.chains import MarkovChain, MixingTimeEstimate

__all__ = ["chain"]

LARGEST = 1_000_000  # most states of a named chain, whose bounds then take a minute


def chain(
    source: Annotated[
        str,
        typer.Argument(
            help="Name of a chain (two-state P, winning-streak N, winning-streak-reversal N, "
            "cycle N, lazy-cycle N), CSV file of a transition matrix, or, with --estimate, CSV "
            "file of a path with one state per line.",
        ),
    ],
    parameter: Annotated[
        str | None, typer.Argument(help="Parameter of a named chain: P or N.")
    ] = None,
    eps: Annotated[
        float | None,
        typer.Option(help="Total variation distance that defines the mixing time. Default: 0.25."),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Estimate the mixing time from a path.")
    ] = False,
    column: Annotated[
        str | None,
        typer.Option(help="Column that contains the path, by name or by number from 1."),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(help="Confidence level of the interval. Default: 0.95."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="How to estimate: envelope (the default) or, for comparison, contraction, "
            "pseudo-spectral, or reversible for a chain known to be reversible."
        ),
    ] = None,
    as_json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="File for a figure of the decay of d_mix(t) and its bounds, as .png and .svg."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Compute or estimate the mixing time of a Markov chain.

    Prints the mixing time of a chain given by name or matrix, with bounds on it, or with
    --estimate a confidence interval of it from a path.

    \b
    Examples:
      mixfree chain two-state 1e-4
      mixfree chain matrix.csv --plot decay.png
      mixfree chain path.csv --estimate
    """
    if plot is not None:
        from mixfree.base.figures import check_figures

        check_figures(plot, "plot", force)
    of_paths = {"level": level, "method": method}
    if estimate:
        if parameter is not None:
            raise ValueError(f"--estimate takes one file, but {parameter!r} is also given")
        if eps is not None:
            raise ValueError(
                "--eps cannot be combined with --estimate, which uses the distance 0.25"
            )
        options = {name: value for name, value in of_paths.items() if value is not None}
        answer, picture = _from_path(source, column, **options)
    else:
        for name, value in {"column": column, **of_paths}.items():
            if value is not None:
                raise ValueError(f"--{name} needs --estimate")
        answer, picture = _of_chain(_load(source, parameter), 0.25 if eps is None else eps)
    if plot is not None:
        from mixfree.base.figures import save

        answer["figures"] = [str(path) for path in save(picture(), plot)]
    if as_json:
        print_json("chain", answer)
    else:
        _print(answer)


def _of_chain(known: "MarkovChain", eps: float) -> tuple[dict[str, Any], Callable[[], Any]]:
    from mixfree.chains.plot import plot_decay

    bounds = known.mixing_bounds(eps)
    law = known.stationary
    answer: dict[str, Any] = {"states": len(known)}
    if not known.is_large:
        answer["mixing time"] = known.mixing_time(eps)
    answer |= {"distance": eps, "lower bound": bounds.lower, "upper bound": bounds.upper}
    if not known.is_large:
        answer |= {"spectral gap": known.spectral_gap, "relaxation time": known.relaxation_time}
    answer["reversible"] = known.is_reversible
    answer["smallest stationary probability"] = float(law.min())
    answer["bounds"] = [
        {"theorem": bound.theorem, "lower": bound.lower, "upper": bound.upper}
        for bound in bounds.bounds
    ]
    return answer, lambda: plot_decay(known, eps)


def _from_path(
    source: str, column: str | None, **options: Any
) -> tuple[dict[str, Any], Callable[[], Any]]:
    from mixfree.chains import estimate_mixing_time
    from mixfree.chains.plot import plot_decay

    title, path = _read_path(source, column)
    found: MixingTimeEstimate = estimate_mixing_time(path, **options)
    answer: dict[str, Any] = {} if title is None else {"column": title}
    answer |= {
        "samples": found.samples,
        "states": len(found.chain),
        "mixing time of the fitted chain": found.mixing_time,
        "lower": found.lower,
        "upper": found.upper,
        "level": found.level,
        "method": found.method,
        "sentence": found.sentence,
    }
    return answer, lambda: plot_decay(found.chain, interval=(found.lower, found.upper))


def _load(source: str, parameter: str | None) -> "MarkovChain":
    from mixfree import chains

    named: dict[str, tuple[type, Callable[[Any], MarkovChain]]] = {
        "two-state": (float, chains.two_state),
        "winning-streak": (int, chains.winning_streak),
        "winning-streak-reversal": (int, lambda n: chains.winning_streak(n).reversal()),
        "cycle": (int, chains.cycle),
        "lazy-cycle": (int, lambda n: chains.cycle(n, lazy=True)),
    }
    if source not in named:
        if parameter is not None:
            raise ValueError(f"no chain is called {source!r}; there are {', '.join(named)}")
        if not Path(source).exists():
            raise ValueError(
                f"{source!r} is neither a file nor the name of a chain: {', '.join(named)}"
            )
        matrix = _read_matrix(source)
        return chains.MarkovChain(matrix, range(1, len(matrix) + 1))
    kind, build = named[source]
    if parameter is None:
        example = "0.1" if kind is float else "10"
        raise ValueError(f"{source} needs a parameter, as in: mixfree chain {source} {example}")
    try:
        value = kind(parameter)
    except ValueError:
        what = "a number" if kind is float else "a whole number"
        raise ValueError(f"{source} takes {what}, not {parameter!r}") from None
    if kind is int and value > LARGEST:
        raise ValueError(f"{source} takes at most {LARGEST:,} states, not {value:,}")
    return build(value)


def _read_lines(source: str) -> list[list[str]]:
    try:
        with open(source, newline="", encoding="utf-8-sig") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{source} is not a CSV file of text: {error}") from None
    filled = [line for line in lines if any(line)]
    if not filled:
        raise ValueError(f"{source} is empty")
    return filled


def _read_matrix(source: str) -> list[list[float]]:
    lines = _read_lines(source)
    if all(_number(cell) is None for cell in lines[0]):
        lines = lines[1:]
    for row, line in enumerate(lines, 1):
        if len(line) != len(lines):
            raise ValueError(
                f"{source}: row {row} has {len(line)} entries, but there are {len(lines)} rows; "
                "a transition matrix must be square; for a path of states give --estimate"
            )
        for column, cell in enumerate(line, 1):
            if _number(cell) is None:
                raise ValueError(f"{source}: row {row}, column {column}: {cell!r} is not a number")
    return [[float(cell) for cell in line] for line in lines]


def _read_path(source: str, column: str | None) -> tuple[str | None, list[str]]:
    """Return the name of the column, if the file has a header, and the states."""
    lines = _read_lines(source)
    header = lines[0]
    ragged = next((place for place, line in enumerate(lines) if len(line) != len(header)), None)
    if ragged is not None:
        raise ValueError(
            f"{source}: row {ragged + 1} has {len(lines[ragged])} columns, "
            f"the first has {len(header)}"
        )
    if column is not None and column in header:
        return column, _states(source, [line[header.index(column)] for line in lines[1:]])
    if column is None and len(header) > 1:
        raise ValueError(f"{source} has {len(header)} columns: choose one with --column")
    if column is not None and not (column.isdecimal() and 1 <= int(column) <= len(header)):
        raise ValueError(f"{source} has no column {column!r}; it has {', '.join(header)}")
    place = 0 if column is None else int(column) - 1
    titled = _has_header(lines, place)
    states = _states(source, [line[place] for line in (lines[1:] if titled else lines)])
    return header[place] if titled else None, states


def _states(source: str, path: list[str]) -> list[str]:
    for place, state in enumerate(path):
        if not state or state.lower() == "nan":
            raise ValueError(f"{source}: state {place + 1} of the path is missing ({state!r})")
    return path


def _has_header(lines: list[list[str]], place: int) -> bool:
    """Whether the first line is a header.

    The column ``place`` has a word there that never comes again, or some column has numbers below a
    word.
    """
    return len(lines) > 1 and any(
        _number(top) is None
        and (
            all(_number(cell) is not None for cell in rest) or (column == place and top not in rest)
        )
        for column, (top, *rest) in enumerate(zip(*lines, strict=True))
    )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _print(answer: dict[str, Any]) -> None:
    from rich.table import Table

    sentence, bounds = answer.pop("sentence", None), answer.pop("bounds", None)
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in answer.items():
        table.add_row(name, literal(_text(value)))
    show(table)
    if bounds is not None:
        table = Table("bound", "lower", "upper", box=None, pad_edge=False)
        for bound in bounds:
            table.add_row(bound["theorem"], _text(bound["lower"]), _text(bound["upper"]))
        say("")
        show(table)
    if sentence is not None:
        say("", sentence)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "none" if math.isinf(value) else f"{value:,.6g}"
    return str(value)
