"""Correlated streams with known best weights, for correct and misspecified models.

Features and noise are AR(1) processes of variance 1, with the same correlation ρ of
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
BENT = 0.5  # coefficient of the square of the first feature in the quadratic model
# Names of the models, with the truth and whether the linear model is correct.
MODELS = ("linear", "quadratic", "logit", "probit")


def autoregressive(rng: np.random.Generator, rows: int, rho: float, columns: int = 1) -> Array:
    """Draw stationary AR(1) processes of variance 1, one per column.

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
    """Return the loss with which a model is fitted."""
    return Squared() if model in ("linear", "quadratic") else Logistic()


def stream(model: str, rows: int, rho: float, seed: int) -> tuple[Array, Array]:
    """Draw rows and targets of one stream.

    ``linear``
        A linear function plus noise.
    ``quadratic``
        The same plus half the square of the first feature, which a linear fit lacks.
    ``logit``
        The sign of a linear function plus logistic noise: logistic regression is correct for each
        row, but ignores the correlation of the noise.
    ``probit``
        The same with normal noise, which logistic regression only approximates.
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
    """Compute the weights of least expected loss, the intercept last.

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
