r"""Least-squares temporal differences: the fixed point of TD from sums over a trajectory.

With eligibility traces :math:`e_t = \gamma\lambda\, e_{t-1} + \phi(s_t)`, which start afresh in
every episode, the weights solve

.. math:: \Big( \sum_t e_t \big( \phi(s_t) - \gamma \phi(s_t') \big)^\top + T \ell I \Big) \theta
          = \sum_t e_t r_t

(Bradtke and Barto 1996; Boyan 2002), with the ridge :math:`\ell` per transition.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import check_not_negative, check_positive, check_whole, shown
from mixfree.base.equal_batches import EqualBatches
from mixfree.base.state import loading, shallow
from mixfree.linear.exact.streamsums import most_batches
from mixfree.td.solution import Solution, column, correlation_remark, dense_solution

MIN_BATCHES = 5  # in which a row's features must occur for a reliable error
MAX_UNDETERMINED = 1e-4  # fraction of a row that the transitions may leave undetermined
MAX_DENSE = 1 << 22  # numbers in the dense rows whose errors are computed at a time
# Most features for dense sums: the total and the sums of 16 batches take 136 MB.
MAX_DENSE_FEATURES = 1000
MAX_RECENT = 256  # single transitions that are added together
FIRST_LENGTH = 16  # initial transitions per batch
BLOCK = 1024  # transitions per product of matrices
FORMAT = 2  # version of state_dict


class LSTD:
    """Learns values φ(s)ᵀθ from transitions; their chunking does not change a bit.

    The sums of some transitions are one matrix: that of the equations, their right side, and the
    squares of the features. They are added in blocks, and kept per batch, whose spread gives the
    errors of the values. All arrays are bound anew, never changed in place, so that copies share
    them.

    A trace continues from one transition to the next only if φ(s) equals the previous φ(s'): a
    trajectory that is cut off and continued elsewhere counts as two. If it continues in the state
    in which it was cut off, it is one, since the process is Markov.

    Parameters
    ----------
    size
        Number of features. The total and the sums of 16 to 64 batches take 8·size² bytes each:
        5 MB for 100 features, 136 MB for 1,000.
    gamma, lam, l2, half_life
        As for :class:`TDLearner`.

    Examples
    --------
    >>> lstd = LSTD(2, gamma=0.5)
    >>> states = np.eye(2)[[0, 1] * 50]
    >>> lstd.add(states, np.ones(100), states[:, ::-1], np.zeros(100, dtype=bool))
    >>> lstd.theta
    array([2., 2.])
    """

    name = "lstd"
    sparse: ClassVar[bool] = False  # whether sums are sparse, and rows of features may be

    def __init__(
        self,
        size: int,
        gamma: float,
        *,
        lam: float = 0.0,
        l2: float = 0.0,
        half_life: float | None = None,
    ) -> None:
        self.size = check_whole(size, "size")
        if isinstance(lam, bool | str) or not 0.0 <= lam <= 1.0:
            raise ValueError(f"lam must be in [0, 1], not {shown(lam)}")
        self.gamma, self.lam, self.l2 = float(gamma), float(lam), check_not_negative(l2, "l2")
        self.half_life = None if half_life is None else check_positive(half_life, "half_life")
        self._block, length, most = self._lengths()
        self._batches: EqualBatches[Any] = EqualBatches(None, operator.add, most, length)
        # Of a part of a block: φ(s) and φ(s'), rewards, and whether the trajectory is cut off.
        self._waiting = self.as_rows(np.zeros((0, 2 * self.size)))
        self._given = np.zeros((0, 2))
        self._trace = np.zeros(self.size)
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

    steps = samples  # every transition changes θ

    def take(self, row: Array, reward: float, ahead: Array | None) -> bool:
        """Learn from φ(s), r and φ(s'), which is None at a terminal state; return True."""
        if not abs(reward) <= MAX_VALUE:
            self._check_rewards(np.array([reward]))
        self._recent.append((row, reward, ahead))
        self._theta = None
        if len(self._recent) >= MAX_RECENT:
            self._complete()
        return True

    def advance(self, rows: Any, here: Array, there: Array, rewards: Array) -> None:
        """Learn from transitions in the form of :meth:`TDLearner.look_up`."""
        self.add(rows[here], rewards, rows[there], there < 0)

    def _check_rewards(self, rewards: Array) -> None:
        wrong = ~(np.abs(rewards) <= MAX_VALUE)
        if wrong.any():
            place = int(np.argmax(wrong))
            reward, what = rewards[place], f"reward of transition {self.samples + place + 1}"
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
        """Add transitions in order, whose features have been checked; an error changes nothing.

        ``terminated`` is where the episode ends in a terminal state, whose value is 0.
        """
        self._complete()
        x, ahead = self.as_rows(rows), self.as_rows(next_rows)
        r, stop = np.asarray(rewards), np.asarray(terminated, dtype=bool)
        self._check_rewards(r)
        done, new = 0, self.copy()
        broken = new._cuts(x, ahead, stop) if self.lam > 0.0 and len(r) else stop
        parts = [self._waiting, self._beside(x, ahead, stop)]
        both = sparse.vstack(parts, format="csr") if self.sparse else np.concatenate(parts)
        given = np.concatenate([new._given, np.column_stack([r, broken])])
        while len(given) - done >= (rest := min(new._block, new._batches.length - new._filled)):
            new._take(both[done : done + rest], given[done : done + rest])
            done += rest
        new._waiting, new._given, new._theta = both[done:].copy(), given[done:].copy(), None
        self.__dict__ = new.__dict__  # all or nothing, whatever fails before

    def _cuts(self, x: Any, ahead: Any, stop: Array) -> Array:
        """Return where traces end in new transitions; end the last one if they begin elsewhere."""
        if self._ahead is not None and (next(self._dense(x[:1]))[0] != self._ahead).any():
            if len(self._given):
                self._given = self._given.copy()
                self._given[-1, 1] = 1.0
            else:
                self._trace = np.zeros(self.size)
        self._ahead = None if stop[-1] else next(self._dense(ahead[-1:]))[0].copy()
        cuts: Array = stop | np.append((x[1:] != ahead[:-1]).sum(axis=1) > 0, False)
        return cuts

    def copy(self) -> Self:
        """Return an independent copy."""
        found = shallow(self)
        found._recent = list(self._recent)
        return found

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the present state."""
        before = self.copy()
        return lambda: vars(self).update(vars(before))

    def _lengths(self) -> tuple[int, int, int]:
        """Return the transitions per block and first batch, and the most batches."""
        if self.half_life is None:
            length = max(FIRST_LENGTH, 1 << self.size.bit_length() >> 1)
            return BLOCK, length, most_batches(self.size)
        # There are no batches, since their sums would not be forgotten.
        block = min(BLOCK, 1 << max(int(self.half_life).bit_length() - 2, 0))
        return block, 1 << 61, most_batches(self.size)

    @staticmethod
    def as_rows(rows: Any) -> Array:
        """Return rows as an array of float64."""
        return np.asarray(rows, dtype=np.float64)

    @staticmethod
    def _beside(x: Array, ahead: Array, stop: Array) -> Array:
        return np.concatenate([x, np.where(stop[:, None], 0.0, ahead)], axis=1)

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

    def _take(self, both: Any, given: Array) -> None:
        count = len(given)
        sums, self._trace = self._sums(both, given)
        kept = 1.0 if self.half_life is None else 0.5 ** (count / self.half_life)
        level, pieces = 0, self._pieces
        while pieces and (pieces[-1][0] == level or not self.sparse):
            older = pieces[-1][1] if kept == 1.0 else kept * pieces[-1][1]
            sums, pieces, level = older + sums, pieces[:-1], level + self.sparse
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

    x = average = theta  # as optimisers name their point and their output

    def _solved(self) -> Solution:
        """Solve the equations, without pending transitions."""
        total = sum(self._all, start=np.zeros((self.size, self.size + 2)))
        return dense_solution(total, self.l2 * self._weight)

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
        """Yield rows as dense matrices in pieces."""
        x, together = self.as_rows(rows), max(MAX_DENSE // self.size, 1)
        for start in range(0, x.shape[0], together):
            piece = x[start : start + together]
            yield piece if isinstance(piece, np.ndarray) else piece.toarray()

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

    def _about(self) -> dict[str, Any]:
        settings = ("size", "gamma", "lam", "l2", "half_life")
        found = {name: getattr(self, name) for name in settings}
        return {"method": self.name, "format": FORMAT, "settings": found}

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        self._complete()
        sums = {
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
        ahead = None if self._ahead is None else self._ahead.copy()
        return {**self._about(), "sums": sums, "ahead": ahead}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned; an error changes nothing."""
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a mapping, not {type(state).__name__}")
        for name, mine in self._about().items():
            if state.get(name) != mine:
                raise ValueError(f"state must have {name}={mine!r}, not {shown(state.get(name))}")
        with loading("learner"):
            self.__dict__ = self._restored(state["sums"], state["ahead"]).__dict__

    def _restored(self, sums: Mapping[str, Any], ahead: Array | None) -> Self:
        found, matrix = self.copy(), self._restored_matrix
        shape, count = (self.size, self.size + 2), len(sums["given"])
        found._waiting = matrix(sums["waiting"], "waiting", (count, 2 * self.size))
        found._given = check_array(sums["given"], "given", (count, 2))
        found._trace = check_array(sums["trace"], "trace", (self.size,))
        found._ahead = None if ahead is None else check_array(ahead, "ahead", (self.size,))
        found._weight = float(check_array(float(sums["weight"]), "weight", ()))
        length = check_whole(sums["length"], "length of the state")
        found._filled = check_whole(sums["filled"], "filled of the state", 0, length - 1)
        found._rows = check_whole(sums["rows"], "rows of the state", 0)
        levels = check_array(sums["levels"], "levels", (len(sums["pieces"]),), "i").tolist()
        pieces = (matrix(each, "pieces", shape) for each in sums["pieces"])
        found._pieces = tuple(zip(levels, pieces, strict=True))
        closed = tuple(matrix(each, "closed", shape) for each in sums["closed"])
        if len(closed) >= (most := self._batches.most):
            raise ValueError(
                f"state of the learner must have fewer than {most} batches, not {len(closed)}"
            )
        found._batches = replace(self._batches, length=length, items=closed)
        found._recent, found._theta = [], None
        return found

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
