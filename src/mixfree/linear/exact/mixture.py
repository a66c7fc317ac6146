"""The mixture of several predictors that would have predicted best."""

import numpy as np

from mixfree.base.arithmetic import Array

MAX_LOSS_RATIO = 1e6  # a predictor whose loss is this many times the least has no share


def least_combination(products: Array) -> Array:
    """Return the convex combination of errors with the least square, from their products.

    By an active set: it starts with the best error alone, and adds one error at a time that
    makes the square smaller.

    Examples
    --------
    >>> least_combination(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 2.0], [2.0, 2.0, 4.0]])).round(2)
    array([0.75, 0.25, 0.  ])
    """
    squares = products.diagonal()
    best = int(np.argmin(squares))
    shares, active = np.zeros(len(squares)), [best]
    shares[best] = 1.0
    least = float(squares[best])
    if not least > 0.0:
        return shares
    usable = squares < MAX_LOSS_RATIO * least
    scaled = np.where(usable & usable[:, None], products / least, 0.0)
    scaled[np.diag_indices_from(scaled)] = np.where(usable, squares / least, MAX_LOSS_RATIO) + 1e-6
    for _ in range(2 * len(squares)):
        slope = scaled @ shares
        new = int(np.argmin(slope))
        if new in active or slope[new] >= (1.0 - 1e-9) * float(shares @ slope):
            break
        active.append(new)
        while True:
            wanted = np.linalg.solve(scaled[np.ix_(active, active)], np.ones(len(active)))
            wanted /= wanted.sum()
            now = shares[active]
            if (wanted > 0.0).all():
                shares[active] = wanted
                break
            # Move towards it as far as shares stay positive; the first to reach 0 leaves.
            below = wanted <= 0.0
            steps = np.where(below, now / np.where(below, now - wanted, 1.0), 1.0)
            shares[active] = now + steps.min() * (wanted - now)
            gone = active.pop(int(np.argmin(steps)))
            shares[gone] = 0.0
    shares /= shares.sum()
    return shares
