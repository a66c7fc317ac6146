"""``mixfree inspect``: the contents of a model file."""

from collections.abc import Iterator
from math import isinf, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from mixfree.base.literal import literal
from mixfree.cli.options import Force, Json, print_json
from mixfree.cli.screen import say

if TYPE_CHECKING:
    from mixfree.streams import StreamFit
    from mixfree.streams.report.facts import Facts
    from mixfree.streams.report.weights import Weight

__all__ = ["inspect"]

MISSING = {
    "error": "refused",
    "auto": "the mean",
    "skip": "rows left out",
}


def inspect(
    model: Annotated[Path, Argument(help="Model file written by `mixfree fit`.")],
    top: Annotated[int, Option(help="Number of weights to show.")] = 20,
    weights: Annotated[
        Path | None, Option(help="CSV file for all weights, with their intervals.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show the settings, report and weights of a model file.

    Prints the largest weights, with confidence intervals if the method is exact.

    \b
    Example:
      mixfree inspect load.mixfree --weights weights.csv
    """
    from mixfree.base.checks import check_whole
    from mixfree.base.files import check_place
    from mixfree.cli.fit import in_words, report_lines
    from mixfree.streams import StreamFit
    from mixfree.streams.report.facts import Facts
    from mixfree.streams.report.weights import HEADER, write_weights

    check_whole(top, "top")
    fit = StreamFit.load(model)
    if weights is not None:
        check_place(weights, "weights", HEADER, [model], force)
        count = write_weights(fit, weights)
    facts = Facts(fit)
    if as_json:
        print_json("inspect", {"model": str(model), **in_words(facts.plain(whole=True))})
        return
    say(*_settings(fit), *report_lines(facts), *_weights(facts, top))
    if weights is not None:
        say(f"written    {count:,} weights to {weights}")


def _settings(fit: "StreamFit") -> Iterator[str]:
    shown_elsewhere = ("target", "loss", "method", "classes", "missing")
    chosen = [f"{k} = {v}" for k, v in fit.plan.given().items() if k not in shown_elsewhere]
    state = "complete" if fit.complete else "incomplete: mixfree fit --resume continues it"
    yield f"model      {fit.plan.loss} loss, {fit.learner.method}, {state}"
    yield f"settings   {', '.join(chosen) or 'the defaults'}"
    yield f"target     {fit.encoder.target}"
    if fit.encoder.classes is not None:
        yield f"classes    {', '.join(fit.encoder.classes)}"
    missing = MISSING[fit.encoder.missing]
    yield f"features   {len(fit.model.features):,}; missing values: {missing}"


def _weights(facts: "Facts", top: int) -> Iterator[str]:
    """Tabulate the largest weights and the intercept per output."""
    import numpy as np

    learner: Any = facts.fit.model.learner
    features = len(facts.fit.model.features)
    outputs, columns = learner.weights.shape
    size = np.abs(learner.weights[:, :features]).max(axis=0)
    order = [*np.argsort(-size, kind="stable")[:top], *range(features, columns)]
    found = [[facts.weights[i * columns + k] for k in order] for i in range(outputs)]
    width = max(len(literal(each.feature)) for each in found[0])
    with_errors = not isnan(found[0][0].std_error)
    yield f"weights    the {min(top, features)} largest of {features:,}, in the units of the data"
    for of_output in found:
        if of_output[0].label is not None:
            yield f"class      {of_output[0].label}"
        if with_errors:
            yield f"  {'':{width}}  {'weight':>12}  {'std. error':>12}  {'95 % interval':>26}"
        for each in of_output:
            yield f"  {literal(each.feature):{width}}  {_numbers(each)}"
    if not with_errors:
        return
    if any(_marked(each) for of_output in found for each in of_output):
        yield "           0: the interval contains 0"
    if facts.only_rounding:
        yield "           the intervals show rounding errors only: the model fits every row"
    elif not isnan(effective := learner.effective_rows):  # NaN if there were too few rows
        yield (
            "           the intervals account for the correlation of the rows: effective sample "
            f"size {effective:,.0f}"
        )


def _marked(of: "Weight") -> bool:
    return of.may_be_zero and not isinf(of.std_error)


def _numbers(of: "Weight") -> str:
    if isinf(of.std_error):
        return f"{of.weight:12.5g}  {'no interval':>12}"
    shown = "  ".join(f"{value:12.5g}" for value in of[2:] if not isnan(value))
    return f"{shown}{'  0' if _marked(of) else ''}"
