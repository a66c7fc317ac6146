"""Which method finds the mean of weights that jump?"""

import time

import numpy as np
import torch
from curves import keep
from torch_methods import every_sample, follow

import mixfree.torch as mt

SIZE = 5
LASTING = 200  # rows per regime
SEEDS = range(1000, 1004)


def stream(rows, seed):
    """Return rows, targets, and the best weights in expectation over all regimes."""
    generator = torch.Generator().manual_seed(seed)
    best = torch.full((SIZE,), 3.0)
    shifts = torch.randn(-(-rows // LASTING), SIZE, generator=generator)
    x = torch.randn(rows, SIZE, generator=generator)
    y = (x * (best + shifts.repeat_interleave(LASTING, 0)[:rows])).sum(1)
    return x, y, best


METHODS = {
    "SGD, lr 0.1": lambda w: every_sample(torch.optim.SGD(w, lr=0.1), "weighted"),
    "SGD, lr 0.01": lambda w: every_sample(torch.optim.SGD(w, lr=0.01), "weighted"),
    "SGD, lr 0.001": lambda w: every_sample(torch.optim.SGD(w, lr=0.001), "weighted"),
    "Adam, lr 0.01": lambda w: every_sample(torch.optim.Adam(w, lr=0.01), "weighted"),
    "MAG": lambda w: mt.MAG(w, output="weighted"),
    "Ladder": lambda w: mt.Ladder(w, output="weighted"),
}


def run(name, rows, seed):
    """Return the distances of the last iterate and of the average from the best weights."""
    x, y, best = stream(rows, seed)
    weights = torch.nn.Parameter(torch.zeros(SIZE))
    losses = (0.5 * (weights @ row - target).square() for row, target in zip(x, y, strict=True))
    found = follow(METHODS[name]([weights]), losses, {rows}, lambda: float((weights - best).norm()))
    return found[:, 0]


def main(rows=4_000, seeds=SEEDS):
    found, start = {}, time.process_time()
    for name in METHODS:
        found[name] = np.mean([run(name, rows, seed) for seed in seeds], axis=0)
        last, averaged = found[name]
        print(f"{name:15s} distance from the best: {last:.2f}, of the average {averaged:.2f}")
    print(f"{time.process_time() - start:.0f} s")
    return found


if __name__ == "__main__":
    title = "Distance from the weights that are best over all regimes"
    keep(__file__, title, main(), ["last iterate", "averaged"], SEEDS, digits=2)
