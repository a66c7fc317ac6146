"""Correlated streams whose best weights are known, also where the model is not right.

Features and noise are AR(1) processes of variance 1, each with the same correlation ρ of
neighbours. The best weights are those that minimise the expected loss.
"""

import math
from functools import cache

import numpy as np
from scipy import optimize, signal, special

from mixfree.base.arithmetic import Array
from mixfree.linear.losses import Logistic, Squared

__all__ = ["MODELS", "autoregressive", "best_weights", "loss_of", "stream"]

SLOPES, LEVEL = np.array([1.0, -0.5, 0.0]), 0.5
BENT = 0.5  # of the square of the first feature in the quadratic model
# Name of a model: the truth, and whether the linear model is right about it.
MODELS = ("linear", "quadratic", "logit", "probit")


def autoregressive(rng: np.random.Generator, rows: int, rho: float, columns: int = 1) -> Array:
    """Stationary AR(1) processes of variance 1, one per column.

    Examples
    --------
    >>> x = autoregressive(np.random.default_rng(0), 100_000, 0.9)[:, 0]
    >>> float(x.var().round(1)), float(np.mean(x[1:] * x[:-1]).round(1))
    (1.0, 0.9)
    """
    noise = rng.standard_normal((rows, columns))
    noise[1:] *= math.sqrt(1.0 - rho * rho)
    found: Array = signal.lfilter([1.0], [1.0, -rho], noise, axis=0)
    return found


def loss_of(model: str) -> Squared | Logistic:
    """The loss with which a model is fitted."""
    return Squared() if model in ("linear", "quadratic") else Logistic()


def stream(model: str, rows: int, rho: float, seed: int) -> tuple[Array, Array]:
    """Rows and targets of one stream.

    ``linear``
        A line and noise.
    ``quadratic``
        The same and half the square of the first feature, which a linear fit does not know.
    ``logit``
        The sign of a line and noise that has the logistic law: logistic regression is right about
        every row, though not about the correlation of its noise.
    ``probit``
        The same with a normal law, which logistic regression only approximates.
    """
    rng = np.random.default_rng((seed, MODELS.index(model), rows, round(1000 * rho)))
    x = autoregressive(rng, rows, rho, len(SLOPES))
    noise = autoregressive(rng, rows, rho)[:, 0]
    line = x @ SLOPES + LEVEL
    if model == "linear":
        return x, line + noise
    if model == "quadratic":
        return x, line + BENT * x[:, 0] ** 2 + noise
    if model == "logit":
        noise = special.log_ndtr(noise) - special.log_ndtr(-noise)
    return x, np.where(line + noise > 0.0, 1.0, -1.0)


@cache
def best_weights(model: str) -> tuple[float, ...]:
    """Weights, the intercept last, of the least expected loss.

    For normal features the slopes are proportional to those of the truth, whatever the link; two
    numbers are left for ``probit``, where the expected gradient is 0 by quadrature.

    Examples
    --------
    >>> best_weights("quadratic")
    (1.0, -0.5, 0.0, 1.0)
    >>> [round(weight, 3) for weight in best_weights("probit")]
    [1.721, -0.86, 0.0, 0.859]
    """
    if model != "probit":
        return (*SLOPES.tolist(), LEVEL + BENT * (model == "quadratic"))
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    along = float(np.linalg.norm(SLOPES)) * nodes
    chance = special.ndtr(along + LEVEL)

    def gradient(found: Array) -> list[float]:
        rest = weights * (special.expit(found[0] * along + found[1]) - chance)
        return [float(rest @ along), float(rest.sum())]

    factor, level = optimize.root(gradient, [1.6, 1.6 * LEVEL], tol=1e-12).x
    return (*(factor * SLOPES).tolist(), float(level))
