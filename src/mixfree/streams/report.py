"""What a fit has come to, in a few lines."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.methods import find_method
from mixfree.linear.losses import REGRESSIONS
from mixfree.steps import AdaGradNorm
from mixfree.streams.correlation import Correlation
from mixfree.streams.stream_fit import StreamFit, losses

__all__ = ["SampleMean", "check_something_learnt", "lines", "sample_mean", "target_size"]


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
    yield f"rows       {fit.read:,} read, {fit.used:,} used, {left_out:,} left out"
    yield f"           {rate:,.0f} per second, including compilation if this was the first fit"
    for reason, count in fit.encoder.left_out.most_common():
        yield f"           {count:,} left out: {reason}"
    for column, count in fit.encoder.unknown.most_common():
        yield f"           {count:,} with an unknown category in {column!r}"
    if fit.unused_columns:
        columns = ", ".join(fit.unused_columns)
        yield f"columns    not used, being neither numbers, text nor booleans: {columns}"
    yield from _losses(fit)
    profile = fit.learner.profile()
    if profile is not None:
        correlation = Correlation.of(profile, fit.used)
        first, *others = correlation.lines()
        yield f"stream     {first}"
        yield from (f"           {line}" for line in others)
        if correlation.lengths.size and correlation.lengths[0] > 2:
            yield (
                f"           the shortest blocks have {correlation.lengths[0]:,} rows; "
                "`options={'block': 1}` looks at shorter ones"
            )


def _losses(fit: StreamFit) -> Iterator[str]:
    rows, targets, seen = fit.reservoir.rows, fit.reservoir.targets, fit.used
    model = sample_mean(losses(fit.learner, rows, targets), seen)
    constant = sample_mean(_constant_losses(fit), seen)
    sampled = "all rows" if len(rows) == seen else f"{len(rows):,} rows drawn uniformly"
    each = "½ error²" if fit.plan.loss == "squared" else f"the {fit.plan.loss} loss"
    yield f"loss       {model} on the stream (mean of {each} over {sampled})"
    yield f"           {constant} for the best constant prediction"
    if (targets == targets[0]).all():
        label = fit.encoder.label(targets[0])
        yield f"warning    targets other than {label} are too rare to be among these rows"
    elif not model.mean <= constant.mean:
        yield f"warning    worse than the best constant: {_remedy(fit)}"
    if fit.rival is not None:
        rival = sample_mean(losses(fit.rival, rows, targets), seen)
        scale = fit.plan.rival_step_scale(rows.shape[1]) or 1.0
        yield f"           {rival} for plain SGD on the same rows (steps {scale:.3g}/√t, not tuned)"
    elif fit.rival_diverged:
        yield "           plain SGD on the same rows diverged"
    if fit.loss[1]:
        yield f"           {fit.running_loss:.4g} test-then-train (each batch before it was learnt)"


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
    if fit.learner.method == "exact":
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
