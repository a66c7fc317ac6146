"""The gradient part: which samples, with which weights, form one gradient?"""

from mixfree.gradients.fixed import DataDrop, MiniBatch, Plain
from mixfree.gradients.mlmc import MLMC
from mixfree.gradients.replay import ForwardReplay, Replay, ReverseReplay
from mixfree.gradients.reservoir import Reservoir
from mixfree.gradients.window import Gradient, Window

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
