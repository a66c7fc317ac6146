"""The step part: how far along the gradient?"""

from mixfree.steps.accelerated import Accelerated
from mixfree.steps.adagrad import AdaGradMax, AdaGradNorm
from mixfree.steps.convex import AcceleratedConvex
from mixfree.steps.distance import Distance
from mixfree.steps.extragradient import Extragradient
from mixfree.steps.ladder import Ladder
from mixfree.steps.profile import CorrelationScale, Profile
from mixfree.steps.schedule import Constant, Inverse, InverseSqrt, Step

__all__ = [
    "Accelerated",
    "AcceleratedConvex",
    "AdaGradMax",
    "AdaGradNorm",
    "Constant",
    "CorrelationScale",
    "Distance",
    "Extragradient",
    "Inverse",
    "InverseSqrt",
    "Ladder",
    "Profile",
    "Step",
]
