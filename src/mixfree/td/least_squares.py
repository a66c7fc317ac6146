"""TD by least squares: sums over all transitions, solved when θ is asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.base.state import loading
from mixfree.linear.exact.blocks import check_array
from mixfree.linear.exact.lstd import LSTD
from mixfree.linear.exact.lstd_sparse import SparseLSTD

# Most features that may all be other than 0: sums of all transitions and of 16 batches take 136 MB.
LARGEST = 1000
REWARD = 1e150  # size of a reward from which on sums are not safe
WAITING = 256  # transitions given one by one that are summed together
PIECE = 4096  # transitions whose features are held at a time, fewer if there are many features
FORMAT = 1  # version of what state_dict gives


class LstdTD:
    """θ is the fixed point of all transitions so far, as :class:`LSTD` has it.

    Traces go on from one transition to the next only where φ(s) is the φ(s') before it: a
    trajectory that was cut off and begun elsewhere is two trajectories. Where it begins again in
    the very state that it was cut off in, it is one, as far as a Markov chain knows.

    Parameters
    ----------
    size, gamma, lam, l2, half_life
        As for :class:`LSTD`. More than 1,000 features must be 0 for the most part, and have no
        half-life.
    """

    name = "lstd"

    def __init__(self, size: int, gamma: float, **options: Any) -> None:
        self._lstd: LSTD | SparseLSTD
        if size <= LARGEST:
            self._lstd = LSTD(size, gamma, **options)
        elif "half_life" in options:
            raise ValueError(f"half_life needs at most {LARGEST:,} features, not {size:,}")
        else:
            self._lstd = SparseLSTD(size, gamma, **options)
        self._piece = max(PIECE * LARGEST // max(size, LARGEST), 1)
        self._waiting: list[tuple[Array, float, Array | None]] = []
        self._ahead: Array | None = None  # φ(s') of the last transition, if traces go on from it
        self._theta: Array | None = None

    @property
    def theta(self) -> Array:
        """The fixed point of all transitions so far; solved once and kept until the next one."""
        if self._theta is None:
            self._theta = self._complete().theta
            self._theta.flags.writeable = False
        return self._theta

    @property
    def average(self) -> Array:
        """The same: there are no iterates to average."""
        return self.theta

    @property
    def samples(self) -> int:
        """Transitions seen."""
        return self._lstd.transitions + len(self._waiting)

    @property
    def steps(self) -> int:
        """Each transition changes θ."""
        return self.samples

    def take(self, row: Array, reward: float, ahead: Array | None) -> bool:
        """Take φ(s), r and φ(s'), which is None after the end; θ is always another one then."""
        if not abs(reward) < REWARD:
            self._refuse(reward, 0)
        self._waiting.append((row, reward, ahead))
        self._theta = None
        if len(self._waiting) >= WAITING:
            self._complete()
        return True

    def advance(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Take transitions as :meth:`TDLearner.look_up` gives them, all or none."""
        large = ~(np.abs(rewards) < REWARD)
        if large.any():
            wrong = int(np.argmax(large))
            self._refuse(rewards[wrong], wrong)
        self._complete()
        for start in range(0, len(here), self._piece):
            piece = slice(start, start + self._piece)
            before, ahead = rows[here[piece]], rows[there[piece]]
            self._add(before, rewards[piece], ahead, there[piece] < 0)
        self._theta = None

    def _complete(self) -> LSTD | SparseLSTD:
        """The sums, with the transitions in them that wait."""
        if self._waiting:
            before, rewards, after = zip(*self._waiting, strict=True)
            ahead = [before[0] if row is None else row for row in after]
            ended = np.array([row is None for row in after])
            self._waiting = []
            self._add(np.array(before), np.array(rewards), np.array(ahead), ended)
        return self._lstd

    def _add(self, before: Array, rewards: Array, ahead: Array, terminated: Array) -> None:
        broken = None
        if self._lstd.lam > 0.0:
            broken = np.append((before[1:] != ahead[:-1]).any(axis=1), False)
            if self._ahead is not None and (before[0] != self._ahead).any():
                self._lstd.break_off()
            self._ahead = None if terminated[-1] else ahead[-1].copy()
        self._lstd.add(before, rewards, ahead, terminated, ended=broken)

    def _refuse(self, reward: float, further: int) -> None:
        what = f"reward of transition {self.samples + further + 1}"
        if not np.isfinite(reward):
            raise ValueError(f"{what} must be finite, not {reward}")
        raise ValueError(f"{what} is {reward:.3g}, too large to be summed")

    def record(self, samples: int) -> "LstdRecord":
        """Begin a trajectory, of any number of transitions."""
        return LstdRecord(self)

    def fixed_point(self) -> "LstdFixedPoint":
        """The fixed point without ridge, as it is now, and its errors."""
        return LstdFixedPoint(self._complete())

    def _settings(self) -> dict[str, Any]:
        names = ("size", "gamma", "lam", "l2", "half_life")
        return {name: getattr(self._lstd, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes."""
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
                raise ValueError(f"state has {name} {shown(state.get(name))}, not {mine!r}")
        lstd = self._lstd.copy()
        with loading("learner"):
            ahead = state["ahead"]
            if ahead is not None:
                ahead = check_array(ahead, "ahead", (lstd.size,))
            lstd.restore(state["sums"])
        self._lstd, self._ahead, self._waiting, self._theta = lstd, ahead, [], None

    def __repr__(self) -> str:
        return f"<{self.name}: {self._lstd.size} features, {self.samples} transitions>"


class LstdRecord:
    """Needs to keep nothing: the sums have it all.

    Parameters
    ----------
    engine
        What learns.
    """

    def __init__(self, engine: LstdTD) -> None:
        self.engine = engine
        self.take = engine.advance
        self.first = engine.theta.size  # fewer transitions cannot determine θ, which costs d³

    def result(self) -> tuple[Array, "LstdFixedPoint"]:
        """The fixed point, and without ridge and with its errors."""
        return self.engine.theta, self.engine.fixed_point()


class LstdFixedPoint:
    """The fixed point without ridge, with errors that hold simultaneously.

    Parameters
    ----------
    sums
        The sums; they are copied.
    """

    def __init__(self, sums: LSTD | SparseLSTD) -> None:
        self._lstd = sums.copy()
        self._lstd.l2 = 0.0
        self.theta = self._lstd.theta

    @property
    def remark(self) -> str:
        """Why the errors are too small; empty if there is no known reason."""
        return self._lstd.remark

    def batches_met(self, rows: Array) -> Array:
        """Count the batches in which the rarest feature of each row occurs."""
        return self._lstd.batches_met(rows)

    def errors(self, rows: Array, level: float) -> Array:
        """Half-widths of simultaneous intervals: the level is divided among the rows."""
        return self._lstd.errors(rows, 1.0 - (1.0 - level) / max(len(rows), 1))
