"""The output part: which point is returned?"""

from collections.abc import Callable

from mixfree.outputs.average import Average, Output, WeightedAverage
from mixfree.outputs.last import Last
from mixfree.outputs.random import RandomIterate
from mixfree.outputs.tail import TailAverage

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
