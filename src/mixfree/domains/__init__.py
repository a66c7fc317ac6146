"""Where may the point live, and along which geometry does it move?"""

from mixfree.domains.ball import Ball
from mixfree.domains.box import Box
from mixfree.domains.mirror import Entropic, Euclidean, Mirror
from mixfree.domains.simplex import Simplex
from mixfree.domains.space import AllSpace, Domain

__all__ = ["AllSpace", "Ball", "Box", "Domain", "Entropic", "Euclidean", "Mirror", "Simplex"]
