"""Code shared by the drop-ins for PyTorch and Optax."""

from mixfree.dropins.average import OUTPUTS, newest_weight

__all__ = ["OUTPUTS", "newest_weight"]
