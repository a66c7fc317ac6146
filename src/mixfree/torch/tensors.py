"""Arithmetic on lists of tensors: one point made of many parameters, whole or sharded."""

import math
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

Tensors = list[torch.Tensor]
COPIED = 1 << 16  # most entries that are copied to be sketched at once
WITHOUT_FLOAT64 = ("mps", "xla")  # device types


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of sums: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def sums_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype of short sums: float64 if the device has it."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def local(tensor: Any) -> torch.Tensor:
    """Return the part of a tensor that this process has, which shares its memory."""
    part: torch.Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return part


def summed(values: torch.Tensor, like: torch.Tensor, largest: bool = False) -> torch.Tensor:
    """Return sums, or the largest values, over the processes among which ``like`` is sharded."""
    if isinstance(like, DTensor):
        for dimension, placement in enumerate(like.placements):
            if placement.is_shard():
                how = dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM
                dist.all_reduce(values, how, like.device_mesh.get_group(dimension))
    return values


def numbers(values: Tensors, like: torch.Tensor, largest: bool = False) -> list[float]:
    """Return tensors of one number each as numbers, over all processes, in one read."""
    if not values:
        return []
    found: list[float] = summed(torch.stack(values), like, largest).tolist()
    return found


def norm(tensors: Tensors, like: torch.Tensor, largest: bool = False) -> float:
    """Return the Euclidean norm over all tensors, or the largest entry.

    Examples
    --------
    >>> norm([torch.tensor([3.0]), torch.tensor([[4.0]])], torch.zeros(1))
    5.0
    """
    parts = [part for part in tensors if part.numel()]
    norms = torch._foreach_norm(parts, torch.inf if largest else 2.0) if parts else []
    kind = sums_dtype(like.device)
    if largest:
        return max(numbers([n.to(kind) for n in norms], like, largest), default=0.0)
    return math.sqrt(sum(numbers([n.to(kind) ** 2 for n in norms], like)))


def first_entry(tensor: torch.Tensor) -> int:
    """Return how many entries of a tensor earlier processes have, if it is sharded."""
    shape, found = list(tensor.shape), 0
    for dimension, placement in enumerate(getattr(tensor, "placements", ())):
        if placement.is_shard():
            mesh, along = tensor.device_mesh, shape[placement.dim]
            each = -(-along // mesh.size(dimension))
            start = min(each * mesh.get_local_rank(dimension), along)
            found += start * math.prod(shape) // max(along, 1)
            shape[placement.dim] = min(each, along - start)
    return found


def sketch(parts: dict[int, torch.Tensor], signs: torch.Tensor, width: int) -> torch.Tensor:
    """Return the sum of the rows of ``width`` entries, each with its sign.

    Parameters
    ----------
    parts
        Tensors by the number of their first entry; all others are 0.

    Examples
    --------
    >>> sketch({0: torch.ones(3), 3: torch.arange(4.0)}, torch.tensor([1.0, -1.0]), 4)
    tensor([ 0., -1., -2.,  0.])
    """
    entries = sum(t.numel() for t in parts.values())
    if width < entries <= COPIED and _adjoin(parts):
        flat = torch.cat([t.reshape(-1) for t in parts.values()])
        flat = torch.nn.functional.pad(flat, (0, len(signs) * width - entries))
        return signs @ flat.view(-1, width)
    total = signs.new_zeros(width)
    for at, tensor in parts.items():
        flat = tensor.reshape(-1)
        # The entries before the first whole row, the whole rows, and those after them.
        head = min(-at % width, flat.numel())
        rows, (row, place) = (flat.numel() - head) // width, divmod(at, width)
        total[place : place + head] += signs[row] * flat[:head]
        row += head > 0
        body, tail = flat[head : head + rows * width], flat[head + rows * width :]
        total += signs[row : row + rows] @ body.view(rows, width)
        total[: tail.numel()] += signs[(row + rows) % len(signs)] * tail
    return total


def _adjoin(parts: dict[int, torch.Tensor]) -> bool:
    """Whether the parts are one vector without gaps."""
    ends = accumulate((t.numel() for t in parts.values()), initial=0)
    return all(at == end for at, end in zip(parts, ends, strict=False))
