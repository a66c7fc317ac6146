"""Extragradient steps, for games and saddle points as well as for minimisation."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mixfree.base.arithmetic import Array, stretched
from mixfree.base.checks import check_positive
from mixfree.base.state import State, UnitChange


class Geometry(Protocol):
    """What a step needs of a mirror map that is not the Euclidean one."""

    def dual(self, x: Array) -> Array:
        """∇ψ(x), in which displacements add up."""


@dataclass(slots=True)
class AnchorState(State):
    """x^k, from which both steps of a pair go."""

    x: Array

    def change_units(self, change: UnitChange) -> None:
        """It is a point."""
        self.x = change.points(self.x)


@dataclass(frozen=True)
class Extragradient:
    r"""Steps in pairs, both from x^k: one to look, one to go.

    .. math:: x^{k+1/2} = \Pi(x^k - \gamma\, g(x^k)), \qquad
              x^{k+1} = \Pi(x^k - \gamma\, g(x^{k+1/2}))

    With another mirror map both are its steps, which is mirror-prox. A gradient may be any
    operator, such as that of a game: it is then not the gradient of one function.

    Parameters
    ----------
    alpha
        The step γ; without noise anything below 1/L converges on a monotone L-Lipschitz operator.
    mirror
        The mirror map of the run if it is not the Euclidean one: displacements add up in its dual.

    Examples
    --------
    A game in which descent goes round in circles for ever, xy:

    >>> step, x = Extragradient(alpha=0.5), np.array([1.0, 0.0])
    >>> state = step.start(x)
    >>> for t in range(1, 200):
    ...     x = x - step.move(state, np.array([x[1], -x[0]]), t, x)
    >>> bool(np.abs(x).max() < 1e-3)
    True
    """

    alpha: float
    mirror: Geometry | None = None

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")

    def start(self, x0: Array) -> AnchorState:
        """x^0."""
        return AnchorState(np.array(x0))

    def reach(self, state: AnchorState) -> float:
        """The largest entry of x^k, by which a run that diverges is noticed."""
        return float(np.abs(state.x).max())

    def move(self, state: AnchorState, direction: Array, step: int, x: Array) -> Array:
        """γ g at odd steps, which start at x^k; at even ones also the way back to x^k."""
        displacement = stretched(self.alpha, direction)
        if step % 2:
            state.x = x
            return displacement
        here, anchor = x, state.x
        if self.mirror is not None:
            here, anchor = self.mirror.dual(here), self.mirror.dual(anchor)
        both: Array = displacement + (here - anchor)
        return both
