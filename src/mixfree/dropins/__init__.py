"""Code shared by the drop-ins for PyTorch and Optax."""

from mixfree.dropins.average import OUTPUTS, newest_weight
from mixfree.dropins.sketch import Sketch, is_exact

__all__ = ["OUTPUTS", "Sketch", "is_exact", "newest_weight"]
