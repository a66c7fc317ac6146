"""Batches of columns to rows of numbers, with every value that is missing accounted for."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array, State
from mixfree.base.extras import require
from mixfree.streams.columns import Column
from mixfree.streams.source import Piece

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
        Labels of a classification, as text; None for a regression.
    missing
        ``"error"``; ``"skip"`` leaves out rows with a missing value; ``"mean"`` puts the mean of
        the column's values in the rows before in its place. A row without a target is left out
        by both.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        target: str,
        classes: Sequence[str] | None = None,
        missing: str = "error",
    ) -> None:
        self.columns, self.target = list(columns), target
        self.classes, self.missing = classes, missing
        self.features = [name for column in columns for name in column.features]
        self.left_out: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        self._sums = np.zeros((2, len(self.features)))  # of the values, and their count

    @property
    def types(self) -> dict[str, Any]:
        """What to read each column as."""
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
            self._refuse(piece, ~known, self.target)
            self.left_out[f"no value of {self.target!r}"] += int((~known).sum())
            rows, targets = rows[known], targets[known]
        # One sum says that all is finite; only if it does not, look closer.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(rows.sum()))
        if self.missing != "mean" and finite:
            return rows, targets
        gaps = self._gaps(piece, rows, known)
        if self.missing == "mean":
            return self._filled(rows, gaps), targets
        if not gaps.any():
            return rows, targets
        for place in gaps[gaps.any(axis=1)].argmax(axis=1):
            self.left_out[f"no value of {self._column_of(place)!r}"] += 1
        usable = ~gaps.any(axis=1)
        return rows[usable], targets[usable]

    def follow(self, missing: str, rows: Array) -> None:
        """Change the policy; where no means were kept, take those of ``rows``."""
        self.missing = missing
        if not self._sums[1].any():
            self._sums = np.array([rows.sum(axis=0), np.full(len(self.features), len(rows))])

    def encode_for_prediction(self, piece: Piece) -> tuple[Array, Array]:
        """Features of all rows, and which of them can be predicted."""
        rows = self._matrix(piece)
        gaps = self._gaps(piece, rows, np.ones(len(rows), bool))
        if self.missing == "mean":
            values, counts = self._sums
            rows = np.where(gaps, values / np.maximum(counts, 1.0), rows)
            return rows, np.ones(len(rows), bool)
        usable: Array = np.logical_not(gaps.any(axis=1))
        return np.where(gaps, 0.0, rows), usable

    def state_dict(self) -> State:
        """Everything, as plain values and arrays."""
        return {
            "columns": [[c.name, c.kind, list(c.categories)] for c in self.columns],
            "target": self.target,
            "classes": None if self.classes is None else list(self.classes),
            "missing": self.missing,
            "left_out": dict(self.left_out),
            "unseen": dict(self.unseen),
            "sums": self._sums.copy(),
        }

    @classmethod
    def from_state(cls, state: State) -> "Encoder":
        """The encoder that gave ``state``."""
        columns = [Column(name, kind, tuple(texts)) for name, kind, texts in state["columns"]]
        encoder = cls(columns, state["target"], state["classes"], state["missing"])
        encoder.left_out.update(state["left_out"])
        encoder.unseen.update(state["unseen"])
        encoder._sums = state["sums"]
        return encoder

    def _matrix(self, piece: Piece) -> Array:
        """All features, a gap being NaN."""
        batch = piece.batch.select([column.name for column in self.columns])
        if all(column.kind == "number" for column in self.columns):
            return batch.to_tensor(null_to_nan=True, row_major=True).to_numpy()
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
        codes = _places(values, column.categories)
        missing = values.is_null().to_numpy(False)
        unseen = int(((codes < 0) & ~missing).sum())
        if unseen:
            self.unseen[column.name] += unseen
        where = np.flatnonzero(codes >= 0)
        out[where, codes[where]] = 1.0
        out[missing] = np.nan

    def _targets(self, piece: Piece) -> tuple[Array, Array]:
        values = piece.batch.column(self.target)
        if self.classes is None:
            targets = values.to_numpy(zero_copy_only=False)
            infinite = np.isinf(targets)
            if infinite.any():
                raise ValueError(at(piece, int(infinite.argmax()), "is infinite", self.target))
            return targets, ~np.isnan(targets)
        codes = _places(values, self.classes)
        present = ~values.is_null().to_numpy(False)
        strange = present & (codes < 0)
        if strange.any():
            row = int(strange.argmax())
            label = values[row].as_py()
            raise ValueError(
                at(piece, row, f"is of the new class {label!r}", self.target)
                + f"; the classes are {', '.join(self.classes)}: give all of them with --classes"
            )
        return np.array(self.classes)[codes], present

    def _gaps(self, piece: Piece, rows: Array, kept: Array) -> Array:
        """Where a value is missing; infinite ones are refused, missing ones if so wished."""
        numbers = np.flatnonzero(kept)
        infinite = np.isinf(rows)
        if infinite.any():
            row, place = (int(i[0]) for i in np.nonzero(infinite))
            raise ValueError(at(piece, int(numbers[row]), "is infinite", self._column_of(place)))
        gaps = np.isnan(rows)
        if gaps.any():
            row, place = (int(i[0]) for i in np.nonzero(gaps))
            missing = np.zeros(piece.batch.num_rows, bool)
            missing[numbers[row]] = True
            self._refuse(piece, missing, self._column_of(place))
        return gaps

    def _refuse(self, piece: Piece, missing: Array, column: str) -> None:
        if self.missing == "error":
            raise ValueError(
                at(piece, int(missing.argmax()), "is missing", column)
                + "; --missing skip does without such rows, --missing mean fills in the mean"
            )

    def _filled(self, rows: Array, gaps: Array) -> Array:
        """The gaps filled with the mean of the values before, in which order does not matter."""
        values = np.add.accumulate(np.vstack([self._sums[0], np.where(gaps, 0.0, rows)]))
        counts = np.add.accumulate(np.vstack([self._sums[1], ~gaps]))
        self._sums = np.array([values[-1], counts[-1]])
        return np.where(gaps, values[:-1] / np.maximum(counts[:-1], 1.0), rows)

    def _column_of(self, place: int) -> str:
        for column in self.columns:
            place -= len(column.features)
            if place < 0:
                return column.name
        raise IndexError(place)


def _places(values: Any, texts: Sequence[str]) -> Array:
    """Where among the texts each value is; −1 for one that is missing or none of them."""
    pyarrow = require("pyarrow")
    known = pyarrow.array(texts, pyarrow.string())
    found: Array = require("pyarrow.compute").index_in(values, known).fill_null(-1).to_numpy()
    return found


def at(piece: Piece, row: int, what: str, column: str | None = None) -> str:
    """What is wrong with a row of a batch, or with one of its values, and where that is."""
    value = "" if column is None else f"column {column!r} "
    return f"{piece.file}, row {piece.start + row + 1}, {value}{what}"
