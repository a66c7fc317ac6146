"""Encoding of batches as raw features and targets, with every missing value accounted for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.extras import require
from mixfree.base.state import loading
from mixfree.linear.exact.coded import Coded
from mixfree.streams.columns.category import UNKNOWN, Category
from mixfree.streams.columns.column import GAP, Boolean, Column, Number
from mixfree.streams.columns.design import Design, design_of
from mixfree.streams.columns.kinds import decided
from mixfree.streams.columns.target import located, shown_text, targets_in
from mixfree.streams.columns.time import Time
from mixfree.streams.read.source import Piece
from mixfree.streams.read.values import decoded, doubles, is_mark, is_text

POLICIES = ("auto", "skip", "error")
MAX_NOT_PARSED = 0.01  # largest share of texts in a column of numbers or dates
KINDS = {each.kind: each for each in (Column, Number, Boolean, Category, Time)}


class Encoded(NamedTuple):
    """Rows to learn from: entries per column, raw features, targets, weights and times if any.

    ``places`` are the numbers of the rows in their file.
    """

    entries: list[Array]
    rows: Array | Coded
    targets: Array
    weights: Array | None
    times: Array
    places: Array


class Encoder:
    """Turns batches into a matrix of raw features and a vector of targets.

    The target is a number, a boolean, or a text that names one of the ``classes``, which are None
    for a regression. With ``missing="auto"``, rows without a target are left out and gaps counted;
    ``"skip"`` leaves out rows with missing values, and ``"error"`` refuses them. Other texts in a
    column of numbers or dates are missing values.
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
        self.left_out: Counter[str] = Counter()  # rows by reason
        self.unknown: Counter[str] = Counter()  # by column, texts that no row to learn from had
        # By column of numbers or dates, the number of other texts, and the first with its place.
        self.not_parsed: dict[str, list[Any]] = {}
        # Rows that decide on the features, and the sums of their raw features that no learner has.
        self.rows, self.sums = 0, np.zeros(0)
        # The features, if the first rows have decided on them. Otherwise all rows do, and raw
        # features are added as they appear.
        self.fixed: Design | None = None
        self.change: Any = None  # map of the raw features before the last batch, if some changed
        self._place([(column, key) for column in self.columns for key in column.places])

    @property
    def width(self) -> int:
        """Number of raw features."""
        return len(self.sums)

    @property
    def growing(self) -> bool:
        """Whether all rows decide on the features."""
        return self.fixed is None

    @property
    def needs(self) -> list[str]:
        """Names of the columns to read, the target last."""
        names = dict.fromkeys(name for column in self.columns for name in column.sources)
        return [*names, self.target]

    @property
    def numbers(self) -> list[str]:
        """Names of the columns that can be read as doubles directly."""
        every = [each for each in (*self.columns, self._target) if type(each) is Number]
        parts = [part for each in self.columns if isinstance(each, Time) for part in each.parts]
        return [*(each.name for each in every if each.form == "point"), *parts]

    @property
    def times(self) -> Time | None:
        """The first column of dates."""
        return next((each for each in self.columns if isinstance(each, Time)), None)

    def encode(self, piece: Piece, unchecked: bool = False) -> Encoded:
        """Return the rows that can be used; some raw features may be new, or others than before.

        If ``unchecked``, values may be NaN or infinite, which sums of them show at less cost.
        """
        targets, known = targets_in(piece, self._target, self.classes)
        places = np.arange(piece.start, piece.start + len(targets), dtype=np.uint64)
        gap, known = None if known.all() else ~known, np.ones(len(targets), bool)
        known = self._without_gaps(piece, self._target, gap, known)
        if unchecked and gap is None and (numbers := self._numbers(piece.batch)) is not None:
            whole = Coded(numbers, np.arange(len(numbers)), [], [], len(numbers))
            return Encoded(numbers, whole, targets, piece.weights, np.zeros(0, "M8[us]"), places)
        before, over = self._layout(), sum(column.over for column in self.columns)
        entries, gaps, known = self._entries(piece, known)
        if sum(column.over for column in self.columns) > over:
            self.change = self._relaid(before)
        dated = [isinstance(column, Time) for column in self.columns]
        times = entries[dated.index(True)] if any(dated) else np.zeros(0, "M8[us]")
        weights = piece.weights
        if not known.all():
            entries = [each[known] for each in entries]
            gaps = [None if gap is None else gap[known] for gap in gaps]
            targets, times = targets[known], times[known] if len(times) else times
            places = places[known]
            weights = None if weights is None else weights[known]
        if self.fixed is not None:
            features = self._features(entries, gaps, len(targets), self.fixed)
            return Encoded(entries, features, targets, weights, times, places)
        rows = self._raw(entries, gaps, len(targets), grow=True)
        return Encoded(entries, rows, targets, weights, times, places)

    def _numbers(self, batch: Any) -> list[Array] | None:
        """Return all raw features without a copy, if they are columns of doubles without nulls."""
        places = [column.place("value") for column in self.columns if type(column) is Number]
        if not self.growing or places != [*range(max(self.width, len(self.columns)))]:
            return None
        columns, double = batch.select(self.needs[:-1]).columns, require("pyarrow").float64()
        fit = all(each.type == double and not each.null_count for each in columns)
        return [*map(doubles, columns)] if fit else None

    @np.errstate(over="ignore", invalid="ignore")  # values that are too large are refused
    def see(self, piece: Piece) -> None:
        """Sum rows that no learner sums, such as those of a first look."""
        found = self.encode(piece)
        self.learn(found, 0, len(found.targets))
        self.sums = self.sums + np.asarray(found.rows).sum(axis=0)
        if not np.isfinite(self.sums).all():
            self.check_allowed(piece)

    def learn(self, found: Encoded, begin: int, end: int) -> None:
        """Take note of some of the rows that :meth:`encode` yielded."""
        if self.growing:
            self.rows += end - begin
            for column, each in zip(self.columns, found.entries, strict=True):
                column.learn(each[begin:end])

    def again(self, fixed: bool) -> "Encoder":
        """Return an encoder of the same columns for a whole stream, whose first rows this has seen.

        If ``fixed``, the features are those decided by these rows.
        """
        columns = [replace(column) for column in self.columns]
        found = Encoder(columns, self._target, self.classes, self.missing)
        if fixed:
            found.columns, found.rows, found.sums = self.columns, self.rows, self.sums
            found.fixed = found.design()
        return found

    def gaps(self, column: Column) -> int:
        """Return the number of missing values of a column in the rows learnt from."""
        place = column.place(GAP)
        return 0 if place < 0 else int(self.sums[place])

    def design(self, calendar: str = "cycles", sums: Array | None = None) -> Design:
        """Return the features as far as rows have shown them, with the sums of a learner."""
        if self.fixed is not None:
            return self.fixed
        return design_of(self.columns, self.sums if sums is None else sums, self.rows, calendar)

    def encode_for_prediction(self, piece: Piece, design: Design) -> tuple[Array, Array]:
        """Return the features of all rows, and which rows can be predicted."""
        usable = np.ones(piece.batch.num_rows, bool)
        entries, gaps, usable = self._entries(piece, usable, design)
        return self._features(entries, gaps, len(usable), design), usable

    def needed(self, design: Design) -> list[str]:
        """Return the names of the columns that predictions need: one at least, to count rows."""
        used = zip(self.columns, design.ranges, strict=True)
        names = [name for column, (a, b) in used if b > a for name in column.sources]
        return names or list(self.columns[0].sources[:1])

    def check_allowed(self, piece: Piece, loss: Any = None) -> None:
        """Raise ValueError with the place of the first number or target that is not allowed."""
        for column in (*self.columns, self._target):
            if isinstance(column, Number):
                values = column.parse(column.values(piece.batch), grow=False)
                for row in np.flatnonzero(np.abs(values) > MAX_VALUE)[:1]:
                    what = f"is {values[row]:.3g}: values must be at most {MAX_VALUE:.3g} in size"
                    raise ValueError(located(piece, int(row), what, column.name))
        targets, known = targets_in(piece, self._target, self.classes)
        for row in [] if loss is None else np.flatnonzero(known).tolist():
            try:
                loss.check_targets(targets[row : row + 1])
            except ValueError as error:
                raise ValueError(located(piece, row, f"is refused: {error}", self.target)) from None

    def check_parsed(self, read: int) -> None:
        """Raise ValueError if too many values of a column in ``read`` rows are other texts."""
        for name, (count, place) in self.not_parsed.items():
            if count > MAX_NOT_PARSED * read:
                how = f"give `categories={[name]!r}` to use its texts, or `exclude={[name]!r}`"
                raise ValueError(
                    f"{count:,} of {read:,} values of column {name!r} are not what its first ones "
                    f"are, the first: {place}; "
                    + ("correct or remove these rows" if name == self.target else how)
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
        with loading("encoder"):
            columns, classes = [_restored(plain) for plain in state["columns"]], state["classes"]
            missing = check_one_of(state["missing"], "missing", POLICIES)
            encoder = cls([], _restored(state["target"]), classes, missing)
            right = not isinstance(encoder._target, Time)
            if classes is not None:
                right &= isinstance(classes, list) and all(isinstance(c, str) for c in classes)
                right &= len(set(classes)) == len(classes) >= 2
            for name in ("left_out", "unknown"):
                getattr(encoder, name).update({k: _count(n) for k, n in state[name].items()})
            for name, (count, place) in state["not_parsed"].items():
                encoder.not_parsed[name] = [_count(count), str(place)]
            every = [at for each in columns for at in each.places.values()]
            right &= all(type(at) is int for at in every)
            taken = sorted(at for at in every if at >= 0)
            sums = state["sums"].astype(float)
            right &= taken == [*range(len(taken))] and sums.shape == (len(taken),)
            if not (right and np.isfinite(sums).all()):
                raise ValueError("state of the encoder is invalid: its parts do not fit together")
            encoder.columns, encoder.rows, encoder.sums = columns, _count(state["rows"]), sums
            if not state["growing"]:
                encoder.fixed = encoder.design()
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
            if type(own) is Column and type(column) is not Column:
                self.columns[place] = own = _become(own, replace(column))
            elif type(column) not in (Column, type(own)):
                raise ValueError(
                    f"column {own.name!r} is a {own.kind} in one part and a {column.kind} in "
                    f"another: give `categories={[own.name]!r}`"
                )
            if isinstance(own, Category) and isinstance(column, Category) and not own.over:
                own.add([*column.places], too_many=column.over)
            for key in column.places:
                if (new := own.moved(key)) is not None:
                    own.places.setdefault(new, -1)
            if type(own) is type(column):
                own.merge(column)
        changes = self._relaid(mine), self._map(theirs, other.width)
        self.sums = self.sums + changes[1].T @ other.sums
        self.rows += other.rows
        for name in ("left_out", "unknown"):
            getattr(self, name).update(getattr(other, name))
        for name, (count, first) in other.not_parsed.items():
            self.not_parsed.setdefault(name, [0, first])[0] += count
        return changes

    def _entries(
        self, piece: Piece, known: Array, design: Design | None = None
    ) -> tuple[list[Any], list[Any], Array]:
        """Return entries and gaps per column, and which of the known rows are used.

        Given a design, only columns with features are parsed, and rows are not learnt from.
        """
        entries, gaps, grow = list[Any](), list[Any](), design is None and self.growing
        for place, column in enumerate(self.columns):
            if design is not None and np.equal(*design.ranges[place]):
                entries.append(None)
                gaps.append(None)
                continue
            values = column.values(piece.batch)
            if type(column) is Column and grow and values.null_count < len(values):
                self.columns[place] = column = _become(column, decided(column, values))
            entries.append(each := column.parse(values, grow))
            gaps.append(gap := column.gaps(each))
            if gap is not None and isinstance(column, Number) and (far := np.isinf(each)).any():
                raise ValueError(located(piece, int(far.argmax()), "is infinite", column.name))
            known = self._without_gaps(piece, column, gap, known)
        return entries, gaps, known

    def _features(
        self, entries: Sequence[Any], gaps: Sequence[Any], count: int, design: Design
    ) -> Array:
        """Return the features of rows; an unknown value has the mean of its column."""
        absent = {}
        for place, (column, each, gap) in enumerate(zip(self.columns, entries, gaps, strict=True)):
            where = gap if column.place(GAP) < 0 else None
            if isinstance(column, Category) and not np.equal(*design.ranges[place]):
                unknown = each == UNKNOWN
                if unknown.any():
                    self.unknown[column.name] += int(unknown.sum())
                    where = unknown if where is None else where | unknown
            if where is not None:
                absent[place] = where
        return design.rows(np.asarray(self._raw(entries, gaps, count)), absent)

    def _raw(
        self, entries: Sequence[Any], gaps: Sequence[Any], count: int, grow: bool = False
    ) -> Array | Coded:
        """Return raw features; with ``grow``, those that are new are placed."""
        found = []
        for column, each, gap in zip(self.columns, entries, gaps, strict=True):
            if each is None or not count:
                continue
            numbers, indicators = column.raw(each)
            if gap is not None:
                numbers = {key: np.where(gap, 0.0, values) for key, values in numbers.items()}
                numbers[GAP] = gap
                indicators = [(names, np.where(gap, -1, codes)) for names, codes in indicators]
            if grow:
                new = [*numbers]
                for names, codes in indicators:
                    if any(column.place(name) < 0 for name in names):
                        seen = np.flatnonzero(np.bincount(np.maximum(codes, -1) + 1)[1:])
                        new += [names[code] for code in seen.tolist()]
                if any(column.place(key) < 0 for key in new):
                    self._place([(column, key) for key in new if column.place(key) < 0])
            found.append((column, numbers, indicators))
        placed = sorted(
            (place, number, key)
            for number, (column, numbers, _) in enumerate(found)
            for key in numbers
            if (place := column.place(key)) >= 0
        )
        at = np.array([place for place, *_ in placed], int)
        dense = [found[number][1][key] for _, number, key in placed]
        coded, places = list[Array](), list[Array]()
        for column, _, indicators in found:
            for names, codes in indicators:
                where = [column.place(name) for name in names]
                places.append(np.array([*where, -1]) % (self.width + 1))
                # Entries without an indicator have the last code.
                none = codes < 0
                coded.append(np.where(none, len(names), codes) if none.any() else codes)
        if not (dense or coded):
            return np.zeros((count, self.width))
        return Coded(dense, at, coded, places, self.width)

    def _place(self, new: Sequence[tuple[Column, str]]) -> None:
        """Add raw features."""
        for place, (column, key) in enumerate(new, self.width):
            column.places[key] = place
        self.sums = np.append(self.sums, np.zeros(len(new)))

    def _layout(self) -> list[dict[str, int]]:
        """Return the places of the raw features of each column."""
        return [dict(column.places) for column in self.columns]

    def _relaid(self, before: Sequence[Mapping[str, int]]) -> Any:
        """Place all raw features anew; return the map to them."""
        sums, self.sums = self.sums, np.zeros(0)
        self._place([(column, key) for column in self.columns for key in column.places])
        matrix = self._map(before, len(sums))
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

    def _without_gaps(self, piece: Piece, column: Column, gap: Array | None, known: Array) -> Array:
        """Return the rows to use, as missing values are treated; rows need a target."""
        if gap is None:
            return known
        if self.missing == "error":
            self._refuse(piece, int(gap.argmax()), column)
        self._note_not_parsed(piece, column, gap)
        if self.missing == "skip" or column is self._target:
            if (lost := int((gap & known).sum())) > 0:
                self.left_out[f"{column.name!r} is missing"] += lost
            return np.asarray(known & ~gap)
        return known

    def _note_not_parsed(self, piece: Piece, column: Column, missing: Array) -> None:
        """Count texts where a number or a date is expected, and record the place of the first."""
        for source in column.sources:
            values = decoded(piece.batch.column(source))
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
        value = decoded(piece.batch.column(column.sources[0]))[row]
        odd = value.is_valid and is_text(value.type)
        what = f"is {shown_text(value)}, not {column.expected}" if odd else "is missing"
        raise ValueError(
            located(piece, row, what, column.name)
            + "; `missing='skip'` leaves out such rows, `missing='auto'` fills in the mean"
        )


def _become(undecided: Column, column: Column) -> Column:
    """Give a column the gaps of the one without a kind that it takes the place of."""
    column.places |= undecided.places
    return column


def _plain(column: Column) -> dict[str, Any]:
    return {"kind": column.kind, **column.plain()}


def _restored(plain: Mapping[str, Any]) -> Column:
    """Return the column from which :func:`_plain` was made, after checking it."""
    own = {name: value for name, value in plain.items() if name != "kind"}
    return KINDS[plain["kind"]]("").restored(own, "column")


def _count(value: Any) -> int:
    """Return a count of a state; raise ValueError unless it is one."""
    return check_whole(value, "a count of the state", least=0, most=2**63 - 1)
