"""Features given as a matrix: one row per state."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole

ROUNDING = 1e-9  # tolerance of norms at most 1


def tabular(states: int) -> Array:
    """Return the identity: one feature per state, so that θ is the table of values.

    Examples
    --------
    >>> tabular(2)
    array([[1., 0.],
           [0., 1.]])
    """
    return np.eye(check_whole(states, "states"))


def rescaled(features: npt.ArrayLike) -> Array:
    """Divide a matrix by its largest row norm: the same span, and no norm above 1.

    Examples
    --------
    >>> rescaled([[3.0, 4.0], [0.0, 2.5]])
    array([[0.6, 0.8],
           [0. , 0.5]])
    """
    matrix: Array = _finite_matrix(features)
    largest = float(np.linalg.norm(matrix, axis=1).max())
    return matrix / largest if largest > 0.0 else matrix


def feature_matrix(features: Any, states: int | None = None) -> Any:
    """Check features (real, finite, no norm above 1), and return a copy, in CSR form if sparse."""
    matrix = _finite_matrix(features)
    if states is not None and matrix.shape[0] != states:
        raise ValueError(
            f"features must have one row for each of the {states} states, not {matrix.shape[0]}"
        )
    norms = (sparse.linalg.norm if sparse.issparse(matrix) else np.linalg.norm)(matrix, axis=1)
    worst = int(norms.argmax())
    if norms[worst] > 1.0 + ROUNDING:
        raise ValueError(
            f"features of state {worst} have norm {norms[worst]:.6g}, above 1: "
            "scale them, for instance with mixfree.td.rescaled(features)"
        )
    return matrix


def canonical(rows: Any) -> Any:
    """Return a CSR copy with sorted indices and without zeros, as a dense matrix would give."""
    found = sparse.csr_array(rows, dtype=np.float64, copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def _finite_matrix(features: Any) -> Any:
    given = features if sparse.issparse(features) else np.asarray(features)
    if given.ndim != 2 or 0 in given.shape or given.dtype.kind not in "biuf":
        raise ValueError(
            "features must be a matrix of real numbers with one row per state, "
            f"not shape {given.shape} of {given.dtype}"
        )
    matrix = canonical(given) if sparse.issparse(given) else np.array(given, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(matrix.sum(axis=1))
    if not finite.all():
        raise ValueError(
            f"features must be finite, but those of state {int(np.argmin(finite))} are not"
        )
    return matrix
