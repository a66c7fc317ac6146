"""Convert class labels to targets of the losses, and predictions to classes."""

from typing import Any

import numpy as np
from scipy import special

from mixfree.base.arithmetic import Array
from mixfree.linear.losses import Logistic, Loss, Softmax


def loss_of(classes: Array) -> Loss:
    """Return the logistic loss for two classes, softmax for more."""
    return Logistic() if len(classes) == 2 else Softmax(len(classes))


def distinct_labels(labels: Array) -> Array:
    """Return one label per class if there are at most two classes, else all labels.

    The set of labels is the same, and two classes are found without sorting all labels.
    """
    other = labels != labels[0]
    found: Array = labels[[0, int(other.argmax())]]
    return found if (other <= (labels == found[1])).all() else labels


def targets_of(labels: Array, classes: Array) -> Array:
    """Convert labels to targets of :func:`loss_of`; ``classes`` are sorted."""
    if len(classes) == 2:  # without sorting
        place: Array = (labels == classes[1]).astype(np.intp)
    else:
        place = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    unknown = classes[place] != labels
    if unknown.any():
        new = np.unique(labels[unknown]).tolist()
        raise unknown_labels("y", new, classes)
    return targets_at(place, len(classes))


def unknown_labels(name: str, new: list[Any], classes: Array) -> ValueError:
    """Return the error to raise for labels that are not among the classes."""
    return ValueError(
        f"{name} has labels {new}, which are not among the classes {classes.tolist()}: name all "
        "labels of the stream as classes, in fit or in the first call of partial_fit"
    )


def targets_at(places: Array, classes: int) -> Array:
    """Convert indices into the sorted classes to targets of :func:`loss_of`."""
    return 2.0 * places - 1.0 if classes == 2 else places.astype(np.float64)


def most_probable(predictions: Array, classes: Array) -> Array:
    """Return the most probable class of each row."""
    two = predictions.ndim == 1
    return np.asarray(classes[(predictions > 0) * 1 if two else predictions.argmax(axis=1)])


def probabilities(predictions: Array) -> Array:
    """Return class probabilities, one row per input row."""
    return np.asarray(np.exp(log_probabilities(predictions)))


def log_probabilities(predictions: Array) -> Array:
    """Return log-probabilities, finite even where a probability underflows to zero."""
    if predictions.ndim == 1:
        return np.asarray(special.log_expit(np.column_stack([-predictions, predictions])))
    return np.asarray(special.log_softmax(predictions, axis=1))
