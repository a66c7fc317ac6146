"""How far an estimate is from the fixed point, judged by the trajectory that it came from."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, sparse, stats

from mixfree.base.arithmetic import Array

BATCHES = 20
FEWEST = 5  # batches that give a spread to be trusted
LARGEST = 4096  # features whose matrix of pairs is affordable (130 MB)
ENTRIES = LARGEST**2  # what the batches' matrices may hold together
RIDGE = 1e-12  # a transition, for features that never occur or depend on each other
UNDETERMINED = 1e-4  # share of a row above which the ridge and not the data gives its value
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
    :math:`A^{-1} S A^{-\top}` (Student's t). Of what the trajectory never met it knows nothing,
    and nothing of how far off a value is in which no batch differs from another, as when no
    reward was seen; and it says so: the interval has no ends.
    """

    gamma: float
    size: int
    matrices: list[Any] = field(default_factory=list)
    vectors: list[Array] = field(default_factory=list)
    met: list[Array] = field(default_factory=list)
    transitions: int = 0

    @property
    def entries(self) -> int:
        """Entries that the matrices of all batches will hold, if the largest so far is typical."""
        held = (each.nnz if sparse.issparse(each) else np.size(each) for each in self.matrices)
        return BATCHES * max(held, default=0)

    def begin_batch(self) -> None:
        """What comes now belongs to another batch."""
        self.matrices.append(0.0)
        self.vectors.append(np.zeros(self.size))
        self.met.append(np.zeros(self.size, dtype=bool))

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
        self.met[-1] |= before.any(axis=0)
        self.transitions += len(here)

    def solve(self) -> None:
        """Find the fixed point of all transitions seen."""
        total = sum(self.matrices)
        matrix = total.toarray() if sparse.issparse(total) else np.asarray(total)
        self._ridge = RIDGE * self.transitions
        self._factors = linalg.lu_factor(matrix + self._ridge * np.eye(self.size))
        self.theta = linalg.lu_solve(self._factors, sum(self.vectors))
        pairs = zip(self.matrices, self.vectors, strict=True)
        self._residuals = np.array([b - a @ self.theta for a, b in pairs])

    def batches_met(self, rows: Array) -> Array:
        """Number of batches in which every feature of a row occurs, the rarest one's."""
        counts = np.sum(self.met, axis=0)
        return np.where(rows != 0.0, counts, len(self.met)).min(axis=1)

    def errors(self, rows: Array, level: float) -> Array:
        """Half-widths of intervals of φᵀθ̂ around φᵀθ* that hold for all rows together.

        A row's spread comes from the batches that met its features, so that its degrees of
        freedom are theirs. With w = A⁻ᵀφ from the matrix with its ridge, ridge·w is the part
        of φ of which the data say nothing.
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
