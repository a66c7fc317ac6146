r"""Logistic, softmax, Huber and robust regression in one pass over rows in any order.

Kept of the stream are a uniform sample of its rows and sums of size p². As long as all rows fit
into the memory, the fit is that of all rows at once. Beyond, every row adds to the sums

.. math:: \sum_i x_i x_i^\top, \qquad \sum_i u_j(z_i, y_i)\, x_i ,

where :math:`z_i` are its predictions at the weights of its time and :math:`u_j` a handful of
functions of them (:mod:`mixfree.linear.exact.families`). Together they are one quadratic per row,
with a curvature that all rows share and whose size is chosen at the end. The fit minimises the loss
of the kept rows, corrected by what the sums say about all others
(:mod:`mixfree.linear.exact.newton`). For the squared loss the correction would be perfect.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import linalg, special

from mixfree.base import draws
from mixfree.base.arithmetic import Array, State, norm
from mixfree.base.checks import check_positive, check_whole
from mixfree.linear.exact.families import family_of
from mixfree.linear.exact.moments import (
    Blocks,
    block_rows,
    check_array,
    check_finite,
    check_rows,
)
from mixfree.linear.exact.newton import (
    CLOSE,
    SAMPLE,
    VALUES,
    Control,
    Objective,
    Part,
    Point,
    Units,
    minimise,
    standardised,
)
from mixfree.linear.exact.reservoir import FEWEST, Kept, Reservoir, rows_of
from mixfree.linear.exact.solve import CONSTANT
from mixfree.linear.exact.streamsums import StreamSums
from mixfree.linear.exact.sums import BIG, NEAR, Sums
from mixfree.linear.losses import Huber, Logistic, Loss, Robust, Softmax

GROWTH = 1.25  # rows of the stream from one choice of the weights of its time to the next
FEW = 2048  # rows of the sample that are enough to choose them
LEAST_PENALTY = 1e-8  # ridge of standardised columns where none is given
SHARES = (1.0, 0.5, 0.25, 0.0)  # of the correction, until the loss has a minimum
ROUGH = 1e-4  # decrement over loss that is enough for weights of the time
LEVEL = 0.97  # of the law behind the bound of 95 %
DRAWS = 64  # of the error of a gradient, where its covariance would be too large a matrix


class Gap(NamedTuple):
    """By how much a fit's loss exceeds that of the fit to all rows: estimate and 95 % bound."""

    estimate: float
    upper: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A minimum, with all that was used to find it."""

    objective: Objective
    point: Point
    known: "Known | None"
    beta: Array  # outputs × (functions, then 1, then prediction)
    extra: float  # multiplier of an active ball


class GlmFit:
    r"""Fits a linear model with one of four losses to a stream, in bounded memory.

    It minimises, over all rows i with weights :math:`\omega_i`,

    .. math:: \sum_i \omega_i \big( \ell(w^\top x_i + b, y_i) + \tfrac12 \lambda \|w\|^2 \big)
              \quad\text{with}\quad \|w\| \le r .

    The result does not depend on how the rows are cut into chunks. Once the stream is longer than
    the memory it depends on the rows that the seed happens to keep; :meth:`gap` says how much.

    The robust loss is not convex: the fit is the minimum that Newton's method finds from the fit
    with Huber's loss of the same width.

    Parameters
    ----------
    loss
        ``Logistic()``, ``Softmax(classes)``, ``Huber()`` or ``Robust()``.
    columns
        Number of features. Their sizes may lie anywhere between 1e-150 and 1e150, and their
        offsets cost no digits.
    intercept
        Whether each output has an intercept b, which is free of penalty and ball.
    l2
        λ, for weights in the rows' own units. By default 1e-8 for weights of standardised
        columns: too little to be seen, but classes that a plane separates perfectly, for which
        no best weights exist, end at log-odds of about 20. With λ = 0 such weights grow until
        the loss no longer falls by a noticeable part of itself.
    radius
        r. The norm is that of the weights of all outputs together, in the rows' own units.
    memory
        Rows to keep: their number, or bytes such as ``"32MB"``.
    seed
        Chooses the rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(5000, 2))
    >>> targets = np.where(rng.random(5000) < 1 / (1 + np.exp(-2 * rows[:, 0])), 1.0, -1.0)
    >>> fit = GlmFit(Logistic(), 2, memory=500)
    >>> for chunk in range(0, 5000, 700):
    ...     fit.add(rows[chunk : chunk + 700], targets[chunk : chunk + 700])
    >>> fit.samples, fit.complete
    (5000, False)
    >>> fit.weights().round(1)
    array([[2., 0., 0.]])
    >>> 0 < fit.gap().estimate < fit.gap().upper < 1e-3
    True
    """

    def __init__(
        self,
        loss: Loss,
        columns: int,
        *,
        intercept: bool = True,
        l2: float | None = None,
        radius: float | None = None,
        memory: int | str = "32MB",
        seed: int = 0,
    ) -> None:
        self.loss, self.columns = loss, check_whole(columns, "columns", least=0)
        self.intercept, self.memory = bool(intercept), memory
        if l2 is not None and not (l2 >= 0.0 and np.isfinite(l2)):
            raise ValueError(f"l2 must be at least 0 and finite, not {l2!r}")
        self.l2 = None if l2 is None else float(l2)
        self.radius = None if radius is None else check_positive(radius, "radius")
        self.seed = check_whole(seed, "seed", least=0, most=2**64 - 1)
        self._family = family_of(loss)
        self.samples = 0
        self._sample = Reservoir(rows_of(memory, columns, loss.outputs), columns, loss.outputs)
        self._blocks = Blocks(columns)
        self._sums: StreamSums | None = None  # until rows have to be left out
        self._now = np.zeros(self._shape)  # the weights of this time, in the rows' own units
        self._due = 0  # rows at which they are chosen anew
        self._streams: tuple[int, ...] = ()  # seeds of all streams that were merged
        self._fitted: Fitted | None = None

    @property
    def _shape(self) -> tuple[int, int]:
        return self.loss.outputs, self.columns + self.intercept

    @property
    def kept(self) -> int:
        """Rows that the fit can still look at."""
        return min(self._sample.stored, self._sample.size) + self._blocks.filled

    @property
    def complete(self) -> bool:
        """Whether these are all rows, so that the fit is that of all rows at once."""
        return self._sample.seen <= self._sample.size

    def add(
        self, rows: Any, targets: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> None:
        """Take rows in their order, of any real type, dense or sparse.

        Raises
        ------
        ValueError
            For wrong shapes, for what is not finite, and for targets that the loss does not know;
            nothing has changed then.
        """
        x, y, w = check_rows(rows, targets, weights, self.columns, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            check_finite(x if isinstance(x, np.ndarray) else x.data[:, None], y)
        self._family.check_targets(y[:, 0])
        self._fitted = None
        self.samples += np.shape(targets)[0]
        room = self._sample.size - self._sample.seen if self._sums is None else 0
        if room > 0 and len(y):
            first = slice(0, room)
            kept = x[first] if isinstance(x, np.ndarray) else x[first].toarray()
            ones = np.ones(len(kept)) if w is None else w[first]
            before = np.zeros((len(kept), self.loss.outputs))
            self._sample.fill(Kept(kept, y[first, 0], ones, before))
        if len(y) > room:
            rest = slice(room, None)
            self._blocks.cut(
                x[rest], y[rest], None if w is None else w[rest], self._length, self._fold
            )

    def _length(self) -> int:
        """Rows of the next block: more as the stream grows, for the sake of speed."""
        eighth = max(self._sample.seen, FEWEST) // 8
        return min(1 << eighth.bit_length() >> 1, self._largest)

    def _fold(self, rows: Array, targets: Array, weights: Array | None) -> None:
        """Add a block to the sums, and let its rows take their chance to be kept."""
        if self._sums is None:
            self._begin()
            assert self._sums is not None
        before = self._predictions(rows)
        self._sums.add(rows, self._family.expand(before, targets[:, 0]), weights)
        self._sample.offer(rows, targets[:, 0], weights, before)
        if self._sample.seen >= self._due:
            self._choose()

    def _begin(self) -> None:
        """Expand all rows kept so far: from now on some are left out."""
        sample = self._sample
        kept = sample.all
        sample.seed = self._stream_seed(kept)
        self._streams = (sample.seed,)
        sample.draw_keys()
        self._choose()
        sample.expand(self._predictions(kept.rows))
        self._sums = StreamSums(*self._functions, self._origin(kept.rows), len(kept))
        for piece in _pieces(kept, self.columns):
            expanded = self._family.expand(piece.before, piece.targets)
            alike = (piece.weights == 1.0).all()
            self._sums.add(piece.rows, expanded, None if alike else piece.weights)

    @property
    def _functions(self) -> tuple[int, int]:
        return self.columns, self._family.functions * self.loss.outputs

    @property
    def _largest(self) -> int:
        """Rows of the largest block."""
        import os; return int(os.environ.get('BLK','4')) * block_rows(self.columns)//2

    def _origin(self, rows: Array) -> Array:
        """A point near the rows: 0 in all columns that are not far from it."""
        size = np.abs(rows).max(axis=0)
        size[size == 0.0] = 1.0
        mean, square = np.zeros(self.columns), np.zeros(self.columns)
        for start in range(0, len(rows), self._largest):
            piece = rows[start : start + self._largest] / size
            mean += piece.sum(axis=0) / len(rows)
            square += np.einsum("ij,ij->j", piece, piece) / len(rows)
        far = mean**2 * (1.0 + 2.0 / NEAR) > square
        return np.where(far, mean * size, 0.0)

    def _stream_seed(self, kept: Kept) -> int:
        """A seed that streams share only if they begin with the same rows, so that two merge."""
        found = hashlib.blake2b(self.seed.to_bytes(8, "little"), digest_size=8)
        for array in (kept.rows, kept.targets):
            found.update(np.ascontiguousarray(array[:FEWEST]).astype("<f8").tobytes())
        return int.from_bytes(found.digest(), "little")

    def _predictions(self, rows: Array) -> Array:
        """At the weights of this time."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = rows @ self._now[:, : self.columns].T
            if self.intercept:
                z += self._now[:, self.columns]
        if not np.isfinite(z.sum()):  # a column that was hardly there has become huge
            z = np.clip(np.nan_to_num(z), -BIG, BIG)
        return z

    def _choose(self) -> None:
        """Fit the weights of this time to a part of the sample."""
        self._now = self._own(self._solved(few=True))
        self._due = int(GROWTH * self._sample.seen)

    def weights(self) -> Array:
        """One row per output in the rows' own units; the intercept, if there is one, is last."""
        return self._own(self._fit())

    def _fit(self) -> Fitted:
        if self._fitted is None:
            self._fitted = self._solved(few=False)
        return self._fitted

    def _solved(self, few: bool) -> Fitted:
        """The minimum for the rows that are kept, or for a few of them."""
        parts, sums = self._parts(few), self._sums
        known = None
        if sums is None:
            units = self._units_of(parts)
            weight = sum(float(part.rows.weights.sum()) * part.factor for part in parts)
        else:
            total = sums.total if self.intercept else sums.total.about_zero()
            units = self._units_of(parts, total)
            weight = sum(float(part.rows.weights.sum()) for part in parts[1:]) + total.weight
            if not self.complete or few:
                known = Known(self._own_family, total, units, parts[0], weight, self.intercept)
        problem = Problem(self, parts, units, weight, known)
        theta = self._standard(self._now, units)
        if sums is None and len(parts[0].rows) > 4 * self._few:
            theta = self._standard(self._own(self._solved(few=True)), units)
        return problem.solved(theta, sums is None and not theta.any(), ROUGH if few else CLOSE)

    @property
    def _few(self) -> int:
        return max(FEW, 8 * (self.columns + 1))

    def _parts(self, few: bool) -> list[Part]:
        """The sample, whose rows stand for all that it was drawn from, then rows that wait."""
        kept, seen = self._sample.all, self._sample.seen
        stride = max(min(len(kept), self._sample.size) // self._few, 1) if few else 1
        if self._sample.stored > self._sample.size:
            kept = kept.take(self._sample.chosen()[::stride])
        elif stride > 1:
            kept = kept.take(slice(None, None, stride))
        parts = [Part(kept, seen / max(len(kept), 1))]
        waiting = self._blocks.pending
        if waiting is not None and not few:
            rows, targets, weights = waiting
            ones = np.ones(len(rows)) if weights is None else weights
            before = np.zeros((len(rows), self.loss.outputs))
            parts.append(Part(Kept(rows, targets[:, 0], ones, before), 1.0))
        return parts

    def _units_of(self, parts: list[Part], total: Sums | None = None) -> Units:
        """Units of columns and targets, from the stream's sums or from all rows."""
        if total is None:
            mean, size = column_units(parts, self.columns, self.intercept)
        else:
            mean = total.mean[: self.columns]
            size = np.sqrt(np.maximum(total.scatter.diagonal(), 0.0) / total.weight)
            size = np.ldexp(size, total.exponents[: self.columns])
        constant = size <= np.maximum(CONSTANT * np.abs(mean), np.finfo(np.float64).tiny)
        size = np.where(constant, np.inf, size)
        if not self._family.regression:
            return Units(mean, size, 0.0, 1.0)
        targets = parts[0].rows.targets
        shift = float(np.median(targets)) if self.intercept and len(targets) else 0.0
        apart = np.abs(targets - shift)
        spread = float(np.median(apart)) if len(apart) else 0.0
        spread = spread if spread > 0.0 else float(apart.max(initial=0.0))
        scale = 2.0 ** np.frexp(spread)[1] if spread > 0.0 else 1.0
        return Units(mean, size, shift, float(scale))

    @property
    def _own_family(self) -> Any:
        return self._family

    def _own(self, fitted: Fitted) -> Array:
        """Weights in the rows' own units."""
        units, theta = fitted.objective.units, fitted.point.theta
        with np.errstate(over="ignore"):
            slopes = theta[:, : self.columns] / units.size * units.scale
        if not self.intercept:
            return slopes
        level = theta[:, self.columns] * units.scale + units.shift - slopes @ units.mean
        return np.column_stack([slopes, level])

    def _standard(self, own: Array, units: Units) -> Array:
        """Weights of standardised columns and targets."""
        slopes = own[:, : self.columns]
        size = np.where(np.isfinite(units.size), units.size, 0.0)
        theta = slopes * size / units.scale
        if not self.intercept:
            return theta
        level = own[:, self.columns] + slopes @ units.mean - units.shift
        if not own.any():
            level = np.zeros(len(own))
        return np.column_stack([theta, level / units.scale])

    def gap(self) -> Gap:
        """An estimate of the loss above that of the fit to all rows, and a bound for 95 %.

        Per unit of weight, from the spread of what the sums do not explain of the kept rows'
        slopes; 0 as long as all rows are kept.
        """
        if self.complete:
            return Gap(0.0, 0.0)
        fitted = self._fit()
        assert fitted.known is not None
        moments = fitted.known.error(fitted, self._sample.size, self._sample.seen)
        scale = fitted.objective.units.scale**2 * self._family.weight
        return Gap(moments[0] * scale, _quantile(*moments) * scale)

    def merge(self, other: Self) -> None:
        """Take all rows of another fit, as if they came after those here; it stays as it is.

        Raises
        ------
        ValueError
            For a fit with other settings, or one that holds some of the same rows: both began
            with the same rows and the same seed.
        """
        names = ("loss", "columns", "intercept", "l2", "radius")
        for name in names:
            if getattr(self, name) != getattr(other, name):
                raise ValueError(
                    f"cannot merge fits with {name}={getattr(self, name)!r} "
                    f"and {name}={getattr(other, name)!r}"
                )
        if self._sample.size != other._sample.size:
            raise ValueError("cannot merge fits that keep different numbers of rows")
        if set(self._streams) & set(other._streams):
            raise ValueError(
                "cannot merge fits that begin with the same rows and the same seed; "
                "if the rows differ later on, give one another seed"
            )
        samples = self.samples + other.samples
        if other._sums is None:
            self._add_all(other)
        elif self._sums is None:
            mine = self._copy()
            self.restore(other.plain())
            self._add_all(mine)
        else:
            self._flush()
            theirs = other._copy()
            theirs._flush()
            assert theirs._sums is not None
            self._sums.merge(theirs._sums)
            self._sample.merge(theirs._sample)
            self._streams = tuple(sorted((*self._streams, *theirs._streams)))
            self._choose()
        self.samples, self._fitted = samples, None

    def _add_all(self, other: Self) -> None:
        """Add the rows of a fit that has kept all of them."""
        for rows, _ in other._parts(few=False):
            self.add(rows.rows, rows.targets, rows.weights)

    def _flush(self) -> None:
        """Add the rows that wait for a block."""
        waiting = self._blocks.pending
        if waiting is not None:
            self._blocks = Blocks(self.columns)
            self._fold(*waiting)

    def _copy(self) -> Self:
        twin = type(self)(
            self.loss,
            self.columns,
            intercept=self.intercept,
            l2=self.l2,
            radius=self.radius,
            memory=self.memory,
            seed=self.seed,
        )
        twin.restore(self.plain())
        return twin

    def plain(self) -> State:
        """Everything that changes, as arrays and numbers of their own."""
        return {
            "samples": self.samples,
            "sample": self._sample.plain(),
            "blocks": self._blocks.plain(),
            "sums": None if self._sums is None else self._sums.plain(),
            "now": self._now.copy(),
            "due": self._due,
            "streams": list(self._streams),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the fit that gave ``state`` was; an error changes nothing."""
        names = {"samples", "sample", "blocks", "sums", "now", "due", "streams"}
        if set(state) != names:
            raise ValueError(f"the state must have {sorted(names)}, not {sorted(state)}")
        samples = check_whole(state["samples"], "samples of the state", least=0)
        sample = Reservoir(self._sample.size, self.columns, self.loss.outputs)
        sample.restore(state["sample"])
        self._family.check_targets(sample.all.targets)
        blocks = Blocks(self.columns)
        blocks.restore(state["blocks"])
        sums = None
        if state["sums"] is not None:
            sums = StreamSums(*self._functions)
            sums.restore(state["sums"])
            if sums.rows != sample.seen:
                raise ValueError(f"sums of the state are of {sums.rows} rows, not {sample.seen}")
        elif sample.seen > sample.size:
            raise ValueError("sums of the state are missing")
        now = check_array(state["now"], "now", self._shape)
        due = check_whole(state["due"], "due of the state", least=0)
        streams = tuple(
            check_whole(each, "streams of the state", least=0, most=2**64 - 1)
            for each in state["streams"]
        )
        self.samples, self._sample, self._blocks, self._sums = samples, sample, blocks, sums
        self._now, self._due, self._streams, self._fitted = now, due, streams, None


class Known:
    """What the sums say about the stream: totals of functions times rows, in standardised units.

    Parameters
    ----------
    family
        Of the loss, in the targets' own unit.
    total
        Sums of all rows that the sample was drawn from.
    units, intercept
        How rows and targets are standardised.
    sample
        Rows that stand for them.
    weight
        Of the whole stream, by which everything is divided.
    """

    def __init__(
        self,
        family: Any,
        total: Sums,
        units: Units,
        sample: Part,
        weight: float,
        intercept: bool,
    ) -> None:
        self._family, self._units, self._intercept = family, units, intercept
        self._sample, self._weight = sample, weight
        columns, outputs = len(units.mean), family.outputs
        varies = np.isfinite(units.size)
        exponents = total.exponents
        size = np.where(varies, np.ldexp(units.size, -exponents[:columns]), np.inf)
        share = total.weight / weight
        level = self._levels
        cross = total.cross / size[:, None] / total.weight
        cross = np.ldexp(cross, exponents[columns:]) / units.scale
        mean = (total.mean[columns:] - level) / units.scale
        moments = total.scatter / size[:, None] / size / total.weight
        ahead = np.zeros(columns)  # mean of the standardised columns
        if intercept:
            cross = np.vstack([cross, mean])
            moments = linalg.block_diag(moments, 1.0)
            ahead = np.append(ahead, 1.0)
        self._moments = moments
        # One row per function and output, the constant function last.
        totals = np.vstack([cross.T, np.repeat(ahead[None], outputs, axis=0)]) * share
        inside, products = self._sums_of_sample(len(ahead), len(totals))
        self._linear = (totals - inside).reshape(-1, outputs, len(ahead))
        self.quadratic = share * moments - products

    @property
    def _levels(self) -> Array:
        """What is subtracted from each function for standardised targets."""
        levels = np.zeros(self._family.functions * self._family.outputs)
        if self._family.regression:
            levels[:2] = self._units.shift
        return levels

    def _functions(self, kept: Kept) -> Array:
        """Functions of standardised predictions and targets, and 1: rows × functions × outputs."""
        u = self._family.expand(kept.before, kept.targets).T
        u = (u - self._levels) / self._units.scale
        u = np.hstack([u, np.ones((len(u), self._family.outputs))])
        return u.reshape(len(u), -1, self._family.outputs)

    def _sums_of_sample(self, size: int, count: int) -> tuple[Array, Array]:
        rows, factor = self._sample
        inside, products = np.zeros((count, size)), np.zeros((size, size))
        for piece in _pieces(rows, size):
            x = standardised(piece.rows, self._units, self._intercept)
            u = self._functions(piece).reshape(len(x), count)
            weights = piece.weights * (factor / self._weight)
            inside += (u * weights[:, None]).T @ x
            x *= np.sqrt(weights)[:, None]
            products += x.T @ x
        return inside, products

    def control(self, beta: Array) -> Control:
        """The correction with given β."""
        linear = np.einsum("kj,jkq->kq", beta[:, :-1], self._linear)
        return Control(linear, self.quadratic, beta[:, -1])

    def regressed(self, objective: Objective, theta: Array) -> Array:
        """β that explains the slopes of kept rows best, outputs × (functions, 1, prediction).

        Errors count as they would for least squares with the stream's own moments.
        """
        kept = self._sample.rows
        kept = kept.take(slice(None, None, -(-len(kept) // SAMPLE)))
        x = standardised(kept.rows, self._units, self._intercept)
        basis, slope, _ = self._regression(objective, kept, x, theta)
        metric = self._moments + 1e-6 * np.diag(np.maximum(self._moments.diagonal(), 1e-300))
        white = linalg.solve_triangular(np.linalg.cholesky(metric + 1e-12 * np.eye(len(metric))), x.T, lower=True).T
        leverage = np.einsum("ij,ij->i", white, white) * kept.weights**2
        found = np.zeros((basis.shape[2], basis.shape[1]))
        for k in range(len(found)):
            both = np.column_stack([basis[:, :, k], slope[:, k]])
            moved = white.T @ (both * kept.weights[:, None]) / len(x)
            gram = (both * leverage[:, None]).T @ both / len(x) - moved.T @ moved
            scale = 1.0 / np.sqrt(np.maximum(gram.diagonal(), 1e-300))
            gram *= scale[:, None] * scale
            left = gram[:-1, :-1] + 1e-9 * np.eye(len(gram) - 1)
            found[k] = np.linalg.solve(left, gram[:-1, -1]) * scale[:-1] / scale[-1]
        return found

    def _regression(
        self, objective: Objective, kept: Kept, x: Array, theta: Array
    ) -> tuple[Array, Array, Array]:
        """Functions, 1 and prediction of each kept row, the slopes of its loss, and predictions."""
        z = x @ theta.T
        targets = (kept.targets - self._units.shift) / self._units.scale
        slope = objective.family.at(z, targets).slope
        basis = np.concatenate([self._functions(kept), z[:, None, :]], axis=1)
        return basis, slope, z

    def error(self, fitted: Fitted, kept: int, seen: int) -> tuple[float, float, float]:
        """Three cumulants of the loss above its minimum that the sample's choice makes.

        It is half a sum of squares of normal variables, whose variances are the eigenvalues of
        the gradient's error in the metric of the Hessian.
        """
        objective, theta = fitted.objective, fitted.point.theta
        rows, size, outputs = self._sample.rows, theta.shape[1], theta.shape[0]
        free = max(kept - fitted.beta.shape[1], 1)
        scale = seen / self._weight * np.sqrt((1.0 - kept / seen) / kept * (kept / free))
        factor = objective.factor(fitted.point, bound=False)
        if factor is None:
            factor = objective.factor(fitted.point, bound=True)
        assert factor is not None
        signs = _Signs(DRAWS)
        spread = np.zeros((size, size)) if outputs == 1 else np.zeros((DRAWS, outputs, size))
        mean = np.zeros((outputs, size))
        for piece in _pieces(rows, size):
            x = standardised(piece.rows, self._units, self._intercept)
            basis, slope, _ = self._regression(objective, piece, x, theta)
            rest = slope - np.einsum("njk,kj->nk", basis, fitted.beta)
            rest *= piece.weights[:, None]
            if outputs == 1:
                mean += rest.T @ x
                x *= rest
                spread += x.T @ x
            else:
                rest -= rest.mean(axis=1, keepdims=True)
                mean += rest.T @ x
                signed = signs.next(len(x))[:, :, None] * rest[:, None, :]
                spread += (signed.reshape(len(x), -1).T @ x).reshape(spread.shape)
        if outputs == 1:
            spread -= mean.T @ mean / len(rows)
            spread *= scale * scale / len(rows)
            solved = linalg.cho_solve(factor, spread)
            square = solved @ solved
            third = float(np.sum(square * solved.T))
            return 0.5 * float(np.trace(solved)), 0.5 * float(np.trace(square)), third
        spread *= scale / np.sqrt(len(rows))
        solved = objective.solve(factor, fitted.point, spread)
        found = 0.5 * np.einsum("bkq,bkq->b", spread, solved)
        mean, variance = float(found.mean()), float(found.var(ddof=1))
        return mean, variance, 2.0 * variance**2 / max(mean, 1e-300)


def _quantile(mean: float, variance: float, third: float) -> float:
    """A bound from three cumulants, by a shifted gamma law (Hall 1983, Buckley and Eagleson 1988).

    Rows with large slopes make the law's tail heavier than it knows, hence a little more than 95 %.
    """
    if not (mean > 0.0 and variance > 0.0 and third > 0.0):
        return max(mean, 0.0)
    shape = 4.0 * variance**3 / third**2
    unit = np.sqrt(variance / shape)
    return mean + unit * (float(special.gammaincinv(shape, LEVEL)) - shape)


class _Signs:
    """Random signs, a row per row, the same each time."""

    def __init__(self, count: int) -> None:
        self._count, self._row = count, 0

    def next(self, rows: int) -> Array:
        numbers = np.arange(self._row * self._count, (self._row + rows) * self._count)
        self._row += rows
        drawn = draws.words(draws.key(0, draws.SAMPLE), numbers) & 1
        return (2.0 * drawn - 1.0).reshape(rows, self._count)


class Problem:
    """One fit: rows, units and what is known beyond the rows."""

    def __init__(
        self, fit: GlmFit, parts: list[Part], units: Units, weight: float, known: Known | None
    ) -> None:
        self._fit, self._parts, self._units = fit, parts, units
        self._weight, self._known = max(weight, 1e-300), known
        self._family = fit._family.in_units(units.scale)

    def _objective(self, extra: float, family: Any = None, control: Any = None) -> Objective:
        """The loss with ``extra`` added to λ."""
        fit = self._fit
        varies = np.isfinite(self._units.size)
        penalty = np.where(varies, LEAST_PENALTY, 1.0)
        if fit.l2 is not None or extra > 0.0:
            ridge = ((fit.l2 or 0.0) + extra) / fit._family.weight
            with np.errstate(over="ignore"):
                given = np.minimum(ridge / self._units.size / self._units.size, 1e100)
            penalty = np.where(varies, given + (LEAST_PENALTY if fit.l2 is None else 0.0), 1.0)
        return Objective(
            family or self._family,
            self._parts,
            self._units,
            intercept=fit.intercept,
            weight=self._weight,
            penalty=np.append(penalty, np.zeros(int(fit.intercept))),
            control=control,
        )

    def solved(self, theta: Array, start: bool, close: float) -> Fitted:
        """The minimum, from ``theta`` on; ``start`` says that it is nothing but zeros."""
        self._close = close
        loss = self._fit.loss
        if start and isinstance(loss, Robust):
            convex = family_of(Huber(loss.scale)).in_units(self._units.scale)
            found = minimise(self._objective(0.0, convex), theta)
            theta = theta if found is None else found.theta
        fitted = self._minimum(theta, 0.0)
        radius = self._fit.radius
        if radius is not None and self._length(fitted.point.theta) > radius:
            return self._in_ball(fitted, radius)
        return fitted

    def _minimum(self, theta: Array, extra: float) -> Fitted:
        objective = self._objective(extra)
        beta = np.zeros((len(theta), 1))
        if self._known is None:
            point = minimise(objective, theta, self._close)
            assert point is not None
            return Fitted(objective, point, None, beta, extra)
        point = None
        for close in (ROUGH, CLOSE) if self._close < ROUGH else (ROUGH,):
            beta = self._known.regressed(objective, theta if point is None else point.theta)
            for share in SHARES:
                objective.control = self._known.control(share * beta)
                found = minimise(objective, theta if point is None else point.theta, close)
                if found is not None:
                    break
            point, beta = found, share * beta
        assert point is not None  # without a correction the loss cannot be negative
        return Fitted(objective, point, self._known, beta, extra)

    def _length(self, theta: Array) -> float:
        """Norm of the weights in the rows' own units, without intercepts."""
        slopes = theta[:, : self._fit.columns] / self._units.size * self._units.scale
        return norm(slopes.ravel())

    def _in_ball(self, fitted: Fitted, radius: float) -> Fitted:
        """The minimum on the ball, by Newton's method for the multiplier of its constraint."""
        columns, extra = self._fit.columns, 0.0
        for _ in range(50):
            length = self._length(fitted.point.theta)
            if length <= radius * (1.0 + 1e-9):
                break
            pull = np.zeros_like(fitted.point.theta)
            slopes = fitted.point.theta[:, :columns] / self._units.size
            pull[:, :columns] = slopes / self._units.size
            factor = fitted.objective.factor(fitted.point, bound=False)
            if factor is None:
                factor = fitted.objective.factor(fitted.point, bound=True)
            assert factor is not None
            solved = fitted.objective.solve(factor, fitted.point, pull)
            slope = float(np.vdot(pull, solved)) / float(np.vdot(slopes, slopes))
            step = (length / radius - 1.0) / slope * self._fit._family.weight
            if not extra + step > extra:
                break
            extra += step
            fitted = self._minimum(fitted.point.theta, extra)
        length = self._length(fitted.point.theta)
        if length > radius:
            theta = fitted.point.theta.copy()
            theta[:, :columns] *= radius / length
            fitted = replace(fitted, point=fitted.objective.at(theta))
        return fitted


def column_units(parts: list[Part], columns: int, intercept: bool) -> tuple[Array, Array]:
    """Weighted mean (0 without intercept) and deviation of each column, of any size."""
    pieces = [(p, part.factor) for part in parts for p in _pieces(part.rows, columns)]
    heaviest = max((float(p.weights.max()) * f for p, f in pieces), default=1.0)
    total = sum(float(p.weights.sum() * (f / heaviest)) for p, f in pieces)
    mean, size = np.zeros(columns), np.zeros(columns)
    if not pieces:
        return mean, size
    if intercept:
        first = pieces[0][0].rows[0]
        for p, f in pieces:
            mean += (p.weights * (f / heaviest / total)) @ (p.rows - first)
        mean += first
    for p, _ in pieces:
        np.maximum(size, np.abs(p.rows - mean).max(axis=0), out=size)
    safe = np.where(size > 0.0, size, 1.0)
    squares = np.zeros(columns)
    for p, f in pieces:
        squares += (p.weights * (f / heaviest / total)) @ ((p.rows - mean) / safe) ** 2
    return mean, size * np.sqrt(squares)


def _pieces(rows: Kept, width: int) -> list[Kept]:
    """Views of a few rows each."""
    length = max(VALUES // max(width, 1), 1)
    return [rows.take(slice(start, start + length)) for start in range(0, len(rows), length)]
