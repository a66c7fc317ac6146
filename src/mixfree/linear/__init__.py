"""Linear models that learn from a stream of rows in order."""

from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import (
    Huber,
    Logistic,
    Loss,
    Poisson,
    Robust,
    Softmax,
    Squared,
    linear_gradient,
)

__all__ = [
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Robust",
    "Softmax",
    "Squared",
    "advance_linear",
    "linear_gradient",
]
