"""Run the ladder over sparse rows of a linear model, at a cost per nonzero entry."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import MOST_COUNTED, shown
from mixfree.base.state import RunState, State
from mixfree.core.optimizer import FORMAT, Optimizer
from mixfree.domains import AllSpace
from mixfree.gradients import Plain
from mixfree.kernels.ladder import LAM, RBAR, SIZE, numbers_of, return_numbers
from mixfree.kernels.plan import plan_of
from mixfree.kernels.run import COUNT, LINE, SAMPLES, STEPS
from mixfree.kernels.runner import CHUNK
from mixfree.kernels.sparse import FIELDS, LAG, Q, SparseRun, X, sparse
from mixfree.linear.losses import Loss, has_twin, loss_twin
from mixfree.steps import Ladder
from mixfree.steps.ladder_rule import FIRST_EPOCH


def runs_sparse(opt: Optimizer, loss: Loss, l2: float = 0.0) -> bool:
    """Whether the cost of a step can be proportional to the row's nonzero entries.

    It can for the ladder, unless regularisation or a ball also moves the weights of zero entries.
    """
    alone = isinstance(opt.step, Ladder) and isinstance(opt.gradient, Plain)
    free = l2 == 0.0 and isinstance(opt.domain, AllSpace)
    return alone and free and opt.has_twin and has_twin(loss)


FEW = 8  # a coordinate by itself takes that many times as long to copy as one of many
_NUMBERS = ("counts", "mass", "rates", "sketch")  # fields that every row changes


@dataclass(slots=True)
class SparseState(State):
    """A run in the form of its kernel: see :class:`mixfree.kernels.sparse.SparseRun`."""

    counts: Array
    mass: Array
    cells: Array
    before: Array
    kept: Array
    rates: Array
    sketch: Array
    earlier: Array

    @classmethod
    def of(cls, run: RunState) -> "SparseState":
        """Convert the state of an optimiser's run, which is not changed."""
        output, nothing, counts = run.output, np.zeros(0), np.zeros(COUNT + 1, np.int64)
        counts[[SAMPLES, STEPS, COUNT]] = run.gradient.samples, run.steps, output.count
        rates, sketch = numbers_of(run.step)
        rates[SIZE] = np.abs(run.step.weighted_sum).sum()
        cells = _empty(run.x.size, 8)
        cells[:] = 0.0
        cells[:, X], cells[:, Q] = run.x, -output.sum if hasattr(output, "sum") else 0.0
        for name, place in FIELDS.items():
            cells[:, place] = getattr(run.step, name)
        cells[:, LAG] = _weight(run.steps) * (run.x - run.step.mean)
        before = np.array(getattr(output, "before", nothing))
        kept = np.array(getattr(output, "kept", nothing), dtype=np.float64)
        return cls(counts, np.zeros(1), cells, before, kept, rates, sketch, run.step.before.copy())

    def mark(self, places: Array, samples: int) -> Any:
        """Return what :meth:`go_back` needs to undo samples with entries at these ``places``."""
        steps, count, size = int(self.counts[STEPS]), int(self.counts[COUNT]), len(self.cells)
        compares = steps + samples >= FIRST_EPOCH and _doubles(steps, samples)
        turns = self.before.size and _doubles(count, samples)
        if FEW * places.size >= size or compares or turns or self.kept.size:
            return self.copy()
        return places, self.cells[places], {name: getattr(self, name).copy() for name in _NUMBERS}

    def go_back(self, mark: Any) -> "SparseState":
        """Return the state as it was at the mark."""
        if isinstance(mark, SparseState):
            return mark
        places, cells, numbers = mark
        self.cells[places] = cells
        self.load(numbers)
        return self

    def settled(self, run: RunState) -> RunState:
        """Write this state into ``run``, the run that it was made from, and return it."""
        point, steps = self.cells[:, X].astype(run.x.dtype), int(self.counts[STEPS])
        run.gradient.load({"samples": int(self.counts[SAMPLES])})
        return_numbers(run.step, self.rates, self.sketch)
        fields = {name: self.cells[:, place].copy() for name, place in FIELDS.items()}
        mean = self.cells[:, X] - self.cells[:, LAG] / max(_weight(steps), 1.0)
        run.step.load(fields | {"mean": mean, "before": self.earlier.copy()})
        run.output.load(self.output() | {"kept": self.kept.astype(point.dtype)})
        run.load({"x": point, "steps": steps})
        return run

    def output(self) -> dict[str, Any]:
        """Return the fields of the output's state by name."""
        return {
            "count": int(self.counts[COUNT]),
            "sum": self.mass[0] * self.cells[:, X] - self.cells[:, Q],
            "before": self.before.copy(),
            "kept": self.kept.copy(),
        }

    def arrays(self) -> SparseRun:
        """Return the arrays themselves, which the kernel changes."""
        return SparseRun(*(getattr(self, name) for name in self.names()))

    def check(self, what: str) -> None:
        """Counts are possible."""
        if not 0 <= self.counts.min() <= self.counts.max() < MOST_COUNTED:
            raise ValueError(f"state of the {what} does not fit: its counts are impossible")


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


class SparseLinear:
    """The run of the ladder over the rows of CSR matrices, in double precision.

    The run is kept in a lazy form (:mod:`mixfree.kernels.sparse`) until :meth:`settle` writes it
    back to the optimiser, which must be one for which :func:`runs_sparse` returns True.
    """

    def __init__(self, opt: Optimizer, loss: Loss) -> None:
        if not runs_sparse(opt, loss):
            raise ValueError(f"{opt.name} has no sparse form for this loss: give it dense rows")
        self.optimizer, self._plan, self._loss = opt, plan_of(opt), loss
        self._state = SparseState.of(opt.export_run(own=False))

    def _places(self, rows: Any) -> Array:
        """Return the coordinates in which the rows have entries."""
        outputs, width = self._loss.outputs, rows.shape[1]
        each = self.optimizer.x.size // outputs
        seen = np.zeros(each, bool)  # np.unique takes many times as long
        seen[rows.indices], seen[width:] = True, True
        columns = np.flatnonzero(seen)
        places: Array = (each * np.arange(outputs)[:, None] + columns).ravel()
        return places

    def begin(self, distance: float) -> None:
        """See :meth:`mixfree.steps.Ladder.begin`."""
        step: Any = self.optimizer.step
        if self.samples == 0 and step.alpha is None and step.first is None:
            self._state.rates[[RBAR, LAM]] = distance

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self._state.counts[SAMPLES])

    @property
    def average(self) -> Array:
        """The output point."""
        output = self.optimizer.output
        point = self._state.cells[:, X].astype(self.optimizer.x.dtype)
        state, found = output.start(point), self._state.output()
        state.load(found | {"kept": found["kept"].astype(point.dtype)})
        return output.point(state, point)

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order: from all of them or, with an error, none."""
        before = self._state.mark(self._places(rows), rows.shape[0])
        try:
            self._advance(rows, targets, weights)
        except BaseException:
            self._state = self._state.go_back(before)
            raise

    def _advance(self, rows: Any, targets: Array, weights: Array | None) -> None:
        loss, width = self._loss, rows.shape[1]
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        intercept = int(self.optimizer.x.size // loss.outputs - width)
        settings = loss_twin(loss), np.zeros(loss.outputs), width, intercept
        y = np.ascontiguousarray(targets, dtype=np.float64)
        w = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        start = 0
        while start < y.size:
            piece = slice(start, start + CHUNK)
            csr, aims = _arrays(rows, start, min(start + CHUNK, y.size)), y[piece]
            taken = sparse(self._plan, self._state.arrays(), *settings, csr, aims, w[piece])
            start += taken
            if taken < aims.size:
                raise self.settle().refusal()

    def settle(self) -> Optimizer:
        """Write the run back to the optimiser, and return the optimiser."""
        run = self._state.settled(self.optimizer.export_run())
        self.optimizer.import_run(run)
        return self.optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return the state in its lazy form: another form would not have the same bits."""
        return {"format": FORMAT, **self._state.plain()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        if state.get("format") != FORMAT:
            raise ValueError(f"state has format {shown(state.get('format'))}, not {FORMAT}")
        plain = {name: value for name, value in state.items() if name != "format"}
        self._state = self._state.restored(plain, "sparse run")


def _arrays(rows: Any, start: int, stop: int) -> tuple[Array, Array, Array]:
    """Return values, columns and row starts of some rows, each in a fixed dtype."""
    first, last = rows.indptr[start], rows.indptr[stop]
    values = _own(rows.data[first:last], np.float64)
    columns = _own(rows.indices[first:last], np.int32)
    return values, columns, rows.indptr[start : stop + 1].astype(np.int64) - first


def _own(array: Array, dtype: Any) -> Array:
    """Return a writeable array, so that code is compiled for one type only."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.writeable else array.copy()
