"""Run an optimiser over sparse rows of a linear model, at a cost per nonzero entry."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mixfree.base.arithmetic import Array, sum_of_squares
from mixfree.base.checks import MOST_COUNTED
from mixfree.base.state import RunState, State
from mixfree.core.optimizer import Optimizer
from mixfree.domains import AllSpace, Ball
from mixfree.gradients import Plain, Window
from mixfree.kernels import sparse_ladder as lazy
from mixfree.kernels.domains import BallPlan
from mixfree.kernels.ladder import KAPPA, LAM, RBAR, SIZE, TOTALS, numbers_of, return_numbers
from mixfree.kernels.memory import LINE
from mixfree.kernels.plan import plan_of
from mixfree.kernels.run import COUNT, LENGTH, ROOT, SAMPLES, SEEN, STEPS
from mixfree.kernels.runner import CHUNK
from mixfree.kernels.sparse import LISTED, MASS, WEIGHTS, A, Q, SparseRun, V, mark, sparse
from mixfree.linear.losses import Loss, has_twin, loss_twin
from mixfree.steps import AdaGradNorm, Constant, Ladder
from mixfree.steps.ladder_rule import FIRST_EPOCH, signs


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
    anywhere, step = isinstance(opt.domain, AllSpace), opt.step
    if isinstance(step, Ladder):
        plain = l2 == 0.0 and isinstance(opt.gradient, Plain)
        return plain and anywhere
    around_origin = isinstance(opt.domain, Ball) and opt.domain.center is None
    return isinstance(step, Constant | AdaGradNorm) and (anywhere or around_origin)


FEW = 8  # a coordinate by itself takes that many times as long to copy as one of many
_UNCHANGED = ("counts", "numbers", "before", "kept")  # fields that are saved as they are


@dataclass(slots=True)
class SparseState(State):
    """A run in the form of its kernel: see :mod:`mixfree.kernels.sparse`."""

    counts: Array
    numbers: Array
    cells: Array  # v and q, one row per coordinate
    places: Array  # coordinates in the window's sum
    sums: Array  # the window's sum at these coordinates
    aside: Array  # q at these coordinates
    before: Array  # older sum of the tail average
    kept: Array  # the random iterate

    @classmethod
    def of(cls, run: RunState) -> "SparseState":
        """Convert the state of an optimiser's run, which is not changed."""
        gradient, output, size = run.gradient, run.output, run.x.size
        counts = [gradient.samples, run.steps, gradient.seen, gradient.length, 0, output.count, 0]
        numbers = [getattr(run.step, "root", 0.0), 1.0, 0.0, sum_of_squares(run.x), 0.0, 0.0]
        cells = np.empty((size, 2))  # unlike np.zeros, np.empty requests large pages
        cells[:, V], cells[:, Q] = run.x, -output.sum if hasattr(output, "sum") else 0.0
        nothing = np.zeros(0)
        state = cls(
            counts=np.array(counts),
            numbers=np.array(numbers),
            cells=cells,
            places=np.zeros(size, np.int32),
            sums=np.zeros(size),
            aside=np.zeros(size),
            before=np.array(getattr(output, "before", nothing)),
            kept=np.array(getattr(output, "kept", nothing), dtype=np.float64),
        )
        if gradient.seen:
            places = np.flatnonzero(gradient.sum)
            state._list(places, gradient.sum[places])
        return state

    def begin(self, step: Any, first: float) -> None:
        """Do nothing: none of these steps searches for its scale."""

    def mark(self, places: Array | None, samples: int) -> Any:
        """Return what :meth:`go_back` needs to undo the next samples."""
        return self.copy()

    def go_back(self, mark: Any) -> "SparseState":
        """Return the state as it was at the mark."""
        found: SparseState = mark
        return found

    def settled(self, run: RunState, step: Any, l2: float) -> RunState:
        """Write this state into ``run``, the run that it was made from, and return it."""
        point = self.point().astype(run.x.dtype)
        # The kernel adds regularisation only when a window is full.
        window = l2 * self.numbers[WEIGHTS] * point.astype(np.float64)
        window[self.places[self._listed]] += self.sums[self._listed]
        samples, steps, seen, length, *_ = self.counts.tolist()
        run.gradient.load(
            {"samples": samples, "seen": seen, "length": length, "sum": window.astype(point.dtype)}
        )
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
            "sum": self.numbers[MASS] * self.cells[:, V] - self._q(),
            "before": self.before.copy(),
            "kept": self.kept.copy(),
        }

    def arrays(self) -> SparseRun:
        """Return the arrays themselves, which the kernel changes."""
        return SparseRun(
            self.counts,
            self.numbers,
            self.cells,
            self.cells.view(np.int64),
            self.places,
            self.sums,
            self.aside,
            self.before,
            self.kept,
        )

    def plain(self) -> dict[str, Any]:
        """Return the state as copies of arrays, without the marks of a window in the cells."""
        return {
            **{name: getattr(self, name).copy() for name in _UNCHANGED},
            "v": self.cells[:, V].copy(),
            "q": self._q(),
            "places": self.places[self._listed].copy(),
            "sums": self.sums[self._listed].copy(),
        }

    def restored(self, plain: Any, what: str) -> "SparseState":
        """See :meth:`State.restored`; the marks in the cells are recomputed."""
        blank = _PlainSparse(**self.plain())
        given = blank.restored(plain, what)
        found, size = self.copy(), self.cells.shape[0]
        listed, places = int(given.counts[LISTED]), given.places
        distinct = np.unique(places).size == places.size == given.sums.size == listed
        inside = places.size == 0 or (places.min() >= 0 and places.max() < size)
        counted = (given.counts >= 0).all() and (given.counts < MOST_COUNTED).all()
        if not (distinct and inside and counted):
            raise ValueError(
                f"state of the {what} does not fit: the coordinates of its window are wrong"
            )
        if not (given.counts[SEEN] < given.counts[LENGTH] and given.numbers[A] != 0.0):
            raise ValueError(f"state of the {what} does not fit: its counts contradict each other")
        found.load({name: getattr(given, name) for name in _UNCHANGED})
        found.cells[:, V], found.cells[:, Q] = given.v, given.q
        found._list(places, given.sums)
        return found

    @property
    def _listed(self) -> slice:
        """Where the window's sum is stored."""
        return slice(int(self.counts[LISTED]))

    def _list(self, places: Array, values: Array) -> None:
        """Start the window's sum with these coordinates and values."""
        self.counts[LISTED] = places.size
        self.places[self._listed], self.sums[self._listed] = places, values
        self.aside[self._listed] = self.cells[places, Q]
        self.cells.view(np.int64)[places, Q] = mark(np.arange(places.size))

    def _q(self) -> Array:
        """Return q, including the entries that the window's sum has set aside."""
        q = self.cells[:, Q].copy()
        q[self.places[self._listed]] = self.aside[self._listed]
        return q


@dataclass(slots=True)
class _PlainSparse(State):
    """The saved form of a :class:`SparseState`."""

    counts: Array
    numbers: Array
    before: Array
    kept: Array
    v: Array
    q: Array
    places: Array
    sums: Array

    # A window lists as many coordinates as it has met.
    grows: ClassVar[tuple[str, ...]] = ("places", "sums")


@dataclass(slots=True)
class SparseLadderState(State):
    """A run of the ladder in the form of its kernel: see :mod:`mixfree.kernels.sparse_ladder`."""

    counts: Array
    numbers: Array
    rates: Array  # numbers of the ladder
    sketch: Array
    cells: Array  # one row per coordinate
    earlier: Array  # the mean point when the number of steps last doubled
    before: Array  # older sum of the tail average
    kept: Array  # the random iterate

    @classmethod
    def of(cls, run: RunState, step: Ladder) -> "SparseLadderState":
        """Convert the state of an optimiser's run, which is not changed."""
        ladder, output, size = run.step, run.output, run.x.size
        rates, sketch = numbers_of(ladder)
        rates[SIZE] = np.abs(ladder.weighted_sum).sum()
        cells = _empty(size, lazy.SIGN + 1)
        columns = {
            V: run.x,
            Q: -output.sum if hasattr(output, "sum") else 0.0,
            lazy.SQUARES: ladder.squares,
            lazy.WEIGHTED_SUM: ladder.weighted_sum,
            lazy.ORIGIN: ladder.origin,
            lazy.LAG: 0.5 * run.steps * (run.steps + 1.0) * (run.x - ladder.mean),
            lazy.U: 0.0,
            lazy.SIGN: signs(step.seed, size),
        }
        for place, column in columns.items():
            cells[:, place] = column
        return cls(
            counts=np.array([run.gradient.samples, run.steps, 0, 1, 0, output.count, 0]),
            numbers=np.array([0.0, 1.0, 0.0]),
            rates=rates,
            sketch=sketch,
            cells=cells,
            earlier=ladder.before.copy(),
            before=np.array(getattr(output, "before", np.zeros(0))),
            kept=np.array(getattr(output, "kept", np.zeros(0)), dtype=np.float64),
        )

    def begin(self, step: Ladder, first: float) -> None:
        """See :meth:`mixfree.steps.Ladder.begin`."""
        if step.alpha is None and step.first is None:
            self.rates[[RBAR, LAM]] = first

    def mark(self, places: Array | None, samples: int) -> Any:
        """Return what :meth:`go_back` needs to undo samples with entries at these ``places``."""
        steps, count = int(self.counts[STEPS]), int(self.counts[COUNT])
        compares = steps + samples >= FIRST_EPOCH and _doubles(steps, samples)
        turns = self.before.size and _doubles(count, samples)
        if places is None or compares or turns or self.kept.size:
            return self.copy()
        numbers = {name: getattr(self, name).copy() for name in _NUMBERS}
        return places, self.cells[places], numbers

    def go_back(self, mark: Any) -> "SparseLadderState":
        """Return the state as it was at the mark."""
        if isinstance(mark, SparseLadderState):
            return mark
        places, cells, numbers = mark
        self.cells[places] = cells
        self.load(numbers)
        return self

    def settled(self, run: RunState, step: Ladder, l2: float) -> RunState:
        """Write this state into ``run``, the run that it was made from, and return it."""
        samples, steps, *_ = self.counts.tolist()
        whole = 0.5 * steps * (steps + 1.0)
        return_numbers(run.step, self.rates, self.sketch)
        run.step.load(
            {
                "squares": self.cells[:, lazy.SQUARES].copy(),
                "weighted_sum": self.cells[:, lazy.WEIGHTED_SUM].copy(),
                "origin": self.cells[:, lazy.ORIGIN].copy(),
                "mean": self.cells[:, V] - self.cells[:, lazy.LAG] / max(whole, 1.0),
                "before": self.earlier.copy(),
            }
        )
        point = self.point().astype(run.x.dtype)
        run.gradient.load({"samples": samples})
        run.output.load(self.output() | {"kept": self.kept.astype(point.dtype)})
        run.load({"x": point, "steps": steps})
        return run

    def point(self) -> Array:
        """Return the current point."""
        return self.cells[:, V].copy()

    def output(self) -> dict[str, Any]:
        """Return the fields of the output's state by name."""
        return {
            "count": int(self.counts[COUNT]),
            "sum": self.numbers[MASS] * self.cells[:, V] - self.cells[:, Q],
            "before": self.before.copy(),
            "kept": self.kept.copy(),
        }

    def arrays(self) -> lazy.SparseLadderRun:
        """Return the arrays themselves, which the kernel changes."""
        return lazy.SparseLadderRun(*(getattr(self, name) for name in self.names()))

    def check(self, what: str) -> None:
        """Counts and scales are possible, and sums of squares are not negative."""
        counted = (self.counts >= 0).all() and (self.counts < MOST_COUNTED).all()
        if not (counted and (self.rates[[RBAR, LAM, KAPPA]] > 0.0).all()):
            raise ValueError(f"state of the {what} does not fit: its counts contradict each other")
        if (self.cells[:, lazy.SQUARES] < 0.0).any() or (self.rates[TOTALS:] < 0.0).any():
            raise ValueError(f"state of the {what} does not fit: a sum of squares is negative")
        if not (np.abs(self.cells[:, lazy.SIGN]) == 1.0).all():
            raise ValueError(f"state of the {what} does not fit: a sign is not 1 or -1")


_NUMBERS = ("counts", "numbers", "rates", "sketch")
AnyState = SparseState | SparseLadderState


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
    back to the optimiser.

    Parameters
    ----------
    opt
        An optimiser for which :func:`runs_sparse` returns True.
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
        if not runs_sparse(opt, loss, l2):
            raise ValueError(
                f"{opt.name} has no sparse twin for this loss and l2={l2}: give it dense rows"
            )
        # All space is a ball of infinite radius, so that one kernel serves both.
        ball = BallPlan(getattr(opt.domain, "radius", np.inf), slack=1.0)
        self.optimizer, self._plan = opt, plan_of(opt)._replace(domain=ball)
        self._step: Any = opt.step  # of the type that the state expects
        self._loss, self._l2 = loss, float(l2)
        run, step = opt.export_run(own=False), opt.step
        self._state: AnyState = (
            SparseLadderState.of(run, step) if isinstance(step, Ladder) else SparseState.of(run)
        )
        self._mark: Any = None

    def mark(self, rows: Any) -> None:
        """Mark the state before the next rows, for :meth:`go_back`."""
        few = FEW * rows.nnz * self._loss.outputs < self.optimizer.x.size
        self._mark = self._state.mark(self._places(rows) if few else None, rows.shape[0])

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
        """See :meth:`mixfree.Optimizer.begin`; the optimiser itself does not change."""
        if self.samples == 0:
            self._state.begin(self._step, distance)

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
        loss = self._loss
        rows = _canonical(rows)
        width = rows.shape[1]
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
        run = self._state.settled(self.optimizer.export_run(), self._step, self._l2)
        self.optimizer.import_run(run)
        return self.optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return the state in its lazy form: another form would not have the same bits."""
        return self._state.plain()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        self._state = self._state.restored(state, "sparse run")


def _canonical(rows: Any) -> Any:
    if rows.has_canonical_format:
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    return rows


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
