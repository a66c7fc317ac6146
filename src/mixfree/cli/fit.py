"""``mixfree fit``: learn from files in time order."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfree.base.extras import require
from mixfree.cli.flags import in_flags
from mixfree.cli.options import (
    Data,
    Exclude,
    Features,
    Force,
    Format,
    Json,
    Loss,
    Missing,
    Target,
    names,
    print_json,
)
from mixfree.cli.screen import complain, say
from mixfree.cli.settings import SCALES, settings

if TYPE_CHECKING:
    from mixfree.base.progress import Show
    from mixfree.streams import Source, StreamFit
    from mixfree.streams.facts import Facts

__all__ = ["Progress", "fit", "in_words", "progress", "report_lines", "run"]

typer = require("typer")


def fit(
    data: Data,
    target: Target,
    model: Annotated[Path, typer.Option(help="File to write the model to.")] = Path(
        "model.mixfree"
    ),
    loss: Loss = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="exact, a method listed by `mixfree methods`, or auto, the default: exact up to "
            "2,000 weights (1,000 unless the loss is squared) and the ladder above.",
        ),
    ] = None,
    features: Features = None,
    exclude: Exclude = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=A,B,…",
            help="Categories of a text column; repeat for more columns. Default: those in the "
            "first 10,000 rows.",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Classes of the target, separated by commas. Default: those in the first 10,000 "
            "rows."
        ),
    ] = None,
    missing: Missing = "auto",
    time: Annotated[
        str,
        typer.Option(
            help="How to encode dates: cyclic (hour, weekday and season), linear (days) or none; "
            "auto: the cycles of a day, a week and a year that the first 10,000 rows cover, and "
            "days if they cover two years."
        ),
    ] = "auto",
    dates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[=FORMAT]",
            help="Column of dates, with its format: %d/%m/%Y, seconds (milliseconds, …) since "
            "1970; repeat for more columns. Default: ISO 8601, 2019/12/31, 31.12.2019, 31/12/2019 "
            "and 12/31/2019, with or without a time, and stored types.",
        ),
    ] = None,
    hash_columns: Annotated[
        int | None,
        typer.Option(
            "--hash",
            help="Number of features per text column into which its rare and new texts are "
            "hashed. Default: up to 16 for columns with more than 64 different texts, else 0.",
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="For methods with steps. running: standardise the features by the rows seen so "
            "far; none: do not; auto, the default: running where possible.",
        ),
    ] = None,
    step_scale: Annotated[
        float | None,
        typer.Option(help="Scale of the steps. Default: 1; the ladder finds its own."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="For methods with steps, the point returned: average, weighted, tail, last or "
            "random. Default: that of the method."
        ),
    ] = None,
    l2: Annotated[
        float | None,
        typer.Option(help="Regularisation: adds ½·l2·‖weights‖² to the loss of each row."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Rows to keep: a number of rows, or bytes such as 32MB, the default of exact. "
            "Iterative methods draw from the rows kept; auto, the ladder's default, keeps 32MB of "
            "dense rows and no sparse ones."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="For methods with steps and a memory: rows drawn from it per row read. Default: 1."
        ),
    ] = None,
    half_life: Annotated[
        str | None,
        typer.Option(
            help="Forget old rows: number of rows after which a row counts half, or auto. "
            "Default: never forget."
        ),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Keep the weights in a ball of this radius.")
    ] = None,
    fit_intercept: Annotated[
        bool | None,
        typer.Option(
            "--intercept/--no-intercept",
            help="Whether to fit an intercept. Default: yes.",
            show_default=False,
        ),
    ] = None,
    mixing_time: Annotated[
        int | None, typer.Option(help="Mixing time in rows, for methods that need it.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set any option of the estimator or the method by its Python name: levels=9, "
            "per_coordinate=false. Repeat for more options; `mixfree methods` lists those of the "
            "methods.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random draws. Default: 0.")] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Interval in rows at which the model file is also written.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the model file if it exists.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes to spread files and Parquet row groups over; needs the "
            "method exact."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Spread the fit over a Dask cluster instead."),
    ] = None,
    format: Format = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print how each column would be used, and fit nothing."),
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Fit a linear model to rows in time order.

    Reads the rows once, in constant memory, without shuffling, and writes a model file for
    `mixfree predict`, `mixfree inspect` and `mixfree report`.

    \b
    Examples:
      mixfree fit log.csv --target load
      mixfree fit days/ --target load --checkpoint-every 1000000 --resume
      zcat old.csv.gz | mixfree fit - --target load --model load.mixfree
      mixfree fit years/*.parquet --target load --workers 8
    """
    from mixfree.base.checks import check_one_of, check_whole
    from mixfree.base.files import check_place, only_writer

    if checkpoint_every is not None:
        check_whole(checkpoint_every, "checkpoint_every")
    if workers is not None or cluster is not None:
        given = "cluster" if workers is None else "workers"
        others = {"cluster": cluster, "checkpoint_every": checkpoint_every, "resume": resume}
        for name, value in others.items():
            if value and name != given:
                raise ValueError(f"`{given}` cannot be combined with `{name}`")

    from mixfree.streams import FitPlan, Source, StreamFit, find_files
    from mixfree.streams.facts import Facts, check_something_learnt
    from mixfree.streams.look import first_look
    from mixfree.streams.model_file import MAGIC
    from mixfree.streams.spread import run_on_cluster, run_on_workers

    flags = {
        "method": method,
        "scale": None if scale is None else check_one_of(scale, "scale", SCALES),
        "step_scale": step_scale,
        "output": output,
        "l2": l2,
        "memory": int(memory) if memory is not None and memory.isdecimal() else memory,
        "draws": draws,
        "half_life": _half_life(half_life),
        "radius": radius,
        "fit_intercept": fit_intercept,
        "seed": seed,
        "mixing_time": mixing_time,
    }
    parameters = settings(options or (), flags)
    plan = FitPlan(
        target,
        loss,
        names(features),
        names(exclude),
        _categories(categories or ()),
        names(classes),
        missing,
        parameters,
        time,
        dict(map(_named, dates or ())),
        hash_columns,
    )
    files = find_files(data, format)
    source = Source(files)
    if dry_run:
        look = first_look(source, plan)
        fitted = StreamFit(replace(plan, loss=look.loss), look.encoder)
        say(*(in_flags(line, fit) for line in look.lines()))
        say(f"plan       {look.loss} loss, {fitted.learner.method}; nothing was fitted")
        return
    check_place(model, "model", MAGIC, [file.path for file in files], force)

    def begin() -> StreamFit:
        if not (resume and model.exists()):
            return StreamFit.begin(source, plan)
        begun = StreamFit.load(model)
        begun.resume(source, plan)
        return begun

    spread: tuple[int, int] | None = None
    with only_writer(model), progress(source, quiet) as show:
        fitted = begin()
        before, stopped = fitted.read, False
        if workers is not None or cluster is not None:
            spread = (
                run_on_workers(fitted, source, workers, show.count)
                if workers is not None
                else run_on_cluster(fitted, source, str(cluster), show.count)
            )
        else:
            stopped = run(fitted, source, show, model, checkpoint_every)
        check_something_learnt(fitted)
        fitted.save(model)
    if as_json:
        print_json("fit", {"model": str(model), **in_words(Facts(fitted).plain())})
    else:
        say(*report_lines(Facts(fitted)))
        if before:
            new = fitted.read - before
            say(f"resumed    {f'{new:,}' if new else 'no'} new row{'' if new == 1 else 's'}")
        if spread is not None:
            say(f"workers    {_workers(*spread, asked=workers)}")
        say(f"model      {model}")
        if stopped:
            say(f"stopped    after {fitted.read:,} rows, all in the model; continue with --resume")
    if stopped:
        raise typer.Exit(130)


def _workers(workers: int, parts: int, asked: int | None) -> str:
    """Describe how many workers fitted how many parts."""
    if parts == 1:
        why = ": a single file is not split, unless it is Parquet with several row groups"
        return f"none{why if asked != 1 else ''}"
    return f"{workers:,}, which fitted {parts:,} parts"


def run(
    fitted: "StreamFit",
    source: "Source",
    show: "Progress",
    model: Path | None = None,
    every: int | None = None,
) -> bool:
    """Fit the whole source; return whether Ctrl-C has stopped the fit before its end."""
    with show.compiling(fitted):
        try:
            fitted.run(source.pieces(), model, every, show)
        except KeyboardInterrupt:
            if not (fitted.used and fitted.varied):
                raise
            return True
    fitted.end(source.unfinished)
    return False


def report_lines(facts: "Facts") -> Iterator[str]:
    """Yield the report of a fit, with arguments written as flags."""
    from mixfree.streams import report

    return (in_flags(line, fit) for line in report.lines(facts))


def in_words(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about a fit with arguments in its sentences written as flags."""
    words = {name: [in_flags(each, fit) for each in facts[name]] for name in ("notes", "warnings")}
    return facts | words


class Progress:
    """Shows the rows read so far, and whether a kernel is being compiled."""

    def __init__(self, show: "Show | None") -> None:
        self._show = show

    def __call__(self, fitted: "StreamFit") -> None:
        """Show the rows read so far and their test-then-train loss."""
        more = f", test-then-train loss {fitted.running_loss:.4g}" if fitted.timeline.tested else ""
        self.count(fitted.read, fitted.seconds, more)

    def count(self, read: int, seconds: float, more: str = "") -> None:
        """Show the rows read so far."""
        if self._show is not None:
            rate = read / seconds if seconds > 0 else 0.0
            self._show(read, f"{rate:,.0f} rows per second{more}")

    @contextmanager
    def compiling(self, fitted: "StreamFit") -> Iterator[None]:
        """Show when a kernel is being compiled."""
        from mixfree.streams.report import compiles

        if self._show is None or not compiles(fitted):
            yield
            return
        from mixfree.kernels.jit import on_compile

        show = self._show
        show(fitted.read, "starting (the first fit compiles, once)")
        with on_compile(lambda text: show(fitted.read, text)):
            yield


@contextmanager
def progress(source: "Source", quiet: bool) -> Iterator[Progress]:
    """Show a progress bar from before the first look; Ctrl-C ends the command."""
    from mixfree.base.progress import progress_bar

    bar = nullcontext(None) if quiet else progress_bar("first rows", source.row_count())
    try:
        with bar as show:
            yield Progress(show)
    except KeyboardInterrupt:
        complain("mixfree: stopped before the model was usable; no model file was written")
        raise typer.Exit(130) from None


def _half_life(text: str | None) -> float | str | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"half_life must be a number of rows or 'auto', not {text!r}") from None


def _named(text: str) -> tuple[str, str]:
    """Split ``COLUMN=TEXT``; a name with an equals sign is in quotes."""
    quoted = re.match(r'"((?:[^"]|"")+)"(?:=|$)', text)
    column, _, rest = text.partition("=")
    return (quoted[1].replace('""', '"'), text[quoted.end() :]) if quoted else (column, rest)


def _categories(given: Iterable[str]) -> dict[str, list[str]]:
    """Parse texts like ``colour=red,green``."""
    found: dict[str, list[str]] = {}
    for text in given:
        column, texts = _named(text)
        if not (column and texts):
            raise ValueError(f"--categories must have the form colour=red,green, not {text!r}")
        if column in found:
            raise ValueError(f"--categories {column} is given twice")
        found[column] = names(texts)
    return found
