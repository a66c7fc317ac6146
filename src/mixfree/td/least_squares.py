"""TD by least squares: sums over all transitions, solved when θ is needed."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import shown
from mixfree.base.state import loading
from mixfree.linear.exact.blocks import check_array
from mixfree.td.lstd import LSTD
from mixfree.td.lstd_sparse import SparseLSTD

# Most features for dense sums: the total and the sums of 16 batches take 136 MB.
MAX_DENSE_FEATURES = 1000
MAX_WAITING = 256  # single transitions that are summed together
PIECE = 4096  # transitions whose features are held at a time, fewer for many features
FORMAT = 2  # version of state_dict


class LstdTD:
    """Learns θ as the fixed point of all transitions so far: see :class:`LSTD`.

    A trace continues from one transition to the next only if φ(s) equals the previous φ(s'): a
    trajectory that is cut off and continued elsewhere counts as two. If it continues in the state
    in which it was cut off, it is one, since the process is Markov.

    Parameters
    ----------
    size, gamma, lam, l2, half_life
        As for :class:`LSTD`. With more than 1,000 features, most must be 0 at a time, and there is
        no half-life.
    """

    name = "lstd"

    def __init__(self, size: int, gamma: float, **options: Any) -> None:
        self._lstd: LSTD | SparseLSTD
        if size <= MAX_DENSE_FEATURES:
            self._lstd = LSTD(size, gamma, **options)
        elif "half_life" in options:
            raise ValueError(
                f"half_life needs at most {MAX_DENSE_FEATURES:,} features, not {size:,}"
            )
        else:
            self._lstd = SparseLSTD(size, gamma, **options)
        self._piece = max(PIECE * MAX_DENSE_FEATURES // max(size, MAX_DENSE_FEATURES), 1)
        self._waiting: list[tuple[Array, float, Array | None]] = []
        self._ahead: Array | None = None  # φ(s') of the last transition, if traces continue
        self._theta: Array | None = None

    @property
    def theta(self) -> Array:
        """The fixed point of all transitions so far, cached until the next transition."""
        if self._theta is None:
            self._theta = self._complete().theta
            self._theta.flags.writeable = False
        return self._theta

    @property
    def average(self) -> Array:
        """θ itself: there are no iterates to average."""
        return self.theta

    @property
    def samples(self) -> int:
        """Transitions seen."""
        return self._lstd.transitions + len(self._waiting)

    @property
    def steps(self) -> int:
        """Number of changes of θ: every transition changes it."""
        return self.samples

    def take(self, row: Array, reward: float, ahead: Array | None) -> bool:
        """Learn from φ(s), r and φ(s'), which is None at a terminal state; return True."""
        if not abs(reward) <= MAX_VALUE:
            self._refuse(reward, 0)
        self._waiting.append((row, reward, ahead))
        self._theta = None
        if len(self._waiting) >= MAX_WAITING:
            self._complete()
        return True

    @property
    def sparse(self) -> bool:
        """Whether rows of features may be CSR arrays."""
        return isinstance(self._lstd, SparseLSTD)

    def advance(self, rows: Any, here: Array, there: Array, rewards: Array) -> None:
        """Learn from transitions in the form of :meth:`TDLearner.look_up`, all or none."""
        large = ~(np.abs(rewards) <= MAX_VALUE)
        if large.any():
            wrong = int(np.argmax(large))
            self._refuse(rewards[wrong], wrong)
        self._complete()
        length = PIECE if sparse.issparse(rows) else self._piece
        for start in range(0, len(here), length):
            piece = slice(start, start + length)
            before, ahead = rows[here[piece]], rows[there[piece]]
            self._add(before, rewards[piece], ahead, there[piece] < 0)
        self._theta = None

    def _complete(self) -> LSTD | SparseLSTD:
        """Return the sums, with pending transitions added."""
        if self._waiting:
            before, rewards, after = zip(*self._waiting, strict=True)
            ahead = [before[0] if row is None else row for row in after]
            ended = np.array([row is None for row in after])
            self._waiting = []
            self._add(np.array(before), np.array(rewards), np.array(ahead), ended)
        return self._lstd

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the present state."""
        before = {**vars(self), "_lstd": self._lstd.copy()}
        return lambda: vars(self).update(before)

    def _add(self, before: Any, rewards: Array, ahead: Any, terminated: Array) -> None:
        broken = None
        if self._lstd.lam > 0.0:
            before, ahead = self._lstd.as_rows(before), self._lstd.as_rows(ahead)
            broken = np.append((before[1:] != ahead[:-1]).sum(axis=1) > 0, False)
            if self._ahead is not None and (_first(before) != self._ahead).any():
                self._lstd.break_off()
            self._ahead = None if terminated[-1] else _first(ahead[-1:]).copy()
        self._lstd.add(before, rewards, ahead, terminated, ended=broken)

    def _refuse(self, reward: float, further: int) -> None:
        what = f"reward of transition {self.samples + further + 1}"
        if not np.isfinite(reward):
            raise ValueError(f"{what} must be finite, not {reward}")
        raise ValueError(f"{what} must be at most {MAX_VALUE:g} in size, not {reward:.3g}")

    def record(self, samples: int) -> Self:
        """Start the record of a trajectory of any length: the sums themselves."""
        return self

    @property
    def first(self) -> int:
        """Transitions after which the record begins: fewer do not determine θ."""
        return self._lstd.size

    def result(self) -> tuple[Array, LSTD | SparseLSTD]:
        """Return θ, and the fixed point without ridge with its errors."""
        return self.theta, self.fixed_point()

    def fixed_point(self) -> LSTD | SparseLSTD:
        """Return a copy of the sums without ridge: the fixed point and its errors."""
        sums = self._complete().copy()
        sums.l2 = 0.0
        return sums

    def _settings(self) -> dict[str, Any]:
        names = ("size", "gamma", "lam", "l2", "half_life")
        return {name: getattr(self._lstd, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        return {
            "format": FORMAT,
            "method": self.name,
            "settings": self._settings(),
            "sums": self._complete().plain(),
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
            ahead = state["ahead"]
            if ahead is not None:
                ahead = check_array(ahead, "ahead", (self._lstd.size,))
            lstd = self._lstd.restored(state["sums"], "learner")
        self._lstd, self._ahead, self._waiting, self._theta = lstd, ahead, [], None

    def __repr__(self) -> str:
        return f"<{self.name}: {self._lstd.size} features, {self.samples} transitions>"


def _first(rows: Any) -> Array:
    row: Array = (rows[:1].toarray() if sparse.issparse(rows) else rows)[0]
    return row
