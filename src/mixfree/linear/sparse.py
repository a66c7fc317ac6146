"""Run an optimiser over sparse rows of a linear model, at a cost per nonzero entry."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array, sum_of_squares
from mixfree.base.checks import MOST_COUNTED, shown
from mixfree.base.state import RunState, State
from mixfree.core.optimizer import FORMAT, Optimizer
from mixfree.domains import AllSpace, Ball
from mixfree.gradients import Plain, Window
from mixfree.kernels import sparse_ladder as lazy
from mixfree.kernels.ladder import LAM, RBAR, SIZE, numbers_of, return_numbers
from mixfree.kernels.plan import plan_of
from mixfree.kernels.run import COUNT, LENGTH, LINE, ROOT, SAMPLES, SEEN, STEPS
from mixfree.kernels.runner import CHUNK
from mixfree.kernels.sparse import INSIDE, LISTED, MASS, SUM, WEIGHTS, A, Q, SparseRun, V, sparse
from mixfree.linear.losses import Loss, has_twin, loss_twin
from mixfree.steps import AdaGradNorm, Constant, Ladder
from mixfree.steps.ladder import LadderState
from mixfree.steps.ladder_rule import FIRST_EPOCH


def runs_sparse(opt: Optimizer, loss: Loss, l2: float = 0.0) -> bool:
    """Whether the cost of a step can be proportional to the row's nonzero entries.

    It cannot for the ladder if regularisation or a ball also moves the weights of zero entries,
    each at its own rate.

    Examples
    --------
    >>> import mixfree as mf
    >>> from mixfree.linear import Squared
    >>> boxed = mf.MAG([0.0], domain=mf.Box(-1.0, 1.0))
    >>> runs_sparse(mf.MAG([0.0]), Squared()), runs_sparse(boxed, Squared())
    (True, False)
    """
    if not (opt.has_twin and has_twin(loss) and isinstance(opt.gradient, Window)):
        return False
    anywhere = isinstance(opt.domain, AllSpace)
    if isinstance(opt.step, Ladder):
        return l2 == 0.0 and isinstance(opt.gradient, Plain) and anywhere
    around_origin = isinstance(opt.domain, Ball) and opt.domain.center is None
    return isinstance(opt.step, Constant | AdaGradNorm) and (anywhere or around_origin)


FEW = 8  # a coordinate by itself takes that many times as long to copy as one of many
_NUMBERS = ("counts", "numbers", "rates", "sketch")  # fields that every row changes


@dataclass(slots=True)
class SparseState(State):
    """A run in the form of its kernel: see :class:`mixfree.kernels.sparse.SparseRun`."""

    counts: Array
    numbers: Array
    cells: Array
    places: Array
    before: Array
    kept: Array
    rates: Array
    sketch: Array
    earlier: Array

    @classmethod
    def of(cls, run: RunState) -> "SparseState":
        """Convert the state of an optimiser's run, which is not changed."""
        gradient, output, size = run.gradient, run.output, run.x.size
        nothing, searches = np.zeros(0), isinstance(run.step, LadderState)
        counts = [gradient.samples, run.steps, gradient.seen, gradient.length, 0, output.count, 0]
        numbers = [getattr(run.step, "root", 0.0), 1.0, 0.0, sum_of_squares(run.x), 0.0]
        rates, sketch = numbers_of(run.step) if searches else (nothing, np.zeros((0, 0)))
        columns = {V: run.x, Q: -output.sum if hasattr(output, "sum") else 0.0}
        if searches:
            rates[SIZE] = np.abs(run.step.weighted_sum).sum()
            columns |= {place: getattr(run.step, name) for name, place in lazy.FIELDS.items()}
            columns[lazy.LAG] = _weight(run.steps) * (run.x - run.step.mean)
        else:
            columns[SUM] = gradient.sum if gradient.seen else 0.0
        cells = _empty(size, 8 if searches else 4)
        for place in range(cells.shape[1]):
            cells[:, place] = columns.get(place, 0.0)
        places = np.zeros(0 if searches else size, np.int32)
        if gradient.seen:
            found = np.flatnonzero(gradient.sum)
            cells[found, INSIDE], places[: found.size], counts[LISTED] = 1.0, found, found.size
        before = np.array(getattr(output, "before", nothing))
        kept = np.array(getattr(output, "kept", nothing), dtype=np.float64)
        earlier = run.step.before.copy() if searches else nothing
        others = before, kept, rates, sketch, earlier
        return cls(np.array(counts), np.array(numbers), cells, places, *others)

    def mark(self, places: Array, samples: int) -> Any:
        """Return what :meth:`go_back` needs to undo samples with entries at these ``places``."""
        steps, count, size = int(self.counts[STEPS]), int(self.counts[COUNT]), len(self.cells)
        compares = steps + samples >= FIRST_EPOCH and _doubles(steps, samples)
        turns = self.before.size and _doubles(count, samples)
        few = self.rates.size and FEW * places.size < size  # other steps may change every cell
        if not few or compares or turns or self.kept.size:
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

    def settled(self, run: RunState, l2: float) -> RunState:
        """Write this state into ``run``, the run that it was made from, and return it."""
        point = self.point().astype(run.x.dtype)
        samples, steps, seen, length, *_ = self.counts.tolist()
        run.gradient.load({"samples": samples, "seen": seen, "length": length})
        if isinstance(run.step, LadderState):
            return_numbers(run.step, self.rates, self.sketch)
            fields = {name: self.cells[:, place].copy() for name, place in lazy.FIELDS.items()}
            mean = self.cells[:, V] - self.cells[:, lazy.LAG] / max(_weight(steps), 1.0)
            run.step.load(fields | {"mean": mean, "before": self.earlier.copy()})
        else:
            # The kernel adds regularisation only when a window is full.
            window = self.cells[:, SUM] + l2 * self.numbers[WEIGHTS] * point.astype(np.float64)
            run.gradient.load({"sum": window.astype(point.dtype)})
            run.step.load({"root": float(self.numbers[ROOT])})
        run.output.load(self.output() | {"kept": self.kept.astype(point.dtype)})
        run.load({"x": point, "steps": steps})
        return run

    def point(self) -> Array:
        """Return the current point."""
        point: Array = self.numbers[A] * self.cells[:, V]
        return point

    def output(self) -> dict[str, Any]:
        """Return the fields of the output's state by name."""
        return {
            "count": int(self.counts[COUNT]),
            "sum": self.numbers[MASS] * self.cells[:, V] - self.cells[:, Q],
            "before": self.before.copy(),
            "kept": self.kept.copy(),
        }

    def arrays(self) -> SparseRun:
        """Return the arrays themselves, which the kernel changes."""
        return SparseRun(*(getattr(self, name) for name in self.names()))

    def check(self, what: str) -> None:
        """Counts and places are possible: kernels do not check the bounds of arrays."""
        counts, size = self.counts, len(self.cells)
        fits = counts.min() >= 0 and counts.max() < MOST_COUNTED and self.numbers[A] != 0.0
        listed = self.places[: counts[LISTED]] if fits else self.places[:0]
        fits = fits and counts[SEEN] < counts[LENGTH] and len(listed) == counts[LISTED]
        fits = fits and (listed >= 0).all() and (listed < size).all()
        if fits and not self.rates.size:  # else a place may be listed twice, beyond the room
            inside = np.bincount(listed, minlength=size)
            fits = np.array_equal(self.cells[:, INSIDE], inside)
        if not fits:
            raise ValueError(f"state of the {what} does not fit: its window is impossible")


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
    """The run of an optimiser over the rows of CSR matrices, in double precision.

    The run is kept in a lazy form (:mod:`mixfree.kernels.sparse`) until :meth:`settle` writes it
    back to the optimiser, which must be one for which :func:`runs_sparse` returns True.

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
        if not runs_sparse(opt, loss, l2):
            raise ValueError(
                f"{opt.name} has no sparse twin for this loss and l2={l2}: give it dense rows"
            )
        self.optimizer, self._plan = opt, plan_of(opt)
        self._loss, self._l2 = loss, float(l2)
        self._state = SparseState.of(opt.export_run(own=False))
        self._mark: Any = None

    def mark(self, rows: Any) -> None:
        """Mark the state before the next rows, for :meth:`go_back`."""
        self._mark = self._state.mark(self._places(rows), rows.shape[0])

    def go_back(self) -> None:
        """Return to the mark, if there is one."""
        if self._mark is not None:
            self._state, self._mark = self._state.go_back(self._mark), None

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
        """See :meth:`mixfree.steps.Ladder.begin`; other steps do not search for their scale."""
        step = self.optimizer.step
        searches = isinstance(step, Ladder) and step.alpha is None and step.first is None
        if self.samples == 0 and searches:
            self._state.rates[[RBAR, LAM]] = distance

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self._state.counts[SAMPLES])

    @property
    def average(self) -> Array:
        """The output point."""
        point, output = self._state.point().astype(self.optimizer.x.dtype), self.optimizer.output
        state, found = output.start(point), self._state.output()
        state.load(found | {"kept": found["kept"].astype(point.dtype)})
        return output.point(state, point)

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order, as :func:`mixfree.linear.advance_linear` does."""
        loss, width = self._loss, rows.shape[1]
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        intercept = int(self.optimizer.x.size // loss.outputs - width)
        twin, margins, factors = loss_twin(loss), np.zeros(loss.outputs), np.zeros(loss.outputs)
        y = np.ascontiguousarray(targets, dtype=np.float64)
        w = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        start = 0
        while start < y.size:
            piece = slice(start, start + CHUNK)
            csr, aims = _arrays(rows, start, min(start + CHUNK, y.size)), y[piece]
            settings = (twin, self._l2, margins, factors, width, intercept)
            taken = sparse(self._plan, self._state.arrays(), *settings, csr, aims, w[piece])
            start += taken
            if taken < aims.size:
                raise self.settle().refusal()
        self._mark = None

    def settle(self) -> Optimizer:
        """Write the run back to the optimiser, and return the optimiser."""
        run = self._state.settled(self.optimizer.export_run(), self._l2)
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
