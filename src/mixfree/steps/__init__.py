"""How far along the gradient?"""

from mixfree.steps.adagrad import AdaGradNorm
from mixfree.steps.schedule import Constant, Inverse, InverseSqrt, Step

__all__ = ["AdaGradNorm", "Constant", "Inverse", "InverseSqrt", "Step"]
