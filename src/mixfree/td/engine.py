"""Choose the engine of a :class:`TDLearner`: least squares, or steps along semi-gradients."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixfree.base.checks import check_one_of
from mixfree.td.least_squares import LARGEST, LstdTD
from mixfree.td.methods import start_method, td_methods
from mixfree.td.stepping import StepTD


def start_engine(
    method: str | None,
    size: int,
    sparse: bool,
    gamma: float,
    least_squares: Mapping[str, Any],
    steps: Mapping[str, Any],
    seed: int = 0,
) -> LstdTD | StepTD:
    """Start the engine for the given options of least squares or of steps.

    Without a name, it is ``lstd`` for up to 1,000 features, or more where they are ``sparse``, and
    no option of methods with steps.
    """
    if method is not None:
        check_one_of(method, "method", (LstdTD.name, *td_methods()))
    if method == LstdTD.name or (method is None and (size <= LARGEST or sparse) and not steps):
        for name in steps:
            raise ValueError(
                f"`{name}` is not an option of lstd, which takes `lam`, `l2` and `half_life`"
            )
        return LstdTD(size, gamma, **least_squares)
    for name in least_squares:
        raise ValueError(
            f"`{name}` needs `method='lstd'`, which takes up to {LARGEST:,} features, or more if "
            "most are 0 at a time, and no option of methods with steps"
        )
    settings = {"radius": None, "seed": seed, **steps}
    return StepTD(start_method(method, np.zeros(size), gamma, **settings), gamma)
