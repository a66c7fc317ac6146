"""The averages that a drop-in can keep, and their update."""

from typing import Any

# Growth of the weights of the iterates, as a power of t; "last" keeps no average.
POWERS = {"average": 0, "weighted": 1, "recent": 3}
OUTPUTS = (*POWERS, "last")


def newest_weight(output: str, t: Any) -> Any:
    """Return the weight of the t-th iterate in the average: (k + 1)/(t + k).

    The iterates then have weights t(t + 1)…(t + k − 1), which grow as t^k: the polynomial averages
    of Shamir and Zhang (2013). For k = 0 and 1, the reference, :mod:`mixfree.outputs`,
    keeps sums instead and divides on access.

    Examples
    --------
    >>> newest_weight("average", 4.0), newest_weight("weighted", 3.0), newest_weight("recent", 5.0)
    (0.25, 0.5, 0.5)
    """
    power = POWERS[output]
    return (power + 1.0) / (t + power)
