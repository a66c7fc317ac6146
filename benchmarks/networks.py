"""Small training runs without tuning: the ladder beside Adam and optimisers without learning rate.

Every optimiser has the settings that its documentation starts with. A task is drawn by its seed:
the data, the initial weights and the order of the rows. Losses are on new rows, at the last iterate
and at an average: that of the optimiser itself where it has one, otherwise with weights that grow
as t³, as the ladder's.
"""

import math
import time
import warnings
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import dadaptation
import dog
import jax
import numpy as np
import optax
import prodigyopt
import schedulefree
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

import mixfree.torch as mt
from benchmarks.table import show

SEEDS = range(2000, 2005)
BATCH = 16


class Task(NamedTuple):
    """A model, its loss, the batches in the order of training, and rows to test with."""

    model: nn.Module
    loss: Any
    batches: Any
    test: Any


def layers(*sizes, norm=None):
    """Return a perceptron with units of these numbers."""
    parts = []
    for here, there in pairwise(sizes):
        parts += [nn.Linear(here, there), *([norm(there)] if norm else []), nn.ReLU()]
    return nn.Sequential(*parts[: -3 if norm else -2], nn.Linear(*sizes[-2:]))


def shuffled(rng, rows, passes):
    for _ in range(passes):
        yield from torch.from_numpy(rng.permutation(len(rows[0]))).split(BATCH)


def on_rows(model, loss, rows, test, order):
    """Return a task whose batches are rows given by their numbers."""
    rows, test = (
        tuple(torch.as_tensor(x, dtype=torch.float32 if x.dtype.kind == "f" else None) for x in xs)
        for xs in (rows, test)
    )
    batches = (tuple(x[i] for x in rows) for i in order(rows))
    return Task(model(), loss, batches, test)


@cache
def all_digits():
    x, y = load_digits(return_X_y=True)
    return x / 16.0, y


def digits(rng, model, shape=(64,), copied=False, passes=6, by_class=False):
    x, y = all_digits()
    places = rng.permutation(len(x))
    here, there = places[:1400], places[1400:]
    x = x.reshape(-1, *shape)
    loss = mse_loss if copied else cross_entropy
    if by_class:
        here = here[np.argsort(y[here], kind="stable")]
        memory = mt.Memory(500, draws=1, seed=int(rng.integers(1000)))
        task = on_rows(model, loss, (x[here], y[here]), (x[there], y[there]), in_order(8, passes))
        return task._replace(batches=map(memory.mix, task.batches))
    rows, test = ((x[i], x[i] if copied else y[i]) for i in (here, there))
    return on_rows(model, loss, rows, test, partial(shuffled, rng, passes=passes))


def in_order(batch=BATCH, passes=1):
    def order(rows):
        for _ in range(passes):
            yield from torch.arange(len(rows[0])).split(batch)

    return order


def autoregressive(rng, rows, columns, rho):
    """Return standard normal columns, each an AR(1) series."""
    noise = rng.standard_normal((rows, columns)) * math.sqrt(1 - rho**2)
    noise[0] /= math.sqrt(1 - rho**2)
    x = np.zeros_like(noise)
    for i, each in enumerate(noise):
        x[i] = rho * x[i - 1] + each
    return x


def tabular(rng, model, rho=0.0, rows=12_000, mean=0.0, scale=1.0):
    """Friedman's function of five columns among ten, in time order if correlated."""
    x = autoregressive(rng, rows, 10, rho)
    new = rng.standard_normal((4000, 10))

    def target(x):
        u = 0.5 * (1.0 + np.tanh(x))
        smooth = np.sin(math.pi * u[:, 0] * u[:, 1]) + 2 * (u[:, 2] - 0.5) ** 2 + u[:, 3]
        return mean + scale * (smooth[:, None] + 0.5 * u[:, 4:5])

    y = target(x) + 0.1 * scale * rng.standard_normal((rows, 1))
    order = in_order() if rho else partial(shuffled, rng, passes=1)
    return on_rows(model, mse_loss, (x, y), (new, target(new)), order)


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
    pairs = np.stack([rng.integers(0, len(each), 9000) for each in (users, items)], axis=1)
    rated = (users[pairs[:, 0]] * items[pairs[:, 1]]).sum(1) + 0.1 * rng.standard_normal(9000)
    rows, test = ((pairs[i], rated[i]) for i in (slice(8000), slice(8000, None)))
    return on_rows(Factors, mse_loss, rows, test, partial(shuffled, rng, passes=3))


class Recurrent(nn.Module):
    """A GRU of 24 units, read at the end of a window."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRU(1, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class Attention(nn.Module):
    """Two transformer layers of 32 units, read at the end of a window."""

    def __init__(self, window, dropout=0.0):
        super().__init__()
        self.first, self.place = nn.Linear(1, 32), nn.Parameter(0.02 * torch.randn(window, 32))
        layer = partial(nn.TransformerEncoderLayer, 32, 4, 64, dropout, batch_first=True)
        self.layers = nn.Sequential(layer(norm_first=True), layer(norm_first=True))
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.layers(self.first(x) + self.place)[:, -1])


def series(rng, model, window=12, values=12_000):
    """The next value of a series with two regimes of about 300 values each, in time order."""

    def drawn(values):
        regime = np.cumsum(rng.random(values) < 1 / 300) % 2
        noise, x = 0.3 * rng.standard_normal(values), np.zeros(values)
        for t in range(2, values):
            a, b = ((1.6, -0.8), (0.4, -0.6))[regime[t]]
            x[t] = np.tanh(a * x[t - 1] + b * x[t - 2]) + noise[t]
        windows = np.lib.stride_tricks.sliding_window_view(x, window + 1)
        return windows[:, :-1, None].copy(), windows[:, -1:].copy()

    return on_rows(model, mse_loss, drawn(values), drawn(6_000), in_order())


def bootstrapped(values, rows):
    """The squared temporal difference, whose goal is not differentiated."""
    value, after = values[: len(rows)], values[len(rows) :].detach()
    return mse_loss(value, rows + GAMMA * after)


GAMMA = 0.9


def values(rng, transitions=24_000, states=60):
    """TD(0) along one trajectory on a ring, for the values of its states."""
    places = 2 * math.pi * np.arange(states) / states
    features = np.stack([f(k * places) for k in (1, 2) for f in (np.cos, np.sin)], axis=1)
    rewards = np.cos(places) + (np.sin(3 * places) > 0.5) + 0.3 * rng.standard_normal(states)
    steps = np.where(rng.random(transitions) < 0.6, 1, -1)
    path = np.concatenate([[0], np.cumsum(steps)]) % states
    ring = np.eye(states)
    law = 0.6 * np.roll(ring, 1, axis=1) + 0.4 * np.roll(ring, -1, axis=1)
    true = np.linalg.solve(ring - GAMMA * law, rewards)
    x, r, v = (torch.as_tensor(each, dtype=torch.float32) for each in (features, rewards, true))
    here, there = torch.from_numpy(path[:-1]), torch.from_numpy(path[1:])
    batches = (
        (torch.cat([x[here[i]], x[there[i]]]), r[here[i], None])
        for i in torch.arange(transitions).split(BATCH)
    )
    return Task(layers(4, 64, 64, 1), bootstrapped, batches, (x, v[:, None]))


def convolutions():
    first, second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))


LARGE = (64, 800, 800, 800, 10)
TASKS = {
    "digits, perceptron": partial(digits, model=partial(layers, 64, 64, 10)),
    "digits, batch norm": partial(
        digits, model=partial(layers, 64, 64, 64, 10, norm=nn.BatchNorm1d)
    ),
    "digits by class, memory": partial(
        digits, model=partial(layers, 64, 64, 10), by_class=True, passes=3
    ),
    "digits, convolutions": partial(digits, model=convolutions, shape=(1, 8, 8)),
    "digits, autoencoder": partial(
        digits, model=partial(layers, 64, 48, 8, 48, 64), copied=True, passes=8
    ),
    "digits, 1.3 million": partial(digits, model=partial(layers, *LARGE), passes=3),
    "digits, 1.3 million, layer norm": partial(
        digits, model=partial(layers, *LARGE, norm=nn.LayerNorm), passes=3
    ),
    "embeddings": ratings,
    "table": partial(tabular, model=partial(layers, 10, 64, 64, 1)),
    "table around 1,000": partial(
        tabular, model=partial(layers, 10, 64, 1), mean=1000.0, scale=200.0
    ),
    "table in time order": partial(tabular, model=partial(layers, 10, 64, 64, 1), rho=0.99),
    "series in time order, GRU": partial(series, model=Recurrent),
    "series in time order, transformer": partial(series, model=partial(Attention, 12)),
    "values in time order": values,
}


class Mechanized:
    """A transformation of Optax, given the gradients of a torch model."""

    def __init__(self, params, transformation):
        self.params = list(params)
        self.update = jax.jit(transformation.update)
        self.state = transformation.init(self._arrays(self.params))

    def _arrays(self, tensors):
        return [t.detach().numpy().copy() for t in tensors]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        at = self._arrays(self.params)
        updates, self.state = self.update(self._arrays(p.grad for p in self.params), self.state, at)
        for p, update in zip(self.params, updates, strict=True):
            p.add_(torch.from_numpy(np.array(update)))


OPTIMISERS = {
    "Adam 1e-3": partial(torch.optim.Adam, lr=1e-3),
    "Adam 3e-3": partial(torch.optim.Adam, lr=3e-3),
    "AdamW": torch.optim.AdamW,
    "SGD, momentum": partial(torch.optim.SGD, lr=0.01, momentum=0.9),
    "schedule-free": partial(schedulefree.AdamWScheduleFree, lr=0.0025),
    "Prodigy": prodigyopt.Prodigy,
    "D-Adaptation": dadaptation.DAdaptAdam,
    "DoG": dog.DoG,
    "mechanize": lambda params: Mechanized(params, optax.contrib.mechanize(optax.adam(1.0))),
    "Ladder": mt.Ladder,
}
COMPARED = ("Adam 1e-3", "schedule-free", "Prodigy")


class Average:
    """The average of the iterates with weights that grow as t³."""

    def __init__(self, model):
        self.params, self.steps = list(model.parameters()), 0
        self.mean = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def add(self):
        self.steps += 1
        torch._foreach_lerp_(self.mean, self.params, 4.0 / (self.steps + 3.0))

    @torch.no_grad()
    def swap(self):
        for p, mean in zip(self.params, self.mean, strict=True):
            p.copy_(mean)


def run(task, make, seed):
    """Return the loss on new rows: of the last iterate, and of the average."""
    torch.manual_seed(seed)
    model, loss, batches, test = task(np.random.default_rng(seed))
    opt = make(model.parameters())
    own = hasattr(opt, "eval")
    average = None if own else Average(model)
    if own:
        opt.train()
    for x, y in batches:
        opt.zero_grad()
        loss(model(x), y).backward()
        if average:
            average.add()
        opt.step()

    def tested():
        final = loss if loss is not bootstrapped else mse_loss
        model.eval()
        with torch.no_grad():
            return float(final(model(test[0]), test[1]))

    last = tested()
    opt.eval() if own else average.swap()
    model.train()
    with torch.no_grad():
        # Statistics of a batch norm belong to the weights at which they were taken.
        statistics(model, test[0])
    return last, tested()


def statistics(model, x):
    """Take the statistics of every batch norm anew, at the current weights."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    for each in norms:
        each.reset_running_stats()
        each.momentum = None
    if norms:
        model(x)


def measured(names=TASKS, makers=OPTIMISERS, seeds=SEEDS):
    """Return the mean losses by task and optimiser: of the last iterate, and of the average."""
    found = {}
    for name in names:
        for kind, make in makers.items():
            begun = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs = [run(TASKS[name], make, seed) for seed in seeds]
            found[name, kind] = np.mean(runs, axis=0)
            spent = (time.process_time() - begun) / len(runs)
            print(f"{name}, {kind}:", *found[name, kind].round(4), f"{spent:.1f} s", flush=True)
    return found


def text(value):
    return f"{value:.3g}" if math.isfinite(value) else "diverges"


def main():
    torch.set_num_threads(1)
    found, lines, ratios = measured(), [], []
    for name in TASKS:
        losses = [found[name, kind] for kind in OPTIMISERS]
        # What each documents: Adam and Prodigy the last iterate, schedule-free its average.
        rivals = [found[name, kind][int(kind == "schedule-free")] for kind in COMPARED]
        ratios.append(found[name, "Ladder"][1] / np.nanmin(rivals))
        lines.append([name, *(f"{text(a)} / {text(b)}" for a, b in losses), f"{ratios[-1]:.2f}"])
    head = [
        "task",
        *OPTIMISERS,
        "Ladder's average to the best of Adam 1e-3, schedule-free, Prodigy",
    ]
    show(f"Loss on new rows, last iterate / average, means over {len(SEEDS)} seeds", head, lines)
    ratios = np.array(ratios)
    show(
        "Ladder's average to the best of Adam 1e-3, schedule-free and Prodigy",
        ["tasks", "at most 1.1", "largest", "geometric mean"],
        [(len(ratios), int((ratios <= 1.1).sum()), ratios.max(), np.exp(np.log(ratios).mean()))],
    )
