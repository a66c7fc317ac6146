"""Linear models that learn from a stream of rows in order."""

from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Huber, Logistic, Loss, Robust, Softmax, Squared, linear_gradient

__all__ = [
    "Huber",
    "Logistic",
    "Loss",
    "Robust",
    "Softmax",
    "Squared",
    "advance_linear",
    "linear_gradient",
]
