"""``mixfree report``: the report of a fit as an HTML page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from mixfree.base.extras import require
from mixfree.base.terminal import say
from mixfree.cli.options import Exclude, Force, Format, Quiet, names

if TYPE_CHECKING:
    from mixfree.streams import StreamFit


def report(
    source: Annotated[
        list[str],
        Argument(
            metavar="MODEL|DATA…",
            help="Model file written by `mixfree fit`; or data to fit first, with --target.",
        ),
    ],
    output: Annotated[Path, Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    ),
    target: Annotated[str | None, Option(help="Column to predict, if data is given.")] = None,
    exclude: Exclude = None,
    format: Format = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a fit as an HTML page.

    The page is self-contained and works without a network. It shows a summary, predictions and
    errors over time, weights with intervals, the correlation of the rows, and how each column
    was used.

    \b
    Examples:
      mixfree report model.mixfree -o report.html
      mixfree report log.csv --target load -o report.html
    """
    from mixfree.base.files import check_place
    from mixfree.cli.fit import fit as fit_command
    from mixfree.cli.flags import command_line, in_flags
    from mixfree.streams import StreamFit
    from mixfree.streams.fit.model_file import is_model
    from mixfree.streams.read.files import STDIN, STDIN_SHOWN
    from mixfree.streams.report.page import MARK, write_page

    require("bokeh")
    if output.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"output must end in .html, not be {str(output)!r}")
    check_place(output, "output", MARK, source, force)
    if len(source) == 1 and is_model(source[0]):
        if target is not None or exclude is not None:
            raise ValueError("`target` and `exclude` apply to data only: a model file has its own")
        fitted = StreamFit.load(source[0])
    else:
        fitted = _fitted(source, target, exclude, format, quiet)
    files = [STDIN if file.path == STDIN_SHOWN else file.path for file in fitted.read_record.files]
    given = fitted.plan.given() | ({"format": fitted.format} if fitted.format else {})
    command = command_line(fit_command, files, given)
    size = write_page(fitted, output, lambda text: in_flags(text, fit_command), command)
    say(f"report     {output}, {size / 1e6:.1f} MB: open it in a browser")


def _fitted(
    data: Sequence[str], target: str | None, exclude: str | None, format: str | None, quiet: bool
) -> "StreamFit":
    """Fit data with the default settings."""
    from mixfree.cli.fit import progress, run
    from mixfree.streams import FitPlan, Source, StreamFit, find_files

    files = find_files(list(data), format)
    if target is None:
        raise ValueError(f"{files[0]} is not a mixfree model file; to fit data, give `target`")
    source = Source(files)
    with progress(source, quiet) as show:
        fitted = StreamFit.begin(source, FitPlan(target, exclude=names(exclude)))
        run(fitted, source, show)
    return fitted
