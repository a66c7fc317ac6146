"""Estimators to and from plain values, for model files."""

import dataclasses
from typing import Any

from mixfree import losses
from mixfree.methods import Method
from mixfree.numerics import State
from mixfree.sklearn.classifier import StreamClassifier
from mixfree.sklearn.regressor import StreamRegressor

ESTIMATORS = {kind.__name__: kind for kind in (StreamRegressor, StreamClassifier)}
LOSS_CLASSES = {kind.__name__: kind for kind in (losses.Squared, losses.Huber, losses.Robust)}

Estimator = StreamRegressor | StreamClassifier


def to_plain(model: Estimator) -> State:
    """The fitted estimator as plain values and arrays.

    Examples
    --------
    >>> import numpy as np
    >>> model = StreamRegressor(l2=0.5).fit(np.eye(3), np.ones(3))
    >>> again = from_plain(to_plain(model))
    >>> again
    StreamRegressor(l2=0.5)
    >>> np.array_equal(again.coef_, model.coef_)
    True
    """
    parameters = model.get_params()
    if isinstance(parameters["method"], Method):
        parameters["method"] = parameters["method"].name
    loss = parameters.get("loss")
    if loss is not None and not isinstance(loss, str):
        parameters["loss"] = {"kind": type(loss).__name__, **dataclasses.asdict(loss)}
    return {
        "estimator": type(model).__name__,
        "parameters": parameters,
        "fitted": model.state_dict(),
    }


def from_plain(content: State) -> Estimator:
    """The estimator that :func:`to_plain` described."""
    kind, parameters = content["estimator"], dict(content["parameters"])
    if kind not in ESTIMATORS:
        raise ValueError(f"there is no estimator {kind!r}")
    loss: Any = parameters.get("loss")
    if isinstance(loss, dict):
        settings = {name: value for name, value in loss.items() if name != "kind"}
        parameters["loss"] = LOSS_CLASSES[loss["kind"]](**settings)
    return ESTIMATORS[kind](**parameters).load_state_dict(content["fitted"])
