"""Run an optimiser over sparse rows of a linear model at a cost of their non-zeros."""

from typing import Any

import numpy as np

from mixfree.compiled.losses import loss_code
from mixfree.compiled.plan import COUNT, LENGTH, ROOT, SAMPLES, SEEN, STEPS, plan_of
from mixfree.compiled.sparse import (
    MASS,
    MEMBER,
    TOTAL,
    TOUCHED,
    WEIGHTS,
    A,
    Q,
    SparseRun,
    V,
    sparse,
)
from mixfree.domains import AllSpace, Ball
from mixfree.gradients import Plain, Window
from mixfree.linear import CHUNK, refused
from mixfree.losses import Loss
from mixfree.numerics import Array, State, sum_of_squares
from mixfree.optimizer import Optimizer
from mixfree.steps import AdaGradNorm, Constant


def runs_sparse(opt: Optimizer) -> bool:
    """Whether a step of the method can cost as little as the row has non-zeros.

    Examples
    --------
    >>> import mixfree as mf
    >>> runs_sparse(mf.MAG([0.0])), runs_sparse(mf.MAG([0.0], domain=mf.Box(-1.0, 1.0)))
    (True, False)
    """
    around_origin = isinstance(opt.domain, Ball) and opt.domain.center is None
    return (
        isinstance(opt.gradient, Window)
        and isinstance(opt.step, Constant | AdaGradNorm)
        and (isinstance(opt.domain, AllSpace) or around_origin)
    )


class SparseLinear:
    """The run of an optimiser over the rows of CSR matrices, in double precision.

    The run is kept lazily (:mod:`mixfree.compiled.sparse`) until :meth:`settle` hands it back
    to the optimiser it was taken from.

    Parameters
    ----------
    opt
        An optimiser for which :func:`runs_sparse` is true.
    loss, l2
        As for :func:`mixfree.linear.advance_linear`.

    Examples
    --------
    >>> import mixfree as mf
    >>> from scipy.sparse import csr_array
    >>> from mixfree.losses import Squared
    >>> run = SparseLinear(mf.AdaGrad(np.zeros(3), output="last"), Squared())
    >>> run.advance(csr_array(np.eye(3)[:2]), np.ones(2))
    >>> run.average.round(3)
    array([1.   , 0.707, 0.   ])
    """

    def __init__(self, opt: Optimizer, loss: Loss, l2: float = 0.0) -> None:
        if not runs_sparse(opt):
            raise ValueError(f"{opt.name} has no sparse twin")
        self._opt, self._plan = opt, plan_of(opt)
        self._loss, self._l2 = loss, float(l2)
        gradient, step, output = opt.states
        counts = [gradient["samples"], opt.steps, gradient["seen"], gradient["length"], 0]
        nothing = np.zeros(0)
        self._run = SparseRun(
            counts=np.array([*counts, output["count"], 0]),
            numbers=np.array([step.get("root", 0.0), 1.0, 0.0, sum_of_squares(opt.x), 0.0]),
            cells=_in_cache_lines(opt.x.size, 2 if isinstance(opt.gradient, Plain) else 4),
            touched=np.zeros(opt.x.size + 1, np.int32),
            before=np.array(output.get("before", nothing)),
            kept=np.array(output.get("kept", nothing), dtype=np.float64),
        )
        self._run.cells[:, V] = opt.x
        if "sum" in output:
            self._run.cells[:, Q] = -output["sum"]
        if opt.pending:
            places = np.flatnonzero(gradient["sum"])
            self._touch(places, gradient["sum"][places])

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self._run.counts[SAMPLES])

    @property
    def average(self) -> Array:
        """The output point."""
        return self._opt.output.point(self._output(), self._point())

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in their order, as :func:`mixfree.linear.advance_linear` does."""
        loss = self._loss
        rows = _canonical(rows)
        width = rows.shape[1]
        intercept = int(self._opt.x.size // loss.outputs - width)
        code, margins, factors = loss_code(loss), np.zeros(loss.outputs), np.zeros(loss.outputs)
        y = np.ascontiguousarray(targets, dtype=np.float64)
        w = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        for start in range(0, y.size, CHUNK):
            piece = slice(start, start + CHUNK)
            csr, aims = _arrays(rows, start, min(start + CHUNK, y.size)), y[piece]
            settings = (code, self._l2, margins, factors, width, intercept)
            taken = sparse(self._plan, self._run, *settings, csr, aims, w[piece])
            if taken < aims.size:
                self.settle()
                raise refused(self._opt)

    def settle(self) -> Optimizer:
        """Hand the run back to the optimiser."""
        run, (gradient, step, output) = self._run, self._opt.states
        point = self._point()
        # The kernel adds the regularisation of a window when it is full.
        ridge = self._l2 * run.numbers[WEIGHTS] * point.astype(np.float64)
        gradient["samples"], gradient["seen"], gradient["length"] = (
            int(run.counts[place]) for place in (SAMPLES, SEEN, LENGTH)
        )
        places, values = self._window()
        ridge[places] += values
        gradient["sum"] = ridge.astype(point.dtype)
        if "root" in step:
            step["root"] = float(run.numbers[ROOT])
        output.update({name: self._output()[name] for name in output})
        self._opt.go_to(point, int(run.counts[STEPS]))
        return self._opt

    def state_dict(self) -> State:
        """Everything that changes, in its lazy form: another would not have the same bits."""
        run, saved = self._run, self._run._asdict()
        places, values = self._window()
        del saved["cells"], saved["touched"]
        return {
            **{name: value.copy() for name, value in saved.items()},
            "v": run.cells[:, V].copy(),
            "q": run.cells[:, Q].copy(),
            "touched": places,
            "total": values,
        }

    def load_state_dict(self, state: State) -> None:
        """Go on exactly where the run that gave ``state`` was."""
        run = self._run
        run.cells[:, TOTAL:] = 0.0
        for name in ("counts", "numbers", "before", "kept"):
            getattr(run, name)[:] = state[name]
        run.cells[:, V], run.cells[:, Q] = state["v"], state["q"]
        self._touch(np.asarray(state["touched"]), np.asarray(state["total"]))

    def _touch(self, places: Array, values: Array) -> None:
        run = self._run
        run.counts[TOUCHED], run.touched[: places.size] = places.size, places
        if places.size:
            run.cells[places, TOTAL], run.cells[places, MEMBER] = values, 1.0

    def _window(self) -> tuple[Array, Array]:
        """Coordinates and values of the window's sum; plain gradients have no cells for it."""
        places = self._run.touched[: self._run.counts[TOUCHED]].copy()
        return places, self._run.cells[places, TOTAL] if places.size else np.zeros(0)

    def _point(self) -> Array:
        return (self._run.numbers[A] * self._run.cells[:, V]).astype(self._opt.x.dtype)

    def _output(self) -> State:
        run = self._run
        return {
            "count": int(run.counts[COUNT]),
            "sum": run.numbers[MASS] * run.cells[:, V] - run.cells[:, Q],
            "before": run.before.copy(),
            "kept": run.kept.astype(self._opt.x.dtype),
        }


def _in_cache_lines(size: int, width: int) -> Array:
    """Zeros of shape (size, width) in which no row lies across two cache lines of 64 bytes."""
    memory = np.empty(width * size + 8)  # NumPy asks for large pages here, not for zeros
    memory[:] = 0.0
    start = -memory.ctypes.data % 64 // 8
    return memory[start : start + width * size].reshape(size, width)


def _canonical(rows: Any) -> Any:
    if rows.has_canonical_format:
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    return rows


def _arrays(rows: Any, start: int, stop: int) -> tuple[Array, Array, Array]:
    """Values, columns and row starts of some rows, of one type each whatever the matrix has."""
    first, last = rows.indptr[start], rows.indptr[stop]
    values = _own(rows.data[first:last], np.float64)
    columns = _own(rows.indices[first:last], np.int32)
    return values, columns, rows.indptr[start : stop + 1].astype(np.int64) - first


def _own(array: Array, dtype: Any) -> Array:
    """Compiled code has one version for all matrices if none is read-only."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.writeable else array.copy()
