r"""Least-squares temporal differences: the fixed point of TD from sums over a trajectory.

With eligibility traces :math:`e_t = \gamma\lambda\, e_{t-1} + \phi(s_t)`, which start afresh in
every episode, the weights solve

.. math:: \Big( \sum_t e_t \big( \phi(s_t) - \gamma \phi(s_t') \big)^\top + T \ell I \Big) \theta
          = \sum_t e_t r_t

(Bradtke and Barto 1996; Boyan 2002), with the ridge :math:`\ell` per transition.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import special

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_not_negative, check_positive, check_values, check_whole, shown
from mixfree.base.interrupts import all_or_nothing, shallow
from mixfree.linear.exact.batch_means import neighbours
from mixfree.linear.exact.batches import most_batches
from mixfree.linear.exact.blocks import Blocks, block_rows, check_array

TOLERANCE = 1e-13  # singular values below it, relative to the largest, count as 0
SAFE = 1e10  # condition number up to which the inverse is as accurate as singular values
ENOUGH = 5  # batches in which a row's features must occur for a reliable error
UNDETERMINED = 1e-4  # fraction of a row that the transitions may leave undetermined
FIRST = 16  # initial transitions per batch


class LSTD:
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
        self.gamma, self.lam, self.l2 = check_discounts(gamma, lam, l2)
        self.half_life = None if half_life is None else check_positive(half_life, "half_life")
        self._blocks = Blocks(2 * size, 2)
        self._block = block_rows(2 * size)
        if self.half_life is not None:
            self._block = min(self._block, 1 << max(int(self.half_life).bit_length() - 2, 0))
        self._rows, self._length = 0, max(FIRST, 1 << size.bit_length() >> 1)
        self._trace = np.zeros(size)
        # Matrix, vector and squares of the features, as columns of one array.
        self._total = np.zeros((size, size + 2))
        self._weight = 0.0
        self._current, self._filled = np.zeros((size, size + 2)), 0
        self._closed: tuple[Array, ...] = ()
        self._most = most_batches(size)

    @property
    def transitions(self) -> int:
        """Transitions seen."""
        return self._rows + self._blocks.filled

    @all_or_nothing
    def add(
        self,
        rows: npt.ArrayLike,
        rewards: npt.ArrayLike,
        next_rows: npt.ArrayLike,
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
        x, ahead = np.asarray(rows), np.asarray(next_rows)
        r, stop, broken = check_transitions(x, ahead, rewards, terminated, ended, self.size)
        ahead = np.where(stop[:, None], 0.0, ahead)
        check_values(rows=x, next_rows=ahead, rewards=r)
        both = np.concatenate([x, ahead], axis=1)
        given = np.column_stack([r, broken])
        self._blocks.cut(
            both, given, None, lambda: min(self._block, self._length - self._filled), self._take
        )

    def break_off(self) -> None:
        """Mark the trajectory as cut off after the last transition: traces start afresh."""
        if self._blocks.filled:
            waiting = self._blocks.plain()
            waiting["targets"][-1, 1] = 1.0
            self._blocks.restore(waiting)
        else:
            self._trace = np.zeros(self.size)

    def _take(self, rows: Array, targets: Array, _: Array | None) -> None:
        sums, trace = self._sums(rows, targets)
        kept = 1.0 if self.half_life is None else 0.5 ** (len(rows) / self.half_life)
        self._total = kept * self._total + sums
        self._weight = kept * self._weight + len(rows)
        self._trace, self._rows = trace, self._rows + len(rows)
        self._current, self._filled = self._current + sums, self._filled + len(rows)
        if self._filled >= self._length:
            self._closed = (*self._closed, self._current)
            self._current, self._filled = np.zeros_like(self._current), 0
            if len(self._closed) == self._most:
                self._closed, self._length = paired(self._closed), 2 * self._length

    def _sums(self, rows: Array, targets: Array) -> tuple[Array, Array]:
        """Return matrix, vector and squares of a block, and the trace after it."""
        x = rows[:, : self.size]
        change = np.empty((len(rows), self.size + 1))
        change[:, :-1] = x - self.gamma * rows[:, self.size :]
        change[:, -1] = targets[:, 0]
        left, trace = self._traces(x, targets[:, 1])
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

    def _folded(self) -> Self:
        """Return this object with pending transitions added to its sums."""
        waiting = self._blocks.pending
        if waiting is None:
            return self
        twin = self.copy()
        twin._blocks = Blocks(2 * self.size, 2)
        twin._take(*waiting)
        return twin

    @property
    def theta(self) -> Array:
        """The fixed point of all transitions; that of least norm if features are dependent."""
        return self._folded()._solved()[0]

    def _solved(self) -> tuple[Array, Array]:
        """Return θ and the (pseudo-)inverse of the matrix."""
        # In units of each feature's own scale, rare features are as well determined as others.
        met = self._total[:, -1] > 0.0
        if not met.any():
            return np.zeros(self.size), np.zeros((self.size, self.size))
        scale = 1.0 / np.sqrt(self._total[met, -1] + self.l2 * self._weight)
        system = scale[:, None] * self._system[np.ix_(met, met)] * scale
        inverse = np.zeros((self.size, self.size))
        inverse[np.ix_(met, met)] = scale[:, None] * _inverse(system, scale) * scale
        return inverse @ self._total[:, -2], inverse

    @property
    def _system(self) -> Array:
        """The matrix of the fixed point, with its ridge."""
        return self._total[:, :-2] + self.l2 * self._weight * np.eye(self.size)

    def batches_met(self, rows: npt.ArrayLike) -> Array:
        """Count the closed batches in which the rarest feature of each row occurs."""
        x = check_array(rows, "rows", (len(np.asarray(rows)), self.size))
        batches = self._folded()._batches
        met: Array = np.where(x != 0.0, np.sum(batches[:, :, -1] > 0.0, axis=0), len(batches))
        fewest: Array = met.min(axis=1)
        return fewest

    @property
    def _batches(self) -> Array:
        return np.array(self._closed).reshape(-1, self.size, self.size + 2)

    def errors(self, rows: npt.ArrayLike, level: float = 0.95) -> Array:
        """Return half-widths of simultaneous intervals of the values φᵀθ.

        By a sandwich estimate from the batches' residuals, with Student's t. Infinite for a row
        whose features occur in fewer than five batches, or that the transitions do not determine.
        """
        check_level(level)
        self._check_batches()
        whole, met = self._folded(), self.batches_met(rows)
        x = np.asarray(rows, dtype=np.float64)
        theta, inverse = whole._solved()
        change = x @ inverse
        aside = np.linalg.norm(x - change @ whole._system, axis=1)
        covered = len(whole._closed) * whole._length / max(whole._rows, 1)
        with np.errstate(over="ignore"):
            moved = change @ whole._residuals(theta).T
        return half_widths(np.linalg.norm(x, axis=1), moved, aside, met, covered, level)

    def _residuals(self, theta: Array) -> Array:
        """Return the residuals of each batch's equations at θ, with ridge: they sum to 0."""
        left = self._batches[:, :, -2] - self._batches[:, :, :-2] @ theta
        residual: Array = left - self.l2 * self._length * theta
        return residual

    @property
    def remark(self) -> str:
        """A sentence on why the errors are too small; empty if there is no known reason."""
        self._check_batches()
        whole = self._folded()
        return correlation_remark(whole._residuals(whole._solved()[0]), whole._length)

    def _check_batches(self) -> None:
        if self.half_life is not None:
            raise ValueError(
                "errors need half_life=None: they come from batches, which are not forgotten"
            )

    def successor(self) -> Self:
        """Return a copy that shares the pending rows; only one of the two may be continued."""
        twin = shallow(self)
        twin._blocks = self._blocks.successor()
        return twin

    def copy(self) -> Self:
        """Return an independent copy; it shares arrays, which are never changed in place."""
        twin = shallow(self)
        twin._blocks = self._blocks.copy()
        return twin

    def plain(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        return {
            "blocks": self._blocks.plain(),
            "rows": self._rows,
            "weight": self._weight,
            "length": self._length,
            "filled": self._filled,
            "trace": self._trace.copy(),
            "total": self._total.copy(),
            "current": self._current.copy(),
            "closed": np.array(self._closed).reshape(-1, self.size, self.size + 2),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that :meth:`plain` returned; an error changes nothing."""
        shape = (self.size, self.size + 2)
        trace = check_array(state["trace"], "trace", (self.size,))
        total = check_array(state["total"], "total", shape)
        current = check_array(state["current"], "current", shape)
        closed = check_array(state["closed"], "closed", (len(state["closed"]), *shape))
        if len(closed) >= self._most:
            raise ValueError(
                f"the state must have fewer than {self._most} batches, not {len(closed)}"
            )
        weight = float(check_array(float(state["weight"]), "weight", ()))
        numbers = [
            check_whole(state[name], f"{name} of the state", least=least)
            for name, least in (("rows", 0), ("length", 1), ("filled", 0))
        ]
        _, length, filled = numbers
        waiting = np.size(state["blocks"]["weights"])
        if not waiting < min(self._block, length - filled):
            raise ValueError(
                f"{filled} filled and {waiting} pending rows of the state must be below a batch "
                f"of {length} and a block of {self._block}"
            )
        self._blocks.restore(state["blocks"])
        self._trace, self._total, self._current, self._weight = trace, total, current, weight
        self._closed = tuple(closed)
        self._rows, self._length, self._filled = numbers


def check_discounts(gamma: Any, lam: Any, l2: Any) -> tuple[float, float, float]:
    """Check that γ and λ are in [0, 1] and that the ridge is not negative."""
    for name, value in (("gamma", gamma), ("lam", lam)):
        if isinstance(value, bool | str) or not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} must be in [0, 1], not {shown(value)}")
    return float(gamma), float(lam), check_not_negative(l2, "l2")


def check_level(level: float) -> None:
    """Check that the level of an interval is between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, not {shown(level)}")


def check_transitions(
    rows: Any, next_rows: Any, rewards: Any, terminated: Any, ended: Any, size: int
) -> tuple[Array, Array, Array]:
    """Check shapes; return rewards, where episodes end, and where trajectories are cut off."""
    r, stop = np.asarray(rewards), np.asarray(terminated, dtype=bool)
    broken = stop if ended is None else stop | np.asarray(ended, dtype=bool)
    n = rows.shape[0]
    for name, array, shape in (
        ("rows", rows, (n, size)),
        ("next_rows", next_rows, (n, size)),
        ("rewards", r, (n,)),
        ("terminated", stop, (n,)),
        ("ended", broken, (n,)),
    ):
        if array.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
    return r, stop, broken


def half_widths(
    norms: Array, moved: Array, aside: Array, met: Array, covered: float, level: float
) -> Array:
    """Return half-widths by Student's t, from the changes of values by the batches' residuals.

    ``norms`` are those of the rows, among which the level is divided (Bonferroni). Half-widths are
    infinite where ``aside``, the undetermined part of a row, is not small, and where features occur
    in too few batches.
    """
    known = (met >= ENOUGH) & (aside <= UNDETERMINED * norms)
    freedom = np.maximum(met - 1, 1)
    with np.errstate(over="ignore"):
        squares = np.sum(moved**2, axis=1)
        spread = np.sqrt(squares / max(covered, 1e-300) * (freedom + 1) / freedom)
    level = 1.0 - (1.0 - level) / max(len(norms), 1)
    quantile = special.stdtrit(freedom, 0.5 + 0.5 * level)
    return np.where(known & (spread > 0.0), quantile * spread, np.inf)


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


def _inverse(system: Array, scale: Array) -> Array:
    """Return the inverse; for a singular system, ``scale * solution`` has the least norm."""
    inverse: Array
    try:
        inverse = np.linalg.inv(system)
        if np.linalg.norm(inverse, 1) * np.linalg.norm(system, 1) < SAFE:
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


def paired(batches: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add neighbours; a last one without a neighbour is dropped."""
    return tuple(one + two for one, two in zip(batches[::2], batches[1::2], strict=False))
