"""How far an estimate is from the fixed point, judged by the trajectory that it came from."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, sparse, stats

from mixfree.numerics import Array

LARGEST = 4096  # features whose matrix of pairs is affordable (130 MB)
RIDGE = 1e-9  # a transition, for features that never occur or depend on each other
DENSE = 0.1  # share of entries above which products of dense rows are quicker


@dataclass
class Certificate:
    r"""The sums of the least-squares fixed point, in batches of consecutive transitions.

    .. math:: A = \sum_t \phi(s_t)\,(\phi(s_t) - \gamma\phi(s_t'))^\top, \qquad
              b = \sum_t r_t\,\phi(s_t), \qquad A\hat\theta = b

    :math:`\hat\theta` is the fixed point of the transitions seen. It costs d² a transition where
    TD costs d, but it knows how far any θ is from it, and how far it is itself from θ*: the
    batches' residuals :math:`b_k - A_k\hat\theta` are nearly independent once a batch is much
    longer than the mixing time, and their spread gives its covariance
    :math:`A^{-1} S A^{-\top}` (Student's t).
    """

    gamma: float
    size: int
    matrices: list[Any] = field(default_factory=list)
    vectors: list[Array] = field(default_factory=list)
    transitions: int = 0

    def begin_batch(self) -> None:
        """What comes now belongs to another batch."""
        self.matrices.append(0.0)
        self.vectors.append(np.zeros(self.size))

    def add(self, rows: Array, here: Array, there: Array, rewards: Array) -> None:
        """Take transitions, as the learner looked them up."""
        before, change = rows[here], rows[here]
        going_on = there >= 0
        change[going_on] -= self.gamma * rows[there[going_on]]
        left: Any = before
        if np.count_nonzero(before) < DENSE * before.size:
            left, change = sparse.csr_array(before), sparse.csr_array(change)
        self.matrices[-1] = self.matrices[-1] + left.T @ change
        self.vectors[-1] += before.T @ rewards
        self.transitions += len(here)

    def solve(self) -> None:
        """Find the fixed point of all transitions seen."""
        total = sum(self.matrices)
        matrix = total.toarray() if sparse.issparse(total) else np.asarray(total)
        matrix = matrix + RIDGE * self.transitions * np.eye(self.size)
        self._factors = linalg.lu_factor(matrix)
        self.theta = linalg.lu_solve(self._factors, sum(self.vectors))
        pairs = zip(self.matrices, self.vectors, strict=True)
        self._residuals = np.array([b - a @ self.theta for a, b in pairs])

    def errors(self, rows: Array, level: float) -> Array:
        """Half-widths of intervals of φᵀθ̂ around φᵀθ* that hold for all rows together."""
        batches = len(self._residuals)
        quantile = stats.t.ppf(1.0 - (1.0 - level) / (2.0 * len(rows)), batches - 1)
        shares = linalg.lu_solve(self._factors, rows.T, trans=1).T @ self._residuals.T
        spread = np.sqrt(np.sum(shares**2, axis=1) * batches / (batches - 1))
        return quantile * spread
