"""Least squares that forgets: exponentially, with a half-life that is given or found."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, check_whole
from mixfree.linear.exact.moments import Blocks, block_rows, check_array, check_finite
from mixfree.linear.exact.solve import Solution, solve
from mixfree.linear.exact.sums import BIG, Sums

HALF_LIVES = (50.0, 200.0, 800.0, 3200.0, 12800.0, math.inf)
JUDGED = 2000.0  # rows after which a test-then-train loss counts half
BLOCK = 32  # rows within which nothing is forgotten, and weights stay as they are
STALE = 16  # part of a half-life after which its weights are solved for again
FLAT = 8  # part of a long half-life within which nothing is forgotten
RECENTRED = 4096  # rows after which a new origin and new units are taken
SIZED = 256  # rows after which the columns' deviations are looked at again
PRIOR = 1.0  # rows of each column's own deviation that the ridge is worth
HOPELESS = 1e6  # times the least loss from which a half-life has no share
WORST = 1e300  # loss of a block that counts at most, so that it can be forgotten


class Forgetting:
    r"""Sums in which a row's weight halves every ``half_life`` rows, and the fits to them.

    With ``"auto"`` there are sums for several half-lives. Each block of 32 rows is predicted with
    the weights of all of them before it is learnt from. The weights in force are the convex
    combination :math:`\sum_h \pi_h w_h` whose discounted loss

    .. math:: D(\pi) = \sum_{i \le t} 2^{-(t - i)/2000}
              \Big( y_i - \sum_h \pi_h \hat y_{h,i} \Big)^2

    is least: errors of a short memory are those of chance, errors of a long one those of age, and
    a mixture has less of both. What a short memory has not seen for long it must not guess: a
    ridge worth one row, in units of each column's deviation over all rows so far, keeps
    such weights small.

    Parameters
    ----------
    columns, targets
        Numbers of features and of targets per row.
    half_life
        Rows, or ``"auto"`` for 50, 200, 800, 3,200, 12,800 and never.
    intercept, l2, radius
        As in :func:`mixfree.linear.exact.solve.solve`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 1))
    >>> slope = np.where(np.arange(4000) < 3000, 1.0, -1.0)
    >>> forgetting = Forgetting(1)
    >>> forgetting.add(x, slope * x[:, 0])
    >>> forgetting.half_life, forgetting.solution.weights.round(2) + 0.0
    (50.0, array([[-0.99,  0.  ]]))
    """

    def __init__(
        self,
        columns: int,
        targets: int = 1,
        half_life: float | str = "auto",
        *,
        intercept: bool = True,
        l2: float = 0.0,
        radius: float | None = None,
    ) -> None:
        if isinstance(half_life, str):
            if half_life != "auto":
                raise ValueError(f"half_life must be a number of rows or 'auto', not {half_life!r}")
            self.half_lives = np.array(HALF_LIVES)
            self._candidates = len(HALF_LIVES)
        else:
            # The sums that never forget give every column its unit.
            self.half_lives = np.array([check_positive(half_life, "half_life"), math.inf])
            self._candidates = 1
        shortest = float(self.half_lives[0])
        rows = max(min(BLOCK, shortest), shortest / FLAT)
        self.block = min(1 << max(int(rows).bit_length() - 1, 0), block_rows(columns))
        self._intercept, self._l2, self._radius = intercept, float(l2), radius
        self._blocks = Blocks(columns, targets)
        count, size = len(self.half_lives), 1 + columns + targets
        self._rows = 0
        # Products of (1, columns, targets) about the origin, in units of 2^exponent.
        self._products = np.zeros((count, size, size))
        self._origin = np.zeros(size)
        self._exponent = np.zeros(size, dtype=np.int64)
        self._prior, self._sized = np.zeros(1 + columns), 0
        self._moved = 0  # rows at which origin and units were chosen
        # What is left of a row's targets where the weights have taken their part.
        self._rest = np.zeros((self._candidates, targets, size))
        self._rest[:, np.arange(targets), 1 + columns + np.arange(targets)] = 1.0
        self._solved = np.zeros(self._candidates, dtype=np.int64)
        self._errors = np.zeros((self._candidates, self._candidates))  # discounted products
        self._changes: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> int:
        """Rows of positive weight seen."""
        return self._rows + self._blocks.filled

    @property
    def half_life(self) -> float:
        """The half-life that has predicted best; infinite where nothing is forgotten."""
        return float(self.half_lives[self._best])

    @property
    def history(self) -> tuple[tuple[int, float], ...]:
        """The rows from which on a half-life has predicted best, and which."""
        return tuple((row, float(self.half_lives[best])) for row, best in self._changes)

    @property
    def judged(self) -> dict[float, float]:
        """Discounted test-then-train loss per row of each half-life, ½(prediction − target)²."""
        seen = max(self._rows - self.block, 0)
        weight = max((1.0 - 0.5 ** (seen / JUDGED)) / (1.0 - 0.5 ** (1.0 / JUDGED)), 1.0)
        means = 0.5 * self._errors.diagonal() / weight
        return dict(zip(self.half_lives.tolist(), means.tolist(), strict=False))

    @property
    def shares(self) -> dict[float, float]:
        """The share π that each half-life has in the weights in force."""
        found = least_combination(self._errors)
        return dict(zip(self.half_lives.tolist(), found.tolist(), strict=False))

    @property
    def solution(self) -> Solution:
        """The fit in force to all rows, those that wait for a block included."""
        waiting, twin = self._blocks.pending, self
        if waiting is not None:
            twin = self.copy()
            twin._take(*waiting)
        parts = [
            (share, twin._solution(h))
            for h, share in enumerate(self.shares.values())
            if share > 0.0
        ]
        share, solution = max(parts, key=lambda part: part[0])
        if share == 1.0:
            return solution
        mixture = np.sum([share * each.weights for share, each in parts], axis=0)
        return replace(solution, weights=mixture)

    @property
    def _best(self) -> int:
        return int(np.argmin(self._errors.diagonal()))

    def add(self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        """Predict and then learn rows in their order; as in :class:`Moments`."""
        before = vars(self.copy())
        try:
            self._blocks.cut(rows, targets, weights, lambda: self.block, self._take)
        except BaseException:
            before["_blocks"] = self._blocks
            vars(self).update(before)
            raise

    def _take(self, rows: Array, targets: Array, weights: Array | None) -> None:
        if self._rows == 0 or self._rows - self._moved >= RECENTRED:
            check_finite(rows, targets)
            self._move(rows, targets)
        gram = self._gram(rows, targets, weights)
        if not gram.max() < BIG**2:
            check_finite(rows, targets)
            self._move(rows, targets)
            gram = self._gram(rows, targets, weights)
        if self._rows and self._candidates > 1:
            self._judge(gram, len(rows))
        self._products *= (0.5 ** (len(rows) / self.half_lives))[:, None, None]
        self._products += gram
        self._rows += len(rows)
        if self._rows - self._sized >= min(self._rows, SIZED):
            self._prior, self._sized = self._priors(), self._rows
        if self._candidates > 1:
            for h, life in enumerate(HALF_LIVES):
                if self._rows - self._solved[h] >= min(life, self._rows) / STALE:
                    self._solve(h)

    def _gram(self, rows: Array, targets: Array, weights: Array | None) -> Array:
        """Products of a block about the origin."""
        z = np.concatenate([np.ones((len(rows), 1)), rows, targets], axis=1)
        z -= self._origin
        if self._exponent.any():
            z = np.ldexp(z, -self._exponent)
        if weights is not None:
            z *= np.sqrt(weights)[:, None]
        gram: Array = z.T @ z
        return gram

    def _judge(self, gram: Array, rows: int) -> None:
        """Add what the weights lose on a block that they have not seen."""
        rest = self._rest
        units = np.ldexp(1.0, 2 * self._exponent[-rest.shape[1] :])
        with np.errstate(over="ignore", invalid="ignore"):
            lost = ((rest @ gram) * units[:, None]).reshape(len(rest), -1)
            errors = self._errors * 0.5 ** (rows / JUDGED) + lost @ rest.reshape(len(rest), -1).T
        wrong = ~(np.abs(errors).max(axis=1) < WORST)
        if wrong.any():
            errors[wrong] = errors[:, wrong] = 0.0
            errors[wrong, wrong] = WORST
        self._errors = errors
        best = self._best
        if not self._changes or self._changes[-1][1] != best:
            self._changes = (*self._changes, (self._rows + rows, best))

    def _solve(self, h: int) -> None:
        """Take new weights of a half-life for the blocks to come."""
        targets = self._blocks.targets
        first = 0 if self._intercept else 1
        if self._radius is not None:
            weights = self._solution(h).weights
            columns = self._blocks.columns
            own = self._exponent[None, 1 : 1 + columns] - self._exponent[-targets:, None]
            inner = np.ldexp(weights[:, :columns], own)
            level = weights @ np.append(self._origin[1:-targets], 1.0)[: weights.shape[1]]
            level = np.ldexp(level - self._origin[-targets:], -self._exponent[-targets:])
            found = np.column_stack([level, inner])[:, first:]
        else:
            matrix = self._products[h, first:-targets, first:-targets].copy()
            np.einsum("ii->i", matrix)[:] += self._ridge(h, self._prior)[first:]
            right = self._products[h, -targets:, first:-targets].T
            # The matrix is symmetric: its transpose lies in memory as LAPACK wants it.
            _, solved, failed = lapack.dposv(matrix.T, right, overwrite_a=1)
            if failed:
                return
            found = solved.T
        self._rest[h, :, first:-targets] = -found
        self._solved[h] = self._rows

    def _ridge(self, h: int, prior: Array) -> Array:
        """Diagonal that is added to the products of (1, columns), for all of a half-life's rows."""
        if not self._l2:
            return prior
        with np.errstate(over="ignore"):
            own = np.ldexp(self._l2, -2 * self._exponent[: len(prior)])
            ridge = np.minimum(prior + float(self._products[h, 0, 0]) * own, WORST)
        ridge[0] = 0.0
        return ridge

    def _priors(self) -> Array:
        """The columns' squares about their mean over all rows, as much as PRIOR rows have."""
        targets, whole = self._blocks.targets, self._products[-1]
        weight = max(float(whole[0, 0]), 1e-300)
        squares = (whole.diagonal() - whole[0] ** 2 / weight)[:-targets] / weight
        prior = PRIOR * np.where(squares > 0.0, squares, 1.0)
        prior[0] = 0.0
        return prior

    def _solution(self, h: int) -> Solution:
        sums = self._sums(h)
        weight = max(float(sums.weight), 1e-300)
        targets = self._blocks.targets
        with np.errstate(over="ignore"):
            own = (
                np.ldexp(self._ridge(h, self._priors()), 2 * self._exponent[:-targets])[1:] / weight
            )
        return solve(
            sums, l2=np.minimum(own, WORST), radius=self._radius, intercept=self._intercept
        )

    def _sums(self, h: int) -> Sums:
        """The sums of a half-life about their mean."""
        products, columns = self._products[h], self._blocks.columns
        weight = products[0, 0]
        mean = products[0, 1:] / max(float(weight), 1e-300)
        centred = products[1:, 1:] - weight * mean[:, None] * mean
        scatter, cross = centred[:columns, :columns].copy(), centred[:columns, columns:].copy()
        squares = np.maximum(centred.diagonal()[columns:], 0.0)
        mean = self._origin[1:] + np.ldexp(mean, self._exponent[1:])
        exponent = self._exponent[1:].copy() if self._exponent.any() else None
        return Sums(self._rows, np.array(weight), mean, scatter, cross, squares, exponent)

    def _move(self, rows: Array, targets: Array) -> None:
        """Take a block's mean for origin, and units in which products of any size are safe."""
        both = np.concatenate([rows, targets], axis=1)
        origin = np.append(0.0, both[0] + (both - both[0]).mean(axis=0))
        if not self._intercept:
            origin[:] = 0.0
        weight = self._products[-1, 0, 0]
        old = np.sqrt(self._products[-1].diagonal() / max(float(weight), 1.0))
        size = np.abs(both - origin[1:]).max(axis=0)
        size = np.maximum(size, np.ldexp(old, self._exponent)[1:])
        exponent = np.append(0, np.where(size > 0.0, np.frexp(size)[1], 0))
        change = np.clip(self._exponent - exponent, -1070, 1070)
        products = np.ldexp(np.ldexp(self._products, change), change[:, None])
        # Rows z become z + step, in the new units: their ones are in column 0.
        step = np.ldexp(self._origin - origin, -exponent)
        products += products[:, :, :1] * step
        products += step[:, None] * products[:, :1, :]
        rest = np.ldexp(self._rest, -change)
        k = self._blocks.targets
        rest = np.ldexp(rest, change[-k:, None])
        rest[:, :, 0] -= (rest * step).sum(axis=2)
        self._products, self._rest = products, rest
        self._origin, self._exponent, self._moved = origin, exponent, self._rows
        if self._rows:
            self._prior, self._sized = self._priors(), self._rows

    def copy(self) -> Self:
        """Another one that goes on by itself."""
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(twin, name, value.copy() if isinstance(value, np.ndarray | Blocks) else value)
        return twin

    def plain(self) -> dict[str, Any]:
        """Everything that changes, as arrays and numbers of their own."""
        return {
            "blocks": self._blocks.plain(),
            "rows": self._rows,
            "moved": self._moved,
            "sized": self._sized,
            "prior": self._prior.copy(),
            "products": self._products.copy(),
            "origin": self._origin.copy(),
            "exponent": self._exponent.copy(),
            "rest": self._rest.copy(),
            "solved": self._solved.copy(),
            "errors": self._errors.copy(),
            "changes": np.array(self._changes, dtype=np.int64).reshape(-1, 2),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the one that gave ``state`` was; an error changes nothing."""
        arrays = {"products": "f", "origin": "f", "exponent": "i", "rest": "f"}
        arrays |= {"solved": "i", "errors": "f", "prior": "f"}
        found = {
            name: check_array(state[name], name, getattr(self, f"_{name}").shape, kind)
            for name, kind in arrays.items()
        }
        changes = check_array(state["changes"], "changes", (len(state["changes"]), 2), "i")
        if not ((changes[:, 1] >= 0) & (changes[:, 1] < self._candidates)).all():
            raise ValueError(f"changes of the state must name one of {self._candidates} half-lives")
        rows = check_whole(state["rows"], "rows of the state", least=0)
        moved = check_whole(state["moved"], "moved of the state", least=0)
        sized = check_whole(state["sized"], "sized of the state", least=0)
        self._blocks.restore(state["blocks"])
        for name, value in found.items():
            setattr(self, f"_{name}", value)
        self._rows, self._moved, self._sized = rows, moved, sized
        self._changes = tuple((int(row), int(best)) for row, best in changes)


def least_combination(products: Array) -> Array:
    """The convex combination of errors with the least square, from the products of the errors.

    By an active set: the best one alone, then whatever makes the square smaller, one at a time.

    Examples
    --------
    >>> least_combination(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 2.0], [2.0, 2.0, 4.0]])).round(2)
    array([0.75, 0.25, 0.  ])
    """
    squares = products.diagonal()
    best = int(np.argmin(squares))
    shares, active = np.zeros(len(squares)), [best]
    shares[best] = 1.0
    least = float(squares[best])
    if not least > 0.0:
        return shares
    usable = squares < HOPELESS * least
    scaled = np.where(usable & usable[:, None], products / least, 0.0)
    scaled[np.diag_indices_from(scaled)] = np.where(usable, squares / least, HOPELESS) + 1e-6
    for _ in range(2 * len(squares)):
        slope = scaled @ shares
        new = int(np.argmin(slope))
        if new in active or slope[new] >= (1.0 - 1e-9) * float(shares @ slope):
            break
        active.append(new)
        while True:
            wanted = np.linalg.solve(scaled[np.ix_(active, active)], np.ones(len(active)))
            wanted /= wanted.sum()
            now = shares[active]
            if (wanted > 0.0).all():
                shares[active] = wanted
                break
            # As far towards it as shares stay positive; the first that ends there leaves.
            below = wanted <= 0.0
            steps = np.where(below, now / np.where(below, now - wanted, 1.0), 1.0)
            shares[active] = now + steps.min() * (wanted - now)
            gone = active.pop(int(np.argmin(steps)))
            shares[gone] = 0.0
    shares /= shares.sum()
    return shares
