"""Richardson–Romberg extrapolation: remove the bias of runs with constant steps."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, shown
from mixfree.core.optimizer import Optimizer
from mixfree.outputs import Average

__all__ = ["RichardsonRomberg"]


class Run(Protocol):
    """A run with a constant step and the average of its iterates."""

    @property
    def average(self) -> Array:
        """The mean of the iterates so far."""

    @property
    def steps(self) -> int:
        """The number of iterates so far."""


AnyRun = TypeVar("AnyRun", bound=Run)


class RichardsonRomberg(Generic[AnyRun]):
    r"""The averages of runs with several constant steps, combined so that their bias cancels.

    On correlated samples the average of a linear method with the constant step α tends to
    :math:`w^* + \alpha B_1 + \alpha^2 B_2 + O(\alpha^3)`, not to w* (Huo, Chen and Xie 2023). Runs
    with the steps :math:`\alpha_i = k_i\alpha` on the same samples, combined as

    .. math:: \tilde w = \sum_i h_i\,\bar w(\alpha_i), \qquad
              h_i = \prod_{l \ne i} \frac{\alpha_l}{\alpha_l - \alpha_i},

    cancel the first m − 1 terms if there are m runs: 2w̄(α) − w̄(2α) cancels
    :math:`\alpha B_1`. This helps where the largest step times the mixing time is small.

    The stream is passed in batches of equal length, and each batch yields one w̃. The first half of
    the batches is discarded as burn-in; the mean of the others is the estimate, and their variance
    gives its interval (batch means, Student's t). Batches must be much longer than the memory
    1/(αλ) of the iterates and the mixing time, so that they are nearly independent.

    Parameters
    ----------
    start
        Function of the step size that starts a run: an :class:`mixfree.Optimizer`, a
        :class:`mixfree.td.TDLearner`, or any object with the mean of its iterates as ``average``
        and their number as ``steps``.
    alpha
        The smallest step α.
    multiples
        The steps as distinct multiples k of α; (1, 2) by default. With (1,) the result is the plain
        average with its bias.

    Examples
    --------
    Least squares by SGD; with independent rows there is no bias to remove:

    >>> import mixfree as mf
    >>> from mixfree.gradients import Plain
    >>> from mixfree.steps import Constant
    >>> found = RichardsonRomberg(lambda a: mf.Optimizer([0.0], Plain(), Constant(a)), alpha=0.05)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(20):
    ...     rows = rng.normal(3.0, 1.0, size=500)
    ...     found.advance(lambda run: [run.tell(run.x - row) for row in rows])
    >>> found.average.round(2), found.interval().round(2)
    (array([3.02]), array([[2.99, 3.04]]))
    """

    def __init__(
        self,
        start: Callable[[float], AnyRun],
        alpha: float,
        multiples: tuple[float, ...] = (1.0, 2.0),
    ) -> None:
        check_positive(alpha, "alpha")
        multiples = tuple(multiples)
        if not multiples or len(set(multiples)) < len(multiples):
            raise ValueError(f"multiples must be different numbers above 0, not {multiples}")
        sizes = np.array([alpha * check_positive(k, "multiples") for k in multiples])
        ratios = sizes / (sizes - sizes[:, None] + np.diag(sizes))  # 1 on the diagonal
        self.coefficients: Array = ratios.prod(axis=1)
        self.runs = [_checked(start(float(size))) for size in sizes]
        self._batches: list[Array] = []
        self._before = self._totals()
        self._lengths: set[int] = set()

    def advance(self, feed: Callable[[AnyRun], object]) -> None:
        """Call ``feed(run)`` for each run, which must pass it the next batch of samples.

        Raises
        ------
        ValueError
            For a batch of another length; the runs have learnt from it, but no average uses it.
        """
        for run in self.runs:
            feed(run)
        totals = self._totals()
        pairs = zip(totals, self._before, strict=True)
        changes = [(steps - first, after - before) for (steps, after), (first, before) in pairs]
        lengths = {steps for steps, _ in changes}
        if len(lengths) == 1:  # otherwise the batch is skipped, and no part of the next one
            self._before = totals
        every = lengths | self._lengths
        if len(every) > 1 or 0 in every:
            raise ValueError(
                "batches must have one length, and every run a step per sample; the numbers of "
                f"steps were {', '.join(map(str, sorted(every)))}"
            )
        self._lengths = lengths
        means = [total / steps for steps, total in changes]
        self._batches.append(self.coefficients @ np.array(means))

    @property
    def batches(self) -> Array:
        """w̃ of each batch of the second half, one per row."""
        return np.array(self._batches[len(self._batches) // 2 :])

    @property
    def average(self) -> Array:
        """w̃ of the second half of the stream."""
        if not self._batches:
            raise ValueError("there is no batch yet: call advance")
        mean: Array = self.batches.mean(axis=0)
        return mean

    def interval(self, level: float = 0.95) -> Array:
        """Lower and upper ends of an interval for each coordinate of w*.

        Unbounded for fewer than two batches in the second half.
        """
        from scipy.stats import t

        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, both excluded, not {shown(level)}")
        middle, batches = self.average, self.batches
        half = np.full_like(middle, np.inf)
        if len(batches) > 1:
            error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
            half = t.ppf(0.5 + level / 2.0, len(batches) - 1) * error
        return np.stack([middle - half, middle + half], axis=1)

    def _totals(self) -> list[tuple[int, Array]]:
        """Number and sum of the iterates of each run."""
        return [(run.steps, run.steps * run.average) for run in self.runs]

    def __repr__(self) -> str:
        return f"<RichardsonRomberg: {len(self.runs)} runs, {len(self._batches)} batches>"


def _checked(run: AnyRun) -> AnyRun:
    """``run`` itself; an error if its output is not the mean of all iterates."""
    optimizer = getattr(run, "optimizer", run)
    if isinstance(optimizer, Optimizer) and type(optimizer.output) is not Average:
        raise ValueError("output must be 'average' here: means of batches are differences of sums")
    return run
