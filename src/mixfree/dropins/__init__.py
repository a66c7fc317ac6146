"""Code shared by the drop-ins for PyTorch and Optax."""

from mixfree.dropins.average import OUTPUTS, newest_weight
from mixfree.dropins.ladder import farthest

__all__ = ["OUTPUTS", "farthest", "newest_weight"]
