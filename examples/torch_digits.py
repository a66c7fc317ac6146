"""Does a small network remember digits that arrive class by class?"""

import time

import numpy as np
import torch
from curves import finish, keep, last_fifth, marks_of, with_average
from sklearn.datasets import load_digits
from torch_methods import batches, follow, methods, shown

from mixfree.base.figures import new_figure, styles_of

CAPACITY = 1_000  # digits in a memory
SEEDS = range(1000, 1003)


def data(seed=0):
    """Return training and test digits, with pixels between 0 and 1."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    x = torch.tensor(digits.data[order] / 16.0, dtype=torch.float32)
    y = torch.tensor(digits.target[order])
    return (x[:1400], y[:1400]), (x[1400:], y[1400:])


def class_after_class(y, samples, length, seed):
    """Return rows in the order of the stream: random digits of the chain's current class."""
    rng = np.random.default_rng(seed)
    classes = np.cumsum(rng.random(samples) < 1.0 / length) % 10
    rows = [np.flatnonzero(y.numpy() == c) for c in range(10)]
    return [int(rng.choice(rows[c])) for c in classes]


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


METHODS = methods(lr=1e-3)


def accuracy(model, test):
    with torch.no_grad():
        return float((model(test[0]).argmax(1) == test[1]).float().mean())


def run(name, samples, length, seed, marks):
    """Return test accuracies at the marks, of the last iterate and of the average."""
    (x, y), test = data()
    rows = class_after_class(y, samples, length, seed)
    model = network(seed)
    losses = (
        torch.nn.functional.cross_entropy(model(pixels), labels)
        for pixels, labels in batches(name, (x[rows], y[rows]), 1, CAPACITY, seed)
    )
    return follow(METHODS[name](model), losses, marks, lambda: accuracy(model, test))


def main(samples=8_000, seeds=SEEDS, runs_of=(200,), figure="results/torch-digits/digits"):
    """Measure accuracies by method and by mean length of a run of one class."""
    marks = marks_of(samples)
    drawing, panels = new_figure(1, len(runs_of), width=3.0 + 4.0 * len(runs_of), sharey=True)
    last, start = {}, time.process_time()
    for axes, length in zip(np.atleast_1d(panels), runs_of, strict=True):
        for name, style in styles_of(METHODS).items():
            each = [run(name, samples, length, seed, set(marks)) for seed in seeds]
            plain, averaged = np.mean(each, axis=0)
            last[name, length] = last_fifth(plain), last_fifth(averaged)
            with_average(axes, style, name, marks, plain, averaged)
            print(
                f"runs of {length:3d}, {name:27s} accuracy over the last fifth: "
                f"{last[name, length][0]:.3f}, of the average {last[name, length][1]:.3f}",
                flush=True,
            )
        axes.set_title(f"runs of about {length} digits per class")
    label = "test accuracy\n(thick: averaged, thin: last iterate)"
    finish(drawing, figure, start, "digits seen", label)
    return last


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = []
    for (method, _), accuracies in main().items():
        name, gradients = shown(method)
        rows.append((name, [gradients, *(f"{each:.3f}" for each in accuracies)]))
    title = "Test accuracy over the last fifth of the run"
    head = ["gradients per digit", "last iterate", "averaged"]
    keep(__file__, title, rows, head, SEEDS)
