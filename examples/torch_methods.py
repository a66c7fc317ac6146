"""Methods that the PyTorch examples compare, each with an average of the network."""

import numpy as np
import torch

import mixfree.torch as mt


def every_sample(optimizer):
    """The optimiser itself, one step per sample, with an average beside it."""
    return mt.MLMC(optimizer, levels=None, horizon=1, output="weighted")


def methods(lr):
    """Adam at a learning rate, also with MLMC gradients, and the ladder, which needs none."""

    def adam(model):
        return every_sample(torch.optim.Adam(model.parameters(), lr=lr))

    def mlmc(model):
        return mt.MLMC(torch.optim.Adam(model.parameters(), lr=lr), output="weighted")

    def ladder(model):
        return mt.Ladder(model.parameters())

    return {"Adam": adam, "MLMC(Adam)": mlmc, "Ladder": ladder, "Adam, shuffled": adam}


def follow(opt, losses, marks, look):
    """Train on the losses in turn, and return what ``look`` gives at the marks.

    The first row is of the last iterates, the second of their average.
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
