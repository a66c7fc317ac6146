r"""Least-squares temporal differences: the fixed point of TD from sums over a trajectory.

With eligibility traces :math:`e_t = \gamma\lambda\, e_{t-1} + \phi(s_t)`, which start afresh in
every episode, the weights solve

.. math:: \Big( \sum_t e_t \big( \phi(s_t) - \gamma \phi(s_t') \big)^\top + T \ell I \Big) \theta
          = \sum_t e_t r_t

(Bradtke and Barto 1996; Boyan 2002), with the ridge :math:`\ell` per transition.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy import special

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_not_negative, check_positive, check_values, check_whole, shown
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.state import shallow
from mixfree.linear.exact.batch_means import neighbours
from mixfree.linear.exact.batches import most_batches
from mixfree.linear.exact.blocks import check_array

TOLERANCE = 1e-13  # singular values below it, relative to the largest, count as 0
MAX_CONDITION = 1e10  # up to which the inverse is as accurate as singular values
MIN_BATCHES = 5  # in which a row's features must occur for a reliable error
MAX_UNDETERMINED = 1e-4  # fraction of a row that the transitions may leave undetermined
FIRST_LENGTH = 16  # initial transitions per batch
BLOCK = 1024  # transitions per product of matrices
MAX_DENSE = 1 << 22  # numbers in the dense rows whose errors are computed at a time


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

    half_life: float | None = None
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
        self._rows, self._filled, self._weight = 0, 0, 0.0
        # Of the batch being filled: sums of 2^level blocks, each level at most once.
        self._pieces: tuple[tuple[int, Any], ...] = ()

    @property
    def transitions(self) -> int:
        """Transitions seen."""
        return self._rows + len(self._given)

    def add(
        self,
        rows: Any,
        rewards: npt.ArrayLike,
        next_rows: Any,
        terminated: npt.ArrayLike,
        *,
        ended: npt.ArrayLike | None = None,
    ) -> None:
        """Add transitions in order.

        Parameters
        ----------
        rows, rewards, next_rows
            Features φ(s), rewards, and features φ(s') of the next states.
        terminated
            Where the episode ends in a terminal state, whose value is 0.
        ended
            Where the trajectory is cut off otherwise (Gymnasium's ``truncated``): traces start
            afresh, but the value of the next state counts.

        Raises
        ------
        ValueError
            If a shape is wrong, or a value is not finite or above 1e75; nothing has changed then.
        """
        x, ahead = self.as_rows(rows), self.as_rows(next_rows)
        r, stop = np.asarray(rewards), np.asarray(terminated, dtype=bool)
        broken = stop if ended is None else stop | np.asarray(ended, dtype=bool)
        n, arrays = x.shape[0], {"rows": x, "next_rows": ahead, "rewards": r, "terminated": stop}
        for name, array in {**arrays, "ended": broken}.items():
            shape = (n, self.size) if name.endswith("rows") else (n,)
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
        check_values(rewards=r)
        both = self._below(self._waiting, self._beside(x, ahead, stop))
        given = np.concatenate([self._given, np.column_stack([r, broken])])
        done, after = 0, self.copy()
        while len(given) - done >= (
            rest := min(after._block, after._batches.length - after._filled)
        ):
            after._take(both[done : done + rest], given[done : done + rest])
            done += rest
        after._waiting, after._given = both[done:].copy(), given[done:].copy()
        self.__dict__ = after.__dict__  # all or nothing, whatever fails before

    def copy(self) -> Self:
        """Return an independent copy."""
        return shallow(self)

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

    def break_off(self) -> None:
        """Mark the trajectory as cut off after the last transition: traces start afresh."""
        if len(self._given):
            self._given = self._given.copy()
            self._given[-1, 1] = 1.0
        else:
            self._trace = np.zeros(self.size)

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
        if not len(self._given):
            return self
        folded = self.copy()
        folded._take(self._waiting, self._given)
        folded._waiting, folded._given = self._waiting[:0], self._given[:0]
        return folded

    @property
    def theta(self) -> Array:
        """The fixed point of all transitions; that of least norm if features are dependent."""
        return self._folded()._solved().theta

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
        """Return the state as numbers and copies of arrays."""
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
        found = shallow(self)
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
        return found

    @staticmethod
    def _plain(matrix: Any) -> Any:
        """Return a matrix as copies of arrays."""
        return matrix.copy()

    @staticmethod
    def _restored_matrix(state: Any, name: str, shape: tuple[int, int]) -> Any:
        """Check and return a matrix that :meth:`_plain` gave."""
        return check_array(state, name, shape)


class LSTD(FixedPoint):
    """Learns values φ(s)ᵀθ from transitions; their chunking does not change a bit.

    Parameters
    ----------
    size
        Number of features. The total and the sums of 16 to 64 batches take 8·size² bytes each:
        5 MB for 100 features, 136 MB for 1,000.
    gamma
        Discount in [0, 1].
    lam
        Decay λ of the eligibility traces, in [0, 1].
    l2
        Ridge per transition.
    half_life
        Number of transitions after which a transition counts half; None never forgets.

    Examples
    --------
    >>> lstd = LSTD(2, gamma=0.5)
    >>> states = np.eye(2)[[0, 1] * 50]
    >>> lstd.add(states, np.ones(100), states[:, ::-1], np.zeros(100, dtype=bool))
    >>> lstd.theta
    array([2., 2.])
    """

    keeps_pieces = False

    def __init__(
        self,
        size: int,
        gamma: float,
        *,
        lam: float = 0.0,
        l2: float = 0.0,
        half_life: float | None = None,
    ) -> None:
        block, length = BLOCK, max(FIRST_LENGTH, 1 << check_whole(size, "size").bit_length() >> 1)
        if half_life is not None:
            self.half_life = check_positive(half_life, "half_life")
            block = min(block, 1 << max(int(half_life).bit_length() - 2, 0))
            length = 1 << 61  # there are no batches, since their sums would not be forgotten
        super().__init__(size, gamma, lam, l2, block, length, most_batches(size))

    @staticmethod
    def as_rows(rows: Any) -> Array:
        """Return rows as an array of float64."""
        return np.asarray(rows, dtype=np.float64)

    @staticmethod
    def _beside(x: Array, ahead: Array, stop: Array) -> Array:
        ahead = np.where(stop[:, None], 0.0, ahead)
        check_values(rows=x, next_rows=ahead)
        return np.concatenate([x, ahead], axis=1)

    @staticmethod
    def _below(first: Array, second: Array) -> Array:
        return np.concatenate([first, second]) if len(first) else second

    def _sums(self, both: Array, given: Array) -> tuple[Array, Array]:
        x = both[:, : self.size]
        change = np.empty((len(both), self.size + 1))
        change[:, :-1] = x - self.gamma * both[:, self.size :]
        change[:, -1] = given[:, 0]
        left, trace = self._traces(x, given[:, 1])
        return np.column_stack([left.T @ change, np.einsum("ij,ij->j", x, x)]), trace

    def _traces(self, x: Array, broken: Array) -> tuple[Array, Array]:
        decay = self.gamma * self.lam
        if decay == 0.0:
            return x, self._trace
        from scipy.signal import lfilter

        traces, trace, start = np.empty_like(x), self._trace, 0
        for end in [*(np.flatnonzero(broken) + 1), len(x)]:
            if start < end:
                piece = slice(start, end)
                before = decay * trace[None]
                traces[piece], _ = lfilter([1.0], [1.0, -decay], x[piece], axis=0, zi=before)
                trace = np.zeros(self.size) if broken[end - 1] else traces[end - 1]
            start = end
        return traces, trace.copy()

    def _solved(self) -> "_DenseSolved":
        total = sum(self._all, start=np.zeros((self.size, self.size + 2)))
        return _DenseSolved(total, self.l2 * self._weight)


class _DenseSolved:
    """The fixed point of dense sums, and the (pseudo-)inverse that gives it."""

    def __init__(self, total: Array, ridge: float) -> None:
        size = len(total)
        self.system = total[:, :-2] + ridge * np.eye(size)
        self._inverse = np.zeros((size, size))
        # In units of each feature's own scale, rare features are as well determined as others.
        met = total[:, -1] > 0.0
        if met.any():
            scale = 1.0 / np.sqrt(total[met, -1] + ridge)
            scaled = scale[:, None] * self.system[np.ix_(met, met)] * scale
            self._inverse[np.ix_(met, met)] = scale[:, None] * _inverse(scaled, scale) * scale
        self.theta: Array = self._inverse @ total[:, -2]

    def changes(self, rows: Array) -> Array:
        """Return the change of the rows' values per unit of each equation's residual."""
        change: Array = rows @ self._inverse
        return change


def _inverse(system: Array, scale: Array) -> Array:
    """Return the inverse; for a singular system, ``scale * solution`` has the least norm."""
    inverse: Array
    try:
        inverse = np.linalg.inv(system)
        if np.linalg.norm(inverse, 1) * np.linalg.norm(system, 1) < MAX_CONDITION:
            return inverse
    except np.linalg.LinAlgError:
        pass
    left, singular, right = np.linalg.svd(system)
    kept = singular > TOLERANCE * max(float(singular[0]), 1e-300)
    inverse = (right[kept].T / singular[kept]) @ left[:, kept].T
    if not kept.all():
        free, _ = np.linalg.qr(scale[:, None] * right[~kept].T)
        inverse -= free @ (free.T @ (scale[:, None] * inverse)) / scale[:, None]
    return inverse


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
