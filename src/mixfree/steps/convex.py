"""Acceleration without strong convexity as a step: the three sequences of Lan (2012)."""

from dataclasses import dataclass

import numpy as np

from mixfree.base.arithmetic import Array, stretched
from mixfree.base.checks import check_positive, check_whole
from mixfree.steps.accelerated import AcceleratedState


@dataclass(frozen=True)
class AcceleratedConvex:
    r"""The step of AC-SA (Lan 2012), with g^t taken at :math:`x_g^t`.

    .. math::
        x_g^t &= \beta_t^{-1} x^t + (1 - \beta_t^{-1}) x_f^t \\
        x^{t+1} &= x^t - \gamma_t g^t \\
        x_f^{t+1} &= \beta_t^{-1} x^{t+1} + (1 - \beta_t^{-1}) x_f^t

    .. math:: \beta_t = \frac{t + 1}{2}, \qquad
              \gamma_t = \frac{t + 1}{4L} \min\left(1, (K/t)^{3/2}\right)

    The run's point is x_g. On a convex function with exact gradients
    :math:`\beta_t \gamma_t (f(x_f^{t+1}) - f^*) \le \frac{1}{2} \|x^1 - x^*\|^2`, because
    :math:`2 L \gamma_t \le \beta_t` and
    :math:`(\beta_{t+1} - 1) \gamma_{t+1} \le \beta_t \gamma_t`: at most
    :math:`4 L \|x^1 - x^*\|^2 / (t + 1)^2` up to step K. Steps that grow for ever let the noise of
    the gradients grow as well; after step K they fall like 1/√t. Where there is a domain, x_g is
    projected and the other two points are not.

    Parameters
    ----------
    alpha
        1/L, where L is a Lipschitz constant of the gradient.
    growing
        K, the number of steps over which γ grows. ``None`` is all of them, for exact gradients.

    Examples
    --------
    >>> step, x = AcceleratedConvex(alpha=1.0, growing=None), np.ones(1)
    >>> state = step.start(x)
    >>> for t in range(1, 100):
    ...     x = x - step.move(state, 0.01 * x, t, x)    # curvature of a hundredth of L
    >>> bool(0.005 * state.x_f[0] ** 2 < 4.0 / 100**2)
    True
    """

    alpha: float
    growing: int | None = 10

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")
        if self.growing is not None:
            check_whole(self.growing, "growing")

    def start(self, x0: Array) -> AcceleratedState:
        """x^1 = x_f^1."""
        return AcceleratedState(np.array(x0), np.array(x0))

    def reach(self, state: AcceleratedState) -> float:
        """The largest entry of x^t, which reveals a run that diverges."""
        return float(np.abs(state.x).max())

    def move(self, state: AcceleratedState, direction: Array, step: int, x: Array) -> Array:
        """x_g^t − x_g^{t+1}, with ``x`` the point x_g^t."""
        gamma = self.alpha * (step + 1) / 4.0
        if self.growing is not None and step > self.growing:
            gamma *= (self.growing / step) ** 1.5
        weight, following = 2.0 / (step + 1), 2.0 / (step + 2)  # 1/β_t and 1/β_{t+1}
        state.x = state.x - stretched(gamma, direction)
        state.x_f = weight * state.x + (1.0 - weight) * state.x_f
        wanted: Array = x - (following * state.x + (1.0 - following) * state.x_f)
        return wanted
