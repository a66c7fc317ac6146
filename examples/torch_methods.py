"""Methods that the PyTorch examples compare, each with an average of the network beside it."""

import torch

import mixfree.torch as mt


def every_sample(optimizer):
    """The optimiser itself: windows of one sample."""
    return mt.MLMC(optimizer, levels=None, horizon=1, output="weighted")


def methods(lr):
    """Adam at a learning rate, with MLMC gradients too, and the ladder, which needs none."""

    def adam(model):
        return every_sample(torch.optim.Adam(model.parameters(), lr=lr))

    def mlmc(model):
        return mt.MLMC(torch.optim.Adam(model.parameters(), lr=lr), output="weighted")

    def ladder(model):
        return mt.Ladder(model.parameters())

    return {"Adam": adam, "MLMC(Adam)": mlmc, "Ladder": ladder, "Adam, shuffled": adam}
