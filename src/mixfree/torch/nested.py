"""Flatten nested batches to dictionaries of tensors, and rebuild them."""

from collections.abc import Mapping
from typing import Any

import torch


def flatten(batch: Any, path: str = "batch") -> dict[str, torch.Tensor]:
    """Return the tensors of a batch by the expression that selects each."""
    if isinstance(batch, torch.Tensor):
        return {path: batch}
    found: dict[str, torch.Tensor] = {}
    for name, part in _parts(batch, path):
        found |= flatten(part, f"{path}[{name!r}]")
    return found


def rebuild(batch: Any, tensors: Mapping[str, torch.Tensor], path: str = "batch") -> Any:
    """Rebuild a batch of the same structure with other tensors."""
    if isinstance(batch, torch.Tensor):
        return tensors[path]
    parts = {
        name: rebuild(part, tensors, f"{path}[{name!r}]") for name, part in _parts(batch, path)
    }
    if isinstance(batch, Mapping):
        return parts
    values = parts.values()
    return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)


def _parts(batch: Any, path: str) -> list[tuple[Any, Any]]:
    if isinstance(batch, Mapping):
        return list(batch.items())
    if isinstance(batch, tuple | list):
        return list(enumerate(batch))
    raise ValueError(
        f"{path} must be a tensor, or a tuple, list or dict of them, not {type(batch).__name__}"
    )
