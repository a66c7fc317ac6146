"""Columns of the data and their encoding as features."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import shown
from mixfree.base.extras import require
from mixfree.streams.columns import dates
from mixfree.streams.read.values import doubles, is_text, numbers_in, texts_in

__all__ = ["Boolean", "Category", "Column", "Number", "Time", "column_from_plain", "places"]


MOST_HASHED = 1 << 20  # most hashed features per column


@dataclass(frozen=True)
class Column(ABC):
    """A column of the data; there is one subclass per kind."""

    name: str
    kind: ClassVar[str] = ""

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return [self.name]

    @property
    def expected(self) -> str:
        """The values expected, in words."""
        return {"number": "a number", "boolean": "true or false"}.get(self.kind, "a text")

    @abstractmethod
    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features of values, NaN where missing; count hashed and unknown categories."""

    def plain(self) -> dict[str, Any]:
        """Return all settings as plain values."""
        return {"kind": self.kind, **asdict(self)}

    def checked(self) -> Self:
        """Return the column itself; raise ValueError if a setting is invalid."""
        if not (isinstance(self.name, str) and self._is_valid()):
            raise ValueError(f"a column is invalid: {shown(self)}")
        return self

    def _is_valid(self) -> bool:
        return True


@dataclass(frozen=True)
class Number(Column):
    """A number; in texts, its decimal separator is ``form``, a point or a comma."""

    form: str = "point"
    kind = "number"

    def _is_valid(self) -> bool:
        return self.form in ("point", "comma")

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count hashed and unknown categories."""
        out[:, 0] = doubles(numbers_in(values, self.form))
        return {}


@dataclass(frozen=True)
class Boolean(Column):
    """True or false, as 1 and 0."""

    kind = "boolean"

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count hashed and unknown categories."""
        out[:, 0] = doubles(truths_in(values))
        return {}


@dataclass(frozen=True)
class Category(Column):
    """A text: 1 in the feature of its category, or in the one chosen by its hash.

    Attributes
    ----------
    categories
        Texts with a feature of their own.
    hashed
        Number of features into which all other texts are hashed; if 0, they are all zeros.
    """

    categories: tuple[str, ...] = ()
    hashed: int = 0
    kind = "category"

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        own = [f"{self.name}={category}" for category in self.categories]
        return own + [f"{self.name}#{place}" for place in range(self.hashed)]

    def _is_valid(self) -> bool:
        texts = all(isinstance(text, str) for text in self.categories)
        different = len(set(self.categories)) == len(self.categories)
        return texts and different and type(self.hashed) is int and 0 <= self.hashed <= MOST_HASHED

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count hashed and unknown categories."""
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
    """A date: sines and cosines of its periodic parts, or the days since ``origin``."""

    form: str = "stored"
    parts: tuple[str, ...] = tuple(dates.PARTS)
    origin: float = 0.0
    kind = "time"

    @property
    def expected(self) -> str:
        """The values expected, in words."""
        return "a time of day" if dates.is_clock(self.form) else f"a date ({self.form})"

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return dates.feature_names(self.name, self.parts)

    def fill(self, values: Any, out: Array) -> dict[str, int]:
        """Write the features; count hashed and unknown categories."""
        out[:] = self.of_times(self.times(values))
        return {}

    def _is_valid(self) -> bool:
        parts = bool(self.parts) and set(self.parts) <= {*dates.PARTS, "days"}
        origin = type(self.origin) is float and abs(self.origin) < 1e9
        return isinstance(self.form, str) and dates.is_form(self.form) and parts and origin

    def times(self, values: Any) -> Array:
        """Return values as NumPy times, NaT where missing."""
        return dates.times_in(values, self.form)

    def of_times(self, times: Array) -> Array:
        """Return the features of times."""
        return dates.features_of(times, self.parts, self.origin)


_KINDS: dict[str, type[Column]] = {each.kind: each for each in (Number, Boolean, Category, Time)}


def column_from_plain(plain: Mapping[str, Any]) -> Column:
    """Rebuild a column from :meth:`Column.plain`.

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


def places(values: Any, texts: Sequence[str]) -> Array:
    """Return the index of each value among the texts, −1 where missing or unknown."""
    pyarrow = require("pyarrow")
    known = pyarrow.array(texts, pyarrow.string())
    if values.type != known.type:
        values = values.cast(known.type)
    found = require("pyarrow.compute").index_in(values, known).fill_null(-1)
    return np.array(found.to_numpy(zero_copy_only=False), dtype=np.int64)
