"""The domain part: the feasible set, and the geometry of a step."""

from mixfree.domains.mirror import Entropic, Euclidean, Mirror
from mixfree.domains.sets import AllSpace, Ball, Box, Domain, Simplex

__all__ = ["AllSpace", "Ball", "Box", "Domain", "Entropic", "Euclidean", "Mirror", "Simplex"]
