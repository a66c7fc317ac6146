"""The report of a fit as lines of text."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mixfree.core.methods import find_method
from mixfree.core.optimizer import Optimizer
from mixfree.linear.exact.drift import JUDGED, Forgetting
from mixfree.linear.exact.learner import ExactLearner
from mixfree.steps import AdaGradNorm
from mixfree.streams.correlation import (
    NOTHING_TO_TELL,
    Correlation,
    is_only_rounding,
    knows_intervals,
)
from mixfree.streams.leakage import leakage_warnings
from mixfree.streams.metrics import ROUNDING, metrics, of_all_rows, shown
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.timeline import CHUNK

__all__ = ["check_something_learnt", "lines", "measured", "remarks", "target_size", "warnings"]

PER_FEATURE = 20  # rows per feature needed for useful predictions
RECENT = 3  # most changes of the half-life that are listed
NAMED = 20  # most columns that are listed by name
FEW_TESTED = 100  # least rows predicted ahead that are compared with the best constant
BETTER = 0.95  # ratio of losses below which forgetting is recommended


def check_something_learnt(fit: StreamFit) -> None:
    """Raise ValueError if there were no rows to learn from, or all had the same target."""
    if fit.used == 0:
        reasons = "; ".join(f"{n:,}: {why}" for why, n in fit.encoder.left_out.items())
        raise ValueError(f"all {fit.read:,} rows were left out ({reasons})")
    if fit.used == 1:
        raise ValueError("there is only one row to learn from: at least two are needed")
    if not fit.varied:
        always = fit.encoder.label(fit.reservoir.targets[0])
        raise ValueError(
            f"the target {fit.encoder.target!r} is always {always}: there is nothing to learn"
        )


def target_size(fit: StreamFit) -> float:
    """Return the root mean square of the targets, the scale of standardised weights."""
    if fit.encoder.classes is not None:
        return 1.0
    return float(np.sqrt((fit.reservoir.targets**2).mean()))


def lines(fit: StreamFit) -> Iterator[str]:
    """Yield the report line by line."""
    left_out = sum(fit.encoder.left_out.values())
    rate = fit.read / fit.seconds if fit.seconds > 0 else float("nan")
    compiled = ", including compilation if this was the first fit" if compiles(fit) else ""
    yield f"rows       {fit.read:,} read, {fit.used:,} used, {left_out:,} left out"
    yield f"           {rate:,.0f} rows per second{compiled}"
    if fit.plan.epochs > 1:
        yield f"           {fit.passes} of {fit.plan.epochs} passes, test-then-train in the first"
    for reason, count in fit.encoder.left_out.most_common():
        yield f"           {count:,} left out: {reason}"
    yield from _oddities(fit)
    yield from _under("columns", _unused(fit.unused_columns))
    yield from _under("note", fit.notes)
    yield from _under("warning", leakage_warnings(fit))
    if isinstance(fit.learner, ExactLearner):
        yield from _under("fit", _exactness(fit.learner))
    elif (choice := getattr(fit.learner, "choice", None)) is not None:
        yield from _under("chosen", choice.lines())
    yield from _under("quality", _quality(fit))
    yield from _under("warning", warnings(fit))
    correlation = Correlation.of_fit(fit)
    if correlation is not None:
        yield from _under("stream", correlation.lines())
        if correlation.lengths.size and correlation.lengths[0] > 2:
            yield (
                f"           the shortest blocks have {correlation.lengths[0]:,} rows; "
                "`options={'block': 1}` measures shorter ones"
            )
    yield from _under("note", remarks(fit))


def remarks(fit: StreamFit) -> Iterator[str]:
    """Yield the reasons why intervals, or the model itself, may not be reliable."""
    if is_only_rounding(fit):
        yield NOTHING_TO_TELL
    elif knows_intervals(fit.learner) and fit.learner.remark:
        yield fit.learner.remark
    features = len(fit.encoder.features)
    if fit.plan.loss == "squared" and fit.used <= features + 1:
        yield (
            f"{features:,} features can fit {fit.used:,} rows whatever their targets, and may "
            "predict other rows badly: `exclude` columns, or give `l2`"
        )
    found = metrics(fit)
    ahead, constant = found.get("test_then_train"), found["constant"]
    if fit.timeline.tested < FEW_TESTED:
        ahead = None
    if ahead is not None and found["in_sample"]["loss"] < constant["loss"] < ahead["loss"]:
        forget, few = "", ""
        if len(fit.encoder.features) > CHUNK // PER_FEATURE:
            few = (
                f", or the first rows were too few for {len(fit.encoder.features):,} features: "
                "`l2` helps"
            )
        if knows_intervals(fit.learner) and fit.plan.loss == "squared":
            forget = "; `half_life='auto'` follows changes"
        yield (
            "test-then-train predictions were worse than the best constant: later rows differ from "
            f"earlier ones{forget}{few}"
        )


def _oddities(fit: StreamFit) -> Iterator[str]:
    """Yield what the first rows did not show: odd values, new categories, unfinished files."""
    for count, first in fit.encoder.strays.values():
        yield f"           {count:,} treated as missing, the first: {first}"
    for column, count in fit.encoder.unknown.most_common():
        yield (
            f"           {count:,} with an unknown category in {column!r}; "
            "`hash_columns=16` hashes them"
        )
    for column, count in fit.encoder.hashed.most_common():
        yield f"           {count:,} with a hashed category in {column!r}"
    for file in fit.unfinished:
        yield f"           the last line of {file} is left out until it ends in a newline"


def _unused(columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the columns left out, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in columns.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        listed = ", ".join(map(repr, names[:NAMED]))
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        yield f"left out: {listed}{more} ({why})"


def compiles(fit: StreamFit) -> bool:
    """Whether a learner is compiled on its first use."""
    return not isinstance(fit.learner, ExactLearner) or fit.plan.compare


def _under(head: str, found: Iterable[str]) -> Iterator[str]:
    """Yield lines, the first with a heading."""
    for line in found:
        yield f"{head:10} {line}"
        head = ""


def _exactness(learner: ExactLearner) -> Iterator[str]:
    """Yield what an exact fit minimises."""
    if learner.forgetting is not None:
        yield from _half_lives(learner.forgetting, learner.samples)
        return
    gap, separated = learner.gap, learner.separated
    if separated:
        features = "1 feature" if separated == 1 else f"{separated:,} features"
        yield (
            f"classes can be separated, or nearly, so that no weights are best: {features} got a "
            "weak ridge, as by default in scikit-learn (C=1); `l2` sets another"
        )
    if gap.upper == 0.0:
        added = " and this ridge" if separated else ""
        yield f"minimises the loss of all rows{added}; their order does not matter"
    else:
        yield "minimises the loss of all rows approximately: they exceed the memory"
        yield (
            f"optimality gap: about {gap.estimate:.2g}, below {gap.upper:.2g} with 95 % "
            "confidence (mean loss above that of the best weights)"
        )


def _half_lives(forgetting: Forgetting, rows: int) -> Iterator[str]:
    """Yield the half-lives of the weights, and which predicted best when."""
    changes = forgetting.history
    if not changes:
        yield f"forgets old rows: a row counts half after {forgetting.half_life:,.0f} rows"
        return
    yield f"forgets old rows: the half-life that predicts best is {_rows(forgetting.half_life)}"
    parts = sorted(forgetting.shares.items(), key=lambda part: -part[1])
    mixed = (f"{share:.0%} {_rows(life)}" for life, share in parts if share >= 0.005)
    yield f"weights: a mixture of half-lives, {', '.join(mixed)}"
    ends = [*(row for row, _ in changes[1:]), rows]
    in_force: Counter[float] = Counter()
    for (row, life), end in zip(changes, ends, strict=True):
        in_force[life] += end - row
    shares = (f"{_rows(life)} for {n / rows:.0%}" for life, n in in_force.most_common())
    yield f"best half-life: {', '.join(shares)} of the rows"
    if len(changes) > 1:
        recent = (f"{_rows(life)} from row {row:,}" for row, life in changes[-RECENT:])
        yield f"changed {len(changes) - 1:,} times, last: {', '.join(recent)}"


def _rows(half_life: float) -> str:
    return "never" if half_life == math.inf else f"{half_life:,.0f} rows"


def _quality(fit: StreamFit) -> Iterator[str]:
    """Yield a table of metrics, one line per model, and comparisons."""
    found = metrics(fit)
    table = [shown(fit, of) for of in found.values()]
    widths = {name: max(len(name), *(len(row[name]) for row in table)) for name in table[0]}
    yield "  ".join(f"{name:{width}}" for name, width in widths.items()).rstrip()
    for what, row in zip(found, table, strict=True):
        values = "  ".join(f"{row[name]:{width}}" for name, width in widths.items())
        yield f"{values}  {measured(fit, what)}"
    if fit.rival_diverged:
        yield "plain SGD on the same rows diverged"
    if fit.forgetting is not None:
        yield from _better_forgotten(fit.forgetting.forgetting)


def measured(fit: StreamFit, what: str) -> str:
    """Describe which model and rows a line of metrics is about."""
    if what == "in_sample":
        kept = len(fit.reservoir.rows)
        rows = "all rows" if kept == fit.used else f"{kept:,} rows drawn uniformly"
        if of_all_rows(fit, fit.learner):
            rows = f"all rows; MAE: {rows}"
        last = ", by the final weights" if _forgets(fit) else ""
        return f"in-sample: {rows}{last}"
    if what == "test_then_train":
        tested = fit.timeline.tested
        if tested == 1:
            return "test-then-train: 1 row, predicted before it was learnt"
        return f"test-then-train: {tested:,} rows, predicted before they were learnt"
    if what == "exact":
        return "the exact fit of all rows, `method='exact'`"
    if what == "constant":
        return "the best constant prediction"
    scale = fit.plan.rival_step_scale(len(fit.encoder.features)) or 1.0
    return f"plain SGD on the same rows (steps {scale:.3g}/√t, not tuned)"


def warnings(fit: StreamFit) -> Iterator[str]:
    """Yield the warnings about a fit."""
    targets = fit.reservoir.targets
    if (targets == targets[0]).all():
        label = fit.encoder.label(targets[0])
        yield f"targets other than {label} are too rare to be in the sample of rows"
        return
    model, constant = (metrics(fit)[what]["loss"] for what in ("in_sample", "constant"))
    if not (model <= constant * (1.0 + ROUNDING) or _forgets(fit)):
        yield f"worse than the best constant: {_remedy(fit)}"


def _forgets(fit: StreamFit) -> bool:
    return isinstance(fit.learner, ExactLearner) and fit.learner.forgetting is not None


def _better_forgotten(forgetting: Forgetting | None) -> Iterator[str]:
    """Yield whether a fit with forgetting predicts the next rows better."""
    if forgetting is None:
        return
    judged = forgetting.judged
    life, loss = min(judged.items(), key=lambda each: each[1])
    never = judged[math.inf]
    if loss < BETTER * never:
        yield (
            f"`half_life={life:.0f}` predicts better: test-then-train loss {loss:.4g} instead of "
            f"{never:.4g} (mean of ½ error² over about the last {JUDGED / math.log(2):,.0f} rows)"
        )
    else:
        yield "forgetting would not have predicted the last rows better"


def _remedy(fit: StreamFit) -> str:
    """Suggest what to try when the model is worse than a constant."""
    if not isinstance(getattr(fit.learner, "optimizer", None), Optimizer):
        return "there may be too few rows for so many features; `l2` helps"
    method = find_method(fit.learner.method)
    if method.searches:
        return "more rows may help, or another `step_scale`"
    _, step = method.parts()
    if step != AdaGradNorm.__name__ or fit.plan.parameters.get("step_scale") is not None:
        return "try another `step_scale`, or `method='ladder'`"
    return (
        f"{method.name} needs `step_scale` to be about {target_size(fit):.3g}, "
        "the size of the target"
    )
