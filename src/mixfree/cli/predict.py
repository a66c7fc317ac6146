"""``mixfree predict``: predictions of a model for files."""

from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require
from mixfree.cli.options import Data, Format, names

__all__ = ["predict"]

typer = require("typer")


def predict(
    data: Data,
    model: Annotated[Path, typer.Option(help="Model file that `mixfree fit` wrote.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write, ending in .parquet, .csv or .arrow."),
    ],
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
            help="Also write the ends, lower and upper, of an interval of the predicted mean of "
            "this level, such as 0.95; for exact fits of a regression."
        ),
    ] = None,
    format: Format = None,
) -> None:
    """Write a model's prediction for every row.

    The output has one row per row of the data, in the same order; for a classification it also
    has the probability of each class.

    \b
    Example:
      mixfree predict new.csv --model load.mixfree -o forecast.parquet
    """
    from mixfree.base.checks import check_one_of
    from mixfree.streams import Source, StreamFit, find_files, write_predictions
    from mixfree.streams.encoder import POLICIES

    files = find_files(data, format)
    for read in (model, *(Path(file.path) for file in files)):
        if output.exists() and read.exists() and output.samefile(read):
            raise ValueError(f"output must not be {read}, which is read from")
    fit = StreamFit.load(model)
    if missing is not None:
        fit.encoder.set_missing(check_one_of(missing, "missing", POLICIES), fit.reservoir.rows)
    written = write_predictions(fit, Source(files), output, names(keep), interval)
    print(
        f"{written.rows:,} rows, {written.empty:,} of them without a prediction, "
        f"written to {output}"
    )
    for column, count in written.unknown.most_common():
        print(f"{count:,} rows with an unknown category in {column!r}")
