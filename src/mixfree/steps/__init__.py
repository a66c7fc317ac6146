"""How far along the gradient?"""

from mixfree.steps.adagrad import AdaGradNorm
from mixfree.steps.schedule import Constant, InverseSqrt, Step

__all__ = ["AdaGradNorm", "Constant", "InverseSqrt", "Step"]
