"""Optimisers for ordered, correlated data that never need the mixing time."""

import importlib
from types import ModuleType

from mixfree.core.methods import (
    EMD,
    MAG,
    SGD,
    SGDDD,
    SGDER,
    SGDMLMC,
    SGDRER,
    AdaGrad,
    Ladder,
    Method,
    MiniBatch,
    methods,
)
from mixfree.core.minimize import Result, minimize
from mixfree.core.optimizer import Optimizer
from mixfree.domains import AllSpace, Ball, Box, Simplex
from mixfree.gradients import MLMC
from mixfree.steps import Distance

__version__ = "0.1.0"

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
    "AllSpace",
    "Ball",
    "Box",
    "Distance",
    "Ladder",
    "Method",
    "MiniBatch",
    "Optimizer",
    "Result",
    "Simplex",
    "methods",
    "minimize",
]

_MODULES = (
    "chains",
    "linear",
    "optax",
    "reproduce",
    "sklearn",
    "td",
    "torch",
)


def __getattr__(name: str) -> ModuleType:
    """Import a module of the package when it is first used, so that importing mixfree is quick."""
    if name in _MODULES:
        return importlib.import_module(f"mixfree.{name}")
    raise AttributeError(f"module 'mixfree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
