"""Run an optimiser over sparse rows of a linear model at a cost of their non-zeros."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mixfree.base.arithmetic import Array, sum_of_squares
from mixfree.base.checks import MOST_COUNTED
from mixfree.base.state import RunState, State
from mixfree.core.optimizer import Optimizer
from mixfree.domains import AllSpace, Ball
from mixfree.gradients import Plain, Window
from mixfree.kernels.plan import plan_of
from mixfree.kernels.run import COUNT, LENGTH, ROOT, SAMPLES, SEEN
from mixfree.kernels.runner import CHUNK
from mixfree.kernels.sparse import LISTED, MASS, WEIGHTS, A, Q, SparseRun, V, mark, sparse
from mixfree.linear.losses import Loss, has_twin, loss_twin
from mixfree.linear.sparse_ladder import Mark, SparseLadderState
from mixfree.steps import AdaGradNorm, Constant, Ladder


def runs_sparse(opt: Optimizer, loss: Loss, l2: float = 0.0) -> bool:
    """Whether a step of the method can cost as little as the row has non-zeros.

    The ladder's cannot if weights that a row does not have move, too, each at its own rate: by
    regularisation or in a ball.

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
        common = step.per_coordinate and (step.alpha is not None or step.distance.of == "bound")
        return common and anywhere and l2 == 0.0 and isinstance(opt.gradient, Plain)
    around_origin = isinstance(opt.domain, Ball) and opt.domain.center is None
    return isinstance(step, Constant | AdaGradNorm) and (anywhere or around_origin)


@dataclass(slots=True)
class SparseState(State):
    """The run in the form that the kernel changes: see :mod:`mixfree.kernels.sparse`."""

    counts: Array
    numbers: Array
    cells: Array  # v and q, one row per coordinate
    places: Array  # coordinates in the window's sum
    sums: Array  # the window's sum
    aside: Array  # q of those coordinates
    before: Array  # the tail average's older sum
    kept: Array  # the random iterate

    @classmethod
    def of(cls, run: RunState) -> "SparseState":
        """The state of a run as the optimiser keeps it, which is left as it is."""
        gradient, output, size = run.gradient, run.output, run.x.size
        counts = [gradient.samples, run.steps, gradient.seen, gradient.length, 0, output.count, 0]
        numbers = [getattr(run.step, "root", 0.0), 1.0, 0.0, sum_of_squares(run.x), 0.0, 0.0]
        cells = np.empty((size, 2))  # NumPy asks for large pages here, not for zeros
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
        """None of the steps searches for its scale."""

    def make_room(self, step: Any, samples: int) -> None:
        """There is room for any number of samples."""

    def mark(self, places: Array | None, samples: int) -> Mark:
        """What it takes to come back from some samples."""
        return Mark(self.copy())

    def go_back(self, mark: Mark) -> "SparseState":
        """The state as it was when the mark was made."""
        found: SparseState = mark.state
        return found

    def wants_all(self, run: Any) -> bool:
        """Any row may change every coordinate."""
        return False

    def settled(self, run: RunState, step: Any, l2: float) -> RunState:
        """The run, given as it was when this state was made from it, brought up to date."""
        point = self.point().astype(run.x.dtype)
        # The kernel adds the regularisation of a window when it is full.
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
        """Where the run is."""
        point: Array = self.numbers[A] * self.cells[:, V]
        return point

    def output(self) -> dict[str, Any]:
        """What the output has, by the names of its state."""
        return {
            "count": int(self.counts[COUNT]),
            "sum": self.numbers[MASS] * self.cells[:, V] - self._q(),
            "before": self.before.copy(),
            "kept": self.kept.copy(),
        }

    def arrays(self, whole: bool = True) -> SparseRun:
        """The arrays themselves, for the kernel to change."""
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
        """Numbers and arrays, without the marks that stand in the cells during a window."""
        return {
            **{
                name: getattr(self, name).copy() for name in ("counts", "numbers", "before", "kept")
            },
            "v": self.cells[:, V].copy(),
            "q": self._q(),
            "places": self.places[self._listed].copy(),
            "sums": self.sums[self._listed].copy(),
        }

    def restored(self, plain: Any, what: str) -> "SparseState":
        """See :meth:`State.restored`; the marks are made anew, whatever ``plain`` holds."""
        blank = _PlainSparse(**self.plain())
        given = blank.restored(plain, what)
        found, size = self.copy(), self.cells.shape[0]
        listed, places = int(given.counts[LISTED]), given.places
        distinct = np.unique(places).size == places.size == given.sums.size == listed
        inside = places.size == 0 or (places.min() >= 0 and places.max() < size)
        counted = (given.counts >= 0).all() and (given.counts < MOST_COUNTED).all()
        if not (distinct and inside and counted):
            raise ValueError(f"state of the {what} does not fit: its window's list is not one")
        if not (given.counts[SEEN] < given.counts[LENGTH] and given.numbers[A] != 0.0):
            raise ValueError(f"state of the {what} does not fit: its counts contradict each other")
        found.load({name: getattr(given, name) for name in ("counts", "numbers", "before", "kept")})
        found.cells[:, V], found.cells[:, Q] = given.v, given.q
        found._list(places, given.sums)
        return found

    @property
    def _listed(self) -> slice:
        """Where the window's sum stands."""
        return slice(int(self.counts[LISTED]))

    def _list(self, places: Array, values: Array) -> None:
        """Begin the window's sum with these coordinates."""
        self.counts[LISTED] = places.size
        self.places[self._listed], self.sums[self._listed] = places, values
        self.aside[self._listed] = self.cells[places, Q]
        self.cells.view(np.int64)[places, Q] = mark(np.arange(places.size))

    def _q(self) -> Array:
        """The second column with what the window's sum has put aside."""
        q = self.cells[:, Q].copy()
        q[self.places[self._listed]] = self.aside[self._listed]
        return q


@dataclass(slots=True)
class _PlainSparse(State):
    """What is saved of a :class:`SparseState`."""

    counts: Array
    numbers: Array
    before: Array
    kept: Array
    v: Array
    q: Array
    places: Array
    sums: Array

    # The list of a window has as many rows as it has coordinates.
    grows: ClassVar[tuple[str, ...]] = ("places", "sums")


AnyState = SparseState | SparseLadderState


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
        if not runs_sparse(opt, loss, l2):
            raise ValueError(f"{opt.name} has no sparse twin")
        self._opt, self._plan = opt, plan_of(opt)
        self._step: Any = opt.step  # of the kind that the state is for
        self._loss, self._l2 = loss, float(l2)
        run, step = opt.export_run(own=False), opt.step
        self._state: AnyState = (
            SparseLadderState.of(run, step) if isinstance(step, Ladder) else SparseState.of(run)
        )
        self._mark: Mark | None = None

    def mark(self, rows: Any) -> None:
        """Remember the state before the next rows, for :meth:`go_back`."""
        few = rows.nnz * self._loss.outputs < self._opt.x.size
        self._mark = self._state.mark(self._places(rows) if few else None, rows.shape[0])

    def go_back(self) -> None:
        """Be as when the mark was made."""
        if self._mark is not None:
            self._state, self._mark = self._state.go_back(self._mark), None

    def _places(self, rows: Any) -> Array:
        """The coordinates in which some rows have entries."""
        outputs, width = self._loss.outputs, rows.shape[1]
        each = self._opt.x.size // outputs
        columns = np.append(np.unique(rows.indices), np.arange(width, each))
        places: Array = (each * np.arange(outputs)[:, None] + columns).ravel()
        return places

    def begin(self, distance: float) -> None:
        """See :meth:`mixfree.Optimizer.begin`; the optimiser itself is told nothing."""
        if self.samples == 0:
            self._state.begin(self._step, distance)

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self._state.counts[SAMPLES])

    @property
    def average(self) -> Array:
        """The output point."""
        point, output = self._state.point().astype(self._opt.x.dtype), self._opt.output
        state, found = output.start(point), self._state.output()
        state.load(found | {"kept": found["kept"].astype(point.dtype)})
        return output.point(state, point)

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in their order, as :func:`mixfree.linear.advance_linear` does."""
        loss = self._loss
        rows = _canonical(rows)
        width = rows.shape[1]
        intercept = int(self._opt.x.size // loss.outputs - width)
        twin, margins, factors = loss_twin(loss), np.zeros(loss.outputs), np.zeros(loss.outputs)
        y = np.ascontiguousarray(targets, dtype=np.float64)
        w = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        self._state.make_room(self._step, y.size)
        start = 0
        while start < y.size:
            piece = slice(start, start + CHUNK)
            csr, aims = _arrays(rows, start, min(start + CHUNK, y.size)), y[piece]
            settings = (twin, self._l2, margins, factors, width, intercept)
            run = self._state.arrays(self._mark is None or self._mark.places is None)
            taken = sparse(self._plan, run, *settings, csr, aims, w[piece])
            start += taken
            if taken < aims.size:
                if self._mark is None or not self._state.wants_all(run):
                    raise self.settle().refusal()
                self._mark.widen(self._state)
        self._mark = None

    def settle(self) -> Optimizer:
        """Hand the run back to the optimiser."""
        self._opt.import_run(self._settled())
        return self._opt

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, in its lazy form: another would not have the same bits."""
        return self._state.plain()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where the run that gave ``state`` was."""
        self._state = self._state.restored(state, "sparse run")

    def _settled(self) -> RunState:
        return self._state.settled(self._opt.export_run(), self._step, self._l2)


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
