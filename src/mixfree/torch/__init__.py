"""PyTorch optimisers and a memory for ordered data, each by one line of a training loop."""

from mixfree.base.extras import require

require("torch")

from mixfree.torch.ladder import Ladder  # noqa: E402
from mixfree.torch.mag import MAG  # noqa: E402
from mixfree.torch.memory import Memory  # noqa: E402
from mixfree.torch.mlmc import MLMC  # noqa: E402
from mixfree.torch.stream import averaged  # noqa: E402

__all__ = ["MAG", "MLMC", "Ladder", "Memory", "averaged"]
