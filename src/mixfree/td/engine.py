"""What learns θ behind a :class:`TDLearner`: steps along semi-gradients, or sums to be solved."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of
from mixfree.td.least_squares import LARGEST, LstdTD
from mixfree.td.methods import start_method, td_methods
from mixfree.td.stepping import StepTD

__all__ = ["Engine", "FixedPoint", "Record", "start_engine"]


class FixedPoint(Protocol):
    """The fixed point of a trajectory's own transitions, and how well it is known."""

    @property
    def theta(self) -> Array:
        """The fixed point."""

    @property
    def remark(self) -> str:
        """Why the errors are too small; empty if nothing is known against them."""

    def batches_met(self, rows: Array) -> Array:
        """Number of batches in which the rarest feature of each row occurs."""

    def errors(self, rows: Array, level: float) -> Array:
        """Half-widths of simultaneous intervals of the rows' values."""


class Record(Protocol):
    """Learns along a trajectory of known length, and keeps what an evaluation needs of it."""

    first: int  # transitions from which on it is worth looking at θ

    def take(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Learn from the next transitions, as :meth:`TDLearner.look_up` gives them."""

    def result(self) -> tuple[Array, FixedPoint | None]:
        """The estimate of θ*, and the fixed point with its error; None if it has no room."""


class Engine(Protocol):
    """What learns θ from feature rows, whatever the method."""

    @property
    def name(self) -> str:
        """Name of the method."""

    @property
    def theta(self) -> Array:
        """The current θ (read-only)."""

    @property
    def average(self) -> Array:
        """The θ to be used."""

    @property
    def samples(self) -> int:
        """Transitions seen."""

    @property
    def steps(self) -> int:
        """Changes of θ."""

    def take(self, row: Array, reward: float, ahead: Array | None) -> bool:
        """Take φ(s), r and φ(s'), which is None after the end; True when θ changed."""

    def advance(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Take transitions as :meth:`TDLearner.look_up` gives them, all or none."""

    def record(self, samples: int) -> Record:
        """Begin a trajectory of so many transitions."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the engine that gave ``state`` was."""


def start_engine(
    method: str | None,
    size: int,
    gamma: float,
    least_squares: Mapping[str, Any],
    steps: Mapping[str, Any],
    seed: int = 0,
) -> Engine:
    """The engine for the options given, which are of two kinds.

    Without a name: ``lstd`` where it fits, which is up to 1,000 features and no option of steps.
    """
    if method is not None:
        check_one_of(method, "method", (LstdTD.name, *td_methods()))
    if method == LstdTD.name or (method is None and size <= LARGEST and not steps):
        for name in steps:
            raise ValueError(
                f"`{name}` is not an option of lstd, which takes `lam`, `l2` and `half_life`"
            )
        return LstdTD(size, gamma, **least_squares)
    for name in least_squares:
        raise ValueError(
            f"`{name}` needs `method='lstd'`, which takes up to {LARGEST:,} features, or more that "
            "are mostly 0, and no option of methods with steps"
        )
    settings = {"radius": None, "seed": seed, **steps}
    return StepTD(start_method(method, np.zeros(size), gamma, **settings), gamma)
