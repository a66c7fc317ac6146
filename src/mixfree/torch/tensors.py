"""Arithmetic on lists of tensors: one point made of many parameters, whole or sharded."""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

Tensors = list[torch.Tensor]
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
    if not parts:
        parts = [torch.zeros(1, dtype=torch.float32, device=local(like).device)]
    norms = torch.stack(torch._foreach_norm(parts, torch.inf if largest else 2.0))
    norms = norms.to(sums_dtype(norms.device))
    if largest:
        return float(summed(norms.amax(), like, largest))
    return math.sqrt(float(summed((norms * norms).sum(), like)))


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


def sketch(parts: dict[int, torch.Tensor], stride: int, like: torch.Tensor) -> torch.Tensor:
    """Return every ``stride``-th entry of a vector, which is given in parts.

    Parameters
    ----------
    parts
        Tensors by the number of their first entry; all others are 0.
    like
        A tensor of the result's size and dtype.

    Examples
    --------
    >>> sketch({0: torch.ones(3), 3: torch.arange(4.0)}, 2, torch.zeros(4))
    tensor([1., 1., 1., 3.])
    """
    pieces = {-(-at // stride): t.reshape(-1)[-at % stride :: stride] for at, t in parts.items()}
    if sum(map(len, pieces.values())) == len(like):
        return torch.cat(list(pieces.values())).to(like.dtype)
    total = torch.zeros_like(like)
    for at, piece in pieces.items():
        total[at : at + len(piece)] = piece
    return total
