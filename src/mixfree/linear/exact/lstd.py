r"""Least-squares temporal differences: the fixed point of TD from sums of one trajectory.

With eligibility traces :math:`e_t = \gamma\lambda\, e_{t-1} + \phi(s_t)`, that begin anew with
every episode, the weights solve

.. math:: \Big( \sum_t e_t \big( \phi(s_t) - \gamma \phi(s_t') \big)^\top + T \ell I \Big) \theta
          = \sum_t e_t r_t

(Bradtke and Barto 1996; Boyan 2002), with the ridge :math:`\ell` per transition.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import stats

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, check_whole
from mixfree.linear.exact.batches import most_batches
from mixfree.linear.exact.moments import (
    Blocks,
    block_rows,
    check_array,
    check_finite,
    check_same_columns,
)

TOLERANCE = 1e-13  # singular values below it, relative to the largest, count as 0
ENOUGH = 5  # batches in which a row's features must occur for an error to be trusted
FIRST = 16  # transitions per batch at first


class LSTD:
    """Learns values φ(s)ᵀθ from transitions, the same bits however they are cut into chunks.

    Parameters
    ----------
    size
        Number of features. The sums of all and of 16 to 64 batches take 8·size² bytes each: 5 MB
        for 100 features, 136 MB for 1,000.
    gamma
        Discount in [0, 1].
    lam
        Decay λ of the eligibility traces, in [0, 1].
    l2
        Ridge per transition.
    half_life
        Transitions after which one counts half; None never forgets.

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
        for name, value in (("gamma", gamma), ("lam", lam)):
            if isinstance(value, bool | str) or not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must be in [0, 1], not {value!r}")
        if isinstance(l2, bool | str) or not 0.0 <= l2 < np.inf:
            raise ValueError(f"l2 must be at least 0 and finite, not {l2!r}")
        self.gamma, self.lam, self.l2 = float(gamma), float(lam), float(l2)
        self.half_life = None if half_life is None else check_positive(half_life, "half_life")
        self._blocks = Blocks(2 * size, 2)
        self._block = block_rows(2 * size)
        if self.half_life is not None:
            self._block = min(self._block, 1 << max(int(self.half_life).bit_length() - 2, 0))
        self._rows, self._length = 0, max(FIRST, 1 << size.bit_length() >> 1)
        self._trace = np.zeros(size)
        # Matrix, vector and mean squares of the features, as columns of one array.
        self._total = np.zeros((size, size + 2))
        self._weight = 0.0
        self._current, self._filled = np.zeros((size, size + 2)), 0
        self._closed: tuple[Array, ...] = ()
        self._most = most_batches(size)

    @property
    def transitions(self) -> int:
        """Transitions of positive weight seen."""
        return self._rows + self._blocks.filled

    def add(
        self,
        rows: npt.ArrayLike,
        rewards: npt.ArrayLike,
        next_rows: npt.ArrayLike,
        terminated: npt.ArrayLike,
        *,
        ended: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        """Take transitions in their order.

        Parameters
        ----------
        rows, rewards, next_rows
            Features φ(s), rewards, and features φ(s') of the next states.
        terminated
            Where the episode really ends, so that nothing comes after.
        ended
            Where the trajectory breaks off all the same (Gymnasium's ``truncated``): traces begin
            anew, but the value of the next state counts.
        weights
            Of the transitions, where there are no traces (``lam=0``).

        Raises
        ------
        ValueError
            For a wrong shape and for what is not finite; nothing has changed then.
        """
        if weights is not None and self.lam > 0.0:
            raise ValueError("weights need lam=0: a trace has no single weight")
        x, ahead, r = np.asarray(rows), np.asarray(next_rows), np.asarray(rewards)
        stop = np.asarray(terminated, dtype=bool)
        broken = stop if ended is None else stop | np.asarray(ended, dtype=bool)
        n = len(x)
        for name, array, shape in (
            ("rows", x, (n, self.size)),
            ("next_rows", ahead, (n, self.size)),
            ("rewards", r, (n,)),
            ("terminated", stop, (n,)),
            ("ended", broken, (n,)),
        ):
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
        both = np.concatenate([x, np.where(stop[:, None], 0.0, ahead)], axis=1)
        before = dict(vars(self))
        try:
            given = np.column_stack([r, broken])
            self._blocks.cut(both, given, weights, lambda: self._wanted, self._take)
        except BaseException:
            vars(self).update(before)
            raise

    @property
    def _wanted(self) -> int:
        return min(self._block, self._length - self._filled)

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        sums, trace = self._sums(rows, targets, weights)
        kept = 1.0 if self.half_life is None else 0.5 ** (len(rows) / self.half_life)
        self._total = kept * self._total + sums
        self._weight = kept * self._weight + _weight(rows, weights)
        self._trace, self._rows = trace, self._rows + len(rows)
        self._current, self._filled = self._current + sums, self._filled + len(rows)
        if self._filled >= self._length:
            self._closed = (*self._closed, self._current)
            self._current, self._filled = np.zeros_like(self._current), 0
            self._shorten()

    def _shorten(self) -> None:
        """Two neighbouring batches become one where there are too many."""
        while len(self._closed) >= self._most:
            self._closed = _paired(self._closed)
            self._length *= 2

    def _sums(self, rows: Array, targets: Array, weights: Array | None) -> tuple[Array, Array]:
        """Matrix, vector and squares of a block, and the trace that goes on after it."""
        x = rows[:, : self.size]
        change = np.empty((len(rows), self.size + 1))
        change[:, :-1] = x - self.gamma * rows[:, self.size :]
        change[:, -1] = targets[:, 0]
        left, trace = self._traces(x, targets[:, 1])
        if weights is not None:
            left = left * weights[:, None]
        squares = np.einsum("ij,ij->j", x if weights is None else x * weights[:, None], x)
        sums = np.column_stack([left.T @ change, squares])
        if not np.isfinite(sums).all():
            check_finite(rows, targets)
            raise ValueError("rows and rewards are too large for their products to be summed")
        return sums, trace

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
                trace = traces[end - 1]
            if start < end and broken[end - 1]:
                trace = np.zeros(self.size)
            start = end
        return traces, trace.copy()

    def _folded(self) -> Self:
        """This one with all transitions in its sums; itself if they are already."""
        waiting = self._blocks.pending
        if waiting is None:
            return self
        twin = self.copy()
        twin._blocks = Blocks(2 * self.size, 2)
        twin._take(*waiting)
        return twin

    @property
    def theta(self) -> Array:
        """The fixed point of all transitions; the shortest one if the features are dependent."""
        return self._folded()._solved()[0]

    def _solved(self) -> tuple[Array, Array]:
        """θ, and the (pseudo-)inverse that multiplies vectors of features."""
        matrix, vector = self._total[:, :-2], self._total[:, -2]
        # In units of each feature's own size rare features are as well determined as others.
        squares = self._total[:, -1] + self.l2 * self._weight
        scale = np.where(squares > 0.0, 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)), 0.0)
        system = scale[:, None] * matrix * scale
        system[np.diag_indices(self.size)] += self.l2 * self._weight * scale**2
        left, singular, right = np.linalg.svd(system)
        kept = singular > TOLERANCE * max(float(singular[0]), 1e-300)
        inverse = (right[kept].T / singular[kept]) @ left[:, kept].T
        inverse = scale[:, None] * inverse * scale
        if not kept.all():
            free, _ = np.linalg.qr(np.where(scale > 0.0, scale, 1.0)[:, None] * right[~kept].T)
            inverse = inverse - free @ (free.T @ inverse)
        return inverse @ vector, inverse

    def errors(self, rows: npt.ArrayLike, level: float = 0.95) -> Array:
        """Half-widths of intervals of values φᵀθ, each of its own level.

        From the batches' residuals in a sandwich, with Student's t; infinite for a row whose
        features did not occur in at least five batches.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, not {level!r}")
        if self.half_life is not None:
            raise ValueError("errors need half_life=None: batches are not forgotten")
        whole = self._folded()
        x = check_array(rows, "rows", (len(np.asarray(rows)), self.size))
        theta, inverse = whole._solved()
        batches = np.array(whole._closed).reshape(-1, self.size, self.size + 2)
        count = np.sum(batches[:, :, -1] > 0.0, axis=0)
        met = np.where(x != 0.0, count, len(batches)).min(axis=1)
        residuals = batches[:, :, -2] - batches[:, :, :-2] @ theta
        squares = np.sum((x @ inverse @ residuals.T) ** 2, axis=1)
        covered = len(batches) * whole._length / max(whole._rows, 1)
        freedom = np.maximum(met - 1, 1)
        spread = np.sqrt(squares / max(covered, 1e-300) * (freedom + 1) / freedom)
        quantile = stats.t.ppf(0.5 + 0.5 * level, freedom)
        return np.where((met >= ENOUGH) & (spread > 0.0), quantile * spread, np.inf)

    def merge(self, other: Self) -> None:
        """Take all transitions of another one, which stays as it is; its traces began anew."""
        check_same_columns(self._blocks, other._blocks)
        if (self.gamma, self.lam, self.half_life) != (other.gamma, other.lam, other.half_life):
            raise ValueError("cannot merge fits with different gamma, lam or half_life")
        if self.half_life is not None:
            raise ValueError("merge needs half_life=None: it is not known which came later")
        one, two = self._folded(), other._folded()
        length = max(one._length, two._length)
        closed: tuple[Array, ...] = ()
        for each in (one, two):
            batches, own = each._closed, each._length
            while own < length:
                batches, own = _paired(batches), 2 * own
            closed += batches
        self._total, self._weight = one._total + two._total, one._weight + two._weight
        self._rows, self._trace = one._rows + two._rows, two._trace
        self._closed, self._length = closed, length
        self._current, self._filled = np.zeros_like(self._current), 0
        self._blocks = Blocks(2 * self.size, 2)
        self._shorten()

    def copy(self) -> Self:
        """Another one that goes on by itself; arrays are never changed and shared."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._blocks = self._blocks.copy()
        return twin

    def plain(self) -> dict[str, Any]:
        """Everything that changes, as arrays and numbers of their own."""
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
        """Go on exactly where the one that gave ``state`` was; an error changes nothing."""
        shape = (self.size, self.size + 2)
        trace = check_array(state["trace"], "trace", (self.size,))
        total = check_array(state["total"], "total", shape)
        current = check_array(state["current"], "current", shape)
        closed = check_array(state["closed"], "closed", (len(state["closed"]), *shape))
        if len(closed) >= self._most:
            raise ValueError(f"the state has {len(closed)} batches, but {self._most} are too many")
        weight = float(check_array(float(state["weight"]), "weight", ()))
        numbers = [
            check_whole(state[name], f"{name} of the state", least=least)
            for name, least in (("rows", 0), ("length", 1), ("filled", 0))
        ]
        self._blocks.restore(state["blocks"])
        self._trace, self._total, self._current, self._weight = trace, total, current, weight
        self._closed = tuple(closed)
        self._rows, self._length, self._filled = numbers


def _weight(rows: Array, weights: Array | None) -> float:
    return float(len(rows)) if weights is None else float(weights.sum())


def _paired(batches: tuple[Array, ...]) -> tuple[Array, ...]:
    """Sums of neighbours; what is left over is dropped."""
    return tuple(one + two for one, two in zip(batches[::2], batches[1::2], strict=False))
