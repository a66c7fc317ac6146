"""The gradient part: which samples, with which weights, form one gradient?"""

from mixfree.gradients.mlmc import MLMC
from mixfree.gradients.replay import ForwardReplay, Replay, ReverseReplay
from mixfree.gradients.reservoir import Reservoir
from mixfree.gradients.window import DataDrop, Gradient, MiniBatch, Plain, Window

__all__ = [
    "MLMC",
    "DataDrop",
    "ForwardReplay",
    "Gradient",
    "MiniBatch",
    "Plain",
    "Replay",
    "Reservoir",
    "ReverseReplay",
    "Window",
]
