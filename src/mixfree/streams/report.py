"""What a fit has come to, in a few lines."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.methods import find_method
from mixfree.core.optimizer import Optimizer
from mixfree.linear.exact.drift import JUDGED, Forgetting
from mixfree.linear.exact.learner import ExactLearner
from mixfree.linear.losses import REGRESSIONS
from mixfree.steps import AdaGradNorm
from mixfree.streams.correlation import Correlation, knows_intervals
from mixfree.streams.stream_fit import StreamFit, losses

__all__ = ["SampleMean", "check_something_learnt", "lines", "sample_mean", "target_size"]

RECENT = 3  # changes of the half-life that are told
BETTER = 0.95  # part of the loss below which forgetting is worth a word


class SampleMean(NamedTuple):
    """The mean of a sample of a stream's rows, with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.4g}" + (f" ± {self.error:.1g}" if self.error > 0 else "")


def sample_mean(values: Array, population: int) -> SampleMean:
    """Mean of a uniform sample; without an error if the sample is the whole population.

    Examples
    --------
    >>> print(sample_mean(np.array([1.0, 3.0]), population=2))
    2
    """
    left = 1.0 - values.size / population
    with np.errstate(over="ignore"):  # a run that diverged has losses near the largest number
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
    return SampleMean(float(values.mean()), spread * float(np.sqrt(left / values.size)))


def check_something_learnt(fit: StreamFit) -> None:
    """ValueError if there were no rows to learn from, or all had the same target."""
    if fit.used == 0:
        reasons = "; ".join(f"{n:,}: {why}" for why, n in fit.encoder.left_out.items())
        raise ValueError(f"all of {fit.read:,} rows were left out ({reasons})")
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
    for reason, count in fit.encoder.left_out.most_common():
        yield f"           {count:,} left out: {reason}"
    for column, count in fit.encoder.unknown.most_common():
        yield f"           {count:,} with an unknown category in {column!r}"
    if fit.unused_columns:
        columns = ", ".join(fit.unused_columns)
        yield f"columns    not used, being neither numbers, text nor booleans: {columns}"
    if isinstance(fit.learner, ExactLearner):
        yield from _under("fit", _exactness(fit.learner))
    yield from _losses(fit)
    correlation = Correlation.of_learner(fit.learner)
    if correlation is not None:
        yield from _under("stream", correlation.lines())
        if correlation.lengths.size and correlation.lengths[0] > 2:
            yield (
                f"           the shortest blocks have {correlation.lengths[0]:,} rows; "
                "`options={'block': 1}` looks at shorter ones"
            )
    if knows_intervals(fit.learner):
        yield from _under("note", filter(None, [fit.learner.remark]))


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


def _losses(fit: StreamFit) -> Iterator[str]:
    rows, targets, seen = fit.reservoir.rows, fit.reservoir.targets, fit.used
    model = sample_mean(losses(fit.learner, rows, targets), seen)
    constant = sample_mean(_constant_losses(fit), seen)
    sampled = "all rows" if len(rows) == seen else f"{len(rows):,} rows drawn uniformly"
    each = "½ error²" if fit.plan.loss == "squared" else f"the {fit.plan.loss} loss"
    forgets = isinstance(fit.learner, ExactLearner) and fit.learner.forgetting is not None
    last = ", by the last weights" if forgets else ""
    yield f"loss       {model} on the stream (mean of {each} over {sampled}{last})"
    yield f"           {constant} for the best constant prediction"
    if (targets == targets[0]).all():
        label = fit.encoder.label(targets[0])
        yield f"warning    targets other than {label} are too rare to be among these rows"
    elif not (model.mean <= constant.mean or forgets):
        yield f"warning    worse than the best constant: {_remedy(fit)}"
    if fit.rival is not None:
        rival = sample_mean(losses(fit.rival, rows, targets), seen)
        scale = fit.plan.rival_step_scale(rows.shape[1]) or 1.0
        yield f"           {rival} for plain SGD on the same rows (steps {scale:.3g}/√t, not tuned)"
    elif fit.rival_diverged:
        yield "           plain SGD on the same rows diverged"
    if fit.loss[1]:
        by = "each batch before it was learnt"
        if fit.ahead is not None:
            by += ", by the fit before the last doubling of the stream"
        yield f"           {fit.running_loss:.4g} test-then-train ({by})"
    if fit.forgetting is not None:
        yield from _better_forgotten(fit.forgetting.forgetting)


def _better_forgotten(forgetting: Forgetting | None) -> Iterator[str]:
    """Whether a fit that forgets predicts the next rows better."""
    if forgetting is None:
        return
    judged = forgetting.judged
    life, loss = min(judged.items(), key=lambda each: each[1])
    never = judged[math.inf]
    if loss < BETTER * never:
        yield (
            f"           {loss:.4g} test-then-train with `half_life={life:.0f}`, {never:.4g} with "
            f"none, over about the last {JUDGED / math.log(2):,.0f} rows"
        )
    else:
        yield "           forgetting would not have predicted the last rows better"


def _constant_losses(fit: StreamFit) -> Array:
    """Losses of the reservoir's rows for the best constant prediction."""
    targets = fit.reservoir.targets
    if fit.encoder.classes is not None:
        _, which, counts = np.unique(targets, return_inverse=True, return_counts=True)
        return -np.log(counts[which] / targets.size)
    constant = targets.mean() if fit.plan.loss == "squared" else np.median(targets)
    losses: Array = REGRESSIONS[str(fit.plan.loss)].value(np.full(targets.size, constant), targets)
    return losses


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
