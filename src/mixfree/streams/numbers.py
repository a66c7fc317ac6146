"""Numbers as files have them: stored as such, or written in text."""

from typing import Any

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require

__all__ = ["MARKS", "doubles", "is_text", "label_of", "numbers_in", "texts_in", "without_views"]

# What stands for a missing number in files; as a text it may well be a category.
MARKS = (
    *("?", "-", "--", "---", ".", "..", "*", "none", "missing", "unknown", "nil", "(null)"),
    *("null", "na", "n/a", "n.a.", "nan", "nat", "#n/a", "#div/0!", "#value!", "#ref!", "\\n"),
)
# A sign of a currency before or after a number, or one of per cent after it, goes.
_SIGNS = r"^([+-]?)[$€£¥] ?|[ \x{a0}\x{202f}]?[%$€£¥]$"
_GROUPED = r"^[+-]?\d{1,3}(?:[ '’\x{a0}\x{2009}\x{202f}]\d{3})+(?:[.,]\d*)?$"
_GROUPS = r"[ '’\x{a0}\x{2009}\x{202f}]"
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?$|^(?i:[+-]?inf(?:inity)?)$"
_THOUSANDS = r"^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?$"
_WITH_COMMA = r"^[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d*)?(?:[eE][+-]?\d{1,3})?$"


def is_text(arrow_type: Any) -> bool:
    """Whether values of a type are texts."""
    types = require("pyarrow").types
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type))


def without_views(values: Any) -> Any:
    """The same values with texts, or a dictionary of texts, as strings of Arrow.

    Polars hands over views of strings, for which much of PyArrow is not implemented.

    Examples
    --------
    >>> import pyarrow
    >>> without_views(pyarrow.array(["a"], pyarrow.string_view())).type
    DataType(string)
    """
    pyarrow = require("pyarrow")
    if pyarrow.types.is_dictionary(values.type):
        if not pyarrow.types.is_string_view(values.type.value_type):
            return values
        words = values.dictionary.cast(pyarrow.string())
        return pyarrow.DictionaryArray.from_arrays(values.indices, words)
    return values.cast(pyarrow.string()) if pyarrow.types.is_string_view(values.type) else values


def numbers_in(values: Any, form: str = "point") -> Any:
    """The values as doubles; null where one is missing or is not a number.

    Examples
    --------
    >>> import pyarrow
    >>> numbers_in(pyarrow.array(["1.5", " 2 ", "1,234.5", "error"])).to_pylist()
    [1.5, 2.0, 1234.5, None]
    >>> numbers_in(pyarrow.array(["1,5", "1.234,5", "1 234,5"]), "comma").to_pylist()
    [1.5, 1234.5, 1234.5]
    >>> numbers_in(pyarrow.array(["-$1,234.50", "12.5 %", "1'234"])).to_pylist()
    [-1234.5, 12.5, 1234.0]
    """
    pyarrow, compute = require("pyarrow"), require("pyarrow.compute")
    if not is_text(values.type):
        double = pyarrow.float64()
        return values if values.type == double else values.cast(double, safe=False)
    if form == "point":
        try:
            return values.cast(pyarrow.float64())
        except pyarrow.ArrowInvalid:
            pass  # some are not written as a program would write them
    texts = compute.utf8_trim_whitespace(values)
    texts = compute.replace_substring_regex(texts, _SIGNS, r"\1")
    grouped = compute.match_substring_regex(texts, _GROUPED)
    whole = compute.replace_substring_regex(texts, _GROUPS, "")
    texts = compute.if_else(grouped, whole, texts)
    if form == "comma":
        written = compute.match_substring_regex(texts, _WITH_COMMA)
        texts = compute.replace_substring(texts, ".", "")
        texts = compute.replace_substring(texts, ",", ".")
    else:
        grouped = compute.match_substring_regex(texts, _THOUSANDS)
        texts = compute.if_else(grouped, compute.replace_substring(texts, ",", ""), texts)
        written = compute.match_substring_regex(texts, _NUMBER)
    return compute.if_else(written, texts, None).cast(pyarrow.float64())


def texts_in(values: Any) -> Any:
    """The values as texts: a whole number without decimals, a boolean as true or false.

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
    """A number as the name of a class; None for NaN.

    Examples
    --------
    >>> label_of(3.0), label_of(0.5)
    ('3', '0.5')
    """
    if value != value:
        return None
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def doubles(values: Any) -> Array:
    """Doubles of :func:`numbers_in` with NaN for what is missing."""
    found: Array = values.to_numpy(zero_copy_only=False)
    return found
