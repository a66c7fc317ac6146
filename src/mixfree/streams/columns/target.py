"""The target of a stream: numbers, or the classes that its values name."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.linear.classes import targets_at
from mixfree.streams.columns.column import Boolean, Column, Number, truths_in
from mixfree.streams.read.source import Piece
from mixfree.streams.read.values import decoded, doubles, label_of, numbers_in, texts_in


def class_names(values: Any, target: Column) -> list[str | None]:
    """Return the values of a target as names of classes, None where missing."""
    if isinstance(target, Boolean):
        pyarrow = require("pyarrow")
        return list(truths_in(values).cast(pyarrow.bool_()).cast(pyarrow.string()).to_pylist())
    if isinstance(target, Number):  # without PyArrow's conversion of lists, which imports pandas
        return [*map(label_of, doubles(numbers_in(values, target.form)).tolist())]
    return list(texts_in(values).to_pylist())


def label(target: float, classes: Sequence[str] | None) -> str:
    """Return a target as written in the data."""
    if classes is None:
        return str(label_of(target))
    at = np.arange(len(classes))
    return classes[int(targets_at(at, len(at)).searchsorted(target))]


def targets_in(piece: Piece, target: Column, classes: Sequence[str] | None) -> tuple[Array, Array]:
    """Return the targets in the form of the loss, and which rows have one."""
    values = piece.batch.column(target.name)
    if classes is None:
        form = target.form if isinstance(target, Number) else "point"
        targets = doubles(numbers_in(decoded(values), form))
        if Number(target.name).gaps(targets) is None:
            return targets, np.ones(len(targets), bool)
        for row in np.flatnonzero(np.isinf(targets))[:1]:
            raise ValueError(located(piece, int(row), "is infinite", target.name))
        return targets, ~np.isnan(targets)
    different, which = _encoded(values)
    names = class_names(different, target)
    at = {name: place for place, name in enumerate(classes)}
    places = np.array([*(at.get(str(name), -1) for name in names), -1])
    known = np.array([*(name is not None for name in names), False])
    new = known & (places < 0)
    if new.any() and (wrong := new[which]).any():
        row = int(wrong.argmax())
        unknown = f"has the unknown class {str(names[which[row]])[:40]!r}"
        regress = ", or `loss='squared'` to predict a number" * isinstance(target, Number)
        raise ValueError(
            located(piece, row, unknown, target.name)
            + f"; the classes are {', '.join(classes)}: give all of them as `classes`{regress}"
        )
    return targets_at(places, len(classes)).take(which), known.take(which)


def _encoded(values: Any) -> tuple[Any, Array]:
    """Return the different values, and the place of each value among them, or after them."""
    if values.type == require("pyarrow").float64() and not values.null_count and len(values):
        numbers = doubles(values)
        ends = np.array([numbers.min(), numbers.max()])
        upper = numbers == ends[1]
        if (upper | (numbers == ends[0])).all():  # in a fifth of the time
            firsts = [values.slice(int(place), 1) for place in (upper.argmin(), upper.argmax())]
            return require("pyarrow").concat_arrays(firsts), upper.view(np.int8)
    different = values.dictionary_encode()
    indices = different.indices.fill_null(len(different.dictionary))
    return different.dictionary, indices.to_numpy(zero_copy_only=False)


def shown_text(text: Any) -> str:
    """Return a text of the data, shortened, with control characters visible."""
    return repr(text.as_py()[:40])


def located(piece: Piece, row: int, what: str, column: str | None = None) -> str:
    """Prefix a message with the file, the row and the column that it is about."""
    value = "" if column is None else f"column {column!r} "
    return f"{piece.file}, row {piece.start + row + 1}, {value}{what}"
