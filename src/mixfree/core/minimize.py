"""Minimise with one call, and record the course of the run."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.terminal import progress_bar
from mixfree.core.method import Method
from mixfree.core.methods import start_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Domain

PER_DECADE = 20  # marks of a history
GradientFunction = Callable[[Array, Any], npt.ArrayLike]
Callback = Callable[[Optimizer], bool | None]
Each = Callable[[Optimizer, bool], bool | None]


@dataclass(repr=False)
class History:
    """Sample counts, step counts and output points, one row per mark of the grid.

    Examples
    --------
    >>> import mixfree as mf
    >>> result = mf.minimize(lambda x, z: x - z, np.ones(100), [0.0], method="adagrad")
    >>> result.history.samples[:3], result.history.points.shape
    (array([1, 2, 3]), (30, 1))
    """

    _rows: list[tuple[int, int, Array]] = field(default_factory=list)

    def record(self, opt: Any) -> None:
        """Add a row, unless there is one for this sample count."""
        if not self._rows or self._rows[-1][0] != opt.samples:
            self._rows.append((opt.samples, opt.steps, opt.average))

    def __repr__(self) -> str:
        last = f", the last after {self._rows[-1][0]:,} samples" if self._rows else ""
        return f"<History: {len(self._rows)} marks{last}>"

    @property
    def samples(self) -> Array:
        """Samples observed."""
        return np.array([samples for samples, _, _ in self._rows], dtype=np.int64)

    @property
    def steps(self) -> Array:
        """Steps taken."""
        return np.array([steps for _, steps, _ in self._rows], dtype=np.int64)

    @property
    def points(self) -> Array:
        """Output points, one row each."""
        return np.array([point for _, _, point in self._rows])


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run.

    Attributes
    ----------
    x
        The last point.
    average
        The output point: the average of the iterates, or the point that ``output`` defines.
    samples, steps, pending
        Samples observed, steps taken, and last samples that did not fill a window.
    history
        Output points of the run on a logarithmic grid of sample counts.
    optimizer
        The optimiser, to be continued or saved.
    """

    x: Array
    average: Array
    samples: int
    steps: int
    pending: int
    history: History
    optimizer: Optimizer

    def __repr__(self) -> str:
        kept = f", {self.pending} pending" if self.pending else ""
        head = f"<Result of {self.optimizer.name}: {self.samples:,} samples, {self.steps:,} steps"
        points = (self.average, self.x)
        average, x = (np.array2string(p, 10_000, precision=4, threshold=6) for p in points)
        return f"{head}{kept}>\n  average {average}\n  x       {x}"


def minimize(
    grad: GradientFunction,
    stream: Iterable[Any] | Array,
    x0: npt.ArrayLike,
    method: str | type[Method] = "mag",
    *,
    domain: Domain | None = None,
    alpha: float | None = None,
    output: str | None = None,
    mirror: str | None = None,
    memory: int = 0,
    draws: int = 1,
    seed: int = 0,
    max_samples: int | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    **options: Any,
) -> Result:
    """Minimise E f(x; z), given the gradients of a stream of samples in their order.

    Parameters
    ----------
    grad
        ``grad(x, z)``: gradient at ``x`` of the loss of sample ``z``. If it is compiled by
        Numba and the stream is an array, the whole loop is compiled.
    stream
        Any iterable of samples, such as the rows of an array. It is read once, in order.
    x0
        The starting point.
    method
        A name of the table (:func:`mixfree.methods`) or a class derived from :class:`Method`.
    domain, alpha, output, mirror, seed, **options
        As for the method itself, for instance ``levels`` or ``mixing_time``.
    memory, draws
        Number of samples to keep, a uniform sample of the stream so far, and draws from it per
        sample, each of which costs one more gradient. 0 keeps nothing.
    max_samples
        Stop after this many samples; needed for endless streams.
    callback
        Called with the optimiser at each mark of the history; the run stops if it returns True.
    progress
        Show a progress bar (extra ``cli``).

    Examples
    --------
    >>> import mixfree as mf
    >>> rng = np.random.default_rng(0)
    >>> stream = 3.0 + rng.standard_normal(5000)
    >>> result = mf.minimize(lambda x, z: x - z, stream, [0.0], alpha=3.0)
    >>> bool(abs(result.average[0] - 3.0) < 0.2)
    True
    """
    common: dict[str, Any] = {"domain": domain, "alpha": alpha, "output": output}
    common |= {"mirror": mirror, "draws": draws, "seed": seed}
    check_whole(memory, "memory", least=0)
    run = start_method(method, x0, options, memory=memory, **common)
    if isinstance(stream, np.ndarray) and stream.ndim == 0:
        raise ValueError("stream must be an iterable of samples, not an array without dimensions")
    total = len(stream) if isinstance(stream, Sized) else None
    if max_samples is not None:
        total = min(total or max_samples, check_whole(max_samples, "max_samples"))
    bar = progress_bar(run.name, total) if progress else nullcontext(lambda samples: None)
    with bar as show:

        def each(at: Optimizer, at_mark: bool = True) -> bool | None:
            show(at.samples)
            return callback(at) if callback is not None and at_mark else None

        # Only Numba's own functions have a py_func, so Numba need not be imported to ask.
        if isinstance(stream, np.ndarray) and hasattr(grad, "py_func") and run.has_kernel:
            rows = np.ascontiguousarray(np.asarray(stream)[:max_samples])
            history = _compiled(run, grad, rows, each)
        else:
            history = _reference(run, grad, islice(stream, max_samples), each)
    if run.samples == 0:
        raise ValueError("stream is empty")
    return Result(run.x, run.average, run.samples, run.steps, run.pending, history, run)


def _reference(
    run: Optimizer, grad: GradientFunction, stream: Iterable[Any], each: Each
) -> History:
    samples = iter(stream)

    def advance(start: int, stop: int) -> bool:
        for sample in islice(samples, stop - start):
            start += 1
            for due in run.offer(sample):
                run.tell(grad(run.x, due))
        return start == stop

    return follow(run, advance, math.inf, each)


def _compiled(run: Optimizer, grad: Any, stream: Array, each: Each) -> History:
    from numba.core.errors import NumbaError

    from mixfree.kernels.engine import WRONG_SIZE, oracle

    try:  # Numba itself names neither grad nor its arguments in all versions.
        inspect.signature(grad.py_func).bind(run.x, stream[:1])
    except TypeError as error:
        raise _not_compiled(error, run.x, stream) from error

    def kernel(plan: Any, state: Any, parts: tuple[Array, ...], order: Array) -> int:
        try:
            taken = int(oracle(grad, plan, state, parts[0], parts[-1], order))
        except NumbaError as error:
            raise _not_compiled(error, state.x, stream) from error
        if taken == WRONG_SIZE:
            raise ValueError(f"grad must return {state.x.size} entries, as many as the point has")
        return taken

    def advance(start: int, stop: int) -> None:
        run.advance(kernel, (stream,), range(start, stop))

    return follow(run, advance, len(stream), each)


def _not_compiled(error: Exception, x: Array, stream: Array) -> TypeError:
    """The error to raise if Numba cannot compile the user's gradient or use its result."""
    from numba import typeof

    reason = next(line for line in str(error).splitlines() if not line.startswith("Failed in"))
    return TypeError(
        f"grad(x, z) must return a vector of real numbers, but Numba cannot compile it for "
        f"x of type {typeof(x)} and z of type {typeof(stream[0])}: {reason}"
    )


def marks(after: int = 0) -> Iterator[int]:
    """Sample counts of the grid above ``after``: twenty per decade, whole and distinct.

    Examples
    --------
    >>> list(islice(marks(), 12))
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13]
    """
    for k in count():
        mark = round(10.0 ** (k / PER_DECADE))
        if mark > after:
            after = mark
            yield mark


def follow(
    opt: Any,
    advance: Callable[[int, int], bool | None],
    total: float,
    each: Callable[[Any, bool], bool | None] | None = None,
    chunk: int = 1 << 17,
    first: int = 0,
) -> History:
    """Call ``advance(start, stop)`` for ``total`` samples, or until it returns False.

    ``opt`` is an optimiser, or anything else with samples, steps and an average. Every mark of the
    grid from ``first`` on is recorded. ``each(opt, at_mark)`` is called at every mark and after
    every ``chunk``; the run stops when it returns True.
    """
    before, done = opt.samples, 0
    history, grid = History(), marks(max(before, first - 1))
    mark = next(grid)
    while done < total:
        stop = int(min(total, mark - before, done + chunk))
        if advance(done, stop) is False:
            break
        done = stop
        at_mark = before + done == mark
        if at_mark:
            history.record(opt)
            mark = next(grid)
        if each is not None and each(opt, at_mark):
            break
    history.record(opt)
    return history
