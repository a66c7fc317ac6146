"""Optax transformations and a memory for ordered data."""

from mixfree.base.extras import require

require("optax")

from mixfree.optax.average import AverageState, averaged, averaging  # noqa: E402
from mixfree.optax.ladder import LadderState, ladder, scale_by_ladder  # noqa: E402
from mixfree.optax.memory import Memory, MemoryState, memory  # noqa: E402
from mixfree.optax.mlmc import AdaGradNormState, MLMCState, adagrad_norm, mag, mlmc  # noqa: E402

__all__ = [
    "AdaGradNormState",
    "AverageState",
    "LadderState",
    "MLMCState",
    "Memory",
    "MemoryState",
    "adagrad_norm",
    "averaged",
    "averaging",
    "ladder",
    "mag",
    "memory",
    "mlmc",
    "scale_by_ladder",
]
