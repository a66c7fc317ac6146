"""``mixfree diagnose``: the correlation of a stream."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

from mixfree.base.terminal import say
from mixfree.cli import options as shared
from mixfree.cli.flags import in_flags

# Numbers of the JSON that are null for lack of a profile.
UNKNOWN = ("scale", "resolved", "effective_sample_size", "variance_inflation", "along_path")


def diagnose(
    data: shared.Data,
    target: shared.Target,
    loss: shared.Loss = None,
    features: shared.Features = None,
    exclude: shared.Exclude = None,
    missing: shared.Missing = "auto",
    plot: Annotated[Path | None, Option(help="Figure of the profile, .png and .svg.")] = None,
    format: shared.Format = None,
    force: shared.Force = False,
    as_json: shared.Json = False,
) -> None:
    """Measure how correlated the rows of a stream are.

    Fits a linear model in one pass and prints, for blocks of 1, 2, 4, … rows, how much more they
    vary than blocks of independent rows: 10 means that ten rows tell as much as one. Above 2,000
    weights (1,000 unless the loss is squared) this hides a part of the correlation.

    \b
    Example:
      mixfree diagnose log.csv --target load --plot profile.png
    """
    from mixfree.cli.fit import fit as fit_command
    from mixfree.linear.exact_learner import knows_intervals
    from mixfree.streams import FitPlan, Source, StreamFit, find_files
    from mixfree.streams.report.correlation import NOTHING_TO_TELL
    from mixfree.streams.report.facts import Facts, check_something_learnt, target_size

    if plot is not None:
        from mixfree.base.figures import check_figures

        check_figures(plot, "plot", force)
    plan = FitPlan(target, loss, shared.names(features), shared.names(exclude), missing=missing)
    source = Source(find_files(data, format))
    fit = StreamFit.begin(source, plan)
    if not knows_intervals(fit.learner):
        # Blocks of one row also show the shortest correlation scales.
        parameters = {"method": "ladder", "memory": 0, "options": {"block": 1}}
        plan = replace(fit.plan, parameters=parameters)
        fit = StreamFit(plan, fit.encoder)
    fit.run(source.pieces())
    check_something_learnt(fit)
    found = Facts(fit).correlation
    findings, advice = [NOTHING_TO_TELL], list[str]()
    if found is not None:
        findings = [*found.lines()]
        advice = [in_flags(line, fit_command) for line in found.advice(target_size(fit))]
    figures = []
    if plot is not None and found is not None:
        from mixfree.base.figures import save

        figures = [str(path) for path in save(found.plot(), plot)]
    if as_json:
        about = {"target": target, "rows": {"read": fit.read, "used": fit.used}}
        numbers = {**dict.fromkeys(UNKNOWN), "profile": []} if found is None else found.plain()
        words = {"findings": findings, "advice": [line.strip() for line in advice]}
        shared.print_json("diagnose", {**about, **numbers, **words, "figures": figures})
        return
    if found is not None:
        say(*found.bars(), "")
    say(*findings, *advice)
    if plot is not None:
        say("figures: " + (", ".join(figures) or "none, for lack of a profile"))
