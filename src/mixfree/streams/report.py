"""What a fit came to, in a few lines."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.core.methods import find_method
from mixfree.steps import AdaGradNorm
from mixfree.streams.correlation import Correlation
from mixfree.streams.fitting import StreamFit


class Estimate(NamedTuple):
    """A mean over the rows of a stream, from a sample of them, with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.4g}" + (f" ± {self.error:.1g}" if self.error > 0 else "")


def estimate(values: Array, population: int) -> Estimate:
    """Mean of a uniform sample; exact, without an error, when it is all there is.

    Examples
    --------
    >>> print(estimate(np.array([1.0, 3.0]), 2))
    2
    """
    left = 1.0 - values.size / population
    with np.errstate(over="ignore"):  # of a run that diverged
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
    return Estimate(float(values.mean()), spread * float(np.sqrt(left / values.size)))


def refuse_nothing_learnt(fit: StreamFit) -> None:
    """ValueError if there were no rows to learn from, or nothing to learn from them."""
    if fit.used == 0:
        reasons = "; ".join(f"{n:,}: {why}" for why, n in fit.encoder.left_out.items())
        raise ValueError(f"all of {fit.read:,} rows were left out ({reasons})")
    if not fit.varied:
        name, always = fit.encoder.target, fit.sample.targets[0]
        raise ValueError(f"the target {name!r} is always {always}: there is nothing to learn")


def constant_losses(fit: StreamFit) -> Array:
    """Losses of the sample's rows for the best predictor that is a constant."""
    targets = fit.sample.targets
    if fit.encoder.classes is not None:
        _, which, counts = np.unique(targets, return_inverse=True, return_counts=True)
        return -np.log(counts[which] / targets.size)
    constant = targets.mean() if fit.settings.get("loss") == "squared" else np.median(targets)
    return fit.model.learner.loss.value(np.full(targets.size, constant), targets)


def target_size(fit: StreamFit) -> float:
    """How far the weights of standardised features have to go: the targets' root mean square."""
    if fit.encoder.classes is not None:
        return 1.0
    return float(np.sqrt((fit.sample.targets**2).mean()))


def lines(fit: StreamFit) -> Iterator[str]:
    """The report, line by line."""
    rows, targets, seen = fit.sample.rows, fit.sample.targets, fit.used
    left = sum(fit.encoder.left_out.values())
    rate = fit.read / fit.seconds if fit.seconds > 0 else float("nan")
    yield f"rows       {fit.read:,} read, {seen:,} used, {left:,} left out"
    yield f"           {rate:,.0f} a second, with compiling if this was the first fit"
    for reason, count in fit.encoder.left_out.most_common():
        yield f"           {count:,} left out: {reason}"
    for column, count in fit.encoder.unseen.most_common():
        yield f"           {count:,} with a text in {column!r} that the first look did not have"
    if fit.settings.get("left_columns"):
        columns = ", ".join(fit.settings["left_columns"])
        yield f"columns    left out, being neither numbers, texts nor booleans: {columns}"
    found = estimate(fit.model.losses(rows, targets), seen)
    constant = estimate(constant_losses(fit), seen)
    sampled = "all rows" if len(rows) == seen else f"{len(rows):,} rows drawn uniformly"
    kind = fit.settings.get("loss")
    each = "½ error²" if kind == "squared" else f"the {kind} loss"
    yield f"loss       {found} on the stream (mean of {each} over {sampled})"
    yield f"           {constant} for the best constant prediction"
    if (targets == targets[0]).all():
        yield f"warning    targets other than {targets[0]} are too rare to be among these rows"
    elif not found.mean <= constant.mean:
        yield f"warning    worse than the best constant: {_remedy(fit)}"
    if fit.rival is not None:
        rival = estimate(fit.rival.losses(rows, targets), seen)
        scale = fit.rival.parameters["step_scale"] or 1.0
        steps = f"steps {scale:.3g}/√t, not tuned"
        yield f"           {rival} for plain SGD on the same rows ({steps})"
    elif fit.settings.get("rival_diverged"):
        yield "           plain SGD on the same rows diverged"
    if fit.loss[1]:
        yield f"           {fit.running_loss:.4g} on each batch before it was learnt"
    if fit.model.method == "ladder":
        profile = fit.model.learner.optimizer.profile()
        correlation = Correlation.of(profile, seen)
        first, *others = correlation.lines()
        yield f"stream     {first}"
        yield from (f"           {line}" for line in others)
        if correlation.lengths.size and correlation.lengths[0] > 2:
            yield (
                f"           seen in blocks of {correlation.lengths[0]:,} rows and more; "
                "mixfree diagnose also looks at shorter ones"
            )


def _remedy(fit: StreamFit) -> str:
    """What to try when the model is worse than a constant."""
    method = find_method(fit.model.method)
    if method.name == "ladder":
        return "more rows may help, or another --step-scale"
    if (
        not isinstance(fit.model.learner.optimizer.step, AdaGradNorm)
        or fit.model.parameters.get("step_scale") is not None
    ):
        return "try another --step-scale, or --method ladder"
    size = target_size(fit)
    return f"{method.name} needs a --step-scale of about {size:.3g}, the size of the target"
