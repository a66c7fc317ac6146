"""The averages that a drop-in can keep, and their update."""

from typing import Any

OUTPUTS = ("average", "weighted", "last")  # one copy of the parameters, or none


def newest_weight(output: str, t: Any) -> Any:
    """Return the weight of the t-th iterate in the average: 1/t, or t/Σk = 2/(t + 1).

    The reference, :mod:`mixfree.outputs.average`, keeps sums instead and divides on access.

    Examples
    --------
    >>> newest_weight("average", 3.0), newest_weight("weighted", 3.0)
    (0.3333333333333333, 0.5)
    """
    return 1.0 / t if output == "average" else 2.0 / (t + 1.0)
