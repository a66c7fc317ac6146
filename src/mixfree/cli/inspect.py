"""``mixfree inspect``: the contents of a model file."""

from collections.abc import Iterable, Iterator
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixfree.base.literal import literal
from mixfree.cli.options import Force, Json, print_json
from mixfree.cli.screen import say

if TYPE_CHECKING:
    from mixfree.streams import StreamFit
    from mixfree.streams.facts import Facts

__all__ = ["inspect"]


def inspect(
    model: Annotated[Path, typer.Argument(help="Model file written by `mixfree fit`.")],
    top: Annotated[int, typer.Option(help="Number of weights to show.")] = 20,
    weights: Annotated[
        Path | None, typer.Option(help="CSV file for all weights, with their intervals.")
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
    from mixfree.streams.facts import Facts
    from mixfree.streams.weights import HEADER, write_weights

    check_whole(top, "top")
    fit = StreamFit.load(model)
    if weights is not None:
        check_place(weights, "weights", HEADER, [model], force)
        count = write_weights(fit, weights)
    if as_json:
        print_json("inspect", {"model": str(model), **in_words(Facts(fit).plain(whole=True))})
        return
    facts = Facts(fit)
    say(*_settings(fit), *report_lines(facts), *_weights(facts, top))
    if weights is not None:
        say(f"written    {count:,} weights to {weights}")


def _settings(fit: "StreamFit") -> Iterator[str]:
    shown_elsewhere = ("method", "scale") if fit.learner.method == "exact" else ("method",)
    chosen = {
        name: value
        for name, value in fit.plan.parameters.items()
        if value not in (None, False) and name not in shown_elsewhere
    }
    state = "complete" if fit.complete else "incomplete: mixfree fit --resume continues it"
    yield f"model      {fit.plan.loss} loss, {fit.learner.method}, {state}"
    yield f"settings   {', '.join(f'{name} = {value}' for name, value in chosen.items())}"
    yield f"target     {fit.encoder.target}"
    if fit.encoder.classes is not None:
        yield f"classes    {', '.join(fit.encoder.classes)}"
    policies = {
        "error": "refused",
        "auto": "refused",
        "skip": "rows left out",
        "mean": "mean of earlier values",
    }
    missing = policies[fit.encoder.missing]
    yield f"features   {len(fit.encoder.features):,}; missing values: {missing}"


def _weights(facts: "Facts", top: int) -> Iterator[str]:
    import numpy as np

    from mixfree.streams.correlation import knows_intervals

    fit = facts.fit
    names = [literal(name) for name in fit.encoder.features]
    weights, intercepts = np.split(fit.learner.weights, [len(names)], axis=1)
    order = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[:top]
    yield f"weights    the {len(order)} largest of {len(names):,}, in the units of the data"
    if knows_intervals(fit.learner):
        yield from _intervals(facts, order)
        return
    width = max(len(names[k]) for k in order)
    for k in order:
        yield f"  {names[k]:{width}}  {_row(weights[:, k])}"
    if intercepts.size:
        yield f"intercept  {_row(intercepts[:, 0]).lstrip()}"


def _intervals(facts: "Facts", order: Iterable[int]) -> Iterator[str]:
    """Tabulate weights, standard errors and confidence intervals, per output."""
    fit = facts.fit
    learner: Any = fit.learner
    weights, errors, ends = learner.weights, learner.bse, learner.conf_int()
    names = [*map(literal, fit.encoder.features), "intercept"]
    shown = [*order, *range(len(fit.encoder.features), weights.shape[1])]
    width = max(len(names[k]) for k in shown)
    labels = fit.encoder.classes if len(weights) > 1 else None
    marked = False
    for output in range(len(weights)):
        if labels is not None:
            yield f"class      {labels[output]}"
        yield f"  {'':{width}}  {'weight':>12}  {'std. error':>12}  {'95 % interval':>26}"
        for k in shown:
            low, high = ends[output, k]
            if isinf(errors[output, k]):
                yield f"  {names[k]:{width}}  {_row([weights[output, k]])}  {'no interval':>12}"
                continue
            mark = "  0" if low <= 0.0 <= high else ""
            marked |= bool(mark)
            values = weights[output, k], errors[output, k], low, high
            yield f"  {names[k]:{width}}  {_row(values)}{mark}"
    if marked:
        yield "           0: the interval contains 0"
    if facts.only_rounding:
        yield "           the intervals show rounding errors only: the model fits every row"
        return
    effective = learner.effective_rows
    if effective == effective:  # NaN if there were too few rows
        yield (
            "           the intervals account for the correlation of the rows: effective sample "
            f"size {effective:,.0f}"
        )


def _row(values: Iterable[float]) -> str:
    return "  ".join(f"{value:12.5g}" for value in values)
