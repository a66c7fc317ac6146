"""Run an optimiser over the rows of a linear model with the compiled kernel."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_not_negative
from mixfree.core.optimizer import Optimizer
from mixfree.linear.losses import Family, Loss, compiled_loss, has_kernel, linear_gradient


def advance_linear(
    opt: Optimizer,
    loss: Loss,
    rows: npt.ArrayLike,
    targets: npt.ArrayLike,
    *,
    order: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    l2: float = 0.0,
) -> None:
    """Tell ``opt`` the gradient of every row in order, in compiled code.

    Equivalent to ``opt.tell(linear_gradient(loss, opt.x, row, target, l2))`` for each row. It may
    be called again with the next rows: the result does not depend on how a stream is chunked.

    Parameters
    ----------
    opt
        The optimiser. Its point has one weight per column for each output of the loss, and one
        more per output for an intercept.
    loss
        One of :mod:`mixfree.linear.losses`.
    rows, targets
        A matrix and a vector. Targets are −1 or +1 for the logistic loss, class numbers for
        softmax, and real numbers otherwise.
    order
        Indices of the rows in the order of the stream; by default all rows as given.
    weights
        Factor of each row's loss.
    l2
        Adds ½·l2·‖x‖² to every sample's loss.

    Raises
    ------
    ValueError
        If a row's gradient is not finite. The message names the sample; the samples before it
        have been used.

    Examples
    --------
    >>> import mixfree as mf
    >>> from mixfree.linear.losses import Squared
    >>> opt = mf.MAG(np.zeros(2))
    >>> advance_linear(opt, Squared(), np.eye(2)[[0, 1] * 50], np.ones(100))
    >>> opt.samples
    100
    """
    x, y, indices, factors = _check_arrays(opt, loss, rows, targets, order, weights)
    l2 = check_not_negative(l2, "l2")
    if opt.has_kernel and has_kernel(loss):
        opt.advance(_kernel(loss, l2), (x, y, factors), indices)
        return
    for r in indices:  # the same in NumPy
        for row, target, weight in opt.offer((x[r], y[r], factors[r] if factors.size else 1.0)):
            with np.errstate(over="ignore", invalid="ignore"):  # tell refuses such gradients
                gradient = linear_gradient(loss, opt.x, row, target, l2, float(weight))
            opt.tell(gradient)


def _kernel(loss: Loss, l2: float) -> Any:
    """Return the function that takes samples in their order, for :meth:`Optimizer.advance`."""
    from mixfree.kernels.linear import linear

    compiled, margins = compiled_loss(loss), np.zeros(loss.outputs)

    def kernel(plan: Any, run: Any, parts: tuple[Array, ...], order: Array) -> int:
        samples, kept = parts[:3], parts[3:] or parts[:3]
        return int(linear(plan, run, compiled, l2, margins, samples, kept, order))

    return kernel


def _check_arrays(
    opt: Optimizer,
    loss: Loss,
    rows: npt.ArrayLike,
    targets: npt.ArrayLike,
    order: npt.ArrayLike | None,
    weights: npt.ArrayLike | None,
) -> tuple[Array, Array, Array | range, Array]:
    for name, value in (("rows", rows), ("targets", targets)):
        if np.asarray(value).dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold real numbers, not {np.asarray(value).dtype}")
    x, y = (np.ascontiguousarray(each, dtype=opt.x.dtype) for each in (rows, targets))
    if x.ndim != 2:
        raise ValueError(f"rows must be a matrix, not shape {x.shape}")
    if y.shape != (x.shape[0],):
        raise ValueError(f"targets must have shape ({x.shape[0]},), not {y.shape}")
    plain = loss.outputs * x.shape[1]
    if opt.x.size not in (plain, plain + loss.outputs):
        raise ValueError(
            f"opt.x has {opt.x.size} entries, but {loss.outputs} output(s) of {x.shape[1]} columns "
            f"need {plain}, or {plain + loss.outputs} with an intercept"
        )
    if isinstance(loss, Family):
        loss.check_targets(y)
    indices: Array | range = range(x.shape[0])
    if order is not None:
        given = np.asarray(order)
        whole = given.ndim == 1 and (given.size == 0 or given.dtype.kind in "iu")
        if not whole or (given.size and not 0 <= given.min() <= given.max() < len(x)):
            raise ValueError(f"order must be a vector of row numbers from 0 to {len(x) - 1}")
        indices = np.ascontiguousarray(given, dtype=np.int64)
    factors = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    if weights is not None and factors.shape != y.shape:
        raise ValueError(f"weights must have shape {y.shape}, not {factors.shape}")
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise ValueError("weights must be finite and not negative")
    return x, y, indices, factors
