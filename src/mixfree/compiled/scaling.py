"""The running scale's kernel: statistics of the columns and standardised rows, in one pass."""

from mixfree.compiled.jit import kernel


@kernel
def standardise(rows, counted, centred, limit, count, mean, spread, shift, scale, out):
    """Standardise rows up to one for which new units are due; how many they are.

    That row is counted already; ``counted`` says so of the first one given.
    """
    inverse = 1.0 / scale
    for i in range(rows.shape[0]):
        new = 0.0 if i == 0 and counted else 1.0
        count[0] += int(new)
        share = new / count[0] if centred else 0.0
        far = 0
        for k in range(rows.shape[1]):
            value = float(rows[i, k])
            delta = value - mean[k]
            center = mean[k] + share * delta
            mean[k] = center
            spread[k] += new * delta * (value - center)
            standard = (value - shift[k]) * inverse[k]
            far += abs(standard) > limit
            out[i, k] = standard
        if new > 0.0 and (far > 0 or count[0] & (count[0] - 1) == 0):
            return i
    return rows.shape[0]
