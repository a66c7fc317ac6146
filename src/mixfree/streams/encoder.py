"""Batches of columns to rows of numbers, with every missing value accounted for."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.linear.classes import targets_at
from mixfree.streams.columns import Column
from mixfree.streams.source import Piece

__all__ = ["POLICIES", "Encoder", "located"]

POLICIES = ("error", "skip", "mean")


class Encoder:
    """Turns batches into a matrix of features and a vector of targets.

    Parameters
    ----------
    columns
        What to learn from.
    target
        Name of the target column.
    classes
        Labels of a classification, sorted; None for a regression.
    missing
        ``"error"`` refuses missing values, ``"skip"`` leaves out rows that have one, ``"mean"``
        fills in the mean of the column's earlier values. Both leave out rows without a target.

    Attributes
    ----------
    left_out
        Rows left out, counted by reason.
    unknown
        Values that are none of a column's categories, counted by column.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        target: str,
        classes: Sequence[str] | None = None,
        missing: str = "error",
    ) -> None:
        self.columns, self.target = list(columns), target
        self.classes = None if classes is None else list(classes)
        self.missing = missing
        self.features = [name for column in columns for name in column.features]
        self._column_of = [column.name for column in columns for _ in column.features]
        self.left_out: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self._sums = np.zeros((2, len(self.features)))  # of the values, and their number

    @property
    def types(self) -> dict[str, Any]:
        """The pyarrow type to read each column as."""
        pyarrow = require("pyarrow")
        target = pyarrow.float64() if self.classes is None else pyarrow.string()
        return {**self.feature_types, self.target: target}

    @property
    def feature_types(self) -> dict[str, Any]:
        """The same without the target."""
        return {column.name: column.type for column in self.columns}

    def encode(self, piece: Piece) -> tuple[Array, Array]:
        """Features and targets of the rows that can be used."""
        rows = self._matrix(piece)
        targets, known = self._targets(piece)
        if not known.all():
            self._check_allowed(piece, int(known.argmin()), self.target)
            self._leave_out(self.target, int((~known).sum()))
            rows, targets = rows[known], targets[known]
        # A finite sum says that everything is finite, and one sum is cheap.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(rows.sum()))
        if self.missing != "mean" and finite:
            return rows, targets
        gaps = self._gaps(piece, rows, np.flatnonzero(known))
        if self.missing == "mean":
            return self._filled(rows, gaps), targets
        incomplete = gaps.any(axis=1)
        for place in gaps[incomplete].argmax(axis=1):
            self._leave_out(self._column_of[place], 1)
        return rows[~incomplete], targets[~incomplete]

    def encode_for_prediction(self, piece: Piece) -> tuple[Array, Array]:
        """Features of all rows, and which of them can be predicted."""
        rows = self._matrix(piece)
        gaps = self._gaps(piece, rows, np.arange(len(rows)))
        if self.missing == "mean":
            values, counts = self._sums
            rows = np.where(gaps, values / np.maximum(counts, 1.0), rows)
            return rows, np.ones(len(rows), bool)
        usable: Array = np.logical_not(gaps.any(axis=1))
        return np.where(gaps, 0.0, rows), usable

    def check_sizes(self, piece: Piece, largest: float) -> None:
        """ValueError that names the first value, or target, above a size."""
        rows = self._matrix(piece)
        names = self._column_of
        if self.classes is None:
            rows = np.column_stack([rows, self._targets(piece)[0]])
            names = [*names, self.target]
        for row, place in np.argwhere(np.abs(rows) > largest)[:1]:
            what = f"is {rows[row, place]:.3g}: values must be at most {largest:.3g} in size"
            raise ValueError(located(piece, int(row), what, names[place]))

    def set_missing(self, missing: str, rows: Array) -> None:
        """Change the policy; if no means were kept so far, take those of ``rows``."""
        self.missing = missing
        if not self._sums[1].any():
            self._sums = np.array([rows.sum(axis=0), np.full(len(self.features), len(rows))])

    def label(self, target: float) -> str:
        """A target as the data has it.

        Examples
        --------
        >>> Encoder([], "sky", ["rain", "sun"]).label(-1.0)
        'rain'
        """
        if self.classes is None:
            return str(target)
        places = np.arange(len(self.classes))
        return self.classes[int(targets_at(places, len(places)).searchsorted(target))]

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values and arrays."""
        return {
            "columns": [[c.name, c.kind, list(c.categories)] for c in self.columns],
            "target": self.target,
            "classes": self.classes,
            "missing": self.missing,
            "left_out": dict(self.left_out),
            "unknown": dict(self.unknown),
            "sums": self._sums.copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Encoder":
        """The encoder that gave ``state``."""
        columns = [Column(name, kind, tuple(texts)) for name, kind, texts in state["columns"]]
        encoder = cls(columns, state["target"], state["classes"], state["missing"])
        encoder.left_out.update(state["left_out"])
        encoder.unknown.update(state["unknown"])
        encoder._sums = state["sums"]
        return encoder

    def _matrix(self, piece: Piece) -> Array:
        """All features; a missing value is NaN."""
        batch = piece.batch.select([column.name for column in self.columns])
        if all(column.kind == "number" for column in self.columns):
            rows: Array = batch.to_tensor(null_to_nan=True, row_major=True).to_numpy()
            return rows
        rows, at = np.zeros((batch.num_rows, len(self.features))), 0
        for column, values in zip(self.columns, batch.columns, strict=True):
            width = len(column.features)
            if column.kind == "category":
                self._one_hot(column, values, rows[:, at : at + width])
            else:
                rows[:, at] = values.cast(require("pyarrow").float64()).to_numpy(False)
            at += width
        return rows

    def _one_hot(self, column: Column, values: Any, out: Array) -> None:
        places = _places(values, column.categories)
        missing = values.is_null().to_numpy(False)
        unknown = int(((places < 0) & ~missing).sum())
        if unknown:
            self.unknown[column.name] += unknown
        where = np.flatnonzero(places >= 0)
        out[where, places[where]] = 1.0
        out[missing] = np.nan

    def _targets(self, piece: Piece) -> tuple[Array, Array]:
        """Targets as the loss takes them, and which rows have one."""
        values = piece.batch.column(self.target)
        if self.classes is None:
            targets = values.to_numpy(zero_copy_only=False)
            infinite = np.isinf(targets)
            if infinite.any():
                row = int(infinite.argmax())
                raise ValueError(located(piece, row, "is infinite", self.target))
            return targets, ~np.isnan(targets)
        places = _places(values, self.classes)
        known = ~values.is_null().to_numpy(False)
        new = known & (places < 0)
        if new.any():
            row = int(new.argmax())
            raise ValueError(
                located(piece, row, f"has the unknown class {values[row].as_py()!r}", self.target)
                + f"; the classes are {', '.join(self.classes)}: give all of them as `classes`"
            )
        return targets_at(places, len(self.classes)), known

    def _gaps(self, piece: Piece, rows: Array, numbers: Array) -> Array:
        """Where values are missing; ``numbers`` are the rows' places in the batch.

        Infinite values are always refused, missing ones if the policy says so.
        """
        infinite = np.isinf(rows)
        if infinite.any():
            row, place = np.argwhere(infinite)[0]
            where = int(numbers[row]), "is infinite", self._column_of[place]
            raise ValueError(located(piece, *where))
        gaps: Array = np.isnan(rows)
        if gaps.any():
            row, place = np.argwhere(gaps)[0]
            self._check_allowed(piece, int(numbers[row]), self._column_of[place])
        return gaps

    def _check_allowed(self, piece: Piece, row: int, column: str) -> None:
        if self.missing == "error":
            raise ValueError(
                located(piece, row, "is missing", column)
                + "; `missing='skip'` leaves out such rows, `missing='mean'` fills in the mean"
            )

    def _leave_out(self, column: str, rows: int) -> None:
        self.left_out[f"{column!r} is missing"] += rows

    def _filled(self, rows: Array, gaps: Array) -> Array:
        """Fill each gap with the mean of the earlier values of its column."""
        values = np.add.accumulate(np.vstack([self._sums[0], np.where(gaps, 0.0, rows)]))
        counts = np.add.accumulate(np.vstack([self._sums[1], ~gaps]))
        self._sums = np.array([values[-1], counts[-1]])
        return np.where(gaps, values[:-1] / np.maximum(counts[:-1], 1.0), rows)


def _places(values: Any, texts: Sequence[str]) -> Array:
    """Where each value is among the texts; −1 for a missing or an unknown one."""
    pyarrow = require("pyarrow")
    known = pyarrow.array(texts, pyarrow.string())
    found: Array = require("pyarrow.compute").index_in(values, known).fill_null(-1).to_numpy()
    return found


def located(piece: Piece, row: int, what: str, column: str | None = None) -> str:
    """What is wrong with a row of a batch, or with one of its values, and where that is."""
    value = "" if column is None else f"column {column!r} "
    return f"{piece.file}, row {piece.start + row + 1}, {value}{what}"
