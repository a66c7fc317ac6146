"""The running scale's kernel: statistics of the columns and standardised rows, in one pass."""

import math

from mixfree.kernels.jit import apart, kernel
from mixfree.kernels.memory import unshared

# Deviations in a column's unit between which squares, and sums of many, lose nothing.
_SMALL, _LARGE = 2.0**-500, 2.0**400
_LEAST_EXPONENT = -900  # that a unit is fitted to: those before may have been 2^400 times as large


@apart
def fit_units(row, mean, spread, unit):
    """Keep squares from over- and underflow; a change of unit is a power of two, hence exact."""
    for k in range(row.size):
        value = float(row[k])
        size = abs(value * unit[k] - mean[k])
        if size > _LARGE or (0.0 < size < _SMALL and spread[k] < _SMALL * _SMALL):
            exponent = math.frexp(size)[1]
            if size == math.inf:
                exponent = math.frexp(value)[1] + math.frexp(unit[k])[1]
            change = -max(exponent, _LEAST_EXPONENT)
            unit[k] = math.ldexp(unit[k], change)
            mean[k] = math.ldexp(mean[k], change)
            spread[k] = math.ldexp(spread[k], 2 * change)


@kernel
def standardise(rows, counted, centred, limit, count, mean, spread, unit, shift, inverse, out):
    """Standardise rows up to one for which new units are due; how many they are.

    That row is counted already; ``counted`` says so of the first one given. ``mean``
    and ``spread``, the sum of squares around it, are those of a column times its ``unit``.
    """
    # One version of each loop at all addresses: others would round differently.
    rows, out, mean, spread = unshared(rows), unshared(out), unshared(mean), unshared(spread)
    unit, shift, inverse = unshared(unit), unshared(shift), unshared(inverse)
    for i in range(rows.shape[0]):
        new = 0 if i == 0 and counted else 1
        count[0] += new
        share = new / count[0] if centred else 0.0
        far = 0
        for k in range(rows.shape[1]):
            standard = (float(rows[i, k]) - shift[k]) * inverse[k]
            far += abs(standard) > limit
            out[i, k] = standard
        due = far > 0 or count[0] & (count[0] - 1) == 0
        if due:  # others are not much larger than those whose squares are in the sum
            fit_units(rows[i], mean, spread, unit)
        for k in range(rows.shape[1]):
            value = float(rows[i, k]) * unit[k]
            delta = value - mean[k]
            center = mean[k] + share * delta
            mean[k] = center
            spread[k] += new * delta * (value - center)
        if due and new > 0:
            return i
    return rows.shape[0]
