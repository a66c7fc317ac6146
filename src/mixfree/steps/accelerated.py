"""Nesterov acceleration as a step; the run's point is the one where gradients are evaluated."""

import math
from dataclasses import dataclass, field

import numpy as np

from mixfree.base.arithmetic import Array, stretched
from mixfree.base.checks import check_positive
from mixfree.base.state import State, UnitChange


@dataclass(slots=True)
class AcceleratedState(State):
    """The two sequences of acceleration; gradients are evaluated between them."""

    x: Array
    x_f: Array

    def change_units(self, change: UnitChange) -> None:
        """Both are points."""
        self.x, self.x_f = change.points(self.x), change.points(self.x_f)


@dataclass(frozen=True)
class Accelerated:
    r"""The step of Algorithm 1 of Beznosikov et al. (2023), with g^k taken at :math:`x_g^k`.

    .. math::
        x_g^k &= \theta x_f^k + (1 - \theta) x^k \\
        x_f^{k+1} &= x_g^k - p \gamma g^k \\
        x^{k+1} &= \eta x_f^{k+1} + (p - \eta) x_f^k + (1 - p)(1 - \beta) x^k + (1 - p) \beta x_g^k

    .. math:: \beta = \sqrt{4 p^2 \mu \gamma / 3}, \quad
              \eta = \frac{3 \beta}{2 p \mu \gamma}, \quad
              \theta = \frac{p \eta^{-1} - 1}{\beta p \eta^{-1} - 1}, \quad
              \gamma \le \frac{3}{4L}

    The run's point is x_g. On exact gradients of a quadratic
    :math:`\|x^k - x^*\|^2 + \frac{6}{\mu}(f(x_f^k) - f^*)` is at most 1 − β/2 times as large
    after a step, which the tests compute for every curvature; the paper's text itself was not at
    hand, and how p depends on the noise is left to the caller. The paper has no domain;
    where there is one, x_g is projected and the other two points are not.

    Parameters
    ----------
    alpha
        1/L, where L is a Lipschitz constant of the gradient: γ = 3α/4.
    condition
        κ = L/μ, at least 1, where μ is the strong convexity.
    damping
        p, at most 1, and less where the noise of a gradient grows with the gradient itself.

    Examples
    --------
    >>> step, x = Accelerated(alpha=1.0, condition=25.0), np.ones(1)
    >>> state = step.start(x)
    >>> for t in range(1, 60):
    ...     x = x - step.move(state, x, t, x)
    >>> bool(abs(x[0]) < 1e-6)
    True
    """

    alpha: float
    condition: float
    damping: float = 1.0
    beta: float = field(init=False, repr=False)
    eta: float = field(init=False, repr=False)
    theta: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")
        if check_positive(self.condition, "condition") < 1.0:
            raise ValueError(f"condition must be at least 1, not {self.condition}")
        if check_positive(self.damping, "damping") > 1.0:
            raise ValueError(f"damping must be at most 1, not {self.damping}")
        p, curvature = self.damping, 0.75 / self.condition  # μγ
        root = math.sqrt(4.0 * curvature / 3.0)
        beta, eta = p * root, 3.0 * root / (2.0 * curvature)
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "eta", eta)
        object.__setattr__(self, "theta", (p / eta - 1.0) / (beta * p / eta - 1.0))

    def start(self, x0: Array) -> AcceleratedState:
        """x^0 = x_f^0."""
        return AcceleratedState(np.array(x0), np.array(x0))

    def reach(self, state: AcceleratedState) -> float:
        """The largest entry of x_f^k, which reveals a run that diverges."""
        return float(np.abs(state.x_f).max())

    def move(self, state: AcceleratedState, direction: Array, step: int, x: Array) -> Array:
        """x_g^k − x_g^{k+1}, with ``x`` the point x_g^k."""
        p, beta, eta, theta = self.damping, self.beta, self.eta, self.theta
        x_f = x - stretched(0.75 * self.alpha * p, direction)
        state.x = (
            eta * x_f
            + (p - eta) * state.x_f
            + (1.0 - p) * (1.0 - beta) * state.x
            + (1.0 - p) * beta * x
        )
        state.x_f = x_f
        wanted: Array = x - (theta * x_f + (1.0 - theta) * state.x)
        return wanted
