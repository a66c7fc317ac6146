"""Encoding of batches as raw features and targets, with every missing value accounted for."""

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.state import loading
from mixfree.streams.columns.category import UNKNOWN, Category
from mixfree.streams.columns.column import (
    GAP,
    Boolean,
    Column,
    Number,
    Undecided,
)
from mixfree.streams.columns.design import Design, design_of
from mixfree.streams.columns.kinds import decided
from mixfree.streams.columns.target import located, shown_text, targets_in
from mixfree.streams.columns.time import Time
from mixfree.streams.read.source import Piece
from mixfree.streams.read.values import is_mark, is_text

__all__ = ["POLICIES", "Encoded", "Encoder"]

POLICIES = ("auto", "skip", "error")
STEP = 8  # columns by which the matrix of raw features grows
MAX_NOT_PARSED = 0.01  # largest share of texts in a column of numbers or dates
KINDS: dict[str, type[Column]] = {
    each.kind: each for each in (Number, Boolean, Category, Time, Undecided)
}


class Encoded(NamedTuple):
    """Rows to learn from: raw features, targets, weights, and times if there are dates.

    ``entries`` has one array per column. ``grows`` are rows from which on there are more raw
    features, and how many. ``new`` has the places of raw features of new values, with the column of
    the data that they belong to and the first row that has them.
    """

    entries: list[Array]
    rows: Array
    targets: Array
    weights: Array | None
    times: Array
    grows: tuple[tuple[int, int], ...] = ()
    new: Mapping[int, tuple[int, int]] = {}


class Encoder:
    """Turns batches into a matrix of raw features and a vector of targets.

    Parameters
    ----------
    columns
        Columns to learn from.
    target
        Column of the target: a number, a boolean, or a text that names the class.
    classes
        Classes in order; None for a regression.
    missing
        ``"auto"`` leaves out rows without a target and counts gaps, ``"skip"`` leaves out rows
        with missing values, ``"error"`` refuses them. Other texts in a column of numbers or dates
        are missing values.

    Attributes
    ----------
    rows, sums
        Number of rows that decide on the features, and the sums of their raw features unless a
        learner knows them.
    used
        Number of raw features; the matrix may have a few more columns of zeros.
    left_out
        Rows left out, counted by reason.
    unknown
        Number of texts per column that no row to learn from had.
    not_parsed
        Number of other texts per column of numbers or dates, and the place of the first.
    growing
        Whether all rows decide on the features, and raw features are added as they appear.
    change
        A map of the raw features before the last batch to those after it, if some were replaced.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        target: Column,
        classes: Sequence[str] | None = None,
        missing: str = "auto",
    ) -> None:
        self.columns, self.target, self._target = list(columns), target.name, target
        self.classes = None if classes is None else list(classes)
        self.missing = missing
        self.left_out: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.not_parsed: dict[str, list[Any]] = {}
        self.rows, self.used, self.sums = 0, 0, np.zeros(0)
        self.growing = True
        self.change: Any = None
        self._fixed: Design | None = None
        for column in self.columns:
            for key in column.places:
                self._place(column, key)
        self.sums = np.zeros(self.used)

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return len(self.sums)

    @property
    def needs(self) -> list[str]:
        """Names of the columns to read, the target last."""
        names = dict.fromkeys(name for column in self.columns for name in column.sources)
        return [*names, self.target]

    @property
    def numbers(self) -> list[str]:
        """Names of the columns that can be read as doubles directly."""
        plain = [
            each.name
            for each in (*self.columns, self._target)
            if type(each) is Number and each.form == "point"
        ]
        parts = [part for each in self.columns if isinstance(each, Time) for part in each.parts]
        return [*plain, *parts]

    @property
    def times(self) -> Time | None:
        """The first column of dates."""
        return next((each for each in self.columns if isinstance(each, Time)), None)

    def encode(self, piece: Piece) -> Iterator[Encoded]:
        """Yield the rows that can be used, divided where raw features are replaced."""
        entries, full = self._entries(piece, self.growing)
        if full is not None:
            texts, row = full
            if row:
                yield from self.encode(piece.slice(0, row))
            before = self._layout()
            texts.overflow()
            self.change = self._relaid(before)
            yield from self.encode(piece.slice(row))
            return
        targets, known = targets_in(piece, self._target, self.classes)
        if not known.all():
            if self.missing == "error":
                self._refuse(piece, int(known.argmin()), self._target)
            self._note_not_parsed(piece, self._target, ~known)
            self._leave_out(self.target, int((~known).sum()))
        gaps = list[Array | None]()
        for column, each in zip(self.columns, entries, strict=True):
            gap = _gaps(piece, column, each)
            if gap is not None:
                self._note_not_parsed(piece, column, gap)
                known = self._without_gaps(piece, column, gap, known)
            gaps.append(gap)
        dated = [isinstance(column, Time) for column in self.columns]
        times = entries[dated.index(True)] if any(dated) else np.zeros(0, "M8[us]")
        if not known.all():
            entries = [each[known] for each in entries]
            gaps = [None if gap is None else gap[known] for gap in gaps]
            targets, times = targets[known], times[known] if len(times) else times
        weights = None if piece.weights is None else piece.weights[known]
        if not self.growing:
            yield Encoded(entries, self.features(entries, self.design()), targets, weights, times)
            return
        grows, new, width = self._grown(entries, gaps)
        rows = self._matrix(entries, gaps, width)
        yield Encoded(entries, rows, targets, weights, times, grows, new)

    def see(self, piece: Piece) -> None:
        """Sum rows that no learner sums, such as those of a first look."""
        for found in self.encode(piece):
            self.grow(found.rows.shape[1])
            self.learn(found, 0, len(found.rows))
            self.sums = self.sums + found.rows.sum(axis=0)

    def learn(self, found: Encoded, begin: int, end: int) -> None:
        """Take note of some of the rows that :meth:`encode` yielded."""
        if self.growing:
            self.rows += end - begin
            for column, each in zip(self.columns, found.entries, strict=True):
                if not column.settled:
                    column.learn(each[begin:end])

    def again(self, fixed: bool) -> "Encoder":
        """Return an encoder of the same columns for a whole stream, whose first rows this has seen.

        If ``fixed``, the features are those decided by these rows.
        """
        if fixed:
            found = copy.copy(self)
            found.growing, found.not_parsed = False, {}
            found.left_out, found.unknown = Counter(), Counter()
            return found
        columns = [column.fresh() for column in self.columns]
        for column, seen in zip(columns, self.columns, strict=True):
            if isinstance(column, Category) and isinstance(seen, Category) and seen.over:
                column.overflow()
        return Encoder(columns, self._target, self.classes, self.missing)

    def gaps(self, column: Column) -> int:
        """Return the number of missing values of a column in the rows learnt from."""
        place = column.place(GAP)
        return 0 if place < 0 else int(self.sums[place])

    def grow(self, columns: int) -> None:
        """Add columns of zeros, up to so many."""
        self.sums = np.append(self.sums, np.zeros(columns - len(self.sums)))

    def design(self, calendar: str = "cycles", sums: Array | None = None) -> Design:
        """Return the features as far as rows have shown them, with the sums of a learner."""
        if self.growing:
            sums = self.sums if sums is None else sums
            return design_of(self.columns, sums, self.rows, calendar)
        if self._fixed is None:
            asked = any(isinstance(each, Time) and each.time == "calendar" for each in self.columns)
            calendar = "calendar" if asked else "cycles"
            self._fixed = design_of(self.columns, self.sums, self.rows, calendar)
        return self._fixed

    def features(self, entries: Sequence[Array | None], design: Design) -> Array:
        """Return the features of rows; an unknown value has the mean of its column.

        Entries of columns without features may be None.
        """
        absent, gaps = {}, list[Array | None]()
        for place, (column, each) in enumerate(zip(self.columns, entries, strict=True)):
            gap = None if each is None else column.gaps(each)
            gaps.append(gap)
            where = gap if column.place(GAP) < 0 else None
            if each is not None and isinstance(column, Category):
                unknown = each == UNKNOWN
                if unknown.any():
                    self.unknown[column.name] += int(unknown.sum())
                    where = unknown if where is None else where | unknown
            if where is not None:
                absent[place] = where
        return design.rows(self._matrix(entries, gaps, self.width), absent)

    def encode_for_prediction(self, piece: Piece, design: Design) -> tuple[Array, Array]:
        """Return the features of all rows, and which rows can be predicted."""
        entries, usable = list[Array | None](), np.ones(piece.batch.num_rows, bool)
        for column, (begin, end) in zip(self.columns, design.ranges, strict=True):
            each = column.parse(column.values(piece.batch), False) if end > begin else None
            entries.append(each)
            gap = None if each is None else _gaps(piece, column, each)
            if gap is not None and self.missing != "auto":
                usable = self._without_gaps(piece, column, gap, usable)
        return self.features(entries, design), usable

    def needed(self, design: Design) -> list[str]:
        """Return the names of the columns that predictions need."""
        used = zip(self.columns, design.ranges, strict=True)
        return [name for column, (a, b) in used if b > a for name in column.sources]

    def check_sizes(self, piece: Piece, largest: float) -> None:
        """Raise ValueError with the place of the first number above a size."""
        columns = [column for column in self.columns if isinstance(column, Number)]
        if self.classes is None and isinstance(self._target, Number):
            columns.append(self._target)
        for column in columns:
            values = column.parse(column.values(piece.batch), grow=False)
            for row in np.flatnonzero(np.abs(values) > largest)[:1]:
                what = f"is {values[row]:.3g}: values must be at most {largest:.3g} in size"
                raise ValueError(located(piece, int(row), what, column.name))

    def check_parsed(self, read: int) -> None:
        """Raise ValueError if too many values of a column in ``read`` rows are other texts."""
        for name, (count, place) in self.not_parsed.items():
            if count > MAX_NOT_PARSED * read:
                raise ValueError(
                    f"{count:,} of {read:,} values of column {name!r} are not what its first ones "
                    f"are, the first: {place}; give `categories={[name]!r}` to use its texts, or "
                    f"`exclude={[name]!r}`"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as plain values and arrays."""
        return {
            "columns": [_plain(column) for column in self.columns],
            "target": _plain(self._target),
            "classes": self.classes,
            "missing": self.missing,
            "left_out": dict(self.left_out),
            "unknown": dict(self.unknown),
            "not_parsed": {name: list(found) for name, found in self.not_parsed.items()},
            "rows": self.rows,
            "sums": self.sums.copy(),
            "growing": self.growing,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Encoder":
        """Rebuild the encoder that gave ``state``; raise ValueError if the state is invalid."""
        with loading(what := "encoder"):
            columns = [_restored(plain) for plain in state["columns"]]
            target, classes = _restored(state["target"]), state["classes"]
            encoder = cls([], target, classes, check_one_of(state["missing"], "missing", POLICIES))
            names = [name for column in (*columns, target) for name in column.sources]
            right = len(set(names)) == len(names) and not isinstance(target, Time)
            if classes is not None:
                right &= isinstance(classes, list) and all(isinstance(c, str) for c in classes)
                right &= len(set(classes)) == len(classes) >= 2
            for name in ("left_out", "unknown"):
                getattr(encoder, name).update({k: _count(n) for k, n in state[name].items()})
            for name, (count, place) in state["not_parsed"].items():
                right &= isinstance(place, str)
                encoder.not_parsed[name] = [_count(count), place]
            taken = sorted(at for each in columns for at in each.places.values() if at >= 0)
            encoder.columns, encoder.used, encoder.rows = columns, len(taken), _count(state["rows"])
            encoder.sums, encoder.growing = state["sums"].copy(), state["growing"]
            right &= type(encoder.growing) is bool and bool(np.isfinite(encoder.sums).all())
            right &= (encoder.sums.ndim, encoder.sums.dtype.name) == (1, "float64")
            right &= taken == [*range(len(taken))] and len(taken) <= len(encoder.sums)
            if not right:
                raise ValueError(f"state of the {what} is invalid: its parts do not fit together")
            return encoder

    def merge(self, other: "Encoder") -> tuple[Any, Any]:
        """Add what an encoder of other rows has seen.

        Returns
        -------
        The map of this encoder's raw features to those of both, and that of the other's.
        """
        mine, theirs = self._layout(), other._layout()
        for place, column in enumerate(other.columns):
            own = self.columns[place]
            if isinstance(own, Undecided) and not isinstance(column, Undecided):
                self.columns[place] = own = own.become(column.copy())
            elif type(own) is not type(column) and not isinstance(column, Undecided):
                raise ValueError(
                    f"column {own.name!r} is a {own.kind} in one part and a {column.kind} in "
                    f"another: give `categories={[own.name]!r}`"
                )
            if isinstance(own, Category) and isinstance(column, Category) and not own.over:
                texts = {*own.places, *column.places} - {GAP}
                if column.over or len(texts) > own.most:
                    own.overflow()
            for key in column.places:
                if (new := own.moved(key)) is not None:
                    own.add(new)
            if type(own) is type(column):
                own.merge(column)
        matrix = self._relaid(mine, max(self.width, other.width))
        changes = matrix, self._map(theirs, other.width)
        self.sums = self.sums + changes[1].T @ other.sums
        self.rows += other.rows
        for name in ("left_out", "unknown"):
            getattr(self, name).update(getattr(other, name))
        for name, (count, first) in other.not_parsed.items():
            self.not_parsed.setdefault(name, [0, first])[0] += count
        return changes

    def _entries(self, piece: Piece, grow: bool) -> tuple[list[Array], tuple[Category, int] | None]:
        """Return entries per column, or the first column with too many texts and the row of it."""
        found, full = list[Array](), None
        for place, column in enumerate(self.columns):
            values = column.values(piece.batch)
            if isinstance(column, Undecided) and grow and values.null_count < len(values):
                self.columns[place] = column = column.become(decided(column, values))
            if isinstance(column, Category) and grow and not column.over:
                row = column.room(values)
                if row is not None and (full is None or row < full[1]):
                    full = column, row
                if full is not None:
                    continue
            found.append(column.parse(values, grow))
        return found, full

    def _grown(
        self, entries: Sequence[Array], gaps: Sequence[Array | None]
    ) -> tuple[tuple[tuple[int, int], ...], dict[int, tuple[int, int]], int]:
        """Place new raw features by the row and the column of their first appearance.

        Returns
        -------
        Rows from which on the matrix has more columns, and how many; the new raw features of
        values; and the columns in the end.
        """
        found = list[tuple[int, int, int, str]]()
        for at, (column, each, gap) in enumerate(zip(self.columns, entries, gaps, strict=True)):
            for key, row in column.first_rows(each, gap).items():
                found.append((row, at, len(found), key))
        grows, width, new = [], self.width, {}
        for row, at, _, key in sorted(found):
            column = self.columns[at]
            self._place(column, key)
            if key == GAP or isinstance(column, Category):
                new[column.place(key)] = at, row
            if self.used > width:
                width += STEP
                grows.append((row, width))
        return tuple(grows), new, width

    def _place(self, column: Column, key: str) -> None:
        column.places[key] = self.used
        self.used += 1

    def _layout(self) -> list[dict[str, int]]:
        """Return the places of the raw features of each column."""
        return [dict(column.places) for column in self.columns]

    def _relaid(self, before: Sequence[Mapping[str, int]], least: int = 0) -> Any:
        """Place all raw features anew, in at least so many columns; return the map to them."""
        width, self.used = self.width, 0
        for column in self.columns:
            column.places = dict.fromkeys(column.places, -1)
        kept = sorted(
            (old, at, new)
            for at, column in enumerate(self.columns)
            for key, old in before[at].items()
            if old >= 0 and (new := column.moved(key)) in column.places
        )
        rest = [(at, key) for at, column in enumerate(self.columns) for key in column.places]
        for at, key in dict.fromkeys([*((at, new) for _, at, new in kept), *rest]):
            self._place(self.columns[at], key)
        sums, self.sums = self.sums, np.zeros(max(least, -(-self.used // STEP) * STEP))
        matrix = self._map(before, width)
        self.sums = np.asarray(matrix.T @ sums)
        return matrix

    def _map(self, before: Sequence[Mapping[str, int]], width: int) -> Any:
        """Return the map of raw features in another layout to those of this encoder."""
        pairs = [
            (old, column.place(new))
            for column, keys in zip(self.columns, before, strict=True)
            for key, old in keys.items()
            if old >= 0 and (new := column.moved(key)) in column.places
        ]
        where = np.array(pairs, int).reshape(-1, 2).T
        return sparse.csc_array((np.ones(len(pairs)), tuple(where)), shape=(width, self.width))

    def _matrix(
        self, entries: Sequence[Array | None], gaps: Sequence[Array | None], width: int
    ) -> Array:
        """Return raw features."""
        count = max((len(each) for each in entries if each is not None), default=0)
        plain = width == len(self.columns) and not any(each is None for each in entries)
        plain = plain and all(isinstance(each, Number) for each in self.columns)
        rows = np.empty((count, width)) if plain else np.zeros((count, width))
        for column, each, gap in zip(self.columns, entries, gaps, strict=True):
            if each is not None:
                column.write(each, gap, rows)
                if gap is not None and (place := column.place(GAP)) >= 0:
                    rows[:, place] = gap
        return rows

    def _without_gaps(self, piece: Piece, column: Column, gap: Array, known: Array) -> Array:
        """Return the rows to use, as missing values are treated."""
        if self.missing == "error" and gap.any():
            self._refuse(piece, int(gap.argmax()), column)
        if self.missing == "skip":
            self._leave_out(column.name, int((gap & known).sum()))
            return np.asarray(known & ~gap)
        return known

    def _note_not_parsed(self, piece: Piece, column: Column, missing: Array) -> None:
        """Count texts where a number or a date is expected, and record the place of the first."""
        for source in column.sources:
            values = piece.batch.column(source)
            if not is_text(values.type) or missing.sum() == values.null_count:
                continue
            odd = missing & values.is_valid().to_numpy(False)
            if odd.any():
                marks = is_mark(values).to_numpy(zero_copy_only=False)
                odd &= ~np.asarray(marks, bool)
            if odd.any():
                row = int(odd.argmax())
                first = located(piece, row, f"is {shown_text(values[row])}", source)
                self.not_parsed.setdefault(source, [0, first])[0] += int(odd.sum())

    def _refuse(self, piece: Piece, row: int, column: Column) -> None:
        """Raise ValueError for a missing value, with its place and what to do about it."""
        value = piece.batch.column(column.sources[0])[row]
        odd = value.is_valid and is_text(value.type)
        what = f"is {shown_text(value)}, not {column.expected}" if odd else "is missing"
        raise ValueError(
            located(piece, row, what, column.name)
            + "; `missing='skip'` leaves out such rows, `missing='auto'` fills in the mean"
        )

    def _leave_out(self, column: str, rows: int) -> None:
        if rows:
            self.left_out[f"{column!r} is missing"] += rows


def _plain(column: Column) -> dict[str, Any]:
    return {"kind": column.kind, **column.plain()}


def _restored(plain: Mapping[str, Any]) -> Column:
    """Return the column from which :func:`_plain` was made, after checking it."""
    own = {name: value for name, value in plain.items() if name != "kind"}
    return KINDS[plain["kind"]]("").restored(own, "column")


def _count(value: Any) -> int:
    """Return a count of a state; raise ValueError unless it is one."""
    return check_whole(value, "a count of the state", least=0, most=2**63 - 1)


def _gaps(piece: Piece, column: Column, entries: Array) -> Array | None:
    """Return where values are missing, None if nowhere; raise ValueError if one is infinite."""
    gap = column.gaps(entries)
    if isinstance(column, Number) and gap is not None:
        infinite = np.isinf(entries)
        if infinite.any():
            raise ValueError(located(piece, int(infinite.argmax()), "is infinite", column.name))
    return gap
