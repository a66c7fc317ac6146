"""The distance of an estimate from the fixed point, by LSTD and batch means."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, sparse, stats

from mixfree.base.arithmetic import Array
from mixfree.linear.exact.lstd import correlation_remark

BATCHES = 20
FEWEST = 5  # batches needed for a reliable spread
LARGEST = 4096  # most features, whose matrix of pairs takes 130 MB
ENTRIES = LARGEST**2  # most entries of the batches' matrices together
RIDGE = 1e-12  # ridge per transition, for features that never occur or are dependent
UNDETERMINED = 1e-4  # fraction of a row that the data may leave undetermined
DENSE = 0.1  # fraction of nonzero entries above which products of dense rows are faster


@dataclass
class Certificate:
    r"""The sums of the least-squares fixed point, in batches of consecutive transitions.

    .. math:: A = \sum_t \phi(s_t)\,(\phi(s_t) - \gamma\phi(s_t'))^\top, \qquad
              b = \sum_t r_t\,\phi(s_t), \qquad A\hat\theta = b

    :math:`\hat\theta` is the fixed point of the observed transitions (LSTD). It costs d² per
    transition, whereas TD costs d. Its distance to θ* is estimated by batch means: the batches'
    residuals :math:`b_k - A_k\hat\theta` are nearly independent once a batch is much longer than
    the mixing time, and their spread gives the covariance :math:`A^{-1} S A^{-\top}` of
    :math:`\hat\theta` (Student's t). The interval is unbounded for states that the trajectory did
    not visit, and where all batches agree exactly, as when no reward was observed.
    """

    gamma: float
    size: int
    matrices: list[Any] = field(default_factory=list, repr=False)
    vectors: list[Array] = field(default_factory=list, repr=False)
    seen: list[Array] = field(default_factory=list, repr=False)
    transitions: int = 0

    @property
    def entries(self) -> int:
        """Entries of the matrices of all batches, estimated from the largest so far."""
        held = (each.nnz if sparse.issparse(each) else np.size(each) for each in self.matrices)
        return BATCHES * max(held, default=0)

    def begin_batch(self) -> None:
        """Start the next batch."""
        self.matrices.append(0.0)
        self.vectors.append(np.zeros(self.size))
        self.seen.append(np.zeros(self.size, dtype=bool))

    def add(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Add transitions in the form of :meth:`TDLearner.look_up`."""
        before, change = rows[here], rows[here]
        continuing = there >= 0
        change[continuing] -= self.gamma * rows[there[continuing]]
        left: Any = before
        if np.count_nonzero(before) < DENSE * before.size:
            left, change = sparse.csr_array(before), sparse.csr_array(change)
        self.matrices[-1] = self.matrices[-1] + left.T @ change
        self.vectors[-1] += before.T @ rewards
        self.seen[-1] |= before.any(axis=0)
        self.transitions += len(here)

    def solve(self) -> None:
        """Solve for the fixed point of all transitions."""
        total = sum(self.matrices)
        matrix = total.toarray() if sparse.issparse(total) else np.asarray(total)
        self._ridge = RIDGE * self.transitions
        self._factors = linalg.lu_factor(matrix + self._ridge * np.eye(self.size))
        self.theta = linalg.lu_solve(self._factors, sum(self.vectors))
        pairs = zip(self.matrices, self.vectors, strict=True)
        self._residuals = np.array([b - a @ self.theta for a, b in pairs])

    @property
    def remark(self) -> str:
        """Why the errors are too small; empty if there is no known reason."""
        return correlation_remark(self._residuals, self.transitions // len(self.matrices))

    def batches_met(self, rows: Array) -> Array:
        """Count the batches in which the rarest feature of each row occurs."""
        counts = np.sum(self.seen, axis=0)
        fewest: Array = np.where(rows != 0.0, counts, len(self.seen)).min(axis=1)
        return fewest

    def errors(self, rows: Array, level: float) -> Array:
        """Return half-widths of simultaneous intervals for φᵀθ* around φᵀθ̂, one per row.

        The degrees of freedom of a row follow from the number of batches in which its features
        occur. With w = A⁻ᵀφ, where A includes the ridge, ridge·w is the part of φ that the data
        do not determine.
        """
        batches = self.batches_met(rows)
        inverse = linalg.lu_solve(self._factors, rows.T, trans=1).T
        left = self._ridge * np.linalg.norm(inverse, axis=1)
        known = (batches >= FEWEST) & (left <= UNDETERMINED * np.linalg.norm(rows, axis=1))
        freedom = np.maximum(batches - 1, 1)
        quantile = stats.t.ppf(1.0 - (1.0 - level) / (2.0 * len(rows)), freedom)
        squares = np.sum((inverse @ self._residuals.T) ** 2, axis=1)
        spread = np.sqrt(squares * (freedom + 1) / freedom)
        return np.where(known & (spread > 0.0), quantile * spread, np.inf)
