"""``mixfree fit``: learn from files in time order."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfree.base.extras import require
from mixfree.cli.options import Data, Format, names

if TYPE_CHECKING:
    from mixfree.streams.fitting import StreamFit
    from mixfree.streams.source import Source

typer = require("typer")


def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    model: Annotated[Path, typer.Option(help="Where to write the model.")] = Path("model.mixfree"),
    loss: Annotated[
        str | None,
        typer.Option(help="squared, huber, robust or logistic; by the target's type."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="ladder, mag, adagrad, sgd, … of the table.")
    ] = "ladder",
    features: Annotated[
        str | None, typer.Option(help="Columns to learn from, with commas; all unless given.")
    ] = None,
    exclude: Annotated[str | None, typer.Option(help="Columns to leave out, with commas.")] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(help="Texts of a column: colour=red,green. As often as needed."),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="All classes of the target, with commas.")
    ] = None,
    missing: Annotated[
        str, typer.Option(help="Rows with missing values: error, skip or mean (so far).")
    ] = "error",
    scale: Annotated[
        str, typer.Option(help="running: standardise the features as they come; none.")
    ] = "running",
    step_scale: Annotated[
        float | None,
        typer.Option(help="Scale of the steps; 1 unless given, and the ladder finds its own."),
    ] = None,
    l2: Annotated[float, typer.Option(help="Adds ½·l2·‖weights‖² to the loss.")] = 0.0,
    radius: Annotated[float | None, typer.Option(help="Keeps the weights in a ball.")] = None,
    intercept: Annotated[bool, typer.Option(help="Whether there is an intercept.")] = True,
    mixing_time: Annotated[
        int | None, typer.Option(help="For the methods that need to know it.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Of the method: levels=9, per_coordinate=false. As often as needed."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every random draw.")] = 0,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Save the model after so many rows, too.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the model file if it is there.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run plain SGD on the same rows beside it.")
    ] = False,
    format: Format = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fit a linear model to data in time order, in one pass and constant memory.

    Examples: `mixfree fit log.csv --target load`,
    `zcat old.csv.gz | mixfree fit - --target load --model load.mixfree`,
    `mixfree fit days/ --target load --checkpoint-every 1000000 --resume`.
    """
    from mixfree.base.checks import check_one_of, check_whole
    from mixfree.streams import report, starting
    from mixfree.streams.files import find_files
    from mixfree.streams.fitting import StreamFit
    from mixfree.streams.source import Source

    if checkpoint_every is not None:
        check_whole(checkpoint_every, "checkpoint-every")
    time = [] if mixing_time is None else [("mixing_time", mixing_time)]
    options = _by_name("option", [*map(_option, option or ()), *time])
    parameters = {
        "method": method,
        "scale": None if check_one_of(scale, "scale", ("running", "none")) == "none" else scale,
        "step_scale": step_scale,
        "l2": l2,
        "radius": radius,
        "fit_intercept": intercept,
        "seed": seed,
        "options": options or None,
    }
    wish = starting.Wish(
        target,
        loss,
        names(features),
        names(exclude),
        _by_name("categories", map(_category, categories or ())),
        names(classes),
        missing,
        parameters,
        compare,
    )
    if not model.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {model.absolute().parent} to write the model to")
    source = Source(find_files(data, format))
    if resume and model.exists():
        found = StreamFit.load(model)
        starting.resume(source, found, wish)
    else:
        found = starting.start(source, wish)
    with nullcontext() if quiet else _progress(source) as show:
        found.run(source.pieces(), model, checkpoint_every, show)
    report.refuse_nothing_learnt(found)
    found.save(model)
    print("\n".join(report.lines(found)))
    print(f"model      {model}")


@contextmanager
def _progress(source: "Source") -> "Iterator[Callable[[StreamFit], None]]":
    from mixfree.base.progress import progress_bar

    with progress_bar("rows", source.about_rows()) as show:

        def each(found: "StreamFit") -> None:
            rate = found.read / found.seconds if found.seconds > 0 else 0.0
            show(found.read, f"{rate:,.0f} rows/s, loss {found.running_loss:.4g}")

        yield each


def _by_name(what: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{what} has {name!r} twice")
        found[name] = value
    return found


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"option must be name=value in JSON, like per_coordinate=false, not {text!r}"
        ) from error


def _category(text: str) -> tuple[str, list[str]]:
    column, equals, texts = text.partition("=")
    if not (column and equals and texts):
        raise ValueError(f"categories must be like colour=red,green, not {text!r}")
    return column, names(texts)
