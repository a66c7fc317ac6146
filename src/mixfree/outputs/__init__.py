"""The output part: which point is returned?"""

from collections.abc import Callable

from mixfree.outputs.iterates import (
    Average,
    Last,
    Output,
    RandomIterate,
    TailAverage,
    WeightedAverage,
)

OUTPUTS: dict[str, Callable[..., Output]] = {
    "average": Average,
    "weighted": WeightedAverage,
    "tail": TailAverage,
    "last": Last,
    "random": RandomIterate,
}

__all__ = [
    "OUTPUTS",
    "Average",
    "Last",
    "Output",
    "RandomIterate",
    "TailAverage",
    "WeightedAverage",
]
