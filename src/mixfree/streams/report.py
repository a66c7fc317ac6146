"""What a fit has come to, in a few lines."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mixfree.core.contest import Choice
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
from mixfree.streams.giveaway import giveaways
from mixfree.streams.metrics import metrics, shown
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.timeline import CHUNK

__all__ = ["check_something_learnt", "lines", "measured", "remarks", "target_size", "warnings"]

PER_FEATURE = 20  # rows with which the weight of a feature is known well enough to predict
RECENT = 3  # changes of the half-life that are told
NAMED = 20  # columns that are named before the others are counted
BETTER = 0.95  # part of the loss below which forgetting is worth a word


def check_something_learnt(fit: StreamFit) -> None:
    """ValueError if there were no rows to learn from, or all had the same target."""
    if fit.used == 0:
        reasons = "; ".join(f"{n:,}: {why}" for why, n in fit.encoder.left_out.items())
        raise ValueError(f"all of {fit.read:,} rows were left out ({reasons})")
    if fit.used == 1:
        raise ValueError("there is only one row to learn from, and at least two are needed")
    if not fit.varied:
        always = fit.encoder.label(fit.reservoir.targets[0])
        raise ValueError(
            f"the target {fit.encoder.target!r} is always {always}: there is nothing to learn"
        )


def target_size(fit: StreamFit) -> float:
    """The targets' root mean square: how far the weights of standardised features have to go."""
    if fit.encoder.classes is not None:
        return 1.0
    return float(np.sqrt((fit.reservoir.targets**2).mean()))


def lines(fit: StreamFit) -> Iterator[str]:
    """The report, line by line."""
    left_out = sum(fit.encoder.left_out.values())
    rate = fit.read / fit.seconds if fit.seconds > 0 else float("nan")
    compiled = ", including compilation if this was the first fit" if compiles(fit) else ""
    yield f"rows       {fit.read:,} read, {fit.used:,} used, {left_out:,} left out"
    yield f"           {rate:,.0f} per second{compiled}"
    if fit.plan.epochs > 1:
        yield f"           {fit.passes} of {fit.plan.epochs} passes, test-then-train in the first"
    for reason, count in fit.encoder.left_out.most_common():
        yield f"           {count:,} left out: {reason}"
    yield from _oddities(fit)
    yield from _under("columns", _unused(fit.unused_columns))
    yield from _under("note", fit.notes)
    yield from _under("warning", giveaways(fit))
    if isinstance(fit.learner, ExactLearner):
        yield from _under("fit", _exactness(fit.learner))
    elif (choice := getattr(fit.learner, "choice", None)) is not None:
        yield from _under("chosen", _chosen(choice))
    yield from _under("quality", _quality(fit))
    yield from _under("warning", warnings(fit))
    correlation = Correlation.of_fit(fit)
    if correlation is not None:
        yield from _under("stream", correlation.lines())
        if correlation.lengths.size and correlation.lengths[0] > 2:
            yield (
                f"           the shortest blocks have {correlation.lengths[0]:,} rows; "
                "`options={'block': 1}` looks at shorter ones"
            )
    yield from _under("note", remarks(fit))


def remarks(fit: StreamFit) -> Iterator[str]:
    """Why intervals, or the model itself, may not be what they seem, in sentences."""
    if is_only_rounding(fit):
        yield NOTHING_TO_TELL
    elif knows_intervals(fit.learner) and fit.learner.remark:
        yield fit.learner.remark
    found = metrics(fit)
    ahead, constant = found.get("test_then_train"), found["constant"]
    if ahead is not None and found["in_sample"]["loss"] < constant["loss"] < ahead["loss"]:
        forget, few = "", ""
        if len(fit.encoder.features) > CHUNK // PER_FEATURE:
            few = (
                f", or the first rows were too few for {len(fit.encoder.features):,} features, "
                "where `l2` helps"
            )
        if knows_intervals(fit.learner) and fit.plan.loss == "squared":
            forget = "; `half_life='auto'` follows changes"
        yield (
            "predictions ahead were worse than the best constant: what comes next is not like what "
            f"came before{forget}{few}"
        )


def _oddities(fit: StreamFit) -> Iterator[str]:
    """What was not as the first rows let expect."""
    for count, first in fit.encoder.strays.values():
        yield f"           {count:,} taken for missing values, the first: {first}"
    for column, count in fit.encoder.unknown.most_common():
        yield (
            f"           {count:,} with an unknown category in {column!r}; `hash_columns=16` gives "
            "them columns to share"
        )
    for column, count in fit.encoder.hashed.most_common():
        yield f"           {count:,} with a category in {column!r} that shares a column with others"
    for file in fit.unfinished:
        yield f"           the last line of {file} has no end yet: it is left out until it has"


def _unused(columns: Mapping[str, str]) -> Iterator[str]:
    """Columns that were not learnt from, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, why in columns.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        listed = ", ".join(map(repr, names[:NAMED]))
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        yield f"left out: {listed}{more} ({why})"


def compiles(fit: StreamFit) -> bool:
    """Whether a learner is compiled when it is used first."""
    return not isinstance(fit.learner, ExactLearner) or fit.plan.compare


def _under(head: str, found: Iterable[str]) -> Iterator[str]:
    """Lines under one head."""
    for line in found:
        yield f"{head:10} {line}"
        head = ""


def _exactness(learner: ExactLearner) -> Iterator[str]:
    """What an exact fit is a fit of."""
    if learner.forgetting is not None:
        yield from _half_lives(learner.forgetting, learner.samples)
        return
    gap = learner.gap
    if gap.upper == 0.0:
        yield "of all rows, whatever their order"
    else:
        yield "of all rows, whatever their order, which are more than the memory holds"
        yield (
            f"optimality gap: about {gap.estimate:.2g}, below {gap.upper:.2g} with 95 % "
            "confidence (mean loss above that of the best weights)"
        )


def _chosen(choice: Choice) -> Iterator[str]:
    """What a sample of the rows has chosen, and by how much."""
    yield str(choice.chosen)
    judges = f"{choice.judges:,} of the first {choice.samples:,} rows"
    if not choice.judges:
        yield "the method's default: too few rows to choose by"
    elif choice.chosen == choice.default:
        yield f"no other of {choice.candidates} candidates is clearly better, by {judges}"
    else:
        yield f"better than {choice.default}"
        yield f"by {choice.gain:.3g} ± {choice.error:.1g} in mean loss, by {judges}"


def _half_lives(forgetting: Forgetting, rows: int) -> Iterator[str]:
    """The half-lives behind the weights, and which predicted best when."""
    changes = forgetting.history
    if not changes:
        yield f"of the last rows: a row counts half after {forgetting.half_life:,.0f} rows"
        return
    yield f"of the last rows: the half-life that predicts best is {_rows(forgetting.half_life)}"
    parts = sorted(forgetting.shares.items(), key=lambda part: -part[1])
    mixed = (f"{share:.0%} {_rows(life)}" for life, share in parts if share >= 0.005)
    yield f"weights: a mixture, {', '.join(mixed)}"
    ends = [*(row for row, _ in changes[1:]), rows]
    in_force: Counter[float] = Counter()
    for (row, life), end in zip(changes, ends, strict=True):
        in_force[life] += end - row
    shares = (f"{_rows(life)} for {n / rows:.0%}" for life, n in in_force.most_common())
    yield f"best: {', '.join(shares)} of the rows"
    if len(changes) > 1:
        recent = (f"{_rows(life)} from row {row:,}" for row, life in changes[-RECENT:])
        yield f"changed {len(changes) - 1:,} times, last: {', '.join(recent)}"


def _rows(half_life: float) -> str:
    return "never" if half_life == math.inf else f"{half_life:,.0f} rows"


def _quality(fit: StreamFit) -> Iterator[str]:
    """Measures, one line for each of what they are of; then what is wrong with them."""
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
    """What the measures of a line are of."""
    if what == "in_sample":
        kept = len(fit.reservoir.rows)
        rows = "all rows" if kept == fit.used else f"{kept:,} rows drawn uniformly"
        last = ", by the last weights" if _forgets(fit) else ""
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
    """What is wrong with a fit, in sentences."""
    targets = fit.reservoir.targets
    if (targets == targets[0]).all():
        label = fit.encoder.label(targets[0])
        yield f"targets other than {label} are too rare to be among the rows drawn"
        return
    model, constant = (metrics(fit)[what]["loss"] for what in ("in_sample", "constant"))
    if not (model <= constant or _forgets(fit)):
        yield f"worse than the best constant: {_remedy(fit)}"


def _forgets(fit: StreamFit) -> bool:
    return isinstance(fit.learner, ExactLearner) and fit.learner.forgetting is not None


def _better_forgotten(forgetting: Forgetting | None) -> Iterator[str]:
    """Whether a fit that forgets predicts the next rows better."""
    if forgetting is None:
        return
    judged = forgetting.judged
    life, loss = min(judged.items(), key=lambda each: each[1])
    never = judged[math.inf]
    if loss < BETTER * never:
        yield (
            f"{loss:.4g} test-then-train with `half_life={life:.0f}`, {never:.4g} with none: mean "
            f"of ½ error² over about the last {JUDGED / math.log(2):,.0f} rows"
        )
    else:
        yield "forgetting would not have predicted the last rows better"


def _remedy(fit: StreamFit) -> str:
    """What to try when the model is worse than a constant."""
    if not isinstance(getattr(fit.learner, "optimizer", None), Optimizer):
        return "the rows used may be too few for so many features; `l2` helps"
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
