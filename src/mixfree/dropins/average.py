"""The averages that a drop-in can keep."""

from typing import Any

from mixfree.steps.ladder_rule import newest_share

# Growth of the weights of the iterates, as a power of t; "last" keeps no average.
POWERS = {"average": 0, "weighted": 1, "recent": 3}
OUTPUTS = (*POWERS, "last")


def newest_weight(output: str, t: Any) -> Any:
    """Return the weight of the t-th iterate in the average.

    Examples
    --------
    >>> newest_weight("average", 4.0), newest_weight("weighted", 3.0), newest_weight("recent", 5.0)
    (0.25, 0.5, 0.5)
    """
    return newest_share(t, POWERS[output])
