"""A memory for PyTorch: the fresh batch, with draws from all of the past beside it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, default_collate, get_worker_info

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole, shown
from mixfree.base.state import loading
from mixfree.dropins.reservoir import LARGEST_CAPACITY, Balanced, Plan, Uniform, keys_of, plan
from mixfree.torch.nested import flatten, rebuild
from mixfree.torch.tensors import as_arrays, as_tensors

FORMAT = 1  # of state_dict
RANKS = 1 << 20  # worker processes that a rank may have


class Memory:
    """A uniform sample of all samples so far, drawn from beside every fresh batch.

    Data in order makes gradients that lean one way for long; draws from the whole past make up for
    it, with any optimiser. A mixed batch has ``1 + draws`` times the rows, and costs as many
    gradients. What is kept and drawn depends on the seed and on the numbers of the samples, not on
    how they are cut into batches.

    Parameters
    ----------
    capacity
        Samples kept.
    draws
        Samples drawn beside each fresh one, with replacement, once that one had its chance to be
        kept.
    seed
        Seed of what is kept and drawn.
    device
        Where samples are kept; ``None`` is where the first batch is. Draws are moved to where the
        fresh batch is.
    pin
        Keep samples in pinned memory of the host, from which copies to a device do not wait.
    balance_by
        A function that gives the class of each row of a batch, as whole numbers. Classes then
        share the memory evenly, each with a uniform sample of its own; ``None`` keeps a uniform
        sample of everything.
    rank
        Ranks draw each for itself; ``None`` is that of ``torch.distributed``, or 0.

    Examples
    --------
    >>> memory = Memory(capacity=100, draws=3)
    >>> for numbers in torch.arange(1000).split(10):
    ...     x, y = memory.mix((numbers, {"double": 2 * numbers}))
    >>> x[:10].tolist(), len(x), bool((y["double"] == 2 * x).all())
    ([990, 991, 992, 993, 994, 995, 996, 997, 998, 999], 40, True)
    >>> memory.kept, memory.seen
    (100, 1000)
    """

    def __init__(
        self,
        capacity: int,
        draws: int = 1,
        seed: int = 0,
        *,
        device: torch.device | str | None = None,
        pin: bool = False,
        balance_by: Callable[[Any], torch.Tensor] | None = None,
        rank: int | None = None,
    ) -> None:
        self.capacity = check_whole(capacity, "capacity", most=LARGEST_CAPACITY)
        self.draws = check_whole(draws, "draws")
        self.seed = seed
        keys_of(seed)
        self.device = None if device is None else torch.device(device)
        if pin and (self.device is None or self.device.type != "cpu"):
            raise ValueError(f"pin=True is for device='cpu', not for device={device!r}")
        self.pin = pin
        self.balance_by = balance_by
        self.rank = None if rank is None else check_whole(rank, "rank", least=0)
        self._worker = 0  # of a DataLoader, counted from 1
        self._keeper: Uniform | Balanced = Balanced() if balance_by else Uniform()
        self._samples: dict[str, torch.Tensor] = {}

    @property
    def seen(self) -> int:
        """Samples that had their chance to be kept."""
        return self._keeper.seen

    @property
    def kept(self) -> int:
        """Samples kept so far."""
        return min(self.seen, self.capacity)

    @torch._dynamo.disable
    def mix(self, batch: Any) -> Any:
        """The batch with draws beside it, in the same form: its own rows first.

        Parameters
        ----------
        batch
            A tensor whose rows are samples, or a tuple, list or dict of such, also nested.

        Raises
        ------
        ValueError
            If it is not of the form of the batches before. Nothing has changed then.
        """
        fresh = flatten(batch)
        count = self._check_batch(fresh)
        labels = self._labels_of(batch, count)
        keys, first = keys_of(self.seed, self._stream()), self.seen
        places = self._keeper.take(keys.keep, self.capacity, count, labels)
        todo = plan(keys, self.capacity, self.draws, first, places)
        if not self._samples:
            self._samples = {name: self._room_for(rows) for name, rows in fresh.items()}
        return rebuild(batch, {name: self._mixed(name, rows, todo) for name, rows in fresh.items()})

    def stream(self, source: Iterable[Any], *, batched: bool | None = None) -> "MemoryStream":
        """The batches of a loader, or the samples of a dataset, each with its draws.

        Parameters
        ----------
        source
            A ``DataLoader`` or any other iterable of batches; or an ``IterableDataset``, whose
            items are taken as single samples. The result of the latter can be given to a
            ``DataLoader``, also with workers: each then has a memory of its own.
        batched
            Whether items are batches; ``None`` says so of everything but datasets.

        Examples
        --------
        >>> batches = [torch.arange(4.0), torch.arange(4.0, 8.0)]
        >>> [len(mixed) for mixed in Memory(10, draws=2).stream(batches)]
        [12, 12]
        """
        self._stream()
        return MemoryStream(
            self, source, not isinstance(source, Dataset) if batched is None else batched
        )

    def state_dict(self) -> dict[str, Any]:
        """The samples kept, and all that decides what comes next."""
        kept = {name: rows[: self.kept].clone() for name, rows in self._samples.items()}
        keeper = as_tensors(self._keeper.plain())
        return {"settings": self._settings(), "keeper": keeper, "kept": kept}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where the memory that gave the state was.

        Raises
        ------
        ValueError
            If the state is not of a memory with the same settings. Nothing has changed then.
        """
        with loading("memory"):
            saved = state_dict.get("settings", {})
            for name, wanted in self._settings().items():
                if name not in saved or saved[name] != wanted:
                    raise ValueError(
                        f"state was saved with {name}={shown(saved.get(name))}, this memory has "
                        f"{name}={wanted!r}"
                    )
            for name in ("keeper", "kept"):
                if name not in state_dict:
                    raise ValueError(f"state has no entry {name!r}")
            keeper = type(self._keeper)().restored(as_arrays(dict(state_dict["keeper"])), "memory")
            kept, length = state_dict["kept"], min(keeper.seen, self.capacity)
            if bool(kept) != bool(length):
                raise ValueError(f"state has samples of {sorted(kept)}, but {length} were kept")
            for name, rows in kept.items():
                if not isinstance(rows, torch.Tensor) or rows.ndim < 1 or len(rows) != length:
                    raise ValueError(f"state does not fit: {name} is not a tensor of {length} rows")
            room = {name: self._room_for(rows) for name, rows in kept.items()}
            for name, rows in kept.items():
                room[name][:length] = rows
        self._keeper, self._samples = keeper, room

    def _settings(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "capacity": self.capacity,
            "draws": self.draws,
            "seed": self.seed,
            "balanced": self.balance_by is not None,
            "rank": self._stream() // RANKS,
        }

    def _stream(self) -> int:
        """The number of this rank's and worker's own draws."""
        if self.rank is None:
            there = torch.distributed.is_available() and torch.distributed.is_initialized()
            self.rank = torch.distributed.get_rank() if there else 0
        return self.rank * RANKS + self._worker

    def _check_batch(self, fresh: Mapping[str, torch.Tensor]) -> int:
        """Number of rows, if the batch is like those before."""
        if self._samples and self._samples.keys() != fresh.keys():
            raise ValueError(
                f"batch has tensors {sorted(fresh)}, those before had {sorted(self._samples)}"
            )
        counts = {len(rows) if rows.ndim else None for rows in fresh.values()}
        if len(counts) != 1 or None in counts:
            raise ValueError(
                "tensors of a batch must have as many rows each, not shapes "
                f"{[tuple(rows.shape) for rows in fresh.values()]}"
            )
        for name, rows in fresh.items():
            before = self._samples.get(name, rows)
            if (rows.shape[1:], rows.dtype) != (before.shape[1:], before.dtype):
                raise ValueError(
                    f"rows of {name} are {rows.dtype} of shape {tuple(rows.shape[1:])}, those "
                    f"kept {before.dtype} of shape {tuple(before.shape[1:])}"
                )
        return int(counts.pop() or 0)

    def _labels_of(self, batch: Any, count: int) -> Array | None:
        if self.balance_by is None:
            return None
        found = self.balance_by(batch)
        labels: Array = np.asarray(found.detach().cpu() if torch.is_tensor(found) else found)
        if labels.shape != (count,) or labels.dtype.kind not in "iub":
            raise ValueError(
                f"balance_by must give {count} whole numbers, not {labels.dtype} of shape "
                f"{labels.shape}"
            )
        return labels

    def _room_for(self, rows: torch.Tensor) -> torch.Tensor:
        device = rows.device if self.device is None else self.device
        shape = (self.capacity, *rows.shape[1:])
        # Zeros take no memory of the host before they are written.
        return torch.zeros(shape, dtype=rows.dtype, device=device, pin_memory=self.pin)

    def _mixed(self, name: str, batch: torch.Tensor, todo: Plan) -> torch.Tensor:
        kept, rows = self._samples[name], batch.detach()
        drawn = kept.index_select(0, _index(todo.drawn, kept)).to(rows.device, non_blocking=True)
        from_batch = np.flatnonzero(todo.fresh >= 0)
        if len(from_batch):
            chosen = rows.index_select(0, _index(todo.fresh[from_batch], rows))
            drawn.index_copy_(0, _index(from_batch, rows), chosen)
        if len(todo.rows):
            written = rows.index_select(0, _index(todo.rows, rows)).to(kept.device)
            kept.index_copy_(0, _index(todo.places, kept), written)
        return torch.cat([batch, drawn])


class MemoryStream(IterableDataset[Any]):
    """What :meth:`Memory.stream` gives: an iterable that a ``DataLoader`` takes, too."""

    def __init__(self, memory: Memory, source: Iterable[Any], batched: bool) -> None:
        self.memory, self.source, self.batched = memory, source, batched

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None:
            self.memory._worker = worker.id + 1
        if self.batched:
            yield from map(self.memory.mix, self.source)
            return
        for sample in self.source:
            mixed = self.memory.mix(default_collate([sample]))
            rows = {name: part.unbind() for name, part in flatten(mixed).items()}
            for i in range(1 + self.memory.draws):
                yield rebuild(mixed, {name: parts[i] for name, parts in rows.items()})


def _index(numbers: Array, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(numbers).to(like.device, non_blocking=True)
