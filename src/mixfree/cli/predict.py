"""``mixfree predict``: predictions of a model for files."""

from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require
from mixfree.cli.options import Data, Format, names

typer = require("typer")


def predict(
    data: Data,
    model: Annotated[Path, typer.Option(help="The model file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to: .parquet, .csv or .arrow.")
    ],
    keep: Annotated[
        str | None, typer.Option(help="Columns of the data to copy, with commas.")
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Rows with missing values: error, skip (an empty prediction) or mean (of the "
            "data that was learnt from); as in the fit unless given."
        ),
    ] = None,
    format: Format = None,
) -> None:
    """Write the model's prediction for every row, in the rows' order.

    Example: `mixfree predict --model load.mixfree new.csv -o forecast.parquet`.
    """
    from mixfree.base.checks import check_one_of
    from mixfree.streams import predicting, starting
    from mixfree.streams.encoder import POLICIES
    from mixfree.streams.files import find_files
    from mixfree.streams.fitting import StreamFit
    from mixfree.streams.source import Source

    files = find_files(data, format)
    for read in (model, *(Path(file.path) for file in files)):
        if output.exists() and read.exists() and output.samefile(read):
            raise ValueError(f"output must not be {read}, which is read from")
    fit = StreamFit.load(model)
    if missing is not None:
        fit.encoder.follow(check_one_of(missing, "missing", POLICIES), fit.sample.rows)
    source = Source(files)
    starting.open_for_prediction(source, fit, names(keep))
    written = predicting.predict(fit, source.pieces(), output, names(keep))
    print(
        f"{written.rows:,} rows, {written.empty:,} of them without a prediction, "
        f"written to {output}"
    )
    for column, count in written.unseen.most_common():
        print(f"{count:,} rows with a text in {column!r} that the model does not know")
