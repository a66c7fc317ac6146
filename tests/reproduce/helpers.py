"""Rows that are made up, and the gradients of a run's steps."""

from itertools import product

import numpy as np


def cross(**values):
    """A row for every combination of the values."""
    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


def lines_of(table):
    """The lines of a table, as dictionaries by the names of its columns."""
    return [dict(zip(table.head, line, strict=True)) for line in table.lines]


def directions(opt, gradient, samples):
    """Run over the samples; yield w_t of each step, after it, and g_t, which is summed here."""
    law = opt.gradient
    direction = np.zeros_like(opt.x)
    for sample in samples:
        position, w = opt.pending, opt.x
        length = law.length(opt.steps, opt.samples - position)
        slope = gradient(w, sample)
        direction = direction + law.weight(position, length) * law.scale(length) * slope
        if opt.tell(slope):
            yield w, direction
            direction = np.zeros_like(w)
