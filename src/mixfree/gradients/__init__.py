"""The gradient part: which samples, with which weights, form one gradient?"""

from mixfree.gradients.drop import DataDrop
from mixfree.gradients.minibatch import MiniBatch
from mixfree.gradients.mlmc import MLMC
from mixfree.gradients.plain import Plain
from mixfree.gradients.replay import ForwardReplay, Replay, ReverseReplay, buffer_size
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
    "buffer_size",
]
