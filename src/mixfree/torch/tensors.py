"""Arithmetic on lists of tensors: one point made of many parameters."""

from typing import Any

import numpy as np
import torch

Tensors = list[torch.Tensor]
WITHOUT_FLOAT64 = ("mps", "xla")  # device types


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of sums: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def sums_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype of sums of squares: float64 if the device has it."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def largest(tensors: Tensors) -> float:
    """Return the largest norm of a gradient: its square and the sum of 2^40 such are finite.

    Norms of float32 are summed in float32, since float64 takes six times as long on the host.
    """
    narrow = {t.dtype for t in tensors} - {torch.float64}
    return 2.0**60 if narrow else float(torch.finfo(torch.float64).max) / 2.0**40


def norm(tensors: Tensors) -> torch.Tensor:
    """Return the Euclidean norm over all tensors, on their device.

    For float64 it neither overflows nor underflows, as :func:`mixfree.base.arithmetic.norm`; for
    narrower dtypes it is infinite from 2^64 on. It is not finite if an entry is not.

    Examples
    --------
    >>> norm([torch.tensor([3e200], dtype=torch.float64), torch.zeros(2, 2)])
    tensor(3.0000e+200, dtype=torch.float64)
    >>> norm([torch.tensor([3e-200], dtype=torch.float64), torch.zeros(2, 2)])
    tensor(3.0000e-200, dtype=torch.float64)
    """
    given = [t for t in tensors if t.numel()]
    if not given:
        return torch.zeros((), device=tensors[0].device if tensors else None)
    if all(t.dtype != torch.float64 for t in given):
        norms = torch._foreach_norm(given, 2, dtype=torch.float32)
        return torch.linalg.vector_norm(torch.stack(norms))
    given = [t.double() for t in given]
    top = torch.stack(torch._foreach_norm(given, torch.inf)).amax()
    # A power of two keeps the scaling exact.
    unit = torch.ldexp(torch.ones_like(top), torch.frexp(top).exponent - 1)
    scaled = torch._foreach_norm(torch._foreach_div(given, unit), 2)
    return unit * torch.linalg.vector_norm(torch.stack(scaled))


def step_along(
    params: Tensors, directions: Tensors, size: Any, left_out: torch.Tensor, decay: float = 0.0
) -> None:
    """Subtract size·(direction + decay·p) from each p, unless ``left_out`` is 1.

    Parameters
    ----------
    params, directions
        Tensors of the same shapes on one device.
    size, left_out
        A number, or a tensor on that device; and a float32 tensor there. Neither is copied to the
        host.
    decay
        Weight decay.

    Examples
    --------
    >>> p = torch.ones(2)
    >>> step_along([p], [torch.tensor([1.0, 2.0])], 0.5, torch.zeros(()))
    >>> step_along([p], [torch.tensor([torch.nan, 2.0])], 0.5, torch.ones(()))
    >>> p
    tensor([0.5000, 0.0000])
    """
    for dtype in {p.dtype for p in params}:
        pairs = [(p, d) for p, d in zip(params, directions, strict=True) if p.dtype == dtype]
        if dtype == torch.float64:
            for p, d in pairs:
                p.sub_((size * (d + decay * p)).masked_fill_(left_out > 0.0, 0.0))
            continue
        # torch's fused SGD, which reads the flag on the device; its lr is float32.
        torch._fused_sgd_(
            [p for p, _ in pairs],
            [_alike(d, p) for p, d in pairs],
            [],
            weight_decay=decay,
            momentum=0.0,
            lr=size.float() if isinstance(size, torch.Tensor) else size,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
            grad_scale=None,
            found_inf=left_out,
        )


def move(
    params: Tensors, sums: Tensors, alpha: float, scale: float, root: torch.Tensor, decay: float
) -> None:
    """Subtract (α/root)·(scale·sum + decay·p) from each p; the sums are overwritten.

    A root of zero implies sums of zero, and no step.
    """
    rate = torch.where(root > 0.0, alpha / root, 0.0)
    if decay:
        torch._foreach_mul_(params, 1.0 - (decay * rate).clamp(max=1.0))
    for dtype in {s.dtype for s in sums}:
        pairs = [(p, s) for p, s in zip(params, sums, strict=True) if s.dtype == dtype]
        mine = [s for _, s in pairs]
        # A rate beyond the dtype's range implies sums below its smallest normal number.
        torch._foreach_mul_(mine, (scale * rate).clamp(max=torch.finfo(dtype).max).to(dtype))
        torch._foreach_sub_([p for p, _ in pairs], mine)


def _alike(direction: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """Return the direction with the dtype and the strides of the parameter."""
    if direction.dtype == p.dtype and direction.stride() == p.stride():
        return direction
    return torch.empty_like(p).copy_(direction)


def as_tensors(plain: Any) -> Any:
    """Convert the arrays in nested dicts to tensors, which torch can save."""
    if isinstance(plain, dict):
        return {name: as_tensors(value) for name, value in plain.items()}
    return torch.tensor(plain) if isinstance(plain, np.ndarray) else plain


def as_arrays(packed: Any) -> Any:
    """Undo :func:`as_tensors`."""
    if isinstance(packed, dict):
        return {name: as_arrays(value) for name, value in packed.items()}
    return packed.cpu().numpy() if isinstance(packed, torch.Tensor) else packed
