"""Rows of few numbers and many indicators, of which only the places are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.base.checks import check_values
from mixfree.linear.exact.sums import MAX_OFFSET, Sums, not_negative, origin_of

SLAB_VALUES = 1 << 18  # that are multiplied at once: they stay in a cache


def has_codes(rows: Any) -> bool:
    """Whether rows are :class:`Coded` with indicators, and not columns alone."""
    return isinstance(rows, Coded) and len(rows.codes) > 0


@dataclass(frozen=True, eq=False)
class Coded:
    r"""The rows of a matrix, most of whose columns are indicators.

    With C the indicators, T = CᵀC is a table of counts, and products with other columns and
    targets are sums of their deviations from the mean by indicator, :math:`C^\top (D - \bar D)`.
    """

    numbers: Sequence[Array]  # the other columns
    at: Array  # their places
    codes: Sequence[Array]  # lists of one code per row
    places: Sequence[Array]  # per list and code, of the column that is 1; ``columns`` for none
    columns: int  # of the matrix

    ndim, dtype = 2, np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return len(self), self.columns

    def __len__(self) -> int:
        return len((*self.numbers, *self.codes)[0])

    def __getitem__(self, rows: Any) -> Any:
        """Return some rows; those of an array of places as a matrix, by rows."""
        numbers, codes = ([each[rows] for each in of] for of in (self.numbers, self.codes))
        found = Coded(numbers, self.at, codes, self.places, self.columns)
        return found if isinstance(rows, slice) else found.__array__(order="C")

    def __array__(self, dtype: Any = None, copy: bool | None = None, order: Any = "F") -> Array:
        """Return the matrix, by columns unless ``order`` is C."""
        new = np.zeros if self.codes else np.empty
        found: Array = new((len(self), self.columns + (len(self.codes) > 0)), order=order)
        for codes, places in zip(self.codes, self.places, strict=True):
            found[np.arange(len(codes)), places[codes]] = 1.0
        self.write(found)
        return found[:, : self.columns]

    def write(self, out: Array) -> None:
        """Write the other columns to a matrix, or all of them if there are no indicators."""
        whole = len(self.at) == out.shape[1]
        if whole and out.flags.f_contiguous:
            np.concatenate(self.numbers, out=out.T.reshape(-1))
        else:
            out[:, : 0 if whole or self.codes else self.columns] = 0.0
            for place, values in zip(self.at, self.numbers, strict=True):
                out[:, place] = values

    toarray = __array__

    @np.errstate(over="ignore", invalid="ignore")  # values that are too large are refused
    def sums(self, targets: Array, before: Sums) -> Sums:
        """Sum all rows without weights; ``before`` are the sums of the rows before."""
        (n, columns), at = self.shape, self.at
        both = np.append(at, np.arange(columns, len(before.mean)))
        first = np.array([*(each[0] for each in self.numbers), *targets[0]])
        origin = origin_of(first, before.mean[both], before.weight, before.diagonal[both])
        gram, by_code, count, table, accurate = self._products(targets, origin)
        if not accurate:
            check_values(rows=np.asarray(self), targets=targets)
            origin = origin + gram[-1, :-1] / n
            gram, by_code, count, table, _ = self._products(targets, origin)
        shift, k = gram[-1, :-1] / n, len(at)
        gram = gram[:-1, :-1] - n * np.outer(shift, shift)
        by_code -= count[:, None] * shift
        scatter = table + table.T - np.outer(count, count) / n
        np.fill_diagonal(scatter, scatter.diagonal() + count)
        scatter[:, at] += by_code[:, :k]
        scatter[at] += by_code[:, :k].T
        scatter[np.ix_(at, at)] = gram[:k, :k]
        cross, mean = by_code[:, k:].copy(), np.append(count / n, origin[k:] + shift[k:])
        cross[at], mean[at] = gram[:k, k:], origin[:k] + shift[:k]
        squares = np.maximum(gram.diagonal()[k:], 0.0)
        return Sums(n, np.asarray(float(n)), mean, not_negative(scatter), cross, squares)

    def _products(self, targets: Array, origin: Array) -> tuple[Array, Array, Array, Array, bool]:
        """Return DᵀD and CᵀD about ``origin``, counts, T above its diagonal, and if accurate."""
        n, k, side = len(self), len(origin), self.columns + 1
        sizes = [len(places) for places in self.places]
        firsts, levels = np.cumsum([0, *sizes[:-1]]), sum(sizes)
        gram, by_level = np.zeros((k + 1, k + 1)), np.zeros((levels, k + 1))
        for start in range(0, n, slab := SLAB_VALUES // (k + 1) + 1):
            here = slice(start, start + slab)
            centred = np.ones((len(targets[here]), k + 1))
            columns = [*(each[here] for each in self.numbers), *targets[here].T]
            for place, (values, zero) in enumerate(zip(columns, origin, strict=True)):
                np.subtract(values, zero, out=centred[:, place])
            gram += np.dot(centred.T, centred)
            places = np.empty((len(centred), len(sizes)), np.int32)
            for place, codes in enumerate(self.codes):
                np.add(codes[here], firsts[place], out=places[:, place], casting="unsafe")
            ends = np.arange(0, places.size + 1, len(sizes), dtype=np.int32)
            parts = np.ones(places.size), places.ravel(), ends
            by_level += sparse.csc_array(parts, shape=(levels, len(centred))) @ centred
        square, far = gram.diagonal()[:-1], gram[-1, :-1] ** 2 / n
        accurate = bool((far * (1.0 + 1.0 / MAX_OFFSET) <= square).all())
        accurate = accurate and bool(square.max(initial=0.0) <= MAX_VALUE**2)  # NaN is neither
        by_code, table = np.zeros((side, k + 1)), np.zeros((side, side))
        by_code[np.concatenate(self.places)] = by_level  # codes of no column share the last place
        for i, j in combinations(range(len(sizes)), 2):
            pairs = np.bincount(self.codes[i] * sizes[j] + self.codes[j], None, sizes[i] * sizes[j])
            table[np.ix_(self.places[i], self.places[j])] = pairs.reshape(sizes[i], sizes[j])
        return gram, by_code[:-1, :-1], by_code[:-1, -1], table[:-1, :-1], accurate
