"""Two processes, one chain each, against one process that sees both chains."""

import os

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.torch.helpers import MAKERS, flat, loss_of, network, stream, train

pytestmark = pytest.mark.slow

SAMPLES = 80


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
