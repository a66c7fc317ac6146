"""The ladder without settings beside Adam at its default rate, on small shuffled problems."""

import time
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from curves import keep
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

import mixfree.torch as mt

BATCH = 16


class Problem(NamedTuple):
    """A model, its loss, and the rows to train on and to test with."""

    model: nn.Module
    loss: Any
    train: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]


def layers(*sizes):
    """Return a network with units of these numbers."""
    linear = [nn.Linear(*pair) for pair in pairwise(sizes)]
    return nn.Sequential(*[each for one in linear for each in (one, nn.ReLU())][:-1])


def divided(model, loss, x, y, rng, train):
    """Divide rows at random into those to train on and those to test with."""
    x, y = (torch.as_tensor(each) for each in (x, y))
    x, y = (each.float() if each.dtype == torch.float64 else each for each in (x, y))
    rows = rng.permutation(len(x))
    here, there = rows[:train], rows[train:]
    return Problem(model(), loss, (x[here], y[here]), (x[there], y[there]))


def cancer(rng, model, scaled):
    x, y = load_breast_cancer(return_X_y=True)
    return divided(model, cross_entropy, (x - x.mean(0)) / x.std(0) if scaled else x, y, rng, 450)


def digits(rng, model, shape=(64,), copied=False):
    x, y = load_digits(return_X_y=True)
    x = x.reshape(-1, *shape) / 16.0
    return divided(model, mse_loss if copied else cross_entropy, x, x if copied else y, rng, 1400)


def waves(rng, model, mean=0.0, scale=1.0):
    x = rng.standard_normal((3000, 8))
    y = np.sin(2.0 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    return divided(model, mse_loss, x, mean + scale * y, rng, 2500)


class Factors(nn.Module):
    """Products of eight factors of 200 users with those of 150 items."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(200, 8), nn.Embedding(150, 8)
        for each in (self.users, self.items):
            nn.init.normal_(each.weight, std=0.1)

    def forward(self, pairs):
        return (self.users(pairs[:, 0]) * self.items(pairs[:, 1])).sum(1)


def ratings(rng):
    users, items = rng.standard_normal((200, 4)) / 2.0, rng.standard_normal((150, 4))
    pairs = np.stack([rng.integers(0, len(each), 8000) for each in (users, items)], axis=1)
    rated = (users[pairs[:, 0]] * items[pairs[:, 1]]).sum(1) + 0.1 * rng.standard_normal(8000)
    return divided(Factors, mse_loss, pairs, rated, rng, 7000)


def convolutions():
    first, second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))


SEEDS = range(3000, 3005)
DEEP = partial(layers, 8, *[64] * 7, 1)
# Name: the problem, the number of passes, and settings of the ladder.
PROBLEMS = {
    "digits, two layers": (partial(digits, model=partial(layers, 64, 64, 10)), 10, {}),
    "digits, convolutions": (partial(digits, model=convolutions, shape=(1, 8, 8)), 5, {}),
    "digits, autoencoder": (
        partial(digits, model=partial(layers, 64, 48, 8, 48, 64), copied=True),
        10,
        {},
    ),
    "waves, three layers": (partial(waves, model=partial(layers, 8, 64, 64, 1)), 10, {}),
    "waves around 1,000": (
        partial(waves, model=partial(layers, 8, 64, 1), mean=1000.0, scale=200.0),
        10,
        {},
    ),
    "waves, eight layers": (partial(waves, model=DEEP), 10, {}),
    "waves, eight layers, per_coordinate=False": (
        partial(waves, model=DEEP),
        10,
        {"per_coordinate": False},
    ),
    "cancer, logistic": (partial(cancer, model=partial(layers, 30, 2), scaled=True), 15, {}),
    "cancer, two layers": (partial(cancer, model=partial(layers, 30, 32, 2), scaled=True), 15, {}),
    "cancer, not scaled": (partial(cancer, model=partial(layers, 30, 32, 2), scaled=False), 15, {}),
    "ratings, factors": (ratings, 10, {}),
}


def run(problem, passes, make, seed):
    """Return the number of weights, and the loss on new rows: of the last iterate and averaged."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    model, loss, (x, y), test = problem(rng)
    opt = make(model.parameters())
    for _ in range(passes):
        for rows in torch.from_numpy(rng.permutation(len(x))).split(BATCH):
            opt.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            opt.step()

    def tested():
        with torch.no_grad():
            return float(loss(model(test[0]), test[1]))

    found = [sum(p.numel() for p in model.parameters()), tested()]
    if isinstance(opt, mt.Ladder):
        with opt.averaged():
            found.append(tested())
    return found


def main(names=PROBLEMS, seeds=SEEDS, shorter=1):
    """Return weights and mean losses by problem: Adam, the ladder, and its average."""
    found, begun = {}, time.process_time()
    for name in names:
        problem, passes, settings = PROBLEMS[name]
        makers = torch.optim.Adam, partial(mt.Ladder, **settings)
        adam, ladder = (
            np.mean([run(problem, passes // shorter, make, seed) for seed in seeds], axis=0)
            for make in makers
        )
        found[name] = [int(adam[0]), adam[1], *ladder[1:]]
        print(name, *(f"{each:.4g}" for each in found[name]), flush=True)
    print(f"{time.process_time() - begun:.0f} s")
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = {
        name: [f"{weights:,}", *(f"{each:.3g}" for each in losses)]
        for name, (weights, *losses) in main().items()
    }
    title = "Loss on new rows after training on shuffled rows, nothing set"
    head = ["weights", "Adam", "Ladder", "Ladder, averaged"]
    keep(__file__, title, rows, head, SEEDS)
