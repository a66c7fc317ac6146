"""Classes as the losses want them, and what their predictions say about the classes."""

import numpy as np

from mixfree.losses import Logistic, Loss, Softmax
from mixfree.numerics import Array


def loss_of(classes: Array) -> Loss:
    """Logistic for two classes, softmax for more."""
    return Logistic() if len(classes) == 2 else Softmax(len(classes))


def targets_of(labels: Array, classes: Array) -> Array:
    """Labels as targets of :func:`loss_of`; ``classes`` are sorted.

    Examples
    --------
    >>> targets_of(np.array(["b", "a"]), np.array(["a", "b"]))
    array([ 1., -1.])
    """
    place = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    unknown = classes[place] != labels
    if unknown.any():
        new = np.unique(labels[unknown]).tolist()
        raise ValueError(f"y has classes {new}, which are not among {classes.tolist()}")
    return 2.0 * place - 1.0 if len(classes) == 2 else place.astype(np.float64)


def most_probable(predictions: Array, classes: Array) -> Array:
    """The class that each row's predictions are for."""
    if predictions.ndim == 1:
        return classes[(predictions > 0).astype(int)]
    return classes[predictions.argmax(axis=1)]


def probabilities(predictions: Array) -> Array:
    """Probability of each class, a row a row.

    Examples
    --------
    >>> probabilities(np.array([0.0, 1000.0]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    found: Array = np.exp(log_probabilities(predictions))
    return found


def log_probabilities(predictions: Array) -> Array:
    """Their logarithms, finite also where a probability is not above zero.

    Examples
    --------
    >>> log_probabilities(np.array([1000.0]))
    array([[-1000.,    -0.]])
    """
    if predictions.ndim == 1:
        return -np.logaddexp(0.0, np.column_stack([predictions, -predictions]))
    lower = predictions - predictions.max(axis=1, keepdims=True)
    return lower - np.log(np.exp(lower).sum(axis=1, keepdims=True))
