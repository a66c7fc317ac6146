"""Products of rows that decay exponentially, for several half-lives at once."""

import bisect
import itertools
from typing import Any, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.state import State, shallow
from mixfree.linear.exact.mapping import ColumnMap
from mixfree.linear.exact.sums import Sums, not_negative

MAX_BLOCK = 1 << 13  # rows per block
BLOCKS_PER_HALF_LIFE = 8  # of a long half-life; nothing is forgotten within a block
LEVELS = 3  # levels of sums of 2, 4 and 8 blocks, by which long half-lives are updated
ARRAYS = ("products", "partial", "origin")


class DecayedProducts(State):
    """Products of (1, columns, target), in which a row's weight halves per half-life.

    They are about an origin. Those of a half-life end at the last multiple of 2^level blocks.
    Later blocks are in partial sums: of 2^k blocks if bit k of their number is set.

    Parameters
    ----------
    size
        Number of columns plus 2.
    half_lives
        In rows, in increasing order; infinite where nothing is forgotten.
    block
        Rows per block, within which nothing is forgotten.

    Examples
    --------
    >>> decayed = DecayedProducts(3, np.array([4.0, np.inf]), block=4)
    >>> for _ in range(2):
    ...     decayed.add(decayed.grams(np.ones((4, 1)), np.ones((4, 1)), None)[0], 4)
    >>> [float(decayed.whole(h)[0, 0]) for h in (0, 1)]     # total weights: 4/2 + 4, and 8
    [6.0, 8.0]
    """

    def __init__(self, size: int, half_lives: Array, block: int) -> None:
        self.half_lives, self.block, self.rows = half_lives, block, 0
        self._levels = [
            next(k for k in range(LEVELS, -1, -1) if k == 0 or block << k <= within)
            for within in half_lives / BLOCKS_PER_HALF_LIFE
        ]
        ends = [bisect.bisect(self._levels, k) for k in range(-1, LEVELS + 1)]
        self._turns = [slice(*each) for each in itertools.pairwise(ends)]  # half-lives by level
        self._decays = [
            0.5 ** ((block << level) / half_lives[turn])[:, None, None]
            for level, turn in enumerate(self._turns)
        ]
        self.products = np.zeros((len(half_lives), size, size))
        self.partial = np.zeros((LEVELS, size, size))
        self.origin = np.zeros(size)
        self.moved = 0  # number of rows when the origin was chosen

    def grams(self, rows: Array, targets: Array, weights: Array | None) -> Array:
        """Return the products of each block about the origin."""
        z = np.empty((len(rows), len(self.origin)))
        z[:, 0], z[:, 1:-1], z[:, -1:] = 1.0, rows, targets
        z -= self.origin
        if weights is not None:
            z *= np.sqrt(weights)[:, None]
        blocks = z.reshape(max(len(z) // self.block, 1), -1, z.shape[1])
        grams: Array = blocks.swapaxes(1, 2) @ blocks
        return grams

    def add(self, gram: Array, rows: int) -> None:
        """Add a block's products to the half-lives that are due for an update."""
        number = -(-self.rows // self.block)  # number of this block
        self.rows += rows
        for level, turn in enumerate(self._turns):
            if turn.start < turn.stop:
                due = self.products[turn]
                due *= self._decay(level, self.rows - (number >> level << level) * self.block)
                due += gram
            if level < LEVELS:
                if not number >> level & 1:
                    self.partial[level] = gram
                    break
                gram = self.partial[level] + gram

    def _decay(self, level: int, since: int) -> Array:
        """Return the factors of a level's half-lives after ``since`` rows."""
        found: Array = self._decays[level]
        if since != self.block << level:
            found = 0.5 ** (since / self.half_lives[self._turns[level]])[:, None, None]
        return found

    def whole(self, h: int) -> Array:
        """Return the products of a half-life, with all rows so far."""
        number = -(-self.rows // self.block)
        missing = number % (1 << self._levels[h])
        if not missing:
            return np.asarray(self.products[h])
        since = max(self.rows - (number - missing) * self.block, 0)
        found: Array = self.products[h] * 0.5 ** (since / float(self.half_lives[h]))
        for level in range(self._levels[h]):
            if missing >> level & 1:
                found += self.partial[level]
        return found

    def sums(self, h: int) -> Sums:
        """Return the sums of a half-life about their mean."""
        products, columns = self.whole(h), len(self.origin) - 2
        weight = products[0, 0]
        mean = products[0, 1:] / max(float(weight), 1e-300)
        centred = not_negative(products[1:, 1:] - weight * mean[:, None] * mean)
        scatter, cross = centred[:columns, :columns].copy(), centred[:columns, columns:].copy()
        squares = centred.diagonal()[columns:].copy()
        mean = self.origin[1:] + mean
        return Sums(self.rows, np.array(weight), mean, scatter, cross, squares)

    def move(self, rows: Array, targets: Array, centred: bool) -> Array:
        """Choose a block's mean as origin if ``centred``; return the step by which rows z move."""
        both = np.concatenate([rows, targets], axis=1)
        origin = np.zeros(len(self.origin))
        if centred:
            origin[1:] = both[0] + (both - both[0]).mean(axis=0)
        products = np.concatenate([self.products, self.partial])
        step = self.origin - origin  # column 0 of z is 1
        products += products[:, :, :1] * step
        products += step[:, None] * products[:, :1, :]
        self.products, self.partial = np.split(products, [len(self.products)])
        self.origin, self.moved = origin, self.rows
        return step

    def mapped(self, change: ColumnMap) -> Self:
        """Return the products of the same rows for a map of (1, columns, target)."""
        twin = type(self)(change.after, self.half_lives, self.block)
        twin.products, twin.partial = map(change.products, (self.products, self.partial))
        twin.origin, twin.rows, twin.moved = change.rows(self.origin), self.rows, self.moved
        return twin

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = shallow(self)
        vars(twin).update({name: getattr(self, name).copy() for name in ARRAYS})
        return twin

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The attributes to save."""
        return "block", "rows", "moved", *ARRAYS

    def restored(self, plain: Any, what: str) -> Self:
        """Return the products from which ``plain`` was made; blocks may be longer or shorter."""
        block = check_whole(plain["block"], "block of the state", most=MAX_BLOCK)
        found = type(self)(len(self.origin), self.half_lives, block)
        return State.restored(found, plain, what)

    def check(self, what: str) -> None:
        """Numbers of rows are not negative."""
        if min(self.rows, self.moved) < 0:
            raise ValueError(f"state of the {what} does not fit: {self.rows} rows")
