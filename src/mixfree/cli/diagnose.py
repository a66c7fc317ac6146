"""``mixfree diagnose``: how correlated is this stream?"""

from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require
from mixfree.cli.flags import in_flags
from mixfree.cli.options import Data, Exclude, Features, Format, Loss, Missing, Target, names

__all__ = ["diagnose"]

typer = require("typer")


def diagnose(
    data: Data,
    target: Target,
    loss: Loss = None,
    features: Features = None,
    exclude: Exclude = None,
    missing: Missing = "error",
    plot: Annotated[
        Path | None, typer.Option(help="File to draw the profile to, as .png and .svg.")
    ] = None,
    format: Format = None,
) -> None:
    """Tell how correlated the rows of a stream are.

    Fits a linear model with the method ladder in one pass and prints its profile: the variance
    of sums of gradients over blocks of rows, relative to independent rows.

    \b
    Example:
      mixfree diagnose log.csv --target load --plot profile.png
    """
    from mixfree.cli.fit import fit as fit_command
    from mixfree.streams import FitPlan, Source, StreamFit, find_files
    from mixfree.streams.correlation import Correlation
    from mixfree.streams.report import target_size

    # Blocks of one row show the shortest scales, too.
    parameters = {"method": "ladder", "scale": "running", "options": {"block": 1}}
    plan = FitPlan(
        target, loss, names(features), names(exclude), missing=missing, parameters=parameters
    )
    source = Source(find_files(data, format))
    fit = StreamFit.begin(source, plan)
    fit.run(source.pieces())
    profile = fit.learner.profile()
    assert profile is not None, "the ladder keeps a profile"
    found = Correlation.of(profile, fit.used)
    advice = [in_flags(line, fit_command) for line in found.advice(target_size(fit))]
    print("\n".join([*found.bars(), "", *found.lines(), *advice]))
    if plot is not None:
        from mixfree.base.figures import save

        print("figures: " + ", ".join(str(path) for path in save(found.plot(), plot)))
