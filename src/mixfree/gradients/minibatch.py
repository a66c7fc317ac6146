"""The mean of a fixed number of consecutive samples."""

from dataclasses import dataclass

from mixfree.base.checks import check_whole
from mixfree.gradients.window import Window


@dataclass(frozen=True)
class MiniBatch(Window):
    """The mean gradient of ``batch`` consecutive samples."""

    batch: int = 32

    def __post_init__(self) -> None:
        check_whole(self.batch, "batch")

    def length(self, steps: int, samples: int) -> int:
        """Always ``batch`` samples."""
        return self.batch

    def scale(self, length: int) -> float:
        """The mean."""
        return 1.0 / length
