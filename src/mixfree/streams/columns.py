"""Columns that are learnt from, and the features that each becomes."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.base.extras import require
from mixfree.streams import dates
from mixfree.streams.numbers import doubles, is_text, numbers_in, texts_in

__all__ = ["Boolean", "Category", "Column", "Number", "Time", "column_from_plain", "places"]


MOST_HASHED = 1 << 20  # columns that texts may share


@dataclass(frozen=True)
class Column(ABC):
    """A column of the data; each kind of column is a class of its own."""

    name: str
    kind: ClassVar[str] = ""

    @property
    def features(self) -> list[str]:
        """Names of the features it becomes."""
        return [self.name]

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        return {"number": "a number", "boolean": "true or false"}.get(self.kind, "a text")

    @abstractmethod
    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features of stored values, NaN for what is missing; count the odd ones."""

    def plain(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {"kind": self.kind, **asdict(self)}

    def checked(self) -> Self:
        """The column itself; ValueError if something in it is not as it must be."""
        self._require(isinstance(self.name, str))
        return self

    def _require(self, right: bool) -> None:
        if not right:
            raise ValueError(f"a column does not fit: {shown(self)}")


@dataclass(frozen=True)
class Number(Column):
    """A number; in a text, ``form`` says whether a point or a comma separates the decimals."""

    form: str = "point"
    kind = "number"

    def checked(self) -> Self:
        """The column itself; ValueError if something in it is not as it must be."""
        self._require(isinstance(self.name, str) and self.form in ("point", "comma"))
        return self

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count the odd values."""
        out[:, 0] = doubles(numbers_in(values, self.form))
        return {}


@dataclass(frozen=True)
class Boolean(Column):
    """True or false, as 1 and 0."""

    kind = "boolean"

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count the odd values."""
        out[:, 0] = doubles(truths_in(values))
        return {}


@dataclass(frozen=True)
class Category(Column):
    """A text: 1 in the column of its category, or in one that its hash chooses.

    Attributes
    ----------
    categories
        Texts that have a column of their own.
    hashed
        Number of columns that all other texts share; with none they are encoded as zeros.
    """

    categories: tuple[str, ...] = ()
    hashed: int = 0
    kind = "category"

    @property
    def features(self) -> list[str]:
        """Names of the features it becomes."""
        own = [f"{self.name}={category}" for category in self.categories]
        return own + [f"{self.name}#{place}" for place in range(self.hashed)]

    def checked(self) -> Self:
        """The column itself; ValueError if something in it is not as it must be."""
        self._require(all(isinstance(text, str) for text in (self.name, *self.categories)))
        self._require(len(set(self.categories)) == len(self.categories))
        self._require(type(self.hashed) is int and 0 <= self.hashed <= MOST_HASHED)
        return self

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count the odd values."""
        texts = texts_in(values).dictionary_encode()
        different, which = texts.dictionary, texts.indices.fill_null(0).to_numpy(False)
        missing = texts.is_null().to_numpy(False)
        place = places(different, self.categories)
        other = place < 0
        if self.hashed:
            own = len(self.categories)
            for at in np.flatnonzero(other).tolist():
                place[at] = own + zlib.crc32(different[at].as_buffer()) % self.hashed
        rows = np.arange(len(texts))[~missing]
        at = place[which[~missing]] if len(different) else which[:0]
        out[:] = 0.0
        out[rows[at >= 0], at[at >= 0]] = 1.0
        out[missing] = np.nan
        count = int(other[which[~missing]].sum()) if len(different) else 0
        return {"hashed" if self.hashed else "unknown": count} if count else {}


@dataclass(frozen=True)
class Time(Column):
    """A date: its parts that come again as sines and cosines, or the days since ``origin``."""

    form: str = "stored"
    parts: tuple[str, ...] = tuple(dates.PARTS)
    origin: float = 0.0
    kind = "time"

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        return "a time of day" if self.form == "clock" else f"a date ({self.form})"

    @property
    def features(self) -> list[str]:
        """Names of the features it becomes."""
        return dates.feature_names(self.name, self.parts)

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count the odd values."""
        out[:] = self.of_times(self.times(values))
        return {}

    def checked(self) -> Self:
        """The column itself; ValueError if something in it is not as it must be."""
        self._require(isinstance(self.name, str) and self.form in dates.FORMS)
        self._require(bool(self.parts) and set(self.parts) <= {*dates.PARTS, "days"})
        self._require(type(self.origin) is float and abs(self.origin) < 1e9)
        return self

    def times(self, values: Any) -> Array:
        """Stored values as NumPy's times; NaT for what is missing."""
        return dates.times_in(values, self.form)

    def of_times(self, times: Array) -> Array:
        """The features of times."""
        return dates.features_of(times, self.parts, self.origin)


_KINDS: dict[str, type[Column]] = {each.kind: each for each in (Number, Boolean, Category, Time)}


def column_from_plain(plain: Mapping[str, Any]) -> Column:
    """The column that gave the plain values.

    Examples
    --------
    >>> column_from_plain(Category("sky", ("sun", "rain"), 4).plain()).features[-1]
    'sky#3'
    """
    rest = dict(plain)
    for name in ("categories", "parts"):
        if name in rest:
            rest[name] = tuple(rest[name])
    return _KINDS[rest.pop("kind")](**rest).checked()


def truths_in(values: Any) -> Any:
    """The values as doubles 1 and 0; null where one is missing or is neither true nor false.

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


def places(values: Any, texts: Sequence[str]) -> Array:
    """Where each value is among the texts; −1 for a missing or an unknown one."""
    pyarrow = require("pyarrow")
    known = pyarrow.array(texts, pyarrow.string())
    if values.type != known.type:
        values = values.cast(known.type)
    found = require("pyarrow.compute").index_in(values, known).fill_null(-1)
    return np.array(found.to_numpy(zero_copy_only=False), dtype=np.int64)
