"""``mixfree diagnose``: how correlated is this stream?"""

from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require
from mixfree.cli.options import Data, Format, names

typer = require("typer")


def diagnose(
    data: Data,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    loss: Annotated[
        str | None, typer.Option(help="squared, huber, robust or logistic; by the target's type.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns to learn from, with commas; all unless given.")
    ] = None,
    exclude: Annotated[str | None, typer.Option(help="Columns to leave out, with commas.")] = None,
    missing: Annotated[
        str, typer.Option(help="Rows with missing values: error, skip or mean (so far).")
    ] = "error",
    plot: Annotated[Path | None, typer.Option(help="Draw the profile; a .png and a .svg.")] = None,
    format: Format = None,
) -> None:
    """Tell how correlated a stream is, at which scales, and what it is worth.

    Fits the ladder to it in one pass and reads its profile: how much more the sums of gradients
    over blocks of rows vary than those of independent rows would.

    Example: `mixfree diagnose log.csv --target load --plot profile.png`.
    """
    from mixfree.streams import starting
    from mixfree.streams.correlation import Correlation
    from mixfree.streams.files import find_files
    from mixfree.streams.report import target_size
    from mixfree.streams.source import Source

    # Blocks of one row show the shortest scales, too.
    parameters = {"method": "ladder", "scale": "running", "options": {"block": 1}}
    wish = starting.Wish(
        target, loss, names(features), names(exclude), missing=missing, model=parameters
    )
    source = Source(find_files(data, format))
    fit = starting.start(source, wish)
    fit.run(source.pieces())
    found = Correlation.of(fit.model.learner.optimizer.profile(), fit.used)
    print("\n".join([*found.bars(), "", *found.lines(), *found.advice(target_size(fit))]))
    if plot is not None:
        from mixfree.base.figures import save

        print("figures: " + ", ".join(str(path) for path in save(found.plot(), plot)))
