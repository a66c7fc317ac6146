"""Extragradient steps, for games and saddle points as well as for minimisation."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mixfree.base.arithmetic import Array, stretched
from mixfree.base.checks import check_positive
from mixfree.base.state import State, UnitChange


class Geometry(Protocol):
    """The part of a mirror map that the step needs."""

    def dual(self, x: Array) -> Array:
        """∇ψ(x), in which displacements add up."""


@dataclass(slots=True)
class AnchorState(State):
    """x^k, the start of both steps of a pair."""

    x: Array

    def change_units(self, change: UnitChange) -> None:
        """It is a point."""
        self.x = change.points(self.x)


@dataclass(frozen=True)
class Extragradient:
    r"""Steps in pairs, both from x^k; the second uses the gradient at the end of the first.

    .. math:: x^{k+1/2} = \Pi(x^k - \gamma\, g(x^k)), \qquad
              x^{k+1} = \Pi(x^k - \gamma\, g(x^{k+1/2}))

    With another mirror map this is mirror-prox. The gradient may be replaced by any operator,
    such as that of a game.

    Parameters
    ----------
    alpha
        The step γ; without noise anything below 1/L converges on a monotone L-Lipschitz operator.
    mirror
        The mirror map of the run if it is not the Euclidean one: displacements add up in its dual.

    Examples
    --------
    The game min over x, max over y of xy, on which gradient descent does not converge:

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
        """The largest entry of x^k, which reveals a run that diverges."""
        return float(np.abs(state.x).max())

    def move(self, state: AnchorState, direction: Array, step: int, x: Array) -> Array:
        """γ g at odd steps, which start at x^k; even steps also return to x^k."""
        displacement = stretched(self.alpha, direction)
        if step % 2:
            state.x = x
            return displacement
        here, anchor = x, state.x
        if self.mirror is not None:
            here, anchor = self.mirror.dual(here), self.mirror.dual(anchor)
        both: Array = displacement + (here - anchor)
        return both
