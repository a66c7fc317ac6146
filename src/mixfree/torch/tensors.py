"""Arithmetic on lists of tensors: one point made of many parameters, whole or sharded."""

import math
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


def sketch(tensors: Tensors, signs: torch.Tensor, width: int) -> torch.Tensor:
    """Return the sum of the rows of ``width`` entries of all tensors, each with its sign.

    Examples
    --------
    >>> sketch([torch.ones(3), torch.arange(4.0)], torch.tensor([1.0, -1.0]), 4)
    tensor([ 0., -1., -2.,  0.])
    """
    if sum(t.numel() for t in tensors) <= COPIED:
        flat = torch.cat([t.reshape(-1) for t in tensors])
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % width))
        return signs.to(flat.dtype) @ flat.view(-1, width)
    signs = signs.to(tensors[0].dtype)
    total, at = signs.new_zeros(width), 0
    for tensor in tensors:
        flat = tensor.reshape(-1)
        # The entries before the first whole row, the whole rows, and those after them.
        head = min(-at % width, flat.numel())
        rows, (row, place) = (flat.numel() - head) // width, divmod(at, width)
        total[place : place + head] += signs[row] * flat[:head]
        row += head > 0
        body, tail = flat[head : head + rows * width], flat[head + rows * width :]
        total += signs[row : row + rows] @ body.view(rows, width)
        total[: tail.numel()] += signs[(row + rows) % len(signs)] * tail
        at += flat.numel()
    return total
