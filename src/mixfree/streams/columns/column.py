"""Columns of the data: their raw features, and which of them the model uses.

Raw features are summed for all rows: the value of a number, one indicator per text, all cycles of a
date, and an indicator of gaps. They appear when they first occur, and were 0 in all rows before.
Which sums of them the model uses, and what fills a gap, is decided from what all rows have shown,
so that no order of the rows changes it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.state import State
from mixfree.streams.read.values import decoded, doubles, is_text, numbers_in

GAP = "missing"  # the raw feature that is 1 where a value is missing
MIN_ROWS = 2  # least rows of an indicator with a weight of its own: one row would only fit itself
MIN_GAPS = 10  # least rows with a gap, and without, for a weight of their own
MIN_NUMBERED = 16  # least rows to recognise row numbers in a column
MAX_DEVIATION = 0.05  # deviation from the moments of row numbers, if some rows are left out
MAX_NUMBERED = 1 << 40  # largest row number, whose squares can be summed exactly enough
BEYOND = 1e300  # least and greatest of no values are BEYOND and -BEYOND
_ROW_NAMES = re.compile(
    r"column 1|unnamed: 0|index|instant|no\.?|nr\.?|id|row.?(?:id|names?|num|number)?",
    re.IGNORECASE,
)
_CALENDAR = re.compile(r"(?:year|yr|month|mnth|day|hour|hr|minute|week|time)s?", re.IGNORECASE)

Counts = Counter[str]  # the sum of each raw feature over all rows


class Feature(NamedTuple):
    """A feature of the model: a sum of raw features of one column, with coefficients."""

    name: str
    of: Mapping[str, float]


class Use(NamedTuple):
    """How the model uses a column: its features, or why there are none, and in words.

    Where a raw feature of ``filled`` is 1, features have their mean over the other rows.
    """

    features: list[Feature]
    filled: list[str]
    why: str = ""
    note: str = ""


class Raw(NamedTuple):
    """Raw features of rows: numbers by name, and indicators.

    Indicators of which at most one is 1 are a list of their names and the place of that one in it
    per row, negative for none.
    """

    numbers: Mapping[str, Array]
    indicators: Sequence[tuple[Sequence[str], Array]] = ()


@dataclass(eq=False)
class Column(State):
    """A column of the data and what its rows have shown; there is one subclass per kind.

    A column without a value so far has no kind: its first value decides.
    """

    name: str
    forced: bool = False  # named by the user, so that it is used even if it identifies rows
    # The place of each raw feature among those of all columns, −1 as long as it has none.
    places: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    kind: ClassVar[str] = "undecided"
    expected: ClassVar[str] = "a text"  # the values expected, in words
    over = False  # whether there have been too many texts

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the file that it is read from."""
        return (self.name,)

    def values(self, batch: Any) -> Any:
        """Return the values of a batch."""
        return decoded(batch.column(self.name))

    def parse(self, values: Any, grow: bool) -> Array:
        """Return one entry per value; with ``grow``, new texts become raw features."""
        return np.full(len(values), np.nan)

    def gaps(self, entries: Array) -> Array | None:
        """Return which entries are missing, None if there are none."""
        found = np.isnan(entries)
        return found if found.any() else None

    def learn(self, entries: Array) -> None:
        """Take note of the rows to learn from."""

    def raw(self, entries: Array) -> Raw:
        """Return the raw features; those of missing entries do not matter."""
        return Raw({})

    def use(self, counts: Counts, rows: int, calendar: str) -> Use:
        """Decide on the features, from the sums of the raw features over so many rows.

        ``calendar`` is how hours and weekdays are used.
        """
        return Use([], [GAP], "empty")

    def merge(self, other: Self) -> None:
        """Take note of what another column of the same kind has seen; keys are merged before."""

    def place(self, key: str) -> int:
        """Return the place of a raw feature, −1 if it has none."""
        return self.places.get(key, -1)

    def moved(self, key: str) -> str | None:
        """Return the raw feature that one of before is part of now, None if it is left out."""
        return key

    def gap_feature(self, counts: Counts, rows: int) -> list[Feature]:
        """Return the indicator of gaps if they are many."""
        many = MIN_GAPS <= counts[GAP] <= rows - MIN_GAPS
        return [Feature(f"{self.name}: missing", {GAP: 1.0})] * many


@dataclass(eq=False)
class Number(Column):
    """A number."""

    form: str = "point"  # or comma: the decimal separator in texts
    whole: bool = field(default=True, init=False, repr=False)  # all values are whole numbers
    # Number, least, greatest, sum and sum of squares of the values; sums of whole numbers only.
    moments: Array = field(init=False, repr=False)

    kind = "number"
    expected = "a number"

    def __post_init__(self) -> None:
        self.places["value"] = -1
        self.moments = np.array([0.0, BEYOND, -BEYOND, 0.0, 0.0])

    def parse(self, values: Any, grow: bool) -> Array:
        """Return doubles, NaN where missing."""
        return doubles(numbers_in(values, self.form))

    @np.errstate(over="ignore", invalid="ignore")  # values that are too large are refused later
    def gaps(self, entries: Array) -> Array | None:
        """Return which entries are not finite; a sum takes less time than a test of each."""
        found = None if np.isfinite(entries.sum()) else ~np.isfinite(entries)
        return found if found is not None and found.any() else None

    @property
    def varied(self) -> bool:
        """Whether two values differ."""
        return bool(self.moments[2] > self.moments[1])

    def learn(self, entries: Array) -> None:
        """Take note of whether values differ, and sum whole numbers."""
        if self.varied and not self.whole:
            return
        gap = self.gaps(entries)
        known = entries if gap is None else entries[~gap]
        if len(known):
            low, high = known.min(), known.max()
            small = self.whole and max(-low, high) <= MAX_NUMBERED
            self.whole = bool(small and (known == np.floor(known)).all())
            sums = [known.sum(), known @ known] if self.whole else [0.0, 0.0]
            self._join(np.array([len(known), low, high, *sums]))

    def _join(self, more: Array) -> None:
        mine = self.moments
        ends = min(mine[1], more[1]), max(mine[2], more[2])
        self.moments = np.array([mine[0] + more[0], *ends, *(mine[3:] + more[3:])])

    def raw(self, entries: Array) -> Raw:
        """Return the values."""
        return Raw({"value": entries})

    def use(self, counts: Counts, rows: int, calendar: str) -> Use:
        """Use the value unless it is constant or a row number, and the gaps if they are many."""
        features = self.gap_feature(counts, rows)
        if not self.varied:
            return Use(features, [GAP], "empty" if counts[GAP] == rows else "constant")
        if not self.forced and self.is_row_number():
            return Use([], [GAP], "row numbers")
        return Use([Feature(self.name, {"value": 1.0}), *features], [GAP])

    def is_row_number(self) -> bool:
        """Whether the values are 1, …, n in any order, or nearly if the name says so."""
        count, low, high, total, squares = self.moments
        named = bool(_ROW_NAMES.fullmatch(self.name))
        few = count < (3 if named else MIN_NUMBERED)
        if few or not self.whole or _CALENDAR.fullmatch(self.name):
            return False
        length, mean = high - low + 1.0, total / count
        off = abs(mean - (low + high) / 2.0)
        spread = abs(12.0 * (squares / count - mean**2) / (length**2 - 1.0) - 1.0)
        if length == count and off * count < 0.5:
            return bool(spread < 1e-6)
        # Some rows may be left out, or numbers may begin again in every file.
        several = named and count >= MIN_NUMBERED and length >= max(MAX_DEVIATION * count, 3.0)
        return bool(several and max(off / length, spread / 2.0) < MAX_DEVIATION)

    def merge(self, other: Self) -> None:
        """Join what both have seen."""
        self.whole = self.whole and other.whole
        self._join(other.moments)


class Boolean(Number):
    """True or false, as 1 and 0."""

    kind = "boolean"
    expected = "true or false"

    def parse(self, values: Any, grow: bool) -> Array:
        """Return 1 and 0, NaN where missing or neither."""
        return doubles(truths_in(values))


def truths_in(values: Any) -> Any:
    """Return the values as doubles 1 and 0, null where missing or neither true nor false."""
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    if is_text(values.type):
        texts = compute.utf8_lower(compute.utf8_trim_whitespace(values))
        true = compute.is_in(texts, pyarrow.array(["true", "1"]))
        false = compute.is_in(texts, pyarrow.array(["false", "0"]))
        values = compute.if_else(compute.or_(true, false), true, None)
    return values.cast(pyarrow.float64(), safe=False)
