"""One call for a whole run: any gradient, any stream, any method."""

from collections.abc import Callable, Iterable, Sized
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.progress import progress_bar
from mixfree.core.history import History, follow, marks
from mixfree.core.methods import Method, start_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Domain

GradientFunction = Callable[[Array, Any], npt.ArrayLike]
Callback = Callable[[Optimizer], bool | None]
Each = Callable[[Optimizer, bool], bool | None]


@dataclass(frozen=True, repr=False)
class Result:
    """What a run came to.

    Attributes
    ----------
    x
        The last point.
    average
        The output point: the average iterate, or what ``output`` says.
    samples, steps
        Samples observed and steps taken.
    pending
        Samples at the end of the stream that fill no window and moved nothing.
    history
        Output points on a logarithmic grid of sample counts.
    optimizer
        The optimiser itself, to go on with or to save.
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
        return (
            f"<Result of {self.optimizer.name}: {self.samples:,} samples, {self.steps:,} steps"
            f"{kept}>\n  average {_shown(self.average)}\n  x       {_shown(self.x)}"
        )


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
    seed: int = 0,
    max_samples: int | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    **options: Any,
) -> Result:
    """Minimise E f(x; z) from the gradients of a stream of samples, taken in their order.

    Parameters
    ----------
    grad
        ``grad(x, z)``: gradient at ``x`` of the loss of sample ``z``. When it is compiled by
        Numba and the stream is an array, the whole loop runs compiled.
    stream
        Any iterable of samples; the rows of an array. It is read once, in order.
    x0
        Where to start.
    method
        A name of the table (:func:`mixfree.methods`) or a class derived from :class:`Method`.
    domain, alpha, output, mirror, seed, **options
        As for the method itself, for instance ``levels`` or ``mixing_time``.
    max_samples
        Stop after so many samples; for streams without an end.
    callback
        Called with the optimiser at each mark of the history; the run ends when it returns True.
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
    common = {"domain": domain, "alpha": alpha, "output": output, "mirror": mirror, "seed": seed}
    opt = start_method(method, x0, options, **common)
    if max_samples is not None:
        check_whole(max_samples, "max_samples")
    if isinstance(stream, np.ndarray) and stream.ndim == 0:
        raise ValueError("stream must be an iterable of samples, not an array without dimensions")
    total = len(stream) if isinstance(stream, Sized) else None
    if max_samples is not None:
        total = max_samples if total is None else min(total, max_samples)
    bar = progress_bar(opt.name, total) if progress else nullcontext(lambda samples: None)
    with bar as show:

        def each(at: Optimizer, at_mark: bool = True) -> bool | None:
            show(at.samples)
            return callback(at) if callback is not None and at_mark else None

        if _runs_compiled(grad, stream, opt):
            history = _compiled(opt, grad, np.asarray(stream)[:max_samples], each)
        else:
            history = _reference(opt, grad, islice(stream, max_samples), each)
    return Result(opt.x, opt.average, opt.samples, opt.steps, opt.pending, history, opt)


def _reference(
    opt: Optimizer, grad: GradientFunction, stream: Iterable[Any], each: Each
) -> History:
    samples = iter(stream)
    first = next(samples, _NOTHING)
    if first is _NOTHING:
        raise ValueError("stream is empty")
    samples = chain([first], samples)
    history, grid = History(), marks()
    mark = next(grid)
    for sample in samples:
        for due in opt.offer(sample):
            opt.tell(grad(opt.x, due))
        if opt.samples == mark:
            mark = next(grid)
            history.record(opt)
            if each(opt, True):
                break
    history.record(opt)
    return history


def _compiled(opt: Optimizer, grad: GradientFunction, stream: Array, each: Each) -> History:
    from numba.core.errors import NumbaError

    from mixfree.kernels.oracle import WRONG_SIZE, oracle

    if len(stream) == 0:
        raise ValueError("stream is empty")
    stream = np.ascontiguousarray(stream)

    def kernel(plan: Any, run: Any, parts: tuple[Array, ...], order: Array) -> int:
        try:
            taken = int(oracle(grad, plan, run, parts[0], parts[-1], order))
        except NumbaError as error:
            raise _not_compiled(error, run.x, stream[0]) from error
        if taken == WRONG_SIZE:
            raise ValueError(f"grad must return {opt.x.size} entries, as many as the point has")
        return taken

    def advance(start: int, stop: int) -> None:
        opt.advance(kernel, (stream,), range(start, stop))

    return follow(opt, advance, len(stream), each)


def _shown(point: Array) -> str:
    """A point in one line, whatever its length."""
    return np.array2string(point, threshold=6, precision=4, max_line_width=10_000)


def _not_compiled(error: Exception, x: Array, sample: Any) -> TypeError:
    """What to raise when Numba cannot compile the user's gradient, or use what it returns."""
    from numba import typeof

    reason = next(line for line in str(error).splitlines() if not line.startswith("Failed in"))
    return TypeError(
        f"grad(x, z) must return a vector of real numbers, but Numba cannot compile it for "
        f"x of type {typeof(x)} and z of type {typeof(sample)}: {reason}"
    )


def _runs_compiled(grad: GradientFunction, stream: Any, opt: Optimizer) -> bool:
    # Only Numba's own functions have a py_func, so Numba need not be imported to ask.
    if not (isinstance(stream, np.ndarray) and hasattr(grad, "py_func")):
        return False
    from mixfree.kernels.plan import compilable

    return compilable(opt)


_NOTHING = object()
