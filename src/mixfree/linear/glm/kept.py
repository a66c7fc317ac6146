"""The rows of a stream that are kept: all of a short one, and a uniform sample of a long one."""

import hashlib
from dataclasses import dataclass
from typing import Any

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_bytes, check_whole

MIN_ROWS = 64  # least rows of a sample
MIN_ROWS_PER_COLUMN = 3  # least rows per column: with fewer, kept rows could be fitted perfectly
PIECE_VALUES = 1 << 16  # values that are copied at a time
SPARE = 8  # one more row per SPARE rows is stored for a moment, before it replaces another


def rows_of(memory: int | str, columns: int, outputs: int) -> int:
    """Convert ``memory``, a number of rows or bytes such as "32MB", to a number of rows.

    Examples
    --------
    >>> rows_of(2048, 10, 1), rows_of("32MB", 96, 1)
    (2048, 35555)
    """
    least = max(MIN_ROWS, MIN_ROWS_PER_COLUMN * (columns + 1))
    each = 8 * (columns + outputs + 3) * (1 + 1 / SPARE)
    if not isinstance(memory, str):
        return check_whole(memory, "memory", least=least)
    rows = int(check_bytes(memory, "memory", "a number of rows or bytes") / each)
    if rows < least:
        raise ValueError(
            f"memory={memory!r} holds {rows:,} rows, but {columns:,} columns need {least:,}: "
            f"give memory='{-int(-least * each // 1e6)}MB'"
        )
    return rows


@dataclass(slots=True)
class Kept:
    """Rows with their targets, their weights, and their predictions at arrival."""

    rows: Array
    targets: Array
    weights: Array
    before: Array

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: Any) -> "Kept":
        """Return some of the rows: copies for an array of places, views for a slice."""
        return Kept(
            self.rows[places], self.targets[places], self.weights[places], self.before[places]
        )

    @property
    def pieces(self) -> "list[Kept]":
        """Views of a few rows each."""
        length = PIECE_VALUES // (self.rows.shape[1] + 1) or 1
        return [self.take(slice(start, start + length)) for start in range(0, len(self), length)]


def stream_seed(seed: int, kept: Kept) -> int:
    """Return a seed that two streams share only if they begin with the same rows.

    With a common seed, merging would keep rows with the same numbers from both streams.
    """
    found = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=8)
    for array in (kept.rows, kept.targets):
        found.update(array[:MIN_ROWS].astype("<f8").tobytes())
    return int.from_bytes(found.digest(), "little")
