"""Does a memory help a small network on two years of bicycle rentals, hour by hour?

    python examples/torch_bike_hours.py hour.csv

The file is hour.csv of the UCI data set "Bike Sharing" (17,379 hours), or another file with its
columns, and may be compressed by gzip. Without a file, a similar record is simulated.
"""

import csv
import gzip
import sys
import time

import numpy as np
import torch
from curves import finish, keep, last_fifth, marks_of, with_average
from torch_methods import batches, follow, methods, shown

from mixfree.base.figures import new_figure, plain_ticks, styles_of

NUMBERS = ("yr", "holiday", "workingday", "temp", "atemp", "hum", "windspeed")
CLASSES = {"hr": range(24), "weekday": range(7), "mnth": range(1, 13), "weathersit": range(1, 5)}
MISSING = ("", "NA")
BATCH = 8
CAPACITY = 2_000  # hours in a memory
RATES = (1e-3, 1e-2)  # of Adam
SHOWN = (
    "Adam, lr 0.001",
    "Ladder",
    "Adam + Memory, lr 0.001",
    "Ladder + Memory",
    "Adam, shuffled, lr 0.001",
)


def read(path):
    """Read the columns of a file by name, without incomplete hours."""
    opened = gzip.open if str(path).endswith(".gz") else open
    names = (*NUMBERS, *CLASSES, "cnt")
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if {row[n] for n in names}.isdisjoint(MISSING)]
    return {name: np.array([float(row[name]) for row in rows]) for name in names}


def drawn(hours, seed=0):
    """Simulate rentals that depend on the hour, the day, the season and the weather."""
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    day, hour = t // 24, t % 24
    season = -np.cos(2.0 * np.pi * day / 365.0)
    weather = np.repeat(rng.standard_normal(hours // 24 + 1), 24)[:hours]
    temp = 0.5 + 0.25 * season + 0.05 * weather
    work = (day % 7 < 5).astype(float)
    peaks = work * (np.exp(-((hour - 8) ** 2) / 3) + np.exp(-((hour - 17) ** 2) / 6))
    level = 80.0 * (peaks + 0.7 * np.exp(-((hour - 14) ** 2) / 20)) * (1.0 + season / 2)
    return {
        "yr": day // 365 % 2,
        "holiday": np.zeros(hours),
        "workingday": work,
        "temp": temp,
        "atemp": temp,
        "hum": 0.6 - 0.1 * weather,
        "windspeed": np.full(hours, 0.2),
        "hr": hour,
        "weekday": day % 7,
        "mnth": 1 + day // 31 % 12,
        "weathersit": 1 + (weather < -0.5),
        "cnt": level * (1.0 + (day // 365 % 2) / 2) + 10.0 * rng.standard_normal(hours),
    }


def tensors(columns):
    """Return features between 0 and 1, and standardised rentals."""
    parts = [columns[name][:, None] for name in NUMBERS]
    parts += [columns[name][:, None] == list(values) for name, values in CLASSES.items()]
    rentals = (columns["cnt"] - columns["cnt"].mean()) / columns["cnt"].std()
    x = np.concatenate(parts, axis=1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(rentals, dtype=torch.float32)


def network(columns, seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(columns, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1), torch.nn.Flatten(0)
    )


def error(model, rows):
    """Return the mean squared error."""
    return (model(rows[0]) - rows[1]).square().mean()


def contenders():
    """Return the methods by name, Adam at either rate."""
    found = {}
    for lr in RATES:
        for name, make in methods(lr).items():
            found[name if "Adam" not in name else f"{name}, lr {lr:g}"] = make
    return found


def run(name, train, test, marks, seed):
    """Return errors at the marks: on new hours, then on the stream.

    Each has a row for the last iterate and one for the average.
    """
    model = network(train[0].shape[1], seed)
    losses = (error(model, rows) for rows in batches(name, train, BATCH, CAPACITY, seed))
    opt = contenders()[name](model)
    return follow(opt, losses, marks, lambda: [float(error(model, rows)) for rows in (test, train)])


def main(
    path=None, seeds=range(1000, 1005), figure="results/torch-bike-hours/bike-hours", hours=17_520
):
    x, y = tensors(read(path) if path else drawn(hours))
    cut = len(y) * 4 // 5
    train, test = (x[:cut], y[:cut]), (x[cut:], y[cut:])
    steps = marks_of(-(-cut // BATCH))
    drawing, panels = new_figure(1, 2, width=10.0)
    last, start = {}, time.process_time()
    styles = styles_of(SHOWN)
    for name in contenders():
        found = np.mean([run(name, train, test, set(steps), seed) for seed in seeds], axis=0)
        last[name] = [last_fifth(curve) for both in found for curve in both]
        for axes, (plain, averaged) in zip(panels, found, strict=True):
            if name in SHOWN:
                with_average(axes, styles[name], name, [BATCH * s for s in steps], plain, averaged)
        print(
            f"{name:37s} squared error over the last fifth of the run, new hours: "
            "{:.3f}, averaged {:.3f}; hours of the stream: {:.3f}, averaged {:.3f}".format(
                *last[name]
            ),
            flush=True,
        )
    for axes, title in zip(
        panels, ("the last fifth of the record", "the hours of the stream"), strict=True
    ):
        axes.set_title(title)
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
    label = "squared error, in units of the variance\n(thick: averaged, thin: last iterate)"
    finish(drawing, figure, start, "hours seen", label)
    return last


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = []
    for method, errors in main(*sys.argv[1:2]).items():
        name, gradients = shown(method)
        name = name.replace(", lr ", ", learning rate ")
        rows.append((name, [gradients, *(f"{each:.3f}" for each in errors)]))
    title = "Squared error over the last fifth of the run, in units of the variance"
    head = ["new hours, last", "new hours, averaged", "stream, last", "stream, averaged"]
    keep(__file__, title, rows, ["gradients per hour", *head], range(1000, 1005))
