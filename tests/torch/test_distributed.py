"""Two processes, one chain each, against one process that sees both chains."""

import os

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.torch.helpers import MAKERS, flat, loss_of, network, stream, train

pytestmark = pytest.mark.slow

SAMPLES = 80


def sharded_run(make, rank):
    """The end, and the average, of a run whose parameters are sharded among the ranks."""
    model = network(dtype=torch.float64)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    opt = make(model, output="average")
    train(model, opt, stream(SAMPLES, seed=rank, dtype=torch.float64))
    whole = torch.cat([p.detach().full_tensor().ravel() for p in model.parameters()])
    with opt.averaged():
        average = torch.cat([p.detach().full_tensor().ravel() for p in model.parameters()])
    parts = [t for p in model.parameters() for t in opt.state[p].values() if t.shape == p.shape]
    return whole, average, all(isinstance(t, DTensor) for t in parts), opt.skipped


def rank_main(rank, directory):
    dist.init_process_group(
        "gloo", init_method=(directory / "rendezvous").as_uri(), rank=rank, world_size=2
    )
    torch.set_num_threads(1)
    found = {}
    for name, make in MAKERS.items():
        model = DistributedDataParallel(network(dtype=torch.float64))
        opt = make(model)
        moved = []
        train(
            model,
            opt,
            stream(SAMPLES, seed=rank, dtype=torch.float64),
            lambda opt=opt, moved=moved: moved.append(opt.stepped),
        )
        found[name] = (flat(model), moved)
    for name in ("mag", "ladder"):
        found[name, "sharded"] = sharded_run(MAKERS[name], rank)
    torch.save(found, directory / f"{rank}.pt")
    dist.barrier()
    # To destroy the group may take for ever: with the GIL held, PyTorch joins threads of which one
    # can still wait for the GIL, to let go of the last gradients that were summed up.
    os._exit(0)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    # As daemons they end with this process, whatever they wait for.
    torch.multiprocessing.spawn(rank_main, (directory,), nprocs=2, daemon=True)
    return [torch.load(directory / f"{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize("name", MAKERS)
def test_two_chains_in_two_processes_or_in_one(ranks, name):
    model = network(dtype=torch.float64)
    opt, moved = MAKERS[name](model), []
    chains = [stream(SAMPLES, seed=rank, dtype=torch.float64) for rank in (0, 1)]
    for pair in zip(*chains, strict=True):
        opt.zero_grad()
        (sum(loss_of(model, sample) for sample in pair) / 2).backward()
        opt.step()
        moved.append(opt.stepped)
    for rank in ranks:
        point, stepped = rank[name]
        assert stepped == moved
        torch.testing.assert_close(point, flat(model), rtol=1e-10, atol=1e-10)
    assert opt.steps > 0


@pytest.mark.parametrize("name", ["mag", "ladder"])
def test_sharded_parameters_are_the_same_run(ranks, name):
    """Norms of one rank's part; entries sketched as if each rank had the first ones; a state that
    is not sharded, so that no checkpoint knows it."""
    model = network(dtype=torch.float64)
    opt = MAKERS[name](model, output="average")
    chains = [stream(SAMPLES, seed=rank, dtype=torch.float64) for rank in (0, 1)]
    for pair in zip(*chains, strict=True):
        opt.zero_grad()
        (sum(loss_of(model, sample) for sample in pair) / 2).backward()
        opt.step()
    with opt.averaged():
        average = flat(model)
    for rank in ranks:
        whole, mean, sharded, skipped = rank[name, "sharded"]
        assert sharded and skipped == 0
        torch.testing.assert_close(whole, flat(model), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(mean, average, rtol=1e-10, atol=1e-10)
    assert torch.equal(ranks[0][name, "sharded"][0], ranks[1][name, "sharded"][0])
