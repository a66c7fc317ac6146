"""Arithmetic on lists of tensors: one point made of many parameters, whole or sharded."""

import math
from math import inf
from typing import Any

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors
from torch.distributed.tensor import DTensor

from mixfree.steps.ladder_rule import SAMPLE, stride_of, width_of

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


def norm(tensors: Tensors, like: torch.Tensor, largest: bool = False) -> float:
    """Return the Euclidean norm over all tensors, or the largest entry."""
    parts = [part for part in tensors if part.numel()] or [torch.zeros(1)]
    kind = max((wide(part.dtype) for part in parts), key=lambda dtype: dtype.itemsize)
    found = torch.stack(torch._foreach_norm(parts, inf if largest else 2.0, kind)).tolist()
    value = max(found) if largest else math.hypot(*found)
    if isinstance(like, DTensor):
        power = 1 if largest else 2
        whole = torch.tensor([value**power], dtype=torch.float64)
        value = float(summed(whole.to(local(like).device), like, largest)) ** (1 / power)
    return value


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


class Sample:
    """Every so many of the entries of a vector that is given in parts, one per parameter."""

    def __init__(self, params: Tensors, most: int) -> None:
        sizes = [p.numel() for p in params]
        entries = sum(sizes)
        self.stride, self.width = stride_of(entries, most), width_of(entries, most)
        self.starts = [sum(sizes[:i]) + first_entry(p) for i, p in enumerate(params)]
        self.like, self.sharded = params[0], isinstance(params[0], DTensor)
        # Short vectors are joined before they are cut, in fewer operations.
        self.short = entries <= SAMPLE and not self.sharded
        self.complete = self.short and self.stride == 1

    def of(self, tensors: Tensors) -> torch.Tensor:
        """Return the entries of tensors, one per parameter or, if short, all in one.

        A view if there is one tensor.
        """
        if self.short:
            return _flatten_dense_tensors(tensors)[:: self.stride]
        pairs = zip(tensors, self.starts, strict=True)
        pieces = [local(t).reshape(-1)[-start % self.stride :: self.stride] for t, start in pairs]
        found = torch.cat(pieces)
        if not self.sharded:
            return found
        total = found.new_zeros(self.width)
        for piece, start in zip(pieces, self.starts, strict=True):
            place = -(-start // self.stride)
            total[place : place + len(piece)] = piece
        return summed(total, self.like)
