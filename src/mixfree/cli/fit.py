"""``mixfree fit``: learn from files in time order."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from mixfree.base.terminal import Show, complain, progress_bar, say
from mixfree.cli import options as shared
from mixfree.cli.flags import in_flags
from mixfree.cli.methods import settings, value_of

if TYPE_CHECKING:
    from mixfree.streams import Source, StreamFit
    from mixfree.streams.report.facts import Facts


def fit(
    data: shared.Data,
    target: shared.Target,
    model: Annotated[Path, Option(help="File to write the model to.")] = Path("model.mixfree"),
    loss: shared.Loss = None,
    method: Annotated[
        str | None,
        Option(
            help="exact, a method listed by `mixfree methods`, or auto, the default: exact up to "
            "2,000 weights (1,000 unless the loss is squared) and the ladder above."
        ),
    ] = None,
    features: shared.Features = None,
    exclude: shared.Exclude = None,
    missing: shared.Missing = "auto",
    dates: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN[=FORMAT]",
            help="Column of dates with its format: %d/%m/%Y, seconds (milliseconds, …) since 1970; "
            "repeat for more columns. Default: stored types, ISO 8601, 2019/12/31, 31.12.2019, "
            "31/12/2019, 12/31/2019, 31-Dec-19 and Dec 31, 2019.",
        ),
    ] = None,
    time: Annotated[
        str,
        Option(
            help="Use of dates: cyclic (hour, weekday, season), calendar (hours and weekdays as "
            "categories), linear (days), none, or auto: what the rows cover and what predicts best."
        ),
    ] = "auto",
    hash_columns: Annotated[
        int,
        Option(
            "--hash",
            metavar="N",
            help="Hash columns of more than 256 texts into N features instead of leaving them out.",
        ),
    ] = 0,
    l2: Annotated[
        float | None, Option(help="Regularisation: adds ½·l2·‖weights‖² to the loss of each row.")
    ] = None,
    half_life: Annotated[
        str | None, Option(help="Forget old rows: rows after which one counts half, or auto.")
    ] = None,
    options: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set what has no option of its own, by its Python name: memory=64MB, "
            "categories=month,code, levels=9. Repeat for more; `mixfree methods` lists all names.",
        ),
    ] = None,
    checkpoint_every: Annotated[int | None, Option(help="Save the model every N rows.")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue the model with new rows.")] = False,
    workers: Annotated[
        str | None,
        Option(
            "--workers",
            "--cluster",
            metavar="N|ADDRESS",
            help="Spread files and Parquet row groups over N threads, or over the Dask cluster "
            "at an address, such as tcp://host:8786; needs the method exact.",
        ),
    ] = None,
    format: shared.Format = None,
    no_header: shared.NoHeader = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print how each column would be used, and fit nothing.")
    ] = False,
    force: shared.Force = False,
    as_json: shared.Json = False,
    quiet: shared.Quiet = False,
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
    from mixfree.base.checks import check_whole
    from mixfree.base.files import check_place, only_writer
    from mixfree.streams import FitPlan, Source, StreamFit, find_files
    from mixfree.streams.fit.look import first_look
    from mixfree.streams.fit.model_file import MAGIC
    from mixfree.streams.report.facts import Facts, check_something_learnt

    if checkpoint_every is not None:
        check_whole(checkpoint_every, "checkpoint_every")
    if workers is not None and (resume or checkpoint_every):
        other = "resume" if resume else "checkpoint_every"
        raise ValueError(f"`workers` cannot be combined with `{other}`")
    typed = {"method": method, "l2": l2, "half_life": half_life and value_of(half_life)}
    parameters, of_columns = settings(options or (), typed)
    plan = FitPlan(
        target,
        loss,
        shared.names(features),
        shared.names(exclude),
        missing=missing,
        parameters=parameters,
        time=time,
        dates=dict(map(_named, dates or ())),
        hash_columns=hash_columns,
        **{name: shared.names(str(value)) for name, value in of_columns.items()},
    )
    files = find_files(data, format, header=not no_header)
    source = Source(files)
    if dry_run:
        look = first_look(source, plan)
        fitted = StreamFit.from_look(look, plan, source)
        say(*(in_flags(line, fit) for line in look.lines()))
        say(f"plan       {look.loss} loss, {fitted.learner.method}; nothing was fitted")
        return
    check_place(model, "model", MAGIC, [file.path for file in files], force)

    with only_writer(model), progress(source, quiet) as show:
        if resume and model.exists():
            fitted = StreamFit.load(model)
            fitted.resume(source, plan)
        else:
            fitted = StreamFit.begin(source, plan)
        before, stopped, spread = fitted.read, False, ""
        if workers is not None:
            spread = _spread(fitted, source, workers, show)
        else:
            stopped = run(fitted, source, show, model, checkpoint_every)
        check_something_learnt(fitted)
        fitted.save(model)
    if as_json:
        shared.print_json("fit", {"model": str(model), **in_words(Facts(fitted).plain())})
    else:
        say(*report_lines(Facts(fitted)))
        if before:
            new = fitted.read - before
            say(f"resumed    {f'{new:,}' if new else 'no'} new row{'' if new == 1 else 's'}")
        if spread:
            say(f"workers    {spread}")
        say(f"model      {model}")
        if stopped:
            say(f"stopped    after {fitted.read:,} rows, all in the model; continue with --resume")
    if stopped:
        raise Exit(130)


def run(
    fitted: "StreamFit",
    source: "Source",
    show: "Show",
    model: Path | None = None,
    every: int | None = None,
) -> bool:
    """Fit the whole source; return whether Ctrl-C has stopped the fit before its end."""
    from mixfree.linear.exact_learner import ExactLearner

    def tell(now: "StreamFit") -> None:
        loss = f", test-then-train loss {now.running_loss:.4g}" if now.timeline.tested else ""
        show(now.read, _speed(now.read, now.seconds) + loss)

    compiling: Any = nullcontext()
    if not isinstance(fitted.learner, ExactLearner):
        from mixfree.kernels.jit import on_compile

        show(fitted.read, "starting (the first fit compiles, once)")
        compiling = on_compile(partial(show, fitted.read))
    with compiling:
        try:
            fitted.run(source.pieces(), model, every, tell)
        except KeyboardInterrupt:
            if not (fitted.used and fitted.varied):
                raise
            return True
    fitted.end()
    return False


def _spread(fitted: "StreamFit", source: "Source", workers: str, show: "Show") -> str:
    """Fit the whole source on N workers or on the cluster at an address; say how many took part."""
    from mixfree.streams.fit.spread import run_on_cluster, run_on_workers

    spread: Any = run_on_cluster if ":" in workers else run_on_workers
    over = workers if ":" in workers else value_of(workers)
    count, parts = spread(fitted, source, over, lambda read, took: show(read, _speed(read, took)))
    if parts > 1:
        return f"{count:,}, which fitted {parts:,} parts"
    why = ": a single file is not split, unless it is Parquet with several row groups"
    return f"none{why if over != 1 else ''}"


def _speed(read: int, seconds: float) -> str:
    return f"{read / seconds if seconds > 0 else 0.0:,.0f} rows per second"


def report_lines(facts: "Facts") -> Iterator[str]:
    """Yield the report of a fit, with arguments written as flags."""
    from mixfree.streams.report import text

    return (in_flags(line, fit) for line in text.lines(facts))


def in_words(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about a fit with arguments in its sentences written as flags."""
    words = {name: [in_flags(each, fit) for each in facts[name]] for name in ("notes", "warnings")}
    return facts | words | {"drift": facts["drift"] and in_flags(facts["drift"], fit)}


@contextmanager
def progress(source: "Source", quiet: bool) -> "Iterator[Show]":
    """Show a progress bar from before the first look; Ctrl-C ends the command."""
    silent: Any = nullcontext(lambda done, label=None: None)
    try:
        with silent if quiet else progress_bar("first rows", source.row_count()) as show:
            yield show
    except KeyboardInterrupt:
        complain("mixfree: stopped before the model was usable; nothing was written")
        raise Exit(130) from None


def _named(text: str) -> tuple[str, str]:
    """Split ``COLUMN=TEXT``; a name with an equals sign is in quotes."""
    quoted = re.match(r'"((?:[^"]|"")+)"(?:=|$)', text)
    column, _, rest = text.partition("=")
    return (quoted[1].replace('""', '"'), text[quoted.end() :]) if quoted else (column, rest)
