"""Optimisers for ordered, correlated data that never need the mixing time."""

from mixfree.domains import AllSpace, Ball, Box, Simplex
from mixfree.gradients import MLMC
from mixfree.methods import (
    EMD,
    MAG,
    SGD,
    SGDDD,
    SGDER,
    SGDMLMC,
    SGDRER,
    AdaGrad,
    Method,
    MiniBatch,
    methods,
)
from mixfree.minimize import Result, minimize
from mixfree.optimizer import Optimizer

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
    "Method",
    "MiniBatch",
    "Optimizer",
    "Result",
    "Simplex",
    "methods",
    "minimize",
]
