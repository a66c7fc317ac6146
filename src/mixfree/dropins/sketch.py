"""A sketch: a short random projection of a long vector, with the same norm in expectation.

The same code works for NumPy, PyTorch and JAX: it slices, multiplies, reshapes and sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.draws import SKETCH, Key, key, word, words

SLIDES = 4096  # number of offsets at which a piece can start in the table of signs
# A model of at most so many times the sketch's size has exact totals: with a rate per coordinate,
# which deep networks need, and with a single rate.
EXACT, EXACT_SINGLE = 256, 16
ROWS = 256  # rows of ``size`` signs in the table of a small model


def is_exact(entries: int, sketch: int | None, per_coordinate: bool | None) -> bool:
    """Whether a model of so many entries has exact totals rather than those of a sketch.

    Examples
    --------
    >>> is_exact(256 * 1024, 1024, None), is_exact(256 * 1024 + 1, 1024, None)
    (True, False)
    """
    if per_coordinate or sketch is None:
        return True
    return entries <= (EXACT if per_coordinate is None else EXACT_SINGLE) * sketch


@dataclass(frozen=True)
class Sketch:
    r"""Signed sums of a vector's entries: :math:`s_b = \sum_{i \in b} \pm v_i`.

    Entry i of a tensor is added to bucket i modulo ``size``, with the piece's sign and a sign from
    a table of fair coins, in which each piece starts at its own offset. The sketch is linear, and
    E‖s‖² = ‖v‖² over the signs (CountSketch; Charikar et al. 2002). The standard deviation of
    ‖s‖² is √(2/size)·‖v‖², and up to √2 times that for a vector whose pieces are equal, since they
    share the table.

    Parameters
    ----------
    size
        Entries of the sketch.
    entries
        Entries of the whole vector, which determine the size of the table: ``256·size``, or a
        64th of the vector if that is larger.
    seed
        Seed of the signs.

    Examples
    --------
    >>> sketch = Sketch(size=4, entries=1000)
    >>> v, w = np.arange(6.0), np.ones(6)
    >>> s = sketch.of([v, w], np.concatenate)
    >>> np.array_equal(2.0 * s, sketch.of([2.0 * v, 2.0 * w], np.concatenate))
    True
    """

    size: int = 1024
    entries: int = 0
    seed: int = 0
    table: Array = field(init=False, repr=False, compare=False)
    piece: int = field(init=False, repr=False, compare=False)
    _key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_whole(self.size, "sketch")
        object.__setattr__(self, "_key", key(self.seed, SKETCH))
        piece = self.size * max(ROWS, -(-self.entries // (64 * self.size)))
        object.__setattr__(self, "piece", piece)  # entries of a tensor taken at once
        drawn = words(self._key, np.arange((piece + SLIDES + 31) // 32))
        bits = drawn.astype("<u4").view(np.uint8)
        table = np.unpackbits(bits)[: piece + SLIDES] * np.float32(2) - np.float32(1)
        object.__setattr__(self, "table", table)

    def of(
        self,
        tensors: Sequence[Any],
        concatenate: Callable[[list[Any]], Any],
        table: Any = None,
    ) -> Any:
        """Return the sketch of the concatenation of tensors.

        Parameters
        ----------
        tensors
            Arrays of any shape; the same number and order in every call.
        concatenate
            The library's function that concatenates vectors.
        table
            ``self.table`` as an array of that library.
        """
        table = self.table if table is None else table
        total: Any = 0
        tails, pieces = [], 0
        for tensor in tensors:
            flat = tensor.reshape(-1)
            tail = flat.shape[0] % self.size
            tails.append(flat[flat.shape[0] - tail :])
            total = total + self._rows(flat[: flat.shape[0] - tail], table, pieces, 1)
            pieces += -(-(flat.shape[0] - tail) // self.piece)
        # The remainders are concatenated, so that small tensors fill the buckets evenly.
        rest = concatenate(tails)
        rest = concatenate([rest, 0 * table[: -rest.shape[0] % self.size]])
        return total + self._rows(rest, table, -1, -1)

    def _rows(self, flat: Any, table: Any, number: int, stride: int) -> Any:
        """Sketch whole rows of ``size`` entries; pieces are numbered from ``number``.

        No two of the first ``size`` pieces start in the table at offsets that are equal modulo
        ``size``: a bucket would get the same signs from both.
        """
        total: Any = 0
        for start in range(0, flat.shape[0], self.piece):
            part = flat[start : start + self.piece]
            slide = number % SLIDES
            signed = part * table[slide : slide + part.shape[0]]
            total = total + _sign(self._key, number) * signed.reshape(-1, self.size).sum(0)
            number += stride
        return total


@lru_cache(maxsize=1 << 16)
def _sign(key: Key, number: int) -> int:
    # Counters from 2^63 on, since smaller ones made the table.
    return 1 - 2 * (word(key, (1 << 63) + number) & 1)
