"""A small uniform sample of a stream that is never learnt from, to judge what is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.draws import COIN, HELD_OUT, Key, key, word, words
from mixfree.base.sample import UniformSample
from mixfree.base.state import State

SIZE = 1000  # samples held out at most
SHARE = 8  # one sample of so many may be held out, so that a short stream is not all held out


@dataclass(slots=True)
class HeldOut(State):
    """Holds out a uniform sample of every eighth sample or so, drawn by a coin.

    What the coin gives to a full sample that does not keep it is learnt from. What is kept for
    a while and then replaced is not: about 1,000 log(n/8,000) of n samples.

    Parameters
    ----------
    seed
        Of the coin and of the sample.

    Examples
    --------
    >>> judges = HeldOut.start(seed=0)
    >>> learnt = judges.split([np.arange(10_000)])
    >>> int((~learnt).sum()), judges.sample.filled
    (1201, 1000)
    """

    sample: UniformSample
    seen: int = 0
    _key: Key = field(default=Key(0, 0), repr=False)

    @classmethod
    def start(cls, seed: int, size: int = SIZE) -> "HeldOut":
        """Nothing is held out yet."""
        return cls(UniformSample(size, seed, HELD_OUT), 0, key(seed, COIN))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """What changes."""
        return "sample", "seen"

    def check(self, what: str) -> None:
        """No more can be held out than were seen."""
        if self.seen < self.sample.seen:
            raise ValueError(f"state of the {what} does not fit: {self.seen} samples were seen")

    def split(self, columns: Sequence[Array]) -> Array:
        """Hold out some of the next samples, one entry each per column; which of them to learn."""
        count = len(columns[0])
        chosen = np.flatnonzero(self._coin(count))
        places, slots = self.sample.place(chosen.size)
        held = chosen[places]
        self.sample.store(columns, held, slots)
        learnt = np.ones(count, bool)
        learnt[held] = False
        return learnt

    def takes(self, sample: Any) -> bool:
        """Whether the next sample, of any kind, is held out."""
        self.seen += 1
        return word(self._key, self.seen - 1) < 2**32 // SHARE and self.sample.keep(sample)

    def _coin(self, count: int) -> Array:
        numbers = np.arange(self.seen, self.seen + count, dtype=np.uint64)
        self.seen += count
        found: Array = words(self._key, numbers) < np.uint32(2**32 // SHARE)
        return found
