"""The running scale's kernel: statistics of the columns and standardised rows, in one pass."""

import math

from mixfree.compiled.jit import apart, kernel, unshared

_LARGE = 2.0**400  # sums of squares below this, in a column's unit, never overflow


@apart
def shrink_units(row, mean, spread, unit):
    """Keep squares far from overflow; a change of unit is a power of two, hence exact."""
    for k in range(row.size):
        size = abs(row[k] * unit[k] - mean[k])
        if size > _LARGE:
            factor = 0.5 ** math.frexp(size)[1]
            unit[k] *= factor
            mean[k] *= factor
            spread[k] = spread[k] * factor * factor


@kernel
def standardise(rows, counted, centred, limit, count, mean, spread, unit, shift, scale, out):
    """Standardise rows up to one for which new units are due; how many they are.

    That row is counted already; ``counted`` says so of the first one given. ``mean``
    and ``spread``, the sum of squares around it, are those of a column times its ``unit``.
    """
    # One version of each loop at all addresses: others would round differently.
    rows, out, mean, spread = unshared(rows), unshared(out), unshared(mean), unshared(spread)
    unit, shift, inverse = unshared(unit), unshared(shift), 1.0 / scale
    for i in range(rows.shape[0]):
        new = 0.0 if i == 0 and counted else 1.0
        count[0] += int(new)
        share = new / count[0] if centred else 0.0
        far = 0
        for k in range(rows.shape[1]):
            standard = (float(rows[i, k]) - shift[k]) * inverse[k]
            far += abs(standard) > limit
            out[i, k] = standard
        if far > 0:  # others are not much larger than those whose squares are in the sum
            shrink_units(rows[i], mean, spread, unit)
        for k in range(rows.shape[1]):
            value = float(rows[i, k]) * unit[k]
            delta = value - mean[k]
            center = mean[k] + share * delta
            mean[k] = center
            spread[k] += new * delta * (value - center)
        if new > 0.0 and (far > 0 or count[0] & (count[0] - 1) == 0):
            return i
    return rows.shape[0]
