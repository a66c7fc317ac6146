"""Minimise with one call: any gradient function, any stream, any method."""

import inspect
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
from mixfree.core.contest import Choice, Contest
from mixfree.core.history import History, follow, marks
from mixfree.core.method import Method
from mixfree.core.methods import Ladder, find_method, start_method
from mixfree.core.optimizer import Optimizer
from mixfree.core.user_objective import UserObjective
from mixfree.domains import Domain

GradientFunction = Callable[[Array, Any], npt.ArrayLike]
Callback = Callable[[Optimizer], bool | None]
Each = Callable[[Optimizer, bool], bool | None]
LossFunction = Callable[[Array, Any], Any]


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run.

    Attributes
    ----------
    x
        The last point.
    average
        The output point: the average of the iterates, or the point that ``output`` defines.
    samples, steps
        Samples observed and steps taken.
    pending
        Samples at the end of the stream that did not fill a window and were not used.
    history
        Output points of the run on a logarithmic grid of sample counts.
    optimizer
        The optimiser, to be continued or saved.
    choice
        The choice of ``memory="auto"`` and its margin: ``average`` is the output of the run or
        the fit to the kept samples.
    """

    x: Array
    average: Array
    samples: int
    steps: int
    pending: int
    history: History
    optimizer: Optimizer
    choice: Choice | None = None

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
    memory: int | str | None = None,
    draws: int = 1,
    loss: LossFunction | None = None,
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
        Any iterable of samples, such as an array, whose rows are the samples. It is read once,
        in order.
    x0
        The starting point.
    method
        A name of the table (:func:`mixfree.methods`) or a class derived from :class:`Method`.
    domain, alpha, output, mirror, seed, **options
        As for the method itself, for instance ``levels`` or ``mixing_time``.
    memory
        Number of samples to keep: a uniform sample of the stream so far, from which each step
        draws. 0 keeps nothing. ``"auto"`` runs the method without memory, keeps a uniform sample
        of the stream, minimises the mean loss over it from the run's output in up to
        96 passes, and returns the better of the two points by their mean ``loss``. If ``grad`` is
        not compiled, at most 4,096 samples are kept, or ten per coordinate. ``None`` means
        ``"auto"`` for the ladder if ``loss`` is given, and 0 otherwise.
    draws
        Draws from the memory per sample, for a number as ``memory``; each costs one more gradient.
    loss
        ``loss(x, z)``: the loss of sample ``z`` at ``x``; required by ``memory="auto"``.
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

    Sorted samples, with a memory of 1,000:

    >>> result = mf.minimize(lambda x, z: x - z, np.sort(stream), [0.0], "ladder", memory=1000)
    >>> bool(abs(result.average[0] - np.median(stream[:2500])) < 1.0)
    True
    """
    common: dict[str, Any] = {"domain": domain, "alpha": alpha, "output": output}
    common |= {"mirror": mirror, "draws": draws, "seed": seed}
    chooses = _chooses(memory, method, loss)
    if chooses and draws != 1:
        raise ValueError("`draws` needs a number of samples as `memory`, not 'auto'")
    kept = 0 if memory is None or chooses else check_whole(memory, "memory", least=0)
    run = start_method(method, x0, options, memory=kept, **common)
    if max_samples is not None:
        check_whole(max_samples, "max_samples")
    if isinstance(stream, np.ndarray) and stream.ndim == 0:
        raise ValueError("stream must be an iterable of samples, not an array without dimensions")
    total = len(stream) if isinstance(stream, Sized) else None
    if max_samples is not None:
        total = max_samples if total is None else min(total, max_samples)
    add = _adder(grad) if _runs_compiled(grad, stream, run) else None
    contest = None
    if chooses and loss is not None:
        objective = UserObjective(grad, loss, add)
        contest = Contest(
            run.x, objective, values=_values(stream), interpreted=add is None, seed=seed
        )
    bar = progress_bar(run.name, total) if progress else nullcontext(lambda samples: None)
    with bar as show:

        def each(at: Optimizer, at_mark: bool = True) -> bool | None:
            show(at.samples)
            return callback(at) if callback is not None and at_mark else None

        if add is not None:
            rows = np.ascontiguousarray(np.asarray(stream)[:max_samples])
            history = _compiled(run, contest, grad, add, rows, each)
        else:
            history = _reference(run, contest, grad, islice(stream, max_samples), each)
    average, choice = run.average, None
    if contest is not None:
        choice, point = contest.choose(average, run.domain.project)
        average = point.astype(average.dtype)
    return Result(run.x, average, run.samples, run.steps, run.pending, history, run, choice)


def _chooses(memory: int | str | None, method: str | type[Method], loss: Any) -> bool:
    """Whether to run a contest; ValueError if that needs a loss that is not given."""
    if memory == "auto" and loss is None:
        raise ValueError(
            "memory='auto' compares runs by their loss: give `loss`, a function of x and z, "
            "or give `memory` as a number of samples"
        )
    by_default = memory is None and loss is not None and find_method(method) is Ladder
    return memory == "auto" or by_default


def _values(stream: Any) -> int:
    """Numbers of at most 8 bytes per sample; 512 where unknown."""
    if not isinstance(stream, np.ndarray) or stream.dtype.hasobject:
        return 512
    return int(np.prod(stream.shape[1:])) * int(-(-stream.dtype.itemsize // 8))


def _reference(
    run: Optimizer,
    contest: Contest | None,
    grad: GradientFunction,
    stream: Iterable[Any],
    each: Each,
) -> History:
    samples = iter(stream)
    first = next(samples, _NOTHING)
    if first is _NOTHING:
        raise ValueError("stream is empty")
    samples = chain([first], samples)
    history, grid = History(), marks()
    mark = next(grid)
    for sample in samples:
        for due in run.offer(sample):
            run.tell(grad(run.x, due))
        if contest is not None:
            contest.see(sample, grad)
        if run.samples == mark:
            mark = next(grid)
            history.record(run)
            if each(run, True):
                break
    history.record(run)
    return history


def _compiled(
    run: Optimizer, contest: Contest | None, grad: Any, add: Any, stream: Array, each: Each
) -> History:
    from numba.core.errors import NumbaError

    from mixfree.kernels.oracle import WRONG_SIZE, oracle

    if len(stream) == 0:
        raise ValueError("stream is empty")
    try:  # Numba itself names neither grad nor its arguments in all versions.
        inspect.signature(grad.py_func).bind(run.x, stream[0])
    except TypeError as error:
        raise _not_compiled(error, run.x, stream[0]) from error

    def kernel(plan: Any, state: Any, parts: tuple[Array, ...], order: Array) -> int:
        try:
            taken = int(oracle(grad, plan, state, parts[0], parts[-1], order))
        except NumbaError as error:
            raise _not_compiled(error, state.x, stream[0]) from error
        if taken == WRONG_SIZE:
            raise ValueError(f"grad must return {state.x.size} entries, as many as the point has")
        return taken

    def advance(start: int, stop: int) -> None:
        run.advance(kernel, (stream,), range(start, stop))
        if contest is not None:
            new = stream[start:stop]
            contest.offer([new], lambda x, now, out: add(x, new[now], out))

    return follow(run, advance, len(stream), each)


def _adder(grad: Any) -> Callable[[Array, Array, Array], None]:
    """A compiled loop that adds the gradients of samples at one point."""
    from mixfree.kernels.gradient_sums import add_oracle

    def add(x: Array, samples: Array, out: Array) -> None:
        add_oracle(grad, x, np.ascontiguousarray(samples), np.empty_like(x), out)

    return add


def _shown(point: Array) -> str:
    """A point in one line, whatever its length."""
    return np.array2string(point, threshold=6, precision=4, max_line_width=10_000)


def _not_compiled(error: Exception, x: Array, sample: Any) -> TypeError:
    """The error to raise if Numba cannot compile the user's gradient or use its result."""
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
