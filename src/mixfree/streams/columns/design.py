"""The features of a model, as a linear map of the raw features that were summed for all rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.streams.columns.column import GAP, Column

MAX_NAMED = 5  # features that a remark names


class Design(NamedTuple):
    """Features decided from what all rows have shown."""

    features: list[str]  # their names
    matrix: Any  # one row per raw feature, one column per feature, sparse
    means: Array  # of the features, which fill gaps; 0 for indicators of gaps
    ranges: list[tuple[int, int]]  # first feature of each column and the one after its last
    left_out: dict[str, str]  # columns without a feature, with reasons
    notes: list[str]  # remarks on the others

    @property
    def is_identity(self) -> bool:
        """Whether the features are the raw features, so that a learner of these need not change."""
        raw, features = self.matrix.shape
        return raw == features == self.matrix.nnz and bool((self.matrix.diagonal() == 1.0).all())

    def without(self, gone: Array, columns: Sequence[str]) -> "Design":
        """Return the design without some features, of which others are combinations."""
        stays = np.flatnonzero(~gone)
        places = np.append(0, np.cumsum(~gone)).tolist()
        ranges = [(places[begin], places[end]) for begin, end in self.ranges]
        names, left_out = list[str](), dict(self.left_out)
        for name, (begin, end), after in zip(columns, self.ranges, ranges, strict=True):
            if begin < end and after[0] == after[1]:
                left_out[name] = "determined by columns before it"
            else:
                names += [repr(self.features[k]) for k in range(begin, end) if gone[k]]
        several = f"{len(names)} features, such as " if len(names) > MAX_NAMED else ""
        note = f"without a weight, since features before determine them: {several}"
        notes = [*self.notes, *([note + ", ".join(names[:MAX_NAMED])] if names else [])]
        features = [self.features[place] for place in stays]
        return Design(features, self.matrix[:, stays], self.means[stays], ranges, left_out, notes)

    def rows(self, raw: Array, absent: Mapping[int, Array]) -> Array:
        """Return the features of raw rows; columns of the data have their means where absent."""
        found = np.ascontiguousarray(raw @ self.matrix)
        for place, where in absent.items():
            begin, end = self.ranges[place]
            found[where, begin:end] = self.means[begin:end]
        return found

    def raw_weights(self, weights: Array) -> Array:
        """Return the weights of the raw features, one row per output, that predict the same."""
        slopes, rest = np.split(weights, [len(self.features)], axis=1)
        return np.hstack([(self.matrix @ slopes.T).T, rest])


def design_of(
    columns: Sequence[Column], sums: Array, rows: int, calendar: str = "cycles"
) -> Design:
    """Decide on the features of each column by the sums of all raw features over so many rows.

    ``calendar`` is one of ``CALENDARS``: how hours and weekdays are used.
    """
    names, means, ranges = list[str](), list[float](), list[tuple[int, int]]()
    left_out, notes, entries = dict[str, str](), list[str](), list[tuple[int, int, float]]()
    # Rounded, since a learner may know a sum of indicators as a mean.
    totals, counted = sums.tolist(), np.rint(sums).tolist()
    for column in columns:
        begin, placed = len(names), {key: at for key, at in column.places.items() if at >= 0}
        counts = Counter({key: int(counted[at]) for key, at in placed.items()})
        use = column.use(counts, rows, calendar)
        filled = [key for key in use.filled if key in placed]
        known = rows - sum(counts[key] for key in filled)
        for feature in use.features:
            parts, mean = dict(feature.of), 0.0
            if GAP not in parts and known > 0:
                mean = sum(factor * totals[placed[key]] for key, factor in parts.items()) / known
                parts |= dict.fromkeys(filled, mean)
            entries += [(placed[key], len(names), factor) for key, factor in parts.items()]
            names.append(feature.name)
            means.append(mean)
        ranges.append((begin, len(names)))
        if not use.features:
            left_out[column.name] = use.why
        notes += [use.note] if use.note else []
    raw, to, factors = np.array(entries, float).reshape(-1, 3).T
    where = raw.astype(int), to.astype(int)
    matrix = sparse.csc_array((factors, where), shape=(len(sums), len(names)))
    return Design(names, matrix, np.array(means), ranges, left_out, notes)
