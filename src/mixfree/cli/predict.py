"""``mixfree predict``: predictions of a model for files."""

import sys
from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require
from mixfree.cli.options import Data, Format, names
from mixfree.cli.screen import complain, say

__all__ = ["predict"]

typer = require("typer")


def predict(
    data: Data,
    model: Annotated[Path, typer.Option(help="Model file that `mixfree fit` wrote.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write, ending in .parquet, .csv or .arrow. Without it, rows of standard "
            "input are answered on standard output.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Columns of the data to copy to the output, separated by commas."),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="What to do with missing values: error; skip leaves the prediction empty; mean "
            "fills in the mean of the rows learnt from. Default: as in the fit."
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Also write an interval of the predicted mean, lower and upper, at this level, "
            "such as 0.95; for exact regressions."
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="On standard output, the most rows to answer at a time; 1 is row by row. "
            "Default: all that have come, up to 1,024."
        ),
    ] = None,
    format: Format = None,
) -> None:
    """Write a model's prediction for every row.

    The output has one row per row of the data, in the same order; for a classification it also
    has the probability of each class. Without -o, rows of standard input are answered as they
    come, in their own format: CSV with a header, or JSON lines with --format jsonl.

    \b
    Examples:
      mixfree predict new.csv --model load.mixfree -o forecast.parquet
      tail -n +1 -f log.csv | mixfree predict - --model load.mixfree
    """
    from mixfree.base.checks import check_one_of, check_whole
    from mixfree.streams import Source, StreamFit, find_files, write_predictions
    from mixfree.streams.answers import BATCH, answer_rows
    from mixfree.streams.encoder import POLICIES
    from mixfree.streams.files import STDIN

    files = find_files(data, format)
    if output is not None:
        if batch is not None:
            raise ValueError("`batch` is for standard output, without `output`")
        for read in (model, *(Path(file.path) for file in files)):
            if output.exists() and read.exists() and output.samefile(read):
                raise ValueError(f"output must not be {read}, which is read from")
    elif [file.path for file in files] != [STDIN] or files[0].format == "arrow":
        raise ValueError(
            "`output` is needed; only CSV and JSON lines from standard input (-) are answered on "
            "standard output"
        )
    fit = StreamFit.load(model)
    if missing is not None:
        fit.encoder.set_missing(check_one_of(missing, "missing", POLICIES), fit.reservoir.rows)
    if output is not None:
        written = write_predictions(fit, Source(files), output, names(keep), interval)
        say(
            f"{written.rows:,} rows, {written.empty:,} of them without a prediction, "
            f"written to {output}"
        )
    else:
        most = BATCH if batch is None else check_whole(batch, "batch")
        ends = sys.stdin.buffer, sys.stdout.buffer
        try:
            written = answer_rows(fit, *ends, files[0].format, names(keep), interval, most)
        except KeyboardInterrupt:  # every answer that was due has been written
            raise typer.Exit(130) from None
    for column, count in written.unknown.most_common():
        (complain if output is None else say)(
            f"{count:,} rows with an unknown category in {column!r}"
        )
