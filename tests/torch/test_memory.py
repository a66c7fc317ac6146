"""The memory for PyTorch: which samples it keeps and draws, for any structure of batches."""

import io
from types import SimpleNamespace
from typing import NamedTuple

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import mixfree.torch as mt
from mixfree.dropins.reservoir import Balanced, Uniform, keys_of, plan
from mixfree.torch import memory as torch_memory


def numbers_mixed(memory, samples, batch):
    """Draws beside each of the samples 0, 1, …, one row per sample."""
    found = []
    for fresh in torch.arange(samples).split(batch):
        mixed = memory.mix(fresh)
        assert torch.equal(mixed[: len(fresh)], fresh)
        found.append(mixed[len(fresh) :].view(len(fresh), -1))
    return torch.cat(found)


def kept_of(memory):
    return memory.state_dict()["kept"]["batch"]


def one_by_one(capacity, samples, seed):
    """Algorithm R, sample by sample, as it is written down."""
    keys, kept, drawn, uniform = keys_of(seed), [], [], Uniform()
    for n in range(samples):
        place = int(uniform.take(keys.keep, capacity, 1)[0])
        if n < capacity:
            kept.append(n)
        elif place < capacity:
            kept[place] = n
        drawn.append(list(kept))
    return kept, drawn


@pytest.mark.parametrize("batch", [1, 7, 64, 500])
def test_cutting_changes_neither_what_is_kept_nor_what_is_drawn(batch):
    """Draws taken after the whole batch was written, or before it; places written out of order."""
    whole, cut = (mt.Memory(20, draws=3, seed=5) for _ in range(2))
    drawn = numbers_mixed(whole, 500, 13)
    assert torch.equal(numbers_mixed(cut, 500, batch), drawn)
    assert torch.equal(kept_of(cut), kept_of(whole))


def test_draws_are_of_what_is_kept_at_the_time():
    """A draw from places that are empty, or of a sample that was overwritten or is to come."""
    kept, at_the_time = one_by_one(20, 300, seed=2)
    memory = mt.Memory(20, draws=3, seed=2)
    for n, drawn in enumerate(numbers_mixed(memory, 300, 16).tolist()):
        assert set(drawn) <= set(at_the_time[n])
    assert kept_of(memory).tolist() == kept


def test_every_sample_is_kept_as_often_as_any_other():
    """Keeping the first, the last, or each with another probability than m/n.

    Of 10⁶ samples 10,000 are kept, in 20 cells by their number: χ² with 19 degrees of freedom is
    above 50.8 with probability 10⁻⁴.
    """
    places = Uniform().take(keys_of(4).keep, 10_000, 1_000_000)
    last = {place: n for n, place in enumerate(places.tolist()) if place < 10_000}
    assert len(last) == 10_000
    counts = np.bincount(np.array(list(last.values())) // 50_000, minlength=20)
    assert ((counts - 500.0) ** 2 / 500.0).sum() < 50.8, counts


def test_draws_are_uniform_over_the_places():
    """χ² with 49 degrees of freedom is above 94 with probability 10⁻⁴."""
    keys, counts = keys_of(1), np.zeros(50)
    for first in range(1_000, 2_000, 25):
        counts += np.bincount(plan(keys, 50, 4, first, np.full(25, 50)).drawn, minlength=50)
    assert ((counts - 80.0) ** 2 / 80.0).sum() < 94.0, counts


class Pair(NamedTuple):
    x: torch.Tensor
    more: dict


def test_rows_stay_together_in_every_form():
    """A tensor that is mixed by other draws than its neighbour, or a form that is lost."""
    memory = mt.Memory(30, draws=2)
    for n in torch.arange(200).split(9):
        batch = Pair(n.float().view(-1, 1), {"y": (n, [n + 1]), "z": n % 2 == 0})
        mixed = memory.mix(batch)
        assert isinstance(mixed, Pair) and isinstance(mixed.more["y"], tuple)
        x, (y, (after,)), z = mixed.x[:, 0], mixed.more["y"], mixed.more["z"]
        assert len(x) == 3 * len(n)
        assert torch.equal(x.long(), y) and torch.equal(after, y + 1) and torch.equal(z, y % 2 == 0)


def test_what_is_kept_is_a_copy():
    """A view of a batch that its owner writes over, or a saved state that changes with the run."""
    memory, batch = mt.Memory(4), torch.arange(4)
    memory.mix(batch)
    saved = kept_of(memory)
    batch.zero_()
    assert kept_of(memory).tolist() == [0, 1, 2, 3]
    memory.mix(torch.full((100,), 9))
    assert 9 in kept_of(memory) and saved.tolist() == [0, 1, 2, 3]


def test_gradients_reach_the_fresh_rows_and_do_not_stay():
    memory, x = mt.Memory(8), torch.ones(4, 2, requires_grad=True)
    mixed = memory.mix(x)
    mixed.sum().backward()
    assert torch.equal(x.grad, torch.ones(4, 2))
    assert not kept_of(memory).requires_grad


@pytest.mark.parametrize("balanced", [False, True])
def test_state_goes_through_a_file(balanced):
    """Draws or places that depend on anything that was not saved."""
    options = {"draws": 2, "seed": 3, "balance_by": (lambda n: n % 3) if balanced else None}
    whole, first = (mt.Memory(10, **options) for _ in range(2))
    expected = numbers_mixed(whole, 200, 8)
    numbers_mixed(first, 96, 8)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = mt.Memory(10, **options)
    second.load_state_dict(torch.load(file))  # weights only, the default
    drawn = [second.mix(n)[8:].view(8, -1) for n in torch.arange(96, 200).split(8)]
    assert torch.equal(torch.cat(drawn), expected[96:])
    assert torch.equal(kept_of(second), kept_of(whole)) and second.seen == 200


BROKEN = {
    "no settings": (lambda s: s.pop("settings"), "saved with format=None"),
    "other rank": (lambda s: s["settings"].update(rank=1), "with rank=1, this memory has rank=0"),
    "balanced": (lambda s: s["settings"].update(balanced=True), "with balanced=True"),
    "no keeper": (lambda s: s.pop("keeper"), "it has no 'keeper'"),
    "a word": (lambda s: s["keeper"].update(seen="many"), "seen is 'many'"),
    "no rows": (lambda s: s.update(kept={}), r"samples of \[\], but 8 were kept"),
    "fewer rows": (lambda s: s["kept"].update(batch=torch.zeros(3)), "not a tensor of 8 rows"),
    "a list": (lambda s: s["kept"].update(batch=[0.0] * 8), "not a tensor of 8 rows"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_refused_state_changes_nothing(case):
    change, message = BROKEN[case]
    saving, memory, same = (mt.Memory(8) for _ in range(3))
    numbers_mixed(saving, 50, 5)
    numbers_mixed(memory, 30, 5), numbers_mixed(same, 30, 5)
    state = saving.state_dict()
    change(state)
    with pytest.raises(ValueError, match=message):
        memory.load_state_dict(state)
    assert torch.equal(memory.mix(torch.arange(9)), same.mix(torch.arange(9)))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (torch.zeros(4, 3), "rows of a batch must be .* as before"),
        ((torch.zeros(4, 3), torch.zeros(5)), "the same number of rows"),
        ((torch.zeros(4, 3), torch.tensor(1.0)), "the same number of rows"),
        ((torch.zeros(4, 2), torch.zeros(4)), r"must be .*, not .*batch\[0\].*shape \(2,\)"),
        ((torch.zeros(4, 3), torch.zeros(4).double()), r"must be .*, not .*batch\[1\].*float64"),
        ((torch.zeros(4, 3), "label"), r"batch\[1\] must be a tensor.* not str"),
        ((torch.eye(4, 3).to_sparse(), torch.zeros(4)), r"batch\[0\] must be a dense tensor"),
    ],
)
def test_a_refused_batch_changes_nothing(batch, message):
    memory, same = mt.Memory(8, seed=1), mt.Memory(8, seed=1)
    good = (torch.arange(12.0).view(4, 3), torch.arange(4.0))
    memory.mix(good), same.mix(good)
    with pytest.raises(ValueError, match=message):
        memory.mix(batch)
    for mine, theirs in zip(memory.mix(good), same.mix(good), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity must be a whole number of at least 1"),
        ({"capacity": 5, "draws": 0}, "draws must be a whole number of at least 1"),
        ({"capacity": 5, "seed": -1}, "seed must be a whole number"),
        ({"capacity": 5, "rank": -1}, "rank must be a whole number"),
        ({"capacity": 5, "pin": True}, "pin=True needs device='cpu'"),
        ({"capacity": 5, "balance_by": "y"}, "balance_by must be a function of a batch, not 'y'"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        mt.Memory(**options)


def test_classes_share_the_memory_and_each_is_uniform():
    """A rare class that is crowded out, or of which only the first or last samples are kept.

    Of a class, the mean of the numbers kept is within five standard errors of uniform ones.
    """
    labels = lambda n: (n % 100 >= 90).long() + (n % 100 >= 98)  # noqa: E731
    shares, means = [], []
    for seed in range(10):
        memory = mt.Memory(60, seed=seed, balance_by=labels)
        numbers_mixed(memory, 2_000, 32)
        kept = kept_of(memory)
        shares.append(torch.bincount(labels(kept), minlength=3).tolist())
        means.append([kept[labels(kept) == c].double().mean() for c in range(3)])
    assert np.array(shares).min() >= 19, shares
    error = 2_000 / np.sqrt(12 * 20 * 10)
    np.testing.assert_allclose(np.mean(means, axis=0), [995.0, 1043.5, 1048.5], atol=5 * error)


def test_balanced_counts_that_do_not_add_up():
    keeper = Balanced()
    keeper.take(keys_of(0).keep, 4, 9, np.array([0, 1, 2] * 3))
    plain = keeper.plain()
    assert Balanced().restored(plain, "memory").plain().keys() == plain.keys()
    plain["seen"] = 8
    with pytest.raises(ValueError, match="counts do not add up"):
        Balanced().restored(plain, "memory")


def test_labels_that_are_not_of_the_rows():
    memory = mt.Memory(5, balance_by=lambda batch: batch[:2])
    with pytest.raises(ValueError, match=r"balance_by must return 4 whole numbers"):
        memory.mix(torch.arange(4))
    assert memory.seen == 0


def test_ranks_and_workers_draw_each_for_itself(monkeypatch):
    """Worker 0 that draws as its process does, or worker 1 of rank 0 as rank 1."""

    def drawn(rank, worker):
        info = None if worker is None else SimpleNamespace(id=worker, num_workers=1)
        monkeypatch.setattr(torch_memory, "get_worker_info", lambda: info)
        return torch.cat(list(mt.Memory(20, rank=rank).stream(torch.arange(100).split(10))))

    own = [(0, None), (0, 0), (0, 1), (1, None), (1, 0), (2, None)]
    assert torch.equal(drawn(0, None), drawn(0, None))
    assert len({tuple(drawn(*each).tolist()) for each in own}) == len(own)


def test_the_rank_is_that_of_the_process_group(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    memory = mt.Memory(20)
    drawn = numbers_mixed(memory, 100, 10)
    assert memory.rank == 3
    assert torch.equal(drawn, numbers_mixed(mt.Memory(20, rank=3), 100, 10))


class Counting(IterableDataset):
    """0, 1, … as samples of two entries; each worker has its share."""

    def __iter__(self):
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for n in range(first, 60, stride):
            yield torch.tensor([float(n)]), n


class Squares(Dataset):
    """A dataset with indices whose items have no end."""

    def __len__(self):
        return 7

    def __getitem__(self, n):
        return torch.tensor([float(n)]), n * n


def test_a_dataset_with_indices_ends_and_is_shared_by_workers(monkeypatch):
    """Iterating until an ``IndexError``, which may never come; every worker reading all rows."""
    stream = mt.Memory(10, draws=1).stream(Squares())
    assert [n for _, n in stream][::2] == [n * n for n in range(7)]
    worker = SimpleNamespace(id=1, num_workers=2)
    monkeypatch.setattr(torch_memory, "get_worker_info", lambda: worker)
    assert [n for _, n in stream][::2] == [1, 9, 25]


def test_the_length_of_a_stream_is_that_of_its_source():
    """``len(loader)``, which schedulers and progress bars ask for."""
    memory = mt.Memory(10, draws=2)
    assert len(memory.stream(Squares())) == 21
    assert len(memory.stream(DataLoader(Squares(), batch_size=2))) == 4
    with pytest.raises(TypeError, match="no len"):
        len(memory.stream(Counting()))


def test_a_memory_without_room_has_seen_nothing():
    """A device that is missing, found out after the samples were counted."""
    memory = mt.Memory(2**31 - 1)
    with pytest.raises(RuntimeError):
        memory.mix(torch.zeros(2, 1 << 20))
    assert memory.seen == 0


@pytest.mark.parametrize("streaming", [False, True])
def test_datasets_of_hugging_face(streaming):
    """Items taken for batches, since these datasets need not be torch's; or another order."""
    rows = datasets.Dataset.from_dict({"x": [[float(n), 0.0] for n in range(60)], "y": range(60)})
    source = rows.to_iterable_dataset(num_shards=2) if streaming else rows
    memory = mt.Memory(10, draws=2)
    loader = DataLoader(memory.stream(source.with_format("torch")), batch_size=6)
    batches = list(loader)
    assert len(batches) == 30 and memory.seen == 60 and memory.shuffle_size == 20
    numbers = torch.cat([batch["y"] for batch in batches])
    assert numbers[::3].tolist() == list(range(60))
    for batch in batches:
        assert torch.equal(batch["x"][:, 0].long(), batch["y"]) and batch["x"].shape == (6, 2)


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")
def test_workers_have_a_memory_each():
    """Workers that all draw the same places, or that draw samples of one another."""
    stream = mt.Memory(10).stream(Counting())
    # Not forked from this process, in which other tests have started threads of JAX.
    loader = DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="spawn")
    numbers = torch.stack([y for _, y in loader])
    even, odd = numbers[0::2], numbers[1::2]  # the workers take turns
    for own in (even, odd):
        assert torch.equal(own[0::2], torch.arange(int(own[0]), 60, 2))  # fresh ones
        assert (own % 2 == own[0]).all()
    assert not torch.equal(even[1::2] + 1, odd[1::2])


def test_kept_on_another_device_than_the_batch():
    """Rows that are kept where the batch is, in spite of ``device``."""
    memory = mt.Memory(4, device="meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        memory.mix(torch.arange(6))
    assert memory._samples["batch"].device.type == "meta"
