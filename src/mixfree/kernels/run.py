"""What a kernel changes: the arrays of a run, and the places of numbers in them."""

from typing import NamedTuple

import numpy as np

# Places in Run.counts.
SAMPLES, STEPS, SEEN, LENGTH, TURN, COUNT = range(6)
# Places in Run.numbers: AdaGrad's root, and what the norm of the point is at most.
ROOT, REACH = range(2)


class Run(NamedTuple):
    """The arrays of a run; they are of the same types for every method."""

    counts: np.ndarray
    numbers: np.ndarray
    x: np.ndarray
    total: np.ndarray  # the window's signed sum
    group: np.ndarray  # sum of a sample's gradient and those of its draws; empty without memory
    sums: np.ndarray  # three rows for the output
    kept: np.ndarray  # the random iterate
    gradient: np.ndarray  # scratch
    table: np.ndarray  # the ladder's, which is empty for other steps
    rates: np.ndarray  # the ladder's numbers
