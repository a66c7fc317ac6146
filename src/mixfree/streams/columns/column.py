"""Columns of the data: their raw features, and which of them the model uses.

Raw features are summed for all rows: the value of a number, one indicator per text, all cycles of a
date, and an indicator of gaps. They appear when they first occur, and were 0 in all rows before.
Which sums of them the model uses, and what fills a gap, is decided from what all rows have shown,
so that no order of the rows changes it.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole, shown
from mixfree.base.extras import require
from mixfree.streams.read.values import doubles, is_text, numbers_in

__all__ = [
    "GAP",
    "MIN_ROWS",
    "Boolean",
    "Column",
    "Counts",
    "Feature",
    "Number",
    "Undecided",
    "Use",
]

GAP = "missing"  # the raw feature that is 1 where a value is missing
MIN_ROWS = 2  # least rows of an indicator with a weight of its own: one row would only fit itself
MANY_GAPS = 10  # least rows with a gap, and without, for a weight of their own
FEW = 16  # least rows to recognise row numbers in a column
NEARLY = 0.05  # deviation from the moments of row numbers, if some rows are left out
MOST_NUMBERED = 1 << 40  # largest row number, whose squares can be summed exactly enough
_ROW_NAMES = re.compile(
    r"column 1|unnamed: 0|index|instant|no\.?|nr\.?|id|row.?(?:id|names?|num|number)?",
    re.IGNORECASE,
)
_CALENDAR = re.compile(r"(?:year|yr|month|mnth|day|hour|hr|minute|week|time)s?", re.IGNORECASE)

Counts = Callable[[str], float]  # the sum of a raw feature over all rows


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


class Column(ABC):
    """A column of the data and what its rows have shown; there is one subclass per kind.

    Attributes
    ----------
    keys
        Raw features, in the order of their appearance.
    places
        Their places among the raw features of all columns.
    forced
        Whether the user has named the column, so that it is used even if it identifies rows.
    """

    kind: ClassVar[str] = ""
    settings: ClassVar[tuple[str, ...]] = ("name", "forced")
    seen: ClassVar[tuple[str, ...]] = ()  # attributes that rows change

    def __init__(self, name: str, forced: bool = False) -> None:
        self.name, self.forced = name, forced
        self.keys: dict[str, int] = {}
        self.places = np.zeros(0, np.int64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the file that it is read from."""
        return (self.name,)

    @property
    def expected(self) -> str:
        """The values expected, in words."""
        return {"number": "a number", "boolean": "true or false"}.get(self.kind, "a text")

    @property
    def smooth(self) -> list[str]:
        """Raw features that are not indicators."""
        return []

    def values(self, batch: Any) -> Any:
        """Return the values of a batch."""
        return batch.column(self.name)

    @abstractmethod
    def parse(self, values: Any, grow: bool) -> Array:
        """Return one entry per value; with ``grow``, new texts become raw features."""

    @staticmethod
    def missing(entries: Array) -> Array:
        """Return which entries are missing."""
        return np.asarray(np.isnan(entries))

    def gaps(self, entries: Array) -> Array | None:
        """Return which entries are missing, None if there are none."""
        found = self.missing(entries)
        return found if found.any() else None

    @property
    def settled(self) -> bool:
        """Whether further rows have nothing to show."""
        return True

    def look(self, entries: Array) -> None:  # noqa: B027 - most kinds need not
        """Take note of all rows read."""

    def learn(self, entries: Array) -> None:  # noqa: B027
        """Take note of the rows to learn from."""

    @abstractmethod
    def write(self, entries: Array, gap: Array | None, out: Array) -> None:
        """Write the raw features of entries that are not missing to the matrix ``out`` of zeros."""

    @abstractmethod
    def use(self, counts: Counts, rows: int) -> Use:
        """Decide on the features, from the sums of the raw features over so many rows."""

    def merge(self, other: Self) -> None:  # noqa: B027
        """Take note of what another column of the same kind has seen; keys are merged before."""

    def add(self, key: str) -> None:
        """Add a raw feature unless it is there."""
        self.keys.setdefault(key, len(self.keys))

    def place(self, key: str) -> int:
        """Return the place of a raw feature, −1 if it has none."""
        at = self.keys.get(key, len(self.places))
        return int(self.places[at]) if at < len(self.places) else -1

    def first_rows(self, entries: Array, gap: Array | None) -> dict[str, int]:
        """Return the first row of each raw feature that has no place yet."""
        new = [key for key in self.smooth if self.place(key) < 0]
        found = {}
        if gap is not None and self.place(GAP) < 0 and gap.any():
            found[GAP] = int(gap.argmax())
        if new and len(entries) and (gap is None or not gap.all()):
            found |= dict.fromkeys(new, 0 if gap is None else int(gap.argmin()))
        return found

    def fresh(self, **settings: Any) -> Self:
        """Return a column with the same settings, or other ones, that has seen nothing."""
        return type(self)(**{name: getattr(self, name) for name in self.settings} | settings)

    def gap_feature(self, counts: Counts, rows: int) -> list[Feature]:
        """Return the indicator of gaps if they are many."""
        many = MANY_GAPS <= counts(GAP) <= rows - MANY_GAPS
        return [Feature(f"{self.name}: missing", {GAP: 1.0})] * many

    def plain(self) -> dict[str, Any]:
        """Return settings and state as plain values."""
        names = (*self.settings, *self.seen)
        found = {name: getattr(self, name) for name in names}
        return {"kind": self.kind, **found, "keys": list(self.keys), "places": self.places.copy()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Rebuild a column from :meth:`plain`; raise ValueError if it is invalid."""
        column = cls(**{name: plain[name] for name in cls.settings})
        for name in cls.seen:
            setattr(column, name, plain[name])
        column.keys = {key: at for at, key in enumerate(plain["keys"])}
        column.places = plain["places"].copy()
        texts = isinstance(column.name, str) and all(isinstance(key, str) for key in column.keys)
        known = column.places.ndim == 1 and len(column.places) <= len(column.keys)
        fits = known and len(column.keys) == len(plain["keys"])
        if not (texts and fits and column.places.dtype == np.int64 and column.is_valid()):
            raise ValueError(f"a column is invalid: {shown(column)}")
        return column

    def is_valid(self) -> bool:
        """Whether settings and state are possible."""
        return type(self.forced) is bool


class Number(Column):
    """A number; in texts, its decimal separator is ``form``, a point or a comma.

    Attributes
    ----------
    first, varied
        The first value, and whether there is another one.
    counted
        Number, least, greatest, sum and sum of squares of all values read, for row numbers; None
        once a value is not a whole number, or is missing.
    """

    kind = "number"
    settings = ("name", "forced", "form")
    seen = ("first", "varied", "counted")

    def __init__(self, name: str, forced: bool = False, form: str = "point") -> None:
        super().__init__(name, forced)
        self.form, self.first, self.varied = form, float("nan"), False
        self.counted: list[float] | None = None if _CALENDAR.fullmatch(name) else []
        self.add("value")

    def is_valid(self) -> bool:
        """Whether settings and state are possible."""
        counted = self.counted if self.counted is None else [float(each) for each in self.counted]
        whole = counted is None or len(counted) in (0, 5)
        right = self.form in ("point", "comma") and type(self.varied) is bool and whole
        return super().is_valid() and right and type(self.first) is float

    @property
    def smooth(self) -> list[str]:
        """Raw features that are not indicators."""
        return ["value"]

    def parse(self, values: Any, grow: bool) -> Array:
        """Return doubles, NaN where missing."""
        return doubles(numbers_in(values, self.form))

    def gaps(self, entries: Array) -> Array | None:
        """Return which entries are not finite; a sum takes less time than a test of each."""
        found = None if np.isfinite(entries.sum()) else ~np.isfinite(entries)
        return found if found is not None and found.any() else None

    @property
    def settled(self) -> bool:
        """Whether further rows have nothing to show."""
        return self.varied

    def look(self, entries: Array) -> None:
        """Sum whole numbers."""
        if self.counted is None or not len(entries):
            return
        few = entries[:FEW]
        if not ((few == np.floor(few)).all() and (entries == np.floor(entries)).all()):
            self.counted = None
            return
        low, high = float(entries.min()), float(entries.max())
        if max(-low, high) > MOST_NUMBERED:
            self.counted = None
            return
        squares = float((entries * entries).sum())
        self._count([len(entries), low, high, float(entries.sum()), squares])

    def _count(self, more: list[float]) -> None:
        if not self.counted:
            self.counted = list(more)
            return
        count, low, high, total, squares = more
        before = self.counted
        self.counted = [
            before[0] + count,
            min(before[1], low),
            max(before[2], high),
            before[3] + total,
            before[4] + squares,
        ]

    def learn(self, entries: Array) -> None:
        """Take note of whether values differ."""
        known = entries[~np.isnan(entries)]
        if len(known):
            self.first = float(known[0]) if self.first != self.first else self.first
            self.varied = bool((known != self.first).any())

    def write(self, entries: Array, gap: Array | None, out: Array) -> None:
        """Write the values."""
        place = self.place("value")
        if place >= 0:
            out[:, place] = entries if gap is None else np.where(gap, 0.0, entries)

    def use(self, counts: Counts, rows: int) -> Use:
        """Use the value unless it is constant or a row number, and the gaps if they are many."""
        features, gaps = self.gap_feature(counts, rows), counts(GAP)
        why = "empty" if gaps == rows else "" if self.varied else "constant"
        if not (why or self.forced) and self.is_row_number():
            why, features = "row numbers", []
        if not why:
            features = [Feature(self.name, {"value": 1.0}), *features]
        return Use(features, [GAP], why)

    def is_row_number(self) -> bool:
        """Whether the values are 1, …, n in any order, or nearly if the name says so."""
        if not self.counted or self.counted[0] < (3 if _ROW_NAMES.fullmatch(self.name) else FEW):
            return False
        count, low, high, total, squares = self.counted
        length, mean = high - low + 1.0, total / count
        spread, even = squares / count - mean**2, (length**2 - 1.0) / 12.0
        if length == count and abs(mean - (low + high) / 2.0) * count < 0.5:
            return abs(spread / even - 1.0) < 1e-6
        # Some rows may be left out, or numbers may begin again in every file.
        near = abs(mean - (low + high) / 2.0) < NEARLY * length and length > 2.0
        named = _ROW_NAMES.fullmatch(self.name) and count >= FEW and length >= NEARLY * count
        return bool(named and near and abs(spread / even - 1.0) < 2.0 * NEARLY)

    def merge(self, other: Self) -> None:
        """Join what both have seen."""
        if self.counted is None or other.counted is None:
            self.counted = None
        elif other.counted:
            self._count(other.counted)
        if other.first == other.first:
            differ = self.first == self.first and self.first != other.first
            self.first = other.first if self.first != self.first else self.first
            self.varied |= other.varied or differ


class Boolean(Number):
    """True or false, as 1 and 0."""

    kind = "boolean"

    def parse(self, values: Any, grow: bool) -> Array:
        """Return 1 and 0, NaN where missing or neither."""
        return doubles(truths_in(values))


class Undecided(Column):
    """A column without a value so far; its first value decides on its kind."""

    kind = "undecided"

    def become(self, column: Column) -> Column:
        """Give a column of another kind the gaps so far."""
        column.keys = dict.fromkeys([*self.keys, *column.keys], 0)
        column.keys = {key: at for at, key in enumerate(column.keys)}
        column.places = self.places.copy()
        return column

    def parse(self, values: Any, grow: bool) -> Array:
        """Return NaN."""
        return np.full(len(values), np.nan)

    def write(self, entries: Array, gap: Array | None, out: Array) -> None:
        """Write nothing."""

    def use(self, counts: Counts, rows: int) -> Use:
        """Leave it out."""
        return Use([], [GAP], "empty")


def truths_in(values: Any) -> Any:
    """Return the values as doubles 1 and 0, null where missing or neither true nor false.

    Examples
    --------
    >>> import pyarrow
    >>> truths_in(pyarrow.array(["True", "FALSE", "2"])).to_pylist()
    [1.0, 0.0, None]
    """
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    if is_text(values.type):
        texts = compute.utf8_lower(compute.utf8_trim_whitespace(values))
        true = compute.is_in(texts, pyarrow.array(["true", "1"]))
        false = compute.is_in(texts, pyarrow.array(["false", "0"]))
        values = compute.if_else(compute.or_(true, false), true, None)
    return values.cast(pyarrow.float64(), safe=False)


def count_of(value: Any) -> int:
    """Return a count of a state; raise ValueError unless it is one."""
    return check_whole(value, "a count of the state", least=0, most=2**63 - 1)
