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
    MiniBatchSGD as MiniBatch,
    methods,
)
from mixfree.optimizer import Optimizer

__version__ = "0.1.0"
