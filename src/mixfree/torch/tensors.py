"""Arithmetic on lists of tensors: one point made of many parameters."""

import math
from typing import Any

import numpy as np
import torch

Tensors = list[torch.Tensor]


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums: float64 for float64, float32 for everything narrower."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def largest(tensors: Tensors) -> float:
    """The largest norm that a gradient may have: the sum of 2^40 like it is still finite."""
    return float(min(torch.finfo(wide(t.dtype)).max for t in tensors)) / 2.0**40


def norm(tensors: Tensors) -> float:
    """Euclidean norm over all tensors, in one transfer to the host.

    Twin of :func:`mixfree.base.arithmetic.norm`: it neither overflows nor underflows, and is not
    finite if an entry is not.

    Examples
    --------
    >>> norm([torch.tensor([3e30], dtype=torch.float64), torch.zeros(2, 2)])
    3e+30
    """
    if not tensors:
        return 0.0
    found = math.hypot(*_norms(tensors))
    # Between these no square has overflowed, and those lost to underflow do not matter.
    narrow = any(wide(t.dtype) == torch.float32 for t in tensors)
    least, most = (1e-12, 1e18) if narrow else (1e-130, 1e150)
    return found if least < found < most else math.hypot(*map(_scaled_norm, tensors))


def add(tensors: Tensors, others: Tensors, factor: float) -> None:
    """Add factor·other to every tensor; torch refuses an empty list."""
    if tensors:
        torch._foreach_add_(tensors, others, alpha=factor)


def move(params: Tensors, directions: Tensors, alpha: float, root: float) -> None:
    """Subtract (α/root)·direction from every parameter; root zero means directions of zero."""
    if root == 0.0:
        return
    size = alpha / root
    if abs(size) < torch.finfo(torch.float32).max:
        add(params, directions, -size)
    else:
        add(params, [d / root for d in directions], -alpha)


def _norms(tensors: Tensors) -> list[float]:
    dtypes = {wide(t.dtype) for t in tensors}
    if len(dtypes) == 1:
        found: list[float] = torch.stack(
            torch._foreach_norm(tensors, 2, dtype=dtypes.pop())
        ).tolist()
        return found
    return [each for t in tensors for each in _norms([t])]


def _scaled_norm(tensor: torch.Tensor) -> float:
    top = float(tensor.abs().amax()) if tensor.numel() else 0.0
    if top == 0.0 or not math.isfinite(top):
        return top
    # A power of two keeps the scaling exact.
    exponent = math.frexp(top)[1]
    scaled = tensor.double() * 2.0 ** (-exponent // 2) * 2.0 ** (-exponent - -exponent // 2)
    return math.ldexp(float(torch.linalg.vector_norm(scaled)), exponent)


def as_tensors(plain: Any) -> Any:
    """The arrays in nested dicts as tensors, which torch saves."""
    if isinstance(plain, dict):
        return {name: as_tensors(value) for name, value in plain.items()}
    return torch.tensor(plain) if isinstance(plain, np.ndarray) else plain


def as_arrays(packed: Any) -> Any:
    """What :func:`as_tensors` was given."""
    if isinstance(packed, dict):
        return {name: as_arrays(value) for name, value in packed.items()}
    return packed.cpu().numpy().copy() if isinstance(packed, torch.Tensor) else packed
