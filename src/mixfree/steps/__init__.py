"""The step part: how far along the gradient?"""

from mixfree.steps.adagrad import AdaGradMax, AdaGradNorm
from mixfree.steps.ladder import Ladder
from mixfree.steps.profile import CorrelationScale, Profile
from mixfree.steps.schedule import Constant, Inverse, InverseSqrt, Step

__all__ = [
    "AdaGradMax",
    "AdaGradNorm",
    "Constant",
    "CorrelationScale",
    "Inverse",
    "InverseSqrt",
    "Ladder",
    "Profile",
    "Step",
]
