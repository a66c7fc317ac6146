"""``mixfree inspect``: the contents of a model file."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from mixfree.base.terminal import say
from mixfree.cli.options import Force, Json, Model, print_json

if TYPE_CHECKING:
    from mixfree.streams.report.facts import Facts


def inspect(
    model: Model,
    top: Annotated[int, Option(help="Number of weights to show.")] = 20,
    weights: Annotated[Path | None, Option(help="CSV file of all weights.")] = None,
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
    from mixfree.streams.report import text
    from mixfree.streams.report.facts import Facts

    check_whole(top, "top")
    facts = Facts(StreamFit.load(model))
    if weights is not None:
        check_place(weights, "weights", text.HEADER, [model], force)
        count = text.write_weights(facts, weights)
    if as_json:
        print_json("inspect", {"model": str(model), **in_words(facts.plain(whole=True))})
        return
    say(*_settings(facts), *report_lines(facts), *text.weights(facts, top))
    if weights is not None:
        say(f"written    {count:,} weights to {weights}")


def _settings(facts: "Facts") -> Iterator[str]:
    fit = facts.fit
    shown_elsewhere = ("target", "loss", "method", "classes")
    given = [f"{k} = {v}" for k, v in fit.plan.given().items() if k not in shown_elsewhere]
    state = "complete" if fit.complete else "incomplete: mixfree fit --resume continues it"
    yield f"model      {fit.plan.loss} loss, {fit.learner.method}, {state}"
    yield f"settings   {', '.join(given) or 'the defaults'}"
    yield f"target     {fit.encoder.target}"
    if fit.encoder.classes is not None:
        yield f"classes    {', '.join(fit.encoder.classes)}"
    used = len(facts.used_columns)
    yield f"features   {len(fit.model.features):,} from {used:,} column{'s' if used > 1 else ''}"
