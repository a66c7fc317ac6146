"""SGD-DD's data-drop: one gradient every τ samples, the rest unused."""

from dataclasses import dataclass

from mixfree.base.checks import check_whole
from mixfree.gradients.window import Window


@dataclass(frozen=True)
class DataDrop(Window):
    """The gradient of every ``mixing_time``-th sample (Nagaraj et al. 2020)."""

    mixing_time: int

    def __post_init__(self) -> None:
        check_whole(self.mixing_time, "mixing_time")

    def length(self, steps: int, samples: int) -> int:
        """One step every ``mixing_time`` samples."""
        return self.mixing_time

    def weight(self, position: int, length: int) -> float:
        """Only the last sample counts: it is the one farthest from the sample before."""
        return 1.0 if position + 1 == length else 0.0
