"""Optimisers for ordered, correlated data that never need the mixing time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixfree.core.method import Method
    from mixfree.core.methods import (
        EMD,
        MAG,
        SGD,
        SGDDD,
        SGDER,
        SGDMLMC,
        SGDRER,
        AdaGrad,
        Algorithm1,
        Ladder,
        MiniBatch,
        methods,
    )
    from mixfree.core.minimize import Result, minimize
    from mixfree.core.optimizer import Optimizer
    from mixfree.domains import AllSpace, Ball, Box, Simplex
    from mixfree.gradients import MLMC

__version__ = "0.2.0"

__all__ = [
    "EMD",
    "MAG",
    "MLMC",
    "SGD",
    "SGDDD",
    "SGDER",
    "SGDMLMC",
    "SGDRER",
    "AdaGrad",
    "Algorithm1",
    "AllSpace",
    "Ball",
    "Box",
    "Ladder",
    "Method",
    "MiniBatch",
    "Optimizer",
    "Result",
    "Simplex",
    "methods",
    "minimize",
]

_MODULES = ("chains", "linear", "optax", "reproduce", "sklearn", "streams", "td", "torch")
_HOME = {
    **dict.fromkeys(("AllSpace", "Ball", "Box", "Simplex"), "mixfree.domains"),
    **dict.fromkeys(("Result", "minimize"), "mixfree.core.minimize"),
    "MLMC": "mixfree.gradients",
    "Method": "mixfree.core.method",
    "Optimizer": "mixfree.core.optimizer",
}


def __getattr__(name: str) -> Any:
    """Import what is first used then, so that ``import mixfree`` and the command line are quick."""
    if name in _MODULES:
        return import_module(f"mixfree.{name}")
    if name in __all__:
        found = getattr(import_module(_HOME.get(name, "mixfree.core.methods")), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'mixfree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
