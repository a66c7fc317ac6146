"""The running scale's kernel: statistics of the columns and standardised rows, in one pass."""

from mixfree.compiled.jit import kernel


@kernel
def standardise(rows, counted, centred, limit, count, mean, spread, low, high, shift, scale, out):
    """Twin of :meth:`mixfree.scaling.RunningScale.take`, row by row.

    Returns how many rows are in ``out`` before one that needs another scale; that row is
    counted. ``counted`` says that the first row already is.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        if i > 0 or not counted:
            count[0] += 1
            far = False
            for k in range(row.size):
                value = float(row[k])
                delta = value - mean[k]
                if centred:
                    mean[k] += delta / count[0]
                spread[k] += delta * (value - mean[k])
                low[k] = min(low[k], value)
                high[k] = max(high[k], value)
                far |= abs(value - shift[k]) > limit * scale[k]
            if far or count[0] & (count[0] - 1) == 0:
                return i
        for k in range(row.size):
            out[i, k] = (row[k] - shift[k]) / scale[k]
    return rows.shape[0]
