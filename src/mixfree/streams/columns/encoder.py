"""Encoding of batches as features and targets, with every missing value accounted for."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.extras import require
from mixfree.base.state import loading
from mixfree.linear.classes import targets_at
from mixfree.streams.columns.column import (
    Column,
    Number,
    Time,
    column_from_plain,
    places,
    truths_in,
)
from mixfree.streams.read.source import Piece
from mixfree.streams.read.values import doubles, is_text, label_of, numbers_in, texts_in

__all__ = ["POLICIES", "Encoded", "Encoder", "located"]

POLICIES = ("error", "skip", "mean", "auto")


class Encoded(NamedTuple):
    """Features and targets of rows, and their times if there is a column of dates."""

    rows: Array
    targets: Array
    times: Array

    def part(self, which: Any) -> "Encoded":
        """Select some of the rows."""
        return Encoded(
            self.rows[which],
            self.targets[which],
            self.times[which] if len(self.times) else self.times,
        )


class Encoder:
    """Turns batches into a matrix of features and a vector of targets.

    Parameters
    ----------
    columns
        Columns to learn from.
    target
        Column of the target: a number, a boolean, or a text that names the class.
    classes
        Classes in order; None for a regression.
    missing
        ``"error"`` refuses missing values, ``"auto"`` missing features, ``"skip"`` leaves out
        rows with missing values, ``"mean"`` fills in the mean of the column's earlier values, or of
        the first look if there is none. All but ``"error"`` leave out rows without a target. Other
        texts in a column of numbers or dates are missing values.

    Attributes
    ----------
    left_out
        Rows left out, counted by reason.
    unknown, hashed
        Number of values per column that are not among its categories, encoded as zeros or
        hashed.
    strays
        Number of other texts per column of numbers or dates, and the place of the first.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        target: Column,
        classes: Sequence[str] | None = None,
        missing: str = "error",
    ) -> None:
        self.columns, self.target, self._target = list(columns), target.name, target
        self.classes = None if classes is None else list(classes)
        self.missing = missing
        self.features = [name for column in columns for name in column.features]
        self._column_of = [column for column in columns for _ in column.features]
        self._all_numbers = bool(columns) and all(isinstance(each, Number) for each in columns)
        self.left_out: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.hashed: Counter[str] = Counter()
        self.strays: dict[str, list[Any]] = {}
        # Sums and counts of the values, and the means to begin with.
        self._sums = np.zeros((3, len(self.features)))

    @property
    def needs(self) -> list[str]:
        """Names of the columns to read, the target last."""
        return [*(column.name for column in self.columns), self.target]

    @property
    def numbers(self) -> list[str]:
        """Names of the columns that can be read as doubles directly."""
        columns = [*self.columns, self._target]
        return [each.name for each in columns if isinstance(each, Number) and each.form == "point"]

    def encode(self, piece: Piece) -> Encoded:
        """Return features, targets and times of the rows that can be used."""
        rows, times = self._matrix(piece)
        targets, known = self._targets(piece)
        found = Encoded(rows, targets, times)
        if not known.all():
            if self.missing == "error":
                self._refuse(piece, int(known.argmin()), self._target)
            self._note_strays(piece, self._target, ~known)
            self._leave_out(self.target, int((~known).sum()))
            found = found.part(known)
            rows = found.rows
        # If the sum is finite, all values are, and one sum is cheap.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(rows.sum()))
        if self.missing != "mean" and finite:
            return found
        gaps = self._gaps(piece, rows, np.flatnonzero(known))
        if self.missing == "mean":
            # The time of a missing date stays NaT.
            return found._replace(rows=self._filled(rows, gaps))
        incomplete = gaps.any(axis=1)
        for place in gaps[incomplete].argmax(axis=1):
            self._leave_out(self._column_of[place].name, 1)
        return found.part(~incomplete)

    def encode_for_prediction(self, piece: Piece) -> tuple[Array, Array]:
        """Return the features of all rows, and which rows can be predicted."""
        rows, gaps = self.rows_and_gaps(piece)
        if self.missing == "mean":
            return self.with_means(rows, gaps), np.ones(len(rows), bool)
        usable: Array = np.logical_not(gaps.any(axis=1))
        return np.where(gaps, 0.0, rows), usable

    def rows_and_gaps(self, piece: Piece) -> tuple[Array, Array]:
        """Return the features of all rows, and where values are missing."""
        rows, _ = self._matrix(piece)
        return rows, self._gaps(piece, rows, np.arange(len(rows)))

    def with_means(self, rows: Array, gaps: Array) -> Array:
        """Fill the gaps with the means of the rows so far."""
        return np.where(gaps, self._means(*self._sums[:2]), rows)

    def begin_means(self, means: Array) -> None:
        """Set the means of the features that have no value yet."""
        self._sums[2] = means

    def _means(self, values: Array, counts: Array) -> Array:
        return np.where(counts > 0.0, values / np.maximum(counts, 1.0), self._sums[2])

    def add_to_means(self, rows: Array) -> None:
        """Include rows in the means."""
        self._filled(rows, np.isnan(rows))

    def check_sizes(self, piece: Piece, largest: float) -> None:
        """Raise ValueError with the place of the first feature or target above a size."""
        rows, _ = self._matrix(piece)
        names = [column.name for column in self._column_of]
        if self.classes is None:
            rows = np.column_stack([rows, self._targets(piece)[0]])
            names = [*names, self.target]
        for row, place in np.argwhere(np.abs(rows) > largest)[:1]:
            what = f"is {rows[row, place]:.3g}: values must be at most {largest:.3g} in size"
            raise ValueError(located(piece, int(row), what, names[place]))

    def set_missing(self, missing: str, rows: Array) -> None:
        """Change the treatment of missing values; without means so far, use those of ``rows``."""
        self.missing = missing
        if not self._sums[1].any():
            self._sums[0], self._sums[1] = rows.sum(axis=0), len(rows)

    def label(self, target: float) -> str:
        """Return a target as written in the data.

        Examples
        --------
        >>> Encoder([], Number("sky"), ["rain", "sun"]).label(-1.0)
        'rain'
        """
        if self.classes is None:
            return str(label_of(target))
        places = np.arange(len(self.classes))
        return self.classes[int(targets_at(places, len(places)).searchsorted(target))]

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as plain values and arrays."""
        return {
            "columns": [column.plain() for column in self.columns],
            "target": self._target.plain(),
            "classes": self.classes,
            "missing": self.missing,
            "left_out": dict(self.left_out),
            "unknown": dict(self.unknown),
            "hashed": dict(self.hashed),
            "strays": {name: list(found) for name, found in self.strays.items()},
            "sums": self._sums.copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Encoder":
        """Rebuild the encoder that gave ``state``; raise ValueError if the state is invalid."""
        with loading("encoder"):
            columns = [column_from_plain(plain) for plain in state["columns"]]
            target = column_from_plain(state["target"])
            names = [column.name for column in (*columns, target)]
            classes, missing = state["classes"], check_one_of(state["missing"], "missing", POLICIES)
            right = len(set(names)) == len(names) and not isinstance(target, Time)
            if classes is not None:
                right &= len(set(classes)) == len(classes) >= 2
                right &= isinstance(classes, list) and all(isinstance(c, str) for c in classes)
            encoder = cls(columns, target, classes, missing)
            for name in ("left_out", "unknown", "hashed"):
                right &= state[name].keys() <= {*map(str, state[name])}
                counts = {key: _count(count) for key, count in state[name].items()}
                getattr(encoder, name).update(counts)
            for name, (count, place) in state["strays"].items():
                right &= isinstance(place, str)
                encoder.strays[name] = [_count(count), place]
            sums = state["sums"]
            right &= sums.shape == encoder._sums.shape and sums.dtype == np.float64
            if not (right and np.isfinite(sums).all() and (sums[1] >= 0.0).all()):
                raise ValueError("state of the encoder is invalid: its parts do not fit together")
            encoder._sums = sums.copy()
            return encoder

    def merge(self, other: "Encoder") -> None:
        """Add the counts of an encoder of the rows that follow."""
        for name in ("left_out", "unknown", "hashed"):
            getattr(self, name).update(getattr(other, name))
        for name, (count, place) in other.strays.items():
            self.strays.setdefault(name, [0, place])[0] += count

    def known(self, values: Any) -> Array:
        """Return which values of the target are not missing."""
        if self.classes is None:
            found: Array = np.isfinite(self._regressed(values))
            return found
        return self.target_texts(values, self._target).is_valid().to_numpy(False)  # type: ignore[no-any-return]

    @staticmethod
    def target_texts(values: Any, target: Column) -> Any:
        """Return the values of a target as names of classes, null where missing."""
        if isinstance(target, Number):
            return texts_in(numbers_in(values, target.form))
        if target.kind == "boolean":
            pyarrow = require("pyarrow")
            return truths_in(values).cast(pyarrow.bool_()).cast(pyarrow.string())
        return texts_in(values)

    def _matrix(self, piece: Piece) -> tuple[Array, Array]:
        """Return all features, NaN where missing, and the times of the first column of dates."""
        double = require("pyarrow").float64()
        times: Array = np.zeros(0, "M8[us]")
        batch = piece.batch.select([column.name for column in self.columns])
        if self._all_numbers and all(kind == double for kind in batch.schema.types):
            whole = batch.to_tensor(null_to_nan=True, row_major=True)
            return np.asarray(whole.to_numpy()), times
        rows, at = np.zeros((batch.num_rows, len(self.features))), 0
        for column, values in zip(self.columns, batch.columns, strict=True):
            out = rows[:, at : at + len(column.features)]
            at += out.shape[1]
            if isinstance(column, Time) and not len(times):
                times = column.times(values)
                out[:] = column.of_times(times)
            else:
                for what, count in column.fill(values, out).items():
                    getattr(self, what)[column.name] += count
            self._note_strays(piece, column, np.isnan(out[:, 0]))
        return rows, times

    def _note_strays(self, piece: Piece, column: Column, missing: Array) -> None:
        """Count texts where a number or a date is expected, and record the place of the first."""
        values = piece.batch.column(column.name)
        if not is_text(values.type) or missing.sum() == values.null_count:
            return
        odd = np.flatnonzero(missing & values.is_valid().to_numpy(False))
        if odd.size:
            row = int(odd[0])
            first = located(piece, row, f"is {_shown(values[row])}", column.name)
            self.strays.setdefault(column.name, [0, first])[0] += len(odd)

    def _regressed(self, values: Any) -> Array:
        form = self._target.form if isinstance(self._target, Number) else "point"
        return doubles(numbers_in(values, form))

    def _targets(self, piece: Piece) -> tuple[Array, Array]:
        """Return the targets in the form of the loss, and which rows have one."""
        values = piece.batch.column(self.target)
        if self.classes is None:
            targets = self._regressed(values)
            infinite = np.isinf(targets)
            if infinite.any():
                row = int(infinite.argmax())
                raise ValueError(located(piece, row, "is infinite", self.target))
            return targets, ~np.isnan(targets)
        texts = self.target_texts(values, self._target)
        place = places(texts, self.classes)
        known = texts.is_valid().to_numpy(False)
        new = known & (place < 0)
        if new.any():
            row = int(new.argmax())
            regress = (
                ", or `loss='squared'` to predict a number"
                if isinstance(self._target, Number)
                else ""
            )
            raise ValueError(
                located(piece, row, f"has the unknown class {_shown(texts[row])}", self.target)
                + f"; the classes are {', '.join(self.classes)}: give all of them as `classes`"
                + regress
            )
        return targets_at(place, len(self.classes)), known

    def _gaps(self, piece: Piece, rows: Array, numbers: Array) -> Array:
        """Return where values are missing; ``numbers`` are the indices of the rows in the batch.

        Raises ValueError for infinite values, and for missing ones unless they are allowed.
        """
        infinite = np.isinf(rows)
        if infinite.any():
            row, place = np.argwhere(infinite)[0]
            where = int(numbers[row]), "is infinite", self._column_of[place].name
            raise ValueError(located(piece, *where))
        gaps: Array = np.isnan(rows)
        if gaps.any() and self.missing in ("error", "auto"):
            row, place = np.argwhere(gaps)[0]
            self._refuse(piece, int(numbers[row]), self._column_of[place])
        return gaps

    def _refuse(self, piece: Piece, row: int, column: Column) -> None:
        """Raise ValueError for a missing value, with its place and what to do about it."""
        value = piece.batch.column(column.name)[row]
        odd = value.is_valid and is_text(value.type)
        what = f"is {_shown(value)}, not {column.expected}" if odd else "is missing"
        raise ValueError(
            located(piece, row, what, column.name)
            + "; `missing='skip'` leaves out such rows, `missing='mean'` fills in the mean"
        )

    def _leave_out(self, column: str, rows: int) -> None:
        self.left_out[f"{column!r} is missing"] += rows

    def _filled(self, rows: Array, gaps: Array) -> Array:
        """Fill each gap with the mean of the earlier values of its column."""
        values = np.add.accumulate(np.vstack([self._sums[0], np.where(gaps, 0.0, rows)]))
        counts = np.add.accumulate(np.vstack([self._sums[1], ~gaps]))
        self._sums[:2] = values[-1], counts[-1]
        return np.where(gaps, self._means(values[:-1], counts[:-1]), rows)


def _count(value: Any) -> int:
    return check_whole(value, "a count of the state", least=0, most=2**63 - 1)


def _shown(text: Any) -> str:
    """Return a text of the data, shortened, with control characters visible."""
    return repr(text.as_py()[:40])


def located(piece: Piece, row: int, what: str, column: str | None = None) -> str:
    """Prefix a message with the file, the row and the column that it is about."""
    value = "" if column is None else f"column {column!r} "
    return f"{piece.file}, row {piece.start + row + 1}, {value}{what}"
