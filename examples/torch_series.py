"""A recurrent network on one long series whose regime changes from time to time.

The series is an autoregression whose coefficients switch between three regimes. The network must
recognise the regime from the recent past; the test series has all three.
"""

import time

import numpy as np
import torch
from curves import finish, keep, last_fifth, marks_of, with_average
from torch_methods import batches, follow, methods

from mixfree.base.figures import new_figure, plain_ticks, styles_of

REGIMES = np.array(
    [[1.6, -0.8], [-0.6, 0.2], [0.2, 0.7]]
)  # coefficients of the last value and the one before
NOISE = 0.3
WINDOW = 16  # values the network sees before each prediction
CAPACITY = 1_000  # windows in a memory


def series(length, lasting, seed):
    """Simulate a path whose regimes last ``lasting`` values on average."""
    rng = np.random.default_rng(seed)
    regimes = np.cumsum(rng.random(length) < 1.0 / lasting) % 3
    values = np.zeros(length)
    for t in range(2, length):
        values[t] = REGIMES[regimes[t]] @ values[[t - 1, t - 2]] + NOISE * rng.standard_normal()
    return torch.tensor(values, dtype=torch.float32)


class Network(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.cell = torch.nn.GRU(1, 12, batch_first=True)
        self.head = torch.nn.Linear(12, 1)

    def error(self, windows):
        """Return the mean squared error of predicting the last value of each window."""
        states, _ = self.cell(windows[:, :-1, None])
        return (self.head(states[:, -1])[:, 0] - windows[:, -1]).square().mean()


METHODS = methods(lr=3e-3)


def run(name, windows, test, marks, seed):
    """Return test errors at the marks, of the last iterate and of the average."""
    model = Network(seed)
    losses = (model.error(window) for (window,) in batches(name, (windows,), 1, CAPACITY, seed))
    return follow(METHODS[name](model), losses, marks, lambda: float(model.error(test)))


def main(samples=5_000, lasting=500, seeds=range(1000, 1005), figure="docs/figures/series"):
    marks = marks_of(samples)
    test = series(20_000, 50, seed=99).unfold(0, WINDOW + 1, 7)
    drawing, axes = new_figure()
    last, start = {}, time.process_time()
    for name, style in styles_of(METHODS).items():
        each = []
        for seed in seeds:
            windows = series(samples + WINDOW, lasting, seed).unfold(0, WINDOW + 1, 1)
            each.append(run(name, windows, test, set(marks), seed))
        plain, averaged = np.mean(each, axis=0)
        last[name] = last_fifth(plain), last_fifth(averaged)
        with_average(axes, style, name, marks, plain, averaged)
        print(
            f"{name:27s} squared error over the last fifth: "
            f"{last[name][0]:.3f}, of the average {last[name][1]:.3f}",
            flush=True,
        )
    axes.axhline(NOISE**2, color="#999999", linewidth=0.8)
    axes.annotate("variance of the noise", (marks[0], NOISE**2), va="bottom", color="#555555")
    axes.set_yscale("log")
    plain_ticks(axes.yaxis)
    finish(
        drawing,
        figure,
        start,
        "values seen",
        "squared error on another series\n(thick: averaged, thin: last iterate)",
    )
    return last


if __name__ == "__main__":
    torch.set_num_threads(1)
    title = f"Squared error over the last fifth of the run (the noise alone: {NOISE**2:.2f})"
    keep(__file__, title, main(), ["last iterate", "averaged"], range(1000, 1005))
