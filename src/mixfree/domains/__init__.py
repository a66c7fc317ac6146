"""The domain part: the feasible set, and the geometry of a step."""

from mixfree.domains.ball import Ball
from mixfree.domains.box import Box
from mixfree.domains.mirror import Entropic, Euclidean, Mirror
from mixfree.domains.simplex import Simplex
from mixfree.domains.space import AllSpace, Domain

__all__ = ["AllSpace", "Ball", "Box", "Domain", "Entropic", "Euclidean", "Mirror", "Simplex"]
