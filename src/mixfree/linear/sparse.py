"""Run an optimiser over sparse rows of a linear model at a cost of their non-zeros."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array, State, sum_of_squares
from mixfree.core.optimizer import Optimizer
from mixfree.domains import AllSpace, Ball
from mixfree.gradients import Window
from mixfree.kernels.plan import COUNT, LENGTH, ROOT, SAMPLES, SEEN, STEPS, plan_of
from mixfree.kernels.runner import CHUNK, refused
from mixfree.kernels.sparse import LISTED, MASS, WEIGHTS, A, Q, SparseRun, V, mark, sparse
from mixfree.linear.losses import Loss, loss_code
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

    The run is kept lazily (:mod:`mixfree.kernels.sparse`) until :meth:`settle` hands it back
    to the optimiser it was taken from.

    Parameters
    ----------
    opt
        An optimiser for which :func:`runs_sparse` is true.
    loss, l2
        As for :func:`mixfree.linear.advance.advance_linear`.

    Examples
    --------
    >>> import mixfree as mf
    >>> from scipy.sparse import csr_array
    >>> from mixfree.linear.losses import Squared
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
        nothing, size = np.zeros(0), opt.x.size
        cells = np.empty((size, 2))  # NumPy asks for large pages here, not for zeros
        cells[:, V], cells[:, Q] = opt.x, -output["sum"] if "sum" in output else 0.0
        self._run = SparseRun(
            counts=np.array([*counts, output["count"], 0]),
            numbers=np.array([step.get("root", 0.0), 1.0, 0.0, sum_of_squares(opt.x), 0.0, 0.0]),
            cells=cells,
            marks=cells.view(np.int64),
            places=np.zeros(size, np.int32),
            sums=np.zeros(size),
            aside=np.zeros(size),
            before=np.array(output.get("before", nothing)),
            kept=np.array(output.get("kept", nothing), dtype=np.float64),
        )
        if opt.pending:
            places = np.flatnonzero(gradient["sum"])
            self._list(places, gradient["sum"][places])

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self._run.counts[SAMPLES])

    @property
    def average(self) -> Array:
        """The output point."""
        return self._opt.output.point(self._output(), self._point())

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in their order, as :func:`mixfree.linear.advance.advance_linear` does."""
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
        ridge[run.places[self._listed]] += run.sums[self._listed]
        gradient["sum"] = ridge.astype(point.dtype)
        if "root" in step:
            step["root"] = float(run.numbers[ROOT])
        output.update({name: self._output()[name] for name in output})
        self._opt.go_to(point, int(run.counts[STEPS]))
        return self._opt

    def state_dict(self) -> State:
        """Everything that changes, in its lazy form: another would not have the same bits."""
        run = self._run
        return {
            **{name: getattr(run, name).copy() for name in ("counts", "numbers", "before", "kept")},
            "v": run.cells[:, V].copy(),
            "q": self._q(),
            "places": run.places[self._listed].copy(),
            "sums": run.sums[self._listed].copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on exactly where the run that gave ``state`` was."""
        run = self._run
        for name in ("counts", "numbers", "before", "kept"):
            getattr(run, name)[:] = state[name]
        run.cells[:, V], run.cells[:, Q] = state["v"], state["q"]
        self._list(np.asarray(state["places"]), np.asarray(state["sums"]))

    @property
    def _listed(self) -> slice:
        """Where the window's sum stands."""
        return slice(int(self._run.counts[LISTED]))

    def _list(self, places: Array, values: Array) -> None:
        """Begin the window's sum with these coordinates."""
        run = self._run
        run.counts[LISTED] = places.size
        run.places[self._listed], run.sums[self._listed] = places, values
        run.aside[self._listed] = run.cells[places, Q]
        run.marks[places, Q] = mark.py_func(np.arange(places.size))

    def _q(self) -> Array:
        """The second column with what the window's sum has put aside."""
        run = self._run
        q = run.cells[:, Q].copy()
        q[run.places[self._listed]] = run.aside[self._listed]
        return q

    def _point(self) -> Array:
        return (self._run.numbers[A] * self._run.cells[:, V]).astype(self._opt.x.dtype)

    def _output(self) -> State:
        run = self._run
        return {
            "count": int(run.counts[COUNT]),
            "sum": run.numbers[MASS] * run.cells[:, V] - self._q(),
            "before": run.before.copy(),
            "kept": run.kept.astype(self._opt.x.dtype),
        }


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
