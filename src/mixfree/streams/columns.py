"""Which columns become which features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixfree.base.extras import require
from mixfree.streams.source import Piece, Source

__all__ = ["FIRST_ROWS", "Column", "choose", "kind_of", "values_in", "with_categories"]

FIRST_ROWS = 10_000  # rows in which categories and classes are looked for
MOST_CATEGORIES = 1000  # a text column with more is taken for a name or a time


@dataclass(frozen=True)
class Column:
    """A column of the data: a number, a boolean, or text with known categories."""

    name: str
    kind: str
    categories: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the features it becomes."""
        if self.kind != "category":
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]

    @property
    def type(self) -> Any:
        """The pyarrow type to read it as."""
        pyarrow = require("pyarrow")
        kinds = {"number": pyarrow.float64(), "boolean": pyarrow.bool_()}
        return kinds.get(self.kind, pyarrow.string())


def kind_of(arrow_type: Any) -> str | None:
    """``"number"``, ``"boolean"``, ``"category"``, or None for a type that cannot be a feature.

    Examples
    --------
    >>> import pyarrow
    >>> kind_of(pyarrow.int8()), kind_of(pyarrow.string()), kind_of(pyarrow.timestamp("s"))
    ('number', 'category', None)
    """
    types = require("pyarrow").types
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if types.is_boolean(arrow_type):
        return "boolean"
    if any(
        test(arrow_type)
        for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    ):
        return "number"
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return "category"
    return None


def choose(
    source: Source,
    target: str,
    features: Sequence[str],
    exclude: Sequence[str],
    categories: Mapping[str, Sequence[str]],
) -> tuple[list[Column], list[str]]:
    """Columns to learn from, and the names of those whose type cannot be a feature."""
    source.require_columns([target], "target column")
    source.require_columns([*features, *exclude, *categories], "column")
    if target in features:
        raise ValueError(f"the target {target!r} cannot be a feature")
    names = [name for name in features or source.schema.names if name not in {target, *exclude}]
    chosen, unused = [], []
    for name in names:
        kind = "category" if name in categories else kind_of(source.schema.field(name).type)
        if kind is not None:
            chosen.append(Column(name, kind, tuple(categories.get(name, ()))))
        elif features:
            raise ValueError(
                f"column {name!r} cannot be a feature: it has the type "
                f"{source.schema.field(name).type}"
            )
        else:
            unused.append(name)
    if not chosen:
        raise ValueError(f"there is no column to learn from besides the target {target!r}")
    return chosen, unused


def with_categories(columns: Sequence[Column], first: Sequence[Piece]) -> list[Column]:
    """The columns with the categories of the first rows, where none were given."""
    completed = []
    for column in columns:
        if column.kind == "category" and not column.categories:
            seen = values_in(first, column.name)
            if len(seen) > MOST_CATEGORIES:
                raise ValueError(
                    f"column {column.name!r} has more than {MOST_CATEGORIES:,} categories in the "
                    f"first {FIRST_ROWS:,} rows, such as {seen[0]!r}: if it is a name or a time, "
                    f"leave it out by `exclude={[column.name]!r}`; if not, give `categories`"
                )
            column = Column(column.name, column.kind, tuple(seen))
        completed.append(column)
    return completed


def values_in(pieces: Sequence[Piece], name: str) -> list[str]:
    """The different values of a text column, sorted."""
    found: set[str | None] = set()
    for piece in pieces:
        try:
            found.update(piece.batch.column(name).unique().to_pylist())
        except UnicodeDecodeError as error:
            raise ValueError(f"{piece.file}: column {name!r} is not in UTF-8") from error
    return sorted(text for text in found if text is not None)
