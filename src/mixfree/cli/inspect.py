"""``mixfree inspect``: what a model file holds."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from mixfree.base.extras import require

if TYPE_CHECKING:
    from mixfree.streams.fitting import StreamFit

typer = require("typer")


def inspect(
    model: Annotated[Path, typer.Argument(help="The model file.")],
    top: Annotated[int, typer.Option(help="How many weights to show.")] = 20,
) -> None:
    """Tell what a model is, its largest weights, and what it was fitted to.

    Example: `mixfree inspect load.mixfree`.
    """
    from mixfree.base.checks import check_whole
    from mixfree.streams.fitting import StreamFit
    from mixfree.streams.report import lines

    check_whole(top, "top")
    fit = StreamFit.load(model)
    print("\n".join([*_what(fit), *lines(fit), *_weights(fit, top)]))


def _what(fit: "StreamFit") -> Iterator[str]:
    chosen = {
        name: value
        for name, value in fit.model.parameters.items()
        if value not in (None, False) and name != "method"
    }
    state = "complete" if fit.complete else "not complete: fit with --resume to go on"
    yield f"model      {fit.settings['loss']} loss, {fit.model.method}, {state}"
    yield f"settings   {', '.join(f'{name} = {value}' for name, value in chosen.items())}"
    yield f"target     {fit.encoder.target}"
    if fit.encoder.classes is not None:
        yield f"classes    {', '.join(fit.encoder.classes)}"
    missing = {"error": "refused", "skip": "left out", "mean": "the mean so far"}
    yield f"features   {len(fit.encoder.features):,}; missing: {missing[fit.encoder.missing]}"


def _weights(fit: "StreamFit", top: int) -> Iterator[str]:
    weights = np.atleast_2d(fit.model.coef_)
    size = np.abs(weights).max(axis=0)
    order = np.argsort(-size, kind="stable")[:top]
    width = max(len(fit.encoder.features[k]) for k in order)
    yield f"weights    the {len(order)} largest of {size.size:,}, in the units of the data"
    for k in order:
        yield f"  {fit.encoder.features[k]:{width}}  {_row(weights[:, k])}"
    if fit.model.intercept_.size:
        yield f"intercept  {_row(fit.model.intercept_).lstrip()}"


def _row(values: np.ndarray) -> str:
    return "  ".join(f"{value:12.5g}" for value in values)
