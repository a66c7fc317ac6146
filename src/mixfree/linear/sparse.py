"""Run the ladder over sparse rows of a linear model, at a cost per nonzero entry."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import MOST_COUNTED
from mixfree.base.state import RunState, State
from mixfree.core.optimizer import FORMAT, Optimizer
from mixfree.domains import AllSpace
from mixfree.gradients import Plain
from mixfree.kernels.ladder import LAM, RBAR, SIZE, numbers_of, return_numbers
from mixfree.kernels.plan import plan_of
from mixfree.kernels.run import COUNT, LINE, SAMPLES, STEPS
from mixfree.kernels.runner import CHUNK
from mixfree.kernels.sparse import FIELDS, LAG, Q, SparseRun, X, sparse
from mixfree.linear.losses import Loss, compiled_loss, has_kernel
from mixfree.steps import Ladder
from mixfree.steps.ladder_rule import FIRST_EPOCH


def runs_sparse(opt: Optimizer, loss: Loss, l2: float = 0.0) -> bool:
    """Whether the cost of a step can be proportional to the row's nonzero entries.

    It can for the ladder, unless regularisation or a ball also moves the weights of zero entries.
    """
    alone = isinstance(opt.step, Ladder) and isinstance(opt.gradient, Plain)
    free = l2 == 0.0 and isinstance(opt.domain, AllSpace)
    return alone and free and opt.has_kernel and has_kernel(loss)


FEW = 8  # a coordinate by itself takes that many times as long to copy as one of many
_NUMBERS = ("counts", "mass", "rates", "sketch")  # fields that every row changes
_VECTORS = ("before", "kept", "earlier")  # fields that few rows change


class SparseLinear(State):
    """The run of the ladder over the rows of CSR matrices, in double precision.

    The run is kept in a lazy form (:class:`mixfree.kernels.sparse.SparseRun`, whose arrays are
    attributes) until :meth:`settle` writes it back to the optimiser, which must be one for which
    :func:`runs_sparse` returns True. It is saved in that form: another would not have the same
    bits.
    """

    saved = ("format", *SparseRun._fields)

    def __init__(self, opt: Optimizer, loss: Loss) -> None:
        if not runs_sparse(opt, loss):
            raise ValueError(f"{opt.name} has no sparse form for this loss: give it dense rows")
        self.optimizer, self._plan, self._loss, self.format = opt, plan_of(opt), loss, FORMAT
        run: RunState = opt.export_run(own=False)
        output, step, nothing = run.output, run.step, np.zeros(0)
        self.counts, self.mass = np.zeros(COUNT + 1, np.int64), np.zeros(1)
        self.counts[[SAMPLES, STEPS, COUNT]] = run.gradient.samples, run.steps, output.count
        self.rates, self.sketch = numbers_of(step)
        self.rates[SIZE] = np.abs(step.weighted_sum).sum()
        self.cells = _empty(run.x.size, 8)
        self.cells[:] = 0.0
        self.cells[:, X], self.cells[:, Q] = run.x, -getattr(output, "sum", 0.0)
        for name, place in FIELDS.items():
            self.cells[:, place] = getattr(step, name)
        self.cells[:, LAG] = _weight(run.steps) * (run.x - step.mean)
        self.before, self.earlier = np.array(getattr(output, "before", nothing)), step.before.copy()
        self.kept = np.array(getattr(output, "kept", nothing), dtype=np.float64)

    def check(self, what: str) -> None:
        """Counts are possible, and the format is known."""
        if self.format != FORMAT:
            raise ValueError(f"state has format {self.format}, not {FORMAT}")
        if not 0 <= self.counts.min() <= self.counts.max() < MOST_COUNTED:
            raise ValueError(f"state of the {what} does not fit: its counts are impossible")

    def begin(self, distance: float) -> None:
        """See :meth:`mixfree.steps.Ladder.begin`."""
        step: Any = self.optimizer.step
        if self.samples == 0 and step.alpha is None and step.first is None:
            self.rates[[RBAR, LAM]] = distance

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self.counts[SAMPLES])

    @property
    def _output(self) -> dict[str, Any]:
        """The fields of the output's state by name."""
        return {
            "count": int(self.counts[COUNT]),
            "sum": self.mass[0] * self.cells[:, X] - self.cells[:, Q],
            "before": self.before.copy(),
            "kept": self.kept.astype(self.optimizer.x.dtype),
        }

    @property
    def average(self) -> Array:
        """The output point."""
        output = self.optimizer.output
        point = self.cells[:, X].astype(self.optimizer.x.dtype)
        state = output.start(point)
        state.load(self._output)
        return output.point(state, point)

    def settle(self) -> Optimizer:
        """Write the run back to the optimiser, and return the optimiser."""
        run, steps = self.optimizer.export_run(), int(self.counts[STEPS])
        run.gradient.load({"samples": self.samples})
        return_numbers(run.step, self.rates, self.sketch)
        fields = {name: self.cells[:, place].copy() for name, place in FIELDS.items()}
        mean = self.cells[:, X] - self.cells[:, LAG] / max(_weight(steps), 1.0)
        run.step.load(fields | {"mean": mean, "before": self.earlier.copy()})
        run.output.load(self._output)
        run.load({"x": self.cells[:, X].astype(run.x.dtype), "steps": steps})
        self.optimizer.import_run(run)
        return self.optimizer

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order: from all of them or, with an error, none."""
        places, names = self._changed(rows)
        cells, others = self.cells[places].copy(), {name: getattr(self, name) for name in names}
        self.load({name: value.copy() for name, value in others.items()})
        try:
            self._advance(rows, targets, weights)
        except BaseException:
            self.cells[places] = cells
            self.load(others)
            raise

    def _changed(self, rows: Any) -> tuple[Any, tuple[str, ...]]:
        """Return the cells and the other fields that these rows may change."""
        outputs, width = self._loss.outputs, rows.shape[1]
        each = len(self.cells) // outputs
        seen = np.zeros(each, bool)  # np.unique takes many times as long
        seen[rows.indices], seen[width:] = True, True
        places: Array = (each * np.arange(outputs)[:, None] + np.flatnonzero(seen)).ravel()
        steps, count, samples = int(self.counts[STEPS]), int(self.counts[COUNT]), rows.shape[0]
        compares = steps + samples >= FIRST_EPOCH and _doubles(steps, samples)
        turns = self.before.size and _doubles(count, samples)
        if FEW * places.size >= len(self.cells) or compares or turns or self.kept.size:
            return slice(None), _NUMBERS + _VECTORS
        return places, _NUMBERS

    def _advance(self, rows: Any, targets: Array, weights: Array | None) -> None:
        loss, width = self._loss, rows.shape[1]
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        intercept = int(self.optimizer.x.size // loss.outputs - width)
        settings = compiled_loss(loss), np.zeros(loss.outputs), width, intercept
        y = np.ascontiguousarray(targets, dtype=np.float64)
        w = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        run, start = SparseRun(*(getattr(self, name) for name in SparseRun._fields)), 0
        while start < y.size:
            piece = slice(start, start + CHUNK)
            csr, aims = _arrays(rows, start, min(start + CHUNK, y.size)), y[piece]
            taken = sparse(self._plan, run, *settings, csr, aims, w[piece])
            start += taken
            if taken < aims.size:
                raise self.settle().refusal()


def _arrays(rows: Any, start: int, stop: int) -> tuple[Array, Array, Array]:
    """Return values, columns and row starts of some rows: copies, which can be written to.

    Otherwise code would be compiled for other types, too.
    """
    first, last = rows.indptr[start], rows.indptr[stop]
    values, columns = np.array(rows.data[first:last], float), rows.indices[first:last]
    ends = rows.indptr[start : stop + 1].astype(np.int64) - first
    return values, np.array(columns, np.int32), ends


def _weight(steps: int) -> float:
    """Total weight of so many points in the ladder's mean."""
    return steps * (steps + 1.0) * (steps + 2.0) * (steps + 3.0) / 24.0


def _doubles(count: int, more: int) -> bool:
    """Whether a count passes a power of two."""
    return (count + more).bit_length() > count.bit_length()


def _empty(rows: int, columns: int) -> Array:
    """Allocate an array at a cache line; unlike np.zeros, np.empty requests large pages."""
    room = np.empty(rows * columns + LINE // 8)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + rows * columns].reshape(rows, columns)
