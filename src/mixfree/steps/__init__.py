"""How far along the gradient?"""

from mixfree.steps.adagrad import AdaGradNorm
from mixfree.steps.distance import Distance
from mixfree.steps.ladder import Ladder, Profile
from mixfree.steps.schedule import Constant, Inverse, InverseSqrt, Step

__all__ = [
    "AdaGradNorm",
    "Constant",
    "Distance",
    "Inverse",
    "InverseSqrt",
    "Ladder",
    "Profile",
    "Step",
]
