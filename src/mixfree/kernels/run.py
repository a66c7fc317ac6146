"""The arrays of a run that a kernel changes, and the positions of numbers in them."""

from typing import NamedTuple

import numpy as np

# Positions in Run.counts.
SAMPLES, STEPS, SEEN, LENGTH, TURN, COUNT = range(6)
# Positions in Run.numbers: AdaGrad's root, and an upper bound of the norm of the point.
ROOT, REACH = range(2)


class Run(NamedTuple):
    """The arrays of a run, of the same types for every method."""

    counts: np.ndarray
    numbers: np.ndarray
    x: np.ndarray
    total: np.ndarray  # the window's signed sum
    group: np.ndarray  # sum of a sample's gradient and those of its draws; empty without memory
    sums: np.ndarray  # three rows for the output
    kept: np.ndarray  # the random iterate
    gradient: np.ndarray  # scratch
    table: np.ndarray  # of the ladder; empty for other steps
    rates: np.ndarray  # numbers of the ladder
    sketch: np.ndarray  # of the ladder
