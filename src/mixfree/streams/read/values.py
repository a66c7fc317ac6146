"""Numbers and texts of files, from stored values or from text."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require

# Texts that denote a missing number in a column of numbers; elsewhere they may be categories.
MARKS = (
    *("?", "-", "--", "---", ".", "..", "*", "none", "missing", "unknown", "nil", "(null)"),
    *("null", "na", "n/a", "n.a.", "nan", "nat", "#n/a", "#div/0!", "#value!", "#ref!", "\\n"),
)
# A currency sign before or after a number, or a per cent sign after it, is removed.
_SIGNS = r"^([+-]?)[$€£¥] ?|[ \x{a0}\x{202f}]?[%$€£¥]$"
_BLANKS = r" '’\x{a0}\x{2009}\x{202f}"  # between groups of three digits


def is_text(arrow_type: Any) -> bool:
    """Whether values of a type are texts."""
    types = require("pyarrow").types
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type))


def is_mark(texts: Any) -> Any:
    """Whether texts denote a missing number."""
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    lower = compute.utf8_lower(compute.utf8_trim_whitespace(texts))
    return compute.is_in(lower, pyarrow.array(["", *MARKS]))


def decoded(values: Any) -> Any:
    """Decode dictionaries, and convert the string views that Polars exports to strings."""
    pyarrow = require("pyarrow")
    if pyarrow.types.is_dictionary(values.type):
        return decoded(values.dictionary).take(values.indices)
    return values.cast(pyarrow.string()) if pyarrow.types.is_string_view(values.type) else values


def flat(table: Any) -> Any:
    """Flatten the structs of a table; the fields of ``wind`` become ``wind.speed`` and others."""
    while any(map(require("pyarrow").types.is_struct, table.schema.types)):
        table = table.flatten()
    return table


def numbers_in(values: Any, form: str = "point") -> Any:
    """Return the values as doubles, null where missing or not a number.

    Examples
    --------
    >>> import pyarrow
    >>> numbers_in(pyarrow.array(["1.5", " 2 ", "1,234.5", "error"])).to_pylist()
    [1.5, 2.0, 1234.5, None]
    >>> numbers_in(pyarrow.array(["1,5", "1.234,5", "1 234,5"]), "comma").to_pylist()
    [1.5, 1234.5, 1234.5]
    >>> numbers_in(pyarrow.array(["-$1,234.50", "12.5 %", "1'234", "(5)"])).to_pylist()
    [-1234.5, 12.5, 1234.0, None]
    """
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    if not is_text(values.type):
        return values.cast(pyarrow.float64(), safe=False)
    if form == "point":
        try:
            return values.cast(pyarrow.float64())
        except pyarrow.ArrowInvalid:
            pass  # some texts need the more general parsing below
    point, comma = ".," if form == "point" else ",."
    texts = compute.utf8_trim_whitespace(values)
    texts = compute.replace_substring_regex(texts, _SIGNS, r"\1")
    groups = f"[{comma}{_BLANKS}]"
    grouped = compute.match_substring_regex(
        texts, rf"^[+-]?\d{{1,3}}(?:{groups}\d{{3}})+(?:[{point}]\d*)?$"
    )
    whole = compute.replace_substring_regex(texts, groups, "")
    texts = compute.if_else(grouped, whole, texts)
    number = rf"(?:\d+[{point}]?\d*|[{point}]\d+)(?:e[+-]?\d{{1,3}})?|inf(?:inity)?"
    written = compute.match_substring_regex(texts, f"^[+-]?(?:{number})$", ignore_case=True)
    texts = compute.replace_substring(texts, point, ".")
    return compute.if_else(written, texts, None).cast(pyarrow.float64())


def texts_in(values: Any) -> Any:
    """Return the values as texts: whole numbers without decimals, booleans as true or false.

    Examples
    --------
    >>> import pyarrow
    >>> texts_in(pyarrow.array([1.0, 2.5, None])).to_pylist()
    ['1', '2.5', None]
    """
    pyarrow = require("pyarrow")
    types = pyarrow.types
    if is_text(values.type):
        return values
    if types.is_floating(values.type) or types.is_decimal(values.type):
        different = values.cast(pyarrow.float64(), safe=False).dictionary_encode()
        labels = [label_of(value) for value in different.dictionary.to_pylist()]
        return pyarrow.array(labels, pyarrow.string()).take(different.indices)
    return values.cast(pyarrow.string())


def label_of(value: float) -> str | None:
    """Return a number as the name of a class, such as 3 and 0.5; None for NaN."""
    if value != value:
        return None
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def doubles(values: Any) -> Array:
    """Return an array from :func:`numbers_in` as NumPy doubles, NaN where missing."""
    if not values.null_count:  # `to_numpy` imports pandas, which takes 0.2 s
        return np.from_dlpack(values)
    return np.asarray(values.to_numpy(zero_copy_only=False))
