"""Small models and streams for the tests of the PyTorch drop-ins."""

import torch

import mixfree.torch as mt


def network(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).to(
        dtype
    )


def stream(samples=60, seed=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 4, generator=generator).to(dtype)
    return list(zip(x, torch.stack([x.sum(1), x[:, 0] - x[:, 1]], 1), strict=True))


def loss_of(model, sample):
    x, y = sample
    return (model(x) - y).square().mean()


def train(model, opt, samples, each=lambda: None):
    """The loop that does not change."""
    for sample in samples:
        opt.zero_grad()
        loss_of(model, sample).backward()
        opt.step()
        each()


def train_with_late_head(late, opt, always, same, samples, joins):
    """Give the head of ``late`` to its optimiser after ``joins`` samples.

    Until then the head of ``always``, which is there from the start, has gradients of zero.
    """
    for i, sample in enumerate(samples):
        if i == joins:
            opt.add_param_group({"params": list(late[2].parameters())})
        for model, each in ((late, opt), (always, same)):
            each.zero_grad()
            loss_of(model, sample).backward()
            if i < joins:
                for p in model[2].parameters():
                    p.grad = torch.zeros_like(p) if model is always else None
            each.step()


def flat(model):
    return torch.cat([p.detach().ravel().double() for p in model.parameters()])


def mag(model, **options):
    return mt.MAG(model.parameters(), levels=3, alpha=0.2, **options)


def mlmc(model, **options):
    inner = torch.optim.Adam(model.parameters(), lr=0.01)
    return mt.MLMC(inner, levels=3, **options)


def ladder(model, **options):
    return mt.Ladder(model.parameters(), **{"block": 4, **options})


WINDOWS = {"mag": mag, "mlmc": mlmc}  # parameters stand still for a whole level
MAKERS = {**WINDOWS, "ladder": ladder}
