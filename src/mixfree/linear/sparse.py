"""Run the ladder over sparse rows of a linear model, at a cost per nonzero entry."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from mixfree.base.arithmetic import Array
from mixfree.base.checks import MOST_COUNTED
from mixfree.base.draws import KEPT, key
from mixfree.base.slots import Slots
from mixfree.base.state import RunState, State
from mixfree.core.optimizer import FORMAT, Optimizer
from mixfree.domains import AllSpace
from mixfree.gradients import Plain, Reservoir
from mixfree.kernels.ladder import LAM, RBAR, numbers_of, return_numbers
from mixfree.kernels.plan import plan_of
from mixfree.kernels.run import COUNT, LINE, SAMPLES, STEPS
from mixfree.kernels.runner import CHUNK, with_draws
from mixfree.kernels.sparse import FIELDS, LAG, Q, SparseRun, X, sparse, weight_of
from mixfree.linear.losses import Loss, compiled_loss, has_kernel
from mixfree.steps import Ladder


def runs_sparse(opt: Optimizer, loss: Loss, l2: float = 0.0) -> bool:
    """Whether the cost of a step can be proportional to the row's nonzero entries.

    It can for the ladder, unless regularisation or a ball also moves the weights of zero entries.
    """
    inner = getattr(opt.gradient, "inner", opt.gradient)  # of a memory
    alone = isinstance(opt.step, Ladder) and isinstance(inner, Plain)
    free = l2 == 0.0 and isinstance(opt.domain, AllSpace)
    return alone and free and opt.has_kernel and has_kernel(loss)


SINGLE_COST = 8  # a coordinate by itself takes that many times as long to copy as one of many
_NUMBERS = ("counts", "mass", "rates", "sketch", "memory")  # fields that every row changes
_VECTORS = ("before", "kept", "earlier")  # fields that few rows change
_ROWS = ("data", "indices", "indptr")  # fields that rows replace but do not change


class SparseLinear(State):
    """The run of the ladder over the rows of CSR matrices, in double precision.

    A memory (:class:`mixfree.gradients.Reservoir`) keeps them as a CSR matrix, in its slots' order.
    The run is kept in a lazy form (:class:`mixfree.kernels.sparse.SparseRun`, whose arrays are
    attributes) until :meth:`settle` writes it back to the optimiser, which must be one for which
    :func:`runs_sparse` returns True, at 0 and without samples. It is saved in that form: another
    would not have the same bits.
    """

    saved = ("format", *SparseRun._fields, "memory", *_ROWS)
    grows = _ROWS

    def __init__(self, opt: Optimizer, loss: Loss) -> None:
        if not runs_sparse(opt, loss):
            raise ValueError(f"{opt.name} has no sparse form for this loss: give it dense rows")
        self.optimizer, self._plan, self._loss, self.format = opt, plan_of(opt), loss, FORMAT
        self._width = opt.x.size // loss.outputs  # with the intercept
        run: RunState = opt.export_run(own=False)
        self.counts, self.mass = np.zeros(COUNT + 1, np.int64), np.zeros(1)
        self.rates, self.sketch = numbers_of(run.step)
        self.cells = _empty(run.x.size, 8)
        self.cells[:] = 0.0
        self.before = np.array(getattr(run.output, "before", np.zeros(0)))
        self.earlier = run.step.before.copy()
        self.kept = getattr(run.output, "kept", np.zeros(0)).astype(np.float64)
        self.memory: Slots = getattr(run.gradient, "sample", Slots(0, key(0, KEPT))).copy()
        self.data, self.indices, self.indptr = np.zeros(0), np.zeros(0, np.int32), np.zeros(1, int)

    def check(self, what: str) -> None:
        """Counts are possible, and the format is known."""
        if self.format != FORMAT:
            raise ValueError(f"state has format {self.format}, not {FORMAT}")
        if not 0 <= self.counts.min() <= self.counts.max() < MOST_COUNTED:
            raise ValueError(f"state of the {what} does not fit: its counts are impossible")
        try:  # the kernel does not ask whether a column exists
            self._rows.check_format()
        except ValueError as error:
            raise ValueError(f"state of the {what} does not fit: {error}") from error

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
    def _rows(self) -> Any:
        """The rows in the memory."""
        shape = self.memory.filled, self._width
        return csr_array((self.data, self.indices, self.indptr), shape=shape)

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

    def settle(self, turn: int = 0) -> Optimizer:
        """Write the run, but for the rows in memory, back to the optimiser, and return it.

        ``turn`` gradients of the next sample and its draws are known.
        """
        run, steps = self.optimizer.export_run(), int(self.counts[STEPS])
        run.gradient.load({"samples": self.samples, "sample": self.memory.copy(), "turn": turn})
        getattr(run.gradient, "inner", run.gradient).load({"samples": self.samples})
        return_numbers(run.step, self.rates, self.sketch)
        fields = {name: self.cells[:, place].copy() for name, place in FIELDS.items()}
        mean = self.cells[:, X] - self.cells[:, LAG] / max(weight_of(steps), 1.0)
        run.step.load(fields | {"mean": mean, "before": self.earlier.copy()})
        run.output.load(self._output)
        run.load({"x": self.cells[:, X].astype(run.x.dtype), "steps": steps})
        self.optimizer.import_run(run)
        return self.optimizer

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order: from all of them or, with an error, none.

        An error in the first rows ends the run, so that these need no copy of it.
        """
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        order = np.arange(rows.shape[0])
        told, slots, inside = order, order, ~order
        if isinstance(rule := self.optimizer.gradient, Reservoir):
            told, slots, inside = with_draws(rule, self.memory, order)
        places, names = self._changed(rows, told) if self.samples else (slice(0), ())
        cells, others = self.cells[places].copy(), {name: getattr(self, name) for name in names}
        self.load({name: others[name].copy() for name in names if name not in _ROWS})
        try:
            self._advance(rows, targets, weights, told, slots, inside)
        except BaseException:
            self.cells[places] = cells
            self.load(others)
            raise

    def _changed(self, rows: Any, told: Array) -> tuple[Any, tuple[str, ...]]:
        """Return the cells and the other fields that these rows may change."""
        outputs, (samples, width) = self._loss.outputs, rows.shape
        seen = np.zeros(self._width, bool)  # np.unique takes many times as long
        seen[rows.indices], seen[width:] = True, True
        seen[self._rows[np.unique(~told[told < 0])].indices] = True
        places: Any = np.add.outer(self._width * np.arange(outputs), np.flatnonzero(seen)).ravel()
        steps = int(self.counts[STEPS])
        ends = (steps + samples).bit_length() > steps.bit_length()  # an epoch, or a tail
        if SINGLE_COST * places.size >= len(self.cells) or ends or self.kept.size:
            return slice(None), _NUMBERS + _ROWS + _VECTORS
        return places, _NUMBERS + _ROWS

    def _advance(self, rows: Any, targets: Any, weights: Any, *memory: Array) -> None:
        (told, slots, inside), draws = memory, self._plan.gradient.draws
        loss, width, old = self._loss, rows.shape[1], self._rows
        settings = compiled_loss(loss), np.zeros(loss.outputs), width, self._width - width
        aims, factors = _typed(targets), _typed([] if weights is None else weights)
        samples = (*_arrays(rows), aims, factors)
        kept = (*_arrays(old), *self.memory.columns) if self.memory.columns else samples
        longest = 1 + max(int(np.diff(each[2]).max(initial=0)) for each in (samples, kept))
        room = np.zeros(longest, np.int64), *np.zeros((2, longest))
        run, taken = SparseRun(*(getattr(self, name) for name in SparseRun._fields)), 0
        for start in range(0, told.size, piece := CHUNK * (1 + draws)):
            order = told[start : start + piece]
            taken += sparse(self._plan, run, *settings, samples, kept, order, room)
            if taken < start + order.size:
                break
        used, factors = -(-taken // (1 + draws)), np.ones(aims.size) if weights is None else factors
        self.memory.store([aims, factors], np.arange(used), slots[:used])
        if taken < told.size:
            raise self.settle(turn=taken % (1 + draws)).refusal()
        if (new := np.flatnonzero(inside >= 0)).size:
            more = csr_array(rows[inside[new]], shape=(new.size, self._width))
            inside[new] = ~(old.shape[0] + np.arange(new.size))
            self.data, self.indices, self.indptr = _arrays(vstack([old, more])[~inside])


def _arrays(rows: Any) -> tuple[Array, Array, Array]:
    """Values, columns and row starts."""
    return _typed(rows.data), _typed(rows.indices, np.int32), _typed(rows.indptr, np.int64)


def _typed(values: Any, dtype: Any = np.float64) -> Array:
    """The array as code is compiled for it: one that cannot be written to has another type."""
    return np.require(values, dtype, ("C", "A", "W"))


def _empty(rows: int, columns: int) -> Array:
    """Allocate an array at a cache line; unlike np.zeros, np.empty requests large pages."""
    room = np.empty(rows * columns + LINE // 8)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + rows * columns].reshape(rows, columns)
