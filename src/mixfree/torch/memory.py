"""A memory for PyTorch: every new batch is extended by draws from all samples so far."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, default_collate, get_worker_info

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole, shown
from mixfree.base.state import loading
from mixfree.dropins import reservoir
from mixfree.dropins.reservoir import Balanced, Plan, Uniform
from mixfree.torch.nested import flatten, rebuild

FORMAT = 1  # version of state_dict
RANKS = 1 << 20  # most worker processes per rank


class Memory:
    """A uniform sample of all samples so far; every new batch is extended by draws from it.

    The gradients of ordered data are biased for long times; draws from the whole past reduce that
    bias, with any optimiser. A mixed batch has ``1 + draws`` times the rows, and costs as many
    gradients. Which samples are kept and drawn depends on the seed and on the samples' numbers, not
    on the batches.

    Parameters
    ----------
    capacity
        Number of samples to keep.
    draws
        Samples drawn per new sample, with replacement, after the new sample may have been kept.
    seed
        Seed of the samples that are kept and drawn.
    device
        Device of the kept samples; ``None`` is that of the first batch. Draws are moved to the
        device of the new batch.
    pin
        Keep samples in pinned host memory, from which copies to a device are asynchronous.
    balance_by
        A function that returns the class of each row of a batch, as whole numbers. Classes then
        share the memory evenly, each with its own uniform sample; ``None`` keeps a uniform sample
        of all samples.
    rank
        Every rank has its own draws; ``None`` is the rank of ``torch.distributed``, or 0.

    Examples
    --------
    >>> memory = Memory(capacity=100, draws=3)
    >>> for numbers in torch.arange(1000).split(10):
    ...     x, y = memory.mix((numbers, {"double": 2 * numbers}))
    >>> x[:10].tolist(), len(x), bool((y["double"] == 2 * x).all())
    ([990, 991, 992, 993, 994, 995, 996, 997, 998, 999], 40, True)
    >>> memory.kept, memory.seen, memory.shuffle_size
    (100, 1000, 375)
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
        self.capacity = check_whole(capacity, "capacity", most=reservoir.LARGEST_CAPACITY)
        self.draws = check_whole(draws, "draws")
        self.seed = seed
        reservoir.keys_of(seed)
        self.device = None if device is None else torch.device(device)
        if pin and (self.device is None or self.device.type != "cpu"):
            raise ValueError(f"pin=True needs device='cpu', not device={device!r}")
        self.pin = pin
        if not (balance_by is None or callable(balance_by)):
            raise ValueError(f"balance_by must be a function of a batch, not {shown(balance_by)}")
        self.balance_by = balance_by
        self.rank = None if rank is None else check_whole(rank, "rank", least=0)
        self._worker = 0  # number of the DataLoader's worker, from 1
        self._keeper: Uniform | Balanced = Balanced() if balance_by else Uniform()
        self._samples: dict[str, torch.Tensor] = {}

    @property
    def seen(self) -> int:
        """Number of samples so far."""
        return self._keeper.seen

    @property
    def kept(self) -> int:
        """Number of samples kept."""
        return min(self.seen, self.capacity)

    @property
    def shuffle_size(self) -> int:
        """Entries of a shuffle buffer whose rows would be as old on average as those of a batch.

        The rows of a buffer of B entries are B samples old on average; drawn rows are as old as
        half of the stream so far, and fresh ones are new.
        """
        return self.seen * self.draws // (2 * (1 + self.draws))

    @torch._dynamo.disable
    def mix(self, batch: Any) -> Any:
        """Return the batch extended by draws, in the same structure: its own rows come first.

        A batch is a tensor whose rows are samples, or a tuple, list or dict of such tensors, also
        nested. If it differs from earlier ones in structure, a ValueError changes nothing.
        """
        fresh = flatten(batch)
        for name, rows in fresh.items():
            if rows.layout != torch.strided:
                raise ValueError(f"{name} must be a dense tensor, not {rows.layout}")
        count = reservoir.check_batch(fresh, self._samples)
        labels = self._labels_of(batch, count)
        room = self._samples or {name: self._room_for(rows) for name, rows in fresh.items()}
        keys, first = reservoir.keys_of(self.seed, self._stream()), self.seen
        places = self._keeper.take(keys.keep, self.capacity, count, labels)
        todo = reservoir.plan(keys, self.capacity, self.draws, first, places)
        self._samples = room
        return rebuild(batch, {name: self._mixed(name, rows, todo) for name, rows in fresh.items()})

    def stream(self, source: Iterable[Any], *, batched: bool | None = None) -> "MemoryStream":
        """Iterate over the batches of a loader, or the samples of a dataset, with draws.

        Parameters
        ----------
        source
            A ``DataLoader`` or any other iterable of batches; or a dataset of torch or of Hugging
            Face (``.with_format("torch")``, also streaming), whose items are single samples, in
            order. The result for a dataset can be given to a ``DataLoader``, also with workers,
            which have a memory each.
        batched
            Whether items are batches; ``None`` is True except for datasets.

        Examples
        --------
        >>> batches = [torch.arange(4.0), torch.arange(4.0, 8.0)]
        >>> [len(mixed) for mixed in Memory(10, draws=2).stream(batches)]
        [12, 12]
        """
        self._stream()
        return MemoryStream(self, source, not _is_dataset(source) if batched is None else batched)

    def state_dict(self) -> dict[str, Any]:
        """Return the kept samples and the state of the random draws."""
        kept = {name: rows[: self.kept].clone() for name, rows in self._samples.items()}
        keeper = {
            name: torch.tensor(value) if isinstance(value, np.ndarray) else value
            for name, value in self._keeper.plain().items()
        }
        return {"settings": self._settings(), "keeper": keeper, "kept": kept}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`; ValueError if it does not fit these settings."""
        with loading("memory"):
            saved = state_dict.get("settings", {})
            for name, wanted in self._settings().items():
                if name not in saved or saved[name] != wanted:
                    raise ValueError(
                        f"state was saved with {name}={shown(saved.get(name))}, this memory has "
                        f"{name}={wanted!r}"
                    )
            plain = {
                name: value.cpu().numpy() if torch.is_tensor(value) else value
                for name, value in state_dict["keeper"].items()
            }
            keeper = type(self._keeper)().restored(plain, "memory")
            kept, length = state_dict["kept"], min(keeper.seen, self.capacity)
            if bool(kept) != bool(length):
                raise ValueError(
                    f"state does not fit: it has samples of {sorted(kept)}, but {length} were kept"
                )
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
        """Return the stream number of this rank and worker."""
        if self.rank is None:
            there = torch.distributed.is_available() and torch.distributed.is_initialized()
            self.rank = torch.distributed.get_rank() if there else 0
        return self.rank * RANKS + self._worker

    def _labels_of(self, batch: Any, count: int) -> Array | None:
        if self.balance_by is None:
            return None
        found = self.balance_by(batch)
        labels: Array = np.asarray(found.detach().cpu() if torch.is_tensor(found) else found)
        if labels.shape != (count,) or labels.dtype.kind not in "iub":
            raise ValueError(
                f"balance_by must return {count} whole numbers, not {labels.dtype} of shape "
                f"{labels.shape}"
            )
        return labels

    def _room_for(self, rows: torch.Tensor) -> torch.Tensor:
        device = rows.device if self.device is None else self.device
        shape = (self.capacity, *rows.shape[1:])
        # Zeros take no host memory before they are written.
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
    """The result of :meth:`Memory.stream`, which can also be given to a ``DataLoader``."""

    def __init__(self, memory: Memory, source: Iterable[Any], batched: bool) -> None:
        self.memory, self.source, self.batched = memory, source, batched

    def __len__(self) -> int:
        items = len(self.source)  # type: ignore[arg-type]
        return items if self.batched else items * (1 + self.memory.draws)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None:
            self.memory._worker = worker.id + 1
        items = _items(self.source, worker)
        if self.batched:
            yield from map(self.memory.mix, items)
            return
        for sample in items:
            mixed = self.memory.mix(default_collate([sample]))
            rows = {name: part.unbind() for name, part in flatten(mixed).items()}
            for i in range(1 + self.memory.draws):
                yield rebuild(mixed, {name: parts[i] for name, parts in rows.items()})


def _is_dataset(source: Any) -> bool:
    """Whether items are single samples; datasets of Hugging Face need not be torch's."""
    return isinstance(source, Dataset) or type(source).__module__.split(".")[0] == "datasets"


def _items(source: Iterable[Any], worker: Any) -> Iterable[Any]:
    """Return the items in order; workers share those of a dataset that has indices."""
    if isinstance(source, IterableDataset) or not (
        _is_dataset(source) and hasattr(source, "__len__")
    ):
        return source
    first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
    return (source[i] for i in range(first, len(source), stride))  # type: ignore[arg-type,index]


def _index(numbers: Array, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(numbers).to(like.device, non_blocking=True)
