"""``mixfree chain``: the mixing time of a chain, from its name, its matrix or a path."""

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from mixfree.base.terminal import say
from mixfree.cli.options import Force, Json, print_json

if TYPE_CHECKING:
    from mixfree.chains import MarkovChain

MAX_NAMED_STATES = 1_000_000  # most states of a named chain, whose bounds then take a minute


def chain(
    source: Annotated[
        str,
        Argument(
            help="Name of a chain (two-state P, winning-streak N, winning-streak-reversal N, "
            "cycle N, lazy-cycle N), CSV file of a transition matrix, or, with --estimate, CSV "
            "file of a path with one state per line."
        ),
    ],
    parameter: Annotated[str | None, Argument(help="Parameter of a named chain: P or N.")] = None,
    eps: Annotated[
        float | None,
        Option(help="Total variation distance that defines the mixing time. Default: 0.25."),
    ] = None,
    estimate: Annotated[
        bool, Option("--estimate", help="Estimate it from a path of states.")
    ] = False,
    column: Annotated[
        str | None, Option(help="Column that contains the path, by name or by number from 1.")
    ] = None,
    level: Annotated[float | None, Option(help="Confidence level. Default: 0.95.")] = None,
    method: Annotated[
        str | None,
        Option(help="envelope (the default), contraction, pseudo-spectral or reversible."),
    ] = None,
    as_json: Json = False,
    plot: Annotated[Path | None, Option(help="Figure of the decay, as .png and .svg.")] = None,
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
    from mixfree.base.figures import check_figures, save

    if plot is not None:
        check_figures(plot, "plot", force)
    of_paths = {"column": column, "level": level, "method": method}
    given: dict[str, Any] = {name: value for name, value in of_paths.items() if value is not None}
    if estimate and parameter is not None:
        raise ValueError(f"--estimate takes one file, but {parameter!r} is also given")
    if estimate and eps is not None:
        raise ValueError("--eps cannot be combined with --estimate, which uses the distance 0.25")
    if given and not estimate:
        raise ValueError(f"--{next(iter(given))} needs --estimate")
    if estimate:
        answer, draw = _from_path(source, **given)
    else:
        answer, draw = _of_chain(_load(source, parameter), 0.25 if eps is None else eps)
    if plot is not None:
        answer["figures"] = [str(path) for path in save(draw(), plot)]
    if as_json:
        print_json("chain", answer)
    else:
        _print(answer)


def _of_chain(known: "MarkovChain", eps: float) -> tuple[dict[str, Any], Callable[[], Any]]:
    from mixfree.chains.plot import plot_decay

    bounds = known.mixing_bounds(eps)
    answer: dict[str, Any] = {"states": len(known)}
    if not known.is_large:
        answer["mixing time"] = known.mixing_time(eps)
    answer |= {"distance": eps, "lower bound": bounds.lower, "upper bound": bounds.upper}
    if not known.is_large:
        answer |= {"spectral gap": known.spectral_gap, "relaxation time": known.relaxation_time}
    answer["reversible"] = known.is_reversible
    answer["smallest stationary probability"] = float(known.stationary.min())
    answer["bounds"] = [
        {"theorem": bound.theorem, "lower": bound.lower, "upper": bound.upper}
        for bound in bounds.bounds
    ]
    return answer, lambda: plot_decay(known, eps)


def _from_path(
    source: str, column: str | None = None, **options: Any
) -> tuple[dict[str, Any], Callable[[], Any]]:
    from mixfree.chains import estimate_mixing_time
    from mixfree.chains.plot import plot_decay

    title, path = _read_path(source, column)
    found = estimate_mixing_time(path, **options)
    answer: dict[str, Any] = {} if title is None else {"column": title}
    answer |= {"samples": found.samples, "states": len(found.chain)}
    answer |= {"mixing time of the fitted chain": found.mixing_time}
    for name in ("lower", "upper", "level", "method", "sentence"):
        answer[name] = getattr(found, name)
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
        if parameter is not None or not Path(source).exists():
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
    if kind is int and value > MAX_NAMED_STATES:
        raise ValueError(f"{source} takes at most {MAX_NAMED_STATES:,} states, not {value:,}")
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
    for row, line in enumerate(filled, 1):
        if len(line) != len(filled[0]):
            raise ValueError(
                f"{source}: row {row} has {len(line)} columns, the first has {len(filled[0])}"
            )
    return filled


def _read_matrix(source: str) -> list[list[float]]:
    lines = _read_lines(source)
    if not any(map(_is_number, lines[0])):
        lines = lines[1:]
    for row, line in enumerate(lines, 1):
        for column, cell in enumerate(line, 1):
            if not _is_number(cell):
                where = f"{source}: row {row}, column {column}"
                hint = "; for a path of states give --estimate" * (len(line) == 1)
                raise ValueError(f"{where}: {cell!r} is not a number{hint}")
    if not lines or len(lines[0]) != len(lines):
        raise ValueError(
            f"{source}: a transition matrix must be square; for a path of states give --estimate"
        )
    return [list(map(float, line)) for line in lines]


def _read_path(source: str, column: str | None) -> tuple[str | None, list[str]]:
    """Return the name of the column, if the file has a header, and the states.

    The first line is a header if it names the column, or if its word never comes again.
    """
    lines = _read_lines(source)
    header = lines[0]
    if column is None and len(header) > 1:
        raise ValueError(f"{source} has {len(header)} columns: choose one with --column")
    numbers = [str(number) for number in range(1, len(header) + 1)]
    if column is not None and column not in (*header, *numbers):
        raise ValueError(f"{source} has no column {column!r}; it has {', '.join(header)}")
    by_name = column in header
    place = header.index(str(column)) if by_name else int(column or 1) - 1
    title, *rest = (line[place] for line in lines)
    titled = by_name or (not _is_number(title) and title not in rest and bool(rest))
    path = rest if titled else [title, *rest]
    for number, state in enumerate(path, 1):
        if not state or state.lower() == "nan":
            raise ValueError(f"{source}: state {number} of the path is missing ({state!r})")
    return title if titled else None, path


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _print(answer: dict[str, Any]) -> None:
    sentence, bounds = answer.pop("sentence", None), answer.pop("bounds", ())
    wide = max(map(len, answer))
    say(*(f"{name:{wide}}  {_text(value)}" for name, value in answer.items()))
    if bounds:
        wide = max(len(bound["theorem"]) for bound in bounds)
        say("", f"{'bound':{wide}}  {'lower':>12}  {'upper':>12}")
        for bound in bounds:
            ends = f"{_text(bound['lower']):>12}  {_text(bound['upper']):>12}"
            say(f"{bound['theorem']:{wide}}  {ends}")
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
