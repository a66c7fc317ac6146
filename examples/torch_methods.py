"""Methods that the PyTorch examples compare, each with an average of the network's weights."""

import numpy as np
import torch

import mixfree.torch as mt

DRAWS = 1  # from the memory for each new sample


def every_sample(optimizer, output="recent"):
    """Wrap an optimiser that takes one step per sample, to average its iterates."""
    return mt.MLMC(optimizer, levels=None, horizon=1, output=output)


def methods(lr):
    """Return Adam at a learning rate and the ladder, which needs none, with and without memory.

    With a memory a step takes 1 + DRAWS gradients, like the last method.
    """

    def adam(model):
        return every_sample(torch.optim.Adam(model.parameters(), lr=lr))

    def ladder(model):
        return mt.Ladder(model.parameters())

    return {
        "Adam": adam,
        "Ladder": ladder,
        "Adam + Memory": adam,
        "Ladder + Memory": ladder,
        "Adam, shuffled": adam,
        f"Adam, shuffled, {1 + DRAWS} gradients": adam,
    }


def shown(name):
    """Return the name of a method in a table, and its gradients per sample."""
    more = f", {1 + DRAWS} gradients"
    return name.replace(more, ""), str(1 + DRAWS if "Memory" in name or more in name else 1)


def batches(name, samples, batch, capacity, seed):
    """Return the batches of a method: rows in order, with draws from a memory, or shuffled.

    ``samples`` are tensors whose rows are in the order of the stream.
    """
    rows = len(samples[0])
    order = torch.arange(rows)[:, None]
    if "shuffled" in name:
        rng = np.random.default_rng(seed)
        passes = 1 + DRAWS if "gradients" in name else 1
        order = torch.tensor(np.stack([rng.permutation(rows) for _ in range(passes)], axis=1))
    fresh = (tuple(part[at.ravel()] for part in samples) for at in order.split(batch))
    return mt.Memory(capacity, DRAWS, seed).stream(fresh) if "Memory" in name else fresh


def follow(opt, losses, marks, look):
    """Train on the losses in turn, and return the results of ``look`` at the marks.

    The first row is for the last iterate, the second for the average.
    """
    found = []
    for i, loss in enumerate(losses, 1):
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i in marks:
            with torch.no_grad():
                with opt.averaged():
                    averaged = look()
                found.append((look(), averaged))
    return np.array(found).T
