"""``mixfree predict``: predictions for the rows of files or of standard input."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from mixfree.base.terminal import complain, say
from mixfree.cli.options import Data, Force, Format, Model, NoHeader, names


def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="File to write: .parquet, .csv or .arrow. Default: beside the data, "
            "new.csv to new-predictions.csv; for standard input, standard output.",
        ),
    ] = None,
    keep: Annotated[str | None, Option(help="Columns of the data to copy: a,b.")] = None,
    missing: Annotated[
        str | None,
        Option(
            help="How to treat missing values. error: stop; skip: leave the prediction empty; "
            "auto: use the mean. Default: as in the fit."
        ),
    ] = None,
    interval: Annotated[
        float | None,
        Option(
            help="Also write intervals of new rows at this level, such as 0.9: lower and upper, or "
            "for classes a set of them. Needs the method exact."
        ),
    ] = None,
    interval_of: Annotated[
        str,
        Option(
            help="row: intervals that contain the targets of new rows; mean: confidence intervals "
            "of the mean, mean_lower and mean_upper."
        ),
    ] = "row",
    format: Format = None,
    no_header: NoHeader = False,
    force: Force = False,
) -> None:
    """Predict the target of every row with a fitted model.

    The output has one row per row of the data, in the same order, and for classifications also
    the probability of each class. Rows from standard input are predicted as they arrive, in their
    own format: CSV with a header, or JSON lines with --format jsonl.

    \b
    Examples:
      mixfree predict load.mixfree new.csv
      tail -n +1 -f log.csv | mixfree predict load.mixfree -
    """
    from mixfree.base.checks import check_one_of
    from mixfree.base.files import check_place
    from mixfree.streams import Source, StreamFit, find_files
    from mixfree.streams.columns.encoder import POLICIES
    from mixfree.streams.predict import Predictor, beside
    from mixfree.streams.read.files import STDIN

    files = find_files(data, format, header=not no_header)
    piped = [file.path for file in files] == [STDIN] and files[0].format in ("csv", "jsonl")
    if output is None and not piped:
        output = beside(files[0])
    fit = StreamFit.load(model)
    if missing is not None:
        fit.encoder.missing = check_one_of(missing, "missing", POLICIES)
    predictor = Predictor(fit, names(keep), interval, interval_of)
    if output is not None:
        inputs = [str(model), *(file.path for file in files)]
        check_place(output, "output", predictor.mark(output), inputs, force)
        written = predictor.write(Source(files), output)
        say(
            f"{written.rows:,} rows, {written.empty:,} of them without a prediction, "
            f"written to {output}"
        )
    else:
        try:
            written = predictor.write(Source(files, arriving=True), sys.stdout.buffer)
        except KeyboardInterrupt:  # all predictions so far have been written
            raise Exit(130) from None
    tell = complain if output is None else say
    for column, count in written.unknown.most_common():
        tell(f"{count:,} rows with an unknown category in {column!r}")
    for count, first in written.not_parsed.values():
        tell(f"{count:,} values treated as missing, the first: {first}")
