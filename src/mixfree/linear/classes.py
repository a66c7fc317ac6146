"""Classes as the losses want them, and what their predictions say about the classes."""

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.losses import Logistic, Loss, Softmax


def loss_of(classes: Array) -> Loss:
    """Logistic for two classes, softmax for more."""
    return Logistic() if len(classes) == 2 else Softmax(len(classes))


def condensed(labels: Array) -> Array:
    """One label of each class if there are at most two classes, else the labels as they are.

    Whatever follows from the set of labels follows from it, without the sorting of all of them.

    Examples
    --------
    >>> condensed(np.array(["b", "a", "b", "b"]))
    array(['b', 'a'], dtype='<U1')
    """
    other = labels != labels[0]
    found: Array = labels[[0, int(other.argmax())]]
    return found if (other <= (labels == found[1])).all() else labels


def targets_of(labels: Array, classes: Array) -> Array:
    """Labels as targets of :func:`loss_of`; ``classes`` are sorted.

    Examples
    --------
    >>> targets_of(np.array(["b", "a"]), np.array(["a", "b"]))
    array([ 1., -1.])
    """
    targets: Array
    if len(classes) == 2:
        second = labels == classes[1]
        unknown, targets = ~second & (labels != classes[0]), 2.0 * second
        targets -= 1.0  # in place: a fresh array costs more than the arithmetic
    else:
        place = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        unknown, targets = classes[place] != labels, place.astype(np.float64)
    if unknown.any():
        new = np.unique(labels[unknown]).tolist()
        raise ValueError(f"y has classes {new}, which are not among {classes.tolist()}")
    return targets


def targets_at(places: Array, classes: int) -> Array:
    """Targets of :func:`loss_of` for labels given by their places among the sorted classes.

    Examples
    --------
    >>> targets_at(np.array([1, 0]), classes=2), targets_at(np.array([1, 0]), classes=3)
    (array([ 1., -1.]), array([1., 0.]))
    """
    return 2.0 * places - 1.0 if classes == 2 else places.astype(np.float64)


def most_probable(predictions: Array, classes: Array) -> Array:
    """The class that each row's predictions are for."""
    two = predictions.ndim == 1
    most: Array = classes[(predictions > 0).astype(int) if two else predictions.argmax(axis=1)]
    return most


def probabilities(predictions: Array) -> Array:
    """Class probabilities, one row per input row.

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
        logarithms: Array = -np.logaddexp(0.0, np.column_stack([predictions, -predictions]))
        return logarithms
    lower = predictions - predictions.max(axis=1, keepdims=True)
    normalised: Array = lower - np.log(np.exp(lower).sum(axis=1, keepdims=True))
    return normalised
