r"""Least-squares temporal differences: the fixed point of TD from sums over a trajectory.

With eligibility traces :math:`e_t = \gamma\lambda\, e_{t-1} + \phi(s_t)`, which start afresh in
every episode, the weights solve

.. math:: \Big( \sum_t e_t \big( \phi(s_t) - \gamma \phi(s_t') \big)^\top + T \ell I \Big) \theta
          = \sum_t e_t r_t

(Bradtke and Barto 1996; Boyan 2002), with the ridge :math:`\ell` per transition.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import check_not_negative, check_values, check_whole, shown
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.state import loading, shallow
from mixfree.linear.exact.batch_means import neighbours

MIN_BATCHES = 5  # in which a row's features must occur for a reliable error
MAX_UNDETERMINED = 1e-4  # fraction of a row that the transitions may leave undetermined
MAX_DENSE = 1 << 22  # numbers in the dense rows whose errors are computed at a time
MAX_RECENT = 256  # single transitions that are added together
PIECE = 4096  # transitions whose features are held at a time, fewer for many dense features
MAX_DENSE_PIECE = 1000 * PIECE  # numbers in the features of the states of a piece
FORMAT = 2  # version of state_dict


class Solved(Protocol):
    """The solution of the equations of a trajectory."""

    theta: Array
    system: Any  # the matrix, with its ridge

    def changes(self, rows: Array) -> Array:
        """Return the change of the rows' values per unit of each equation's residual."""


class FixedPoint(ABC):
    """Sums over a trajectory and over its batches, whose spread gives the errors of the values.

    The sums of some transitions are one matrix: that of the equations, their right side, and the
    squares of the features. They are added in blocks, and kept per batch; when there are ``most``
    batches, neighbours are joined. Sums and rows are dense or sparse, as the subclass has them.
    All arrays are bound anew, never changed in place, so that copies share them.

    A trace continues from one transition to the next only if φ(s) equals the previous φ(s'): a
    trajectory that is cut off and continued elsewhere counts as two. If it continues in the state
    in which it was cut off, it is one, since the process is Markov.

    Parameters
    ----------
    size, gamma, lam, l2
        As for :class:`LSTD`.
    block
        Most transitions per product of matrices.
    length
        Transitions of the first batches.
    most
        Number of batches at which neighbours are joined.
    """

    name = "lstd"
    half_life: float | None = None
    sparse: ClassVar[bool]  # whether rows of features may be CSR arrays
    keeps_pieces: ClassVar[bool]  # whether sums of similar size are added first

    def __init__(
        self, size: int, gamma: float, lam: float, l2: float, block: int, length: int, most: int
    ) -> None:
        self.size = check_whole(size, "size")
        for name, value in (("gamma", gamma), ("lam", lam)):
            if isinstance(value, bool | str) or not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be in [0, 1], not {shown(value)}")
        self.gamma, self.lam, self.l2 = float(gamma), float(lam), check_not_negative(l2, "l2")
        self._block = block
        self._batches: EqualBatches[Any] = EqualBatches(None, operator.add, most, length)
        self._waiting = self.as_rows(np.zeros((0, 2 * size)))  # φ(s) and φ(s') of a part of a block
        self._given = np.zeros((0, 2))  # its rewards, and whether the trajectory is cut off
        self._trace = np.zeros(size)
        self._ahead: Array | None = None  # φ(s') of the last transition, if traces continue
        self._recent: list[tuple[Array, float, Array | None]] = []  # not added yet
        self._theta: Array | None = None
        self._rows, self._filled, self._weight = 0, 0, 0.0
        # Of the batch being filled: sums of 2^level blocks, each level at most once.
        self._pieces: tuple[tuple[int, Any], ...] = ()

    @property
    def samples(self) -> int:
        """Transitions seen."""
        return self._rows + len(self._given) + len(self._recent)

    @property
    def steps(self) -> int:
        """Number of changes of θ: every transition changes it."""
        return self.samples

    def take(self, row: Array, reward: float, ahead: Array | None) -> bool:
        """Learn from φ(s), r and φ(s'), which is None at a terminal state; return True."""
        if not abs(reward) <= MAX_VALUE:
            self._refuse(reward, 0)
        self._recent.append((row, reward, ahead))
        self._theta = None
        if len(self._recent) >= MAX_RECENT:
            self._complete()
        return True

    def advance(self, rows: Any, here: Array, there: Array, rewards: Array) -> None:
        """Learn from transitions in the form of :meth:`TDLearner.look_up`."""
        large = ~(np.abs(rewards) <= MAX_VALUE)
        if large.any():
            wrong = int(np.argmax(large))
            self._refuse(rewards[wrong], wrong)
        most = PIECE if sparse.issparse(rows) else MAX_DENSE_PIECE // self.size
        length = max(min(PIECE, most), 1)
        for start in range(0, len(here), length):
            piece = slice(start, start + length)
            before, ahead = rows[here[piece]], rows[there[piece]]
            self.add(before, rewards[piece], ahead, there[piece] < 0)

    def _refuse(self, reward: float, further: int) -> None:
        what = f"reward of transition {self.samples + further + 1}"
        if not np.isfinite(reward):
            raise ValueError(f"{what} must be finite, not {reward}")
        raise ValueError(f"{what} must be at most {MAX_VALUE:g} in size, not {reward:.3g}")

    def _complete(self) -> None:
        """Add the recent transitions."""
        if self._recent:
            before, rewards, after = zip(*self._recent, strict=True)
            ahead = [before[0] if row is None else row for row in after]
            ended = [row is None for row in after]
            self._recent = []
            self.add(np.array(before), rewards, np.array(ahead), ended)

    def add(
        self, rows: Any, rewards: npt.ArrayLike, next_rows: Any, terminated: npt.ArrayLike
    ) -> None:
        """Add transitions in order.

        Parameters
        ----------
        rows, rewards, next_rows
            Features φ(s), rewards, and features φ(s') of the next states.
        terminated
            Where the episode ends in a terminal state, whose value is 0.

        Raises
        ------
        ValueError
            If a shape is wrong, or a value is not finite or above 1e75; nothing has changed then.
        """
        self._complete()
        x, ahead = self.as_rows(rows), self.as_rows(next_rows)
        r, stop = np.asarray(rewards), np.asarray(terminated, dtype=bool)
        n, arrays = x.shape[0], {"rows": x, "next_rows": ahead, "rewards": r, "terminated": stop}
        for name, array in arrays.items():
            shape = (n, self.size) if name.endswith("rows") else (n,)
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
        check_values(rewards=r)
        done, new = 0, self.copy()
        broken = new._cuts(x, ahead, stop) if self.lam > 0.0 and n else stop
        both = self._below(self._waiting, self._beside(x, ahead, stop))
        given = np.concatenate([new._given, np.column_stack([r, broken])])
        while len(given) - done >= (rest := min(new._block, new._batches.length - new._filled)):
            new._take(both[done : done + rest], given[done : done + rest])
            done += rest
        new._waiting, new._given = both[done:].copy(), given[done:].copy()
        new._theta = None
        self.__dict__ = new.__dict__  # all or nothing, whatever fails before

    def _cuts(self, x: Any, ahead: Any, stop: Array) -> Array:
        """Return where traces end in new transitions; end the last one if they begin elsewhere."""
        if self._ahead is not None and (_first(x) != self._ahead).any():
            if len(self._given):
                self._given = self._given.copy()
                self._given[-1, 1] = 1.0
            else:
                self._trace = np.zeros(self.size)
        self._ahead = None if stop[-1] else _first(ahead[-1:]).copy()
        cuts: Array = stop | np.append((x[1:] != ahead[:-1]).sum(axis=1) > 0, False)
        return cuts

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = shallow(self)
        twin._recent = list(self._recent)
        return twin

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the present state."""
        before = self.copy()
        return lambda: vars(self).update(vars(before))

    @staticmethod
    @abstractmethod
    def as_rows(rows: Any) -> Any:
        """Return rows of features in the form of this class."""

    @staticmethod
    @abstractmethod
    def _beside(x: Any, ahead: Any, stop: Array) -> Any:
        """Return φ(s) and φ(s') as one matrix, with φ(s') = 0 where an episode stops, checked."""

    @staticmethod
    @abstractmethod
    def _below(first: Any, second: Any) -> Any:
        """Return two matrices as one, the second below the first."""

    @abstractmethod
    def _sums(self, both: Any, given: Array) -> tuple[Any, Array]:
        """Return the sums of a block, and the trace after it."""

    @abstractmethod
    def _solved(self) -> Solved:
        """Solve the equations, without pending transitions."""

    def _take(self, both: Any, given: Array) -> None:
        count = len(given)
        sums, self._trace = self._sums(both, given)
        kept = 1.0 if self.half_life is None else 0.5 ** (count / self.half_life)
        level, pieces = 0, self._pieces
        while pieces and (pieces[-1][0] == level or not self.keeps_pieces):
            older = pieces[-1][1] if kept == 1.0 else kept * pieces[-1][1]
            sums, pieces, level = older + sums, pieces[:-1], level + self.keeps_pieces
        self._pieces = (*pieces, (level, sums))
        self._weight = kept * self._weight + count
        self._rows, self._filled = self._rows + count, self._filled + count
        if self._filled == self._batches.length:
            self._batches = self._batches.added(sum(sums for _, sums in self._pieces))
            self._pieces, self._filled = (), 0

    @property
    def _all(self) -> list[Any]:
        """Sums of all batches and pieces, without pending transitions."""
        return [*self._batches.items, *(sums for _, sums in self._pieces)]

    def _folded(self) -> Self:
        """Return this object with pending transitions added to its sums."""
        self._complete()
        if not len(self._given):
            return self
        folded = self.copy()
        folded._take(self._waiting, self._given)
        folded._waiting, folded._given = self._waiting[:0], self._given[:0]
        return folded

    @property
    def theta(self) -> Array:
        """The fixed point of all transitions; that of least norm if features are dependent.

        It is cached until the next transition.
        """
        if self._theta is None:
            self._theta = self._folded()._solved().theta
            self._theta.flags.writeable = False
        return self._theta

    @property
    def average(self) -> Array:
        """θ itself: there are no iterates to average."""
        return self.theta

    def record(self, samples: int) -> Self:
        """Start the record of a trajectory of any length: the sums themselves."""
        return self

    @property
    def first(self) -> int:
        """Transitions after which the record begins: fewer do not determine θ."""
        return self.size

    def result(self) -> tuple[Array, "FixedPoint"]:
        """Return θ, and the fixed point without ridge with its errors."""
        return self.theta, self.without_ridge()

    def without_ridge(self) -> Self:
        """Return a copy whose ridge is 0."""
        found = self.copy()
        found.l2, found._theta = 0.0, None
        return found

    def batches_met(self, rows: Any) -> Array:
        """Count the closed batches in which the rarest feature of each row occurs."""
        closed = self._folded()._batches.items
        met = sum((column(batch, -1) > 0.0 for batch in closed), np.zeros(self.size, dtype=int))
        pieces = [np.where(x != 0.0, met, len(closed)).min(axis=1) for x in self._dense(rows)]
        return np.concatenate([np.zeros(0, dtype=int), *pieces])

    def errors(self, rows: Any, level: float = 0.95) -> Array:
        """Return half-widths of simultaneous intervals of the values φᵀθ.

        By a sandwich estimate from the batches' residuals, with Student's t, and the level divided
        among the rows (Bonferroni). Infinite for a row whose features occur in fewer than five
        batches, or that the transitions do not determine.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, not {shown(level)}")
        whole, met = self._folded(), self.batches_met(rows)
        solved = whole._solved()
        residuals = whole._residuals(solved.theta)
        squares, known = [np.zeros(0)], [np.zeros(0, dtype=bool)]
        for x in self._dense(rows):
            change = solved.changes(x)
            with np.errstate(over="ignore"):
                squares.append(np.sum((change @ residuals.T) ** 2, axis=1))
            aside = np.linalg.norm(x - change @ solved.system, axis=1)
            known.append(aside <= MAX_UNDETERMINED * np.linalg.norm(x, axis=1))
        covered = len(whole._batches) * whole._batches.length / max(whole._rows, 1)
        freedom = np.maximum(met - 1, 1)
        found = np.concatenate(squares) / max(covered, 1e-300) * (freedom + 1) / freedom
        divided = 1.0 - (1.0 - level) / max(len(met), 1)
        quantile = special.stdtrit(freedom, 0.5 + 0.5 * divided)
        reliable = np.concatenate(known) & (met >= MIN_BATCHES) & (found > 0.0)
        return np.where(reliable, quantile * np.sqrt(found), np.inf)

    def _dense(self, rows: Any) -> Iterator[Array]:
        """Yield rows, which must be finite and of the right size, as dense matrices in pieces."""
        x = self.as_rows(rows)
        if x.ndim != 2 or x.shape[1] != self.size:
            raise ValueError(f"rows must have {self.size:,} columns, not shape {x.shape}")
        together = max(MAX_DENSE // self.size, 1)
        for start in range(0, x.shape[0], together):
            piece = x[start : start + together]
            dense: Array = piece if isinstance(piece, np.ndarray) else piece.toarray()
            if not np.isfinite(dense).all():
                raise ValueError("rows must be finite")
            yield dense

    def _residuals(self, theta: Array) -> Array:
        """Return the residuals of each batch's equations at θ, with ridge: they sum to 0."""
        if self.half_life is not None:
            raise ValueError(
                "errors need half_life=None: they come from batches, which are not forgotten"
            )
        ridge = self.l2 * self._batches.length * theta
        batches = self._batches.items
        left = [column(batch, -2) - batch[:, :-2] @ theta - ridge for batch in batches]
        return np.array(left).reshape(-1, self.size)

    @property
    def remark(self) -> str:
        """A sentence on why the errors are too small; empty if there is no known reason."""
        whole = self._folded()
        return correlation_remark(whole._residuals(whole._solved().theta), whole._batches.length)

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays, but for the last φ(s')."""
        self._complete()
        return {
            "waiting": self._plain(self._waiting),
            "given": self._given.copy(),
            "trace": self._trace.copy(),
            "rows": self._rows,
            "filled": self._filled,
            "length": self._batches.length,
            "weight": self._weight,
            "levels": np.array([level for level, _ in self._pieces], dtype=np.int64),
            "pieces": [self._plain(sums) for _, sums in self._pieces],
            "closed": [self._plain(sums) for sums in self._batches.items],
        }

    def restored(self, state: Mapping[str, Any], what: str) -> Self:
        """Return the sums from which :meth:`plain` made ``state``, after checking it."""
        found = self.copy()
        shape, count = (self.size, self.size + 2), len(state["given"])
        waiting = self._restored_matrix(state["waiting"], "waiting", (count, 2 * self.size))
        given = check_array(state["given"], "given", (count, 2))
        trace = check_array(state["trace"], "trace", (self.size,))
        weight = float(check_array(float(state["weight"]), "weight", ()))
        length = check_whole(state["length"], "length of the state")
        filled = check_whole(state["filled"], "filled of the state", least=0, most=length - 1)
        rows = check_whole(state["rows"], "rows of the state", least=0)
        levels = check_array(state["levels"], "levels", (len(state["pieces"]),), "i").tolist()
        pieces = tuple(self._restored_matrix(each, "pieces", shape) for each in state["pieces"])
        closed = tuple(self._restored_matrix(each, "closed", shape) for each in state["closed"])
        if len(closed) >= self._batches.most:
            raise ValueError(
                f"state of the {what} must have fewer than {self._batches.most} batches, "
                f"not {len(closed)}"
            )
        found._waiting, found._given, found._trace = waiting, given, trace
        found._rows, found._filled, found._weight = rows, filled, weight
        found._pieces = tuple(zip(levels, pieces, strict=True))
        found._batches = replace(self._batches, length=length, items=closed)
        found._recent, found._ahead, found._theta = [], None, None
        return found

    def _settings(self) -> dict[str, Any]:
        names = ("size", "gamma", "lam", "l2", "half_life")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        return {
            "format": FORMAT,
            "method": self.name,
            "settings": self._settings(),
            "sums": self.plain(),
            "ahead": None if self._ahead is None else self._ahead.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned; an error changes nothing."""
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a mapping, not {type(state).__name__}")
        wanted = {"method": self.name, "format": FORMAT, "settings": self._settings()}
        for name, mine in wanted.items():
            if state.get(name) != mine:
                raise ValueError(f"state must have {name}={mine!r}, not {shown(state.get(name))}")
        with loading("learner"):
            found = self.restored(state["sums"], "learner")
            if state["ahead"] is not None:
                found._ahead = check_array(state["ahead"], "ahead", (self.size,))
        self.__dict__ = found.__dict__

    @staticmethod
    def _plain(matrix: Any) -> Any:
        """Return a matrix as copies of arrays."""
        return matrix.copy()

    @staticmethod
    def _restored_matrix(state: Any, name: str, shape: tuple[int, int]) -> Any:
        """Check and return a matrix that :meth:`_plain` gave."""
        return check_array(state, name, shape)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.size} features, {self.samples} transitions>"


def _first(rows: Any) -> Array:
    """Return the first row, dense."""
    row: Array = (rows[:1].toarray() if sparse.issparse(rows) else rows)[0]
    return row


def column(sums: Any, place: int) -> Array:
    """Return a column of sums, dense or sparse, as a vector."""
    found = sums[:, [sums.shape[1] + place]]
    vector: Array = (found if isinstance(found, np.ndarray) else found.toarray())[:, 0]
    return vector


def correlation_remark(residuals: Array, length: int) -> str:
    """Return a sentence if neighbouring batches are correlated, else an empty string.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> correlation_remark(rng.normal(size=(40, 3)), 500)
    ''
    >>> correlation_remark(rng.normal(size=(40, 3)).cumsum(axis=0), 500)[:27]
    'intervals are too narrow: b'
    """
    size = np.abs(residuals).max(axis=0, initial=0.0)
    varied = residuals[:, size > 0.0] / size[size > 0.0]
    scores = varied / np.sqrt(np.mean(varied**2, axis=0))
    found, correlated = neighbours(scores @ scores.T)
    if not correlated:
        return ""
    return (
        f"intervals are too narrow: batches of {length:,} transitions are still correlated "
        f"({found:.2f} between neighbours); the trajectory is too short for its mixing time"
    )


def check_array(value: Any, name: str, shape: tuple[int, ...], kind: str = "f") -> Array:
    """Check an array of a saved state, and return a copy."""
    array = np.array(value)
    if array.dtype.kind not in kind or array.dtype.itemsize > 8 or array.shape != shape:
        raise ValueError(
            f"{name} of the state must have shape {shape} and kind {kind!r}, "
            f"not {array.dtype} of shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} of the state must be finite")
    return array.astype(np.float64 if kind == "f" else np.int64)
