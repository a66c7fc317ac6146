"""A billion correlated rows of four columns in Parquet parts, and the cost as work grows.

ROWS=1e7 python benchmarks/run.py billion

The parts, 16 bytes per row, are written to a temporary folder and removed at the end. The weights
are compared with the closed form, whose sums are made as the parts are written, and with the truth.
DuckDB and Polars only sum the products of columns, of a tenth of the parts. The figure of the cost
is written to ``results/bench-billion``.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
from scipy.signal import lfilter

from benchmarks import reading
from benchmarks.streams import FIT, measured
from benchmarks.table import show
from mixfree.base.figures import log_log, new_figure
from mixfree.streams import StreamFit

PARTS, CORRELATION = 100, 0.9
TRUTH = np.array([1.0, -0.5, 0.25, 0.0])  # of three columns, and the intercept
NAMES = ("x0", "x1", "x2", "y")
COLUMNS = (5, 20, 100, 500, 2000)


def write(folder, rows):
    """Write AR(1) columns and errors; return the products of the columns, a one and the target."""
    gram, before = np.zeros((5, 5)), np.zeros((1, 4))
    for part in range(PARTS):
        rng = np.random.default_rng([1000, part])
        noise = rng.standard_normal((rows // PARTS, 4), np.float32) * (1 - CORRELATION**2) ** 0.5
        walk, before = lfilter([1.0], [1.0, -CORRELATION], noise, axis=0, zi=before)
        walk[:, 3] += walk[:, :3] @ TRUTH[:3]
        walk = walk.astype(np.float32)
        path = f"{folder}/{part:03d}.parquet"
        options = {"compression": "none", "use_dictionary": False, "row_group_size": 1_000_000}
        pa.parquet.write_table(pa.table([*walk.T.copy()], names=NAMES), path, **options)
        whole = np.insert(walk.astype(float), 3, 1.0, axis=1)
        gram += whole.T @ whole
    return gram


def timed(*arguments):
    """Return the wall-clock seconds of a process, and the peak memory of it and its children."""
    start, peak = time.perf_counter(), 0
    child = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.DEVNULL)
    process = psutil.Process(child.pid)
    while child.poll() is None:
        try:
            family = [process, *process.children(recursive=True)]
            peak = max(peak, sum(each.memory_info().rss for each in family))
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.1)
    if child.returncode:
        raise RuntimeError(f"{arguments[1:]} ended with {child.returncode}")
    return time.perf_counter() - start, peak / 1e6


def whole(folder, rows, gram):
    """Fit all parts by two workers, and let others sum a tenth of them with two threads."""
    model = f"{folder}/model"
    lines = [
        ("mixfree fit, two workers", rows, *timed(FIT, *command(folder, model), "--workers=2"))
    ]
    few = f"{folder}/00?.parquet"
    for name, script in (("DuckDB", reading.DUCKDB), ("Polars", reading.POLARS)):
        for one, two in (("threads to 1", "threads to 2"), ('THREADS"] = "1"', 'THREADS"] = "2"')):
            script = script.replace(one, two)
        lines.append((f"sums by {name}", rows // 10, *timed(reading.ALONE + script, few, "3")))
    show(
        f"{rows:,} rows of four columns in {PARTS} Parquet files, two cores",
        ("", "rows", "wall-clock, s", "million rows/s", "memory, MB"),
        [(name, f"{n:,}", took, n / took / 1e6, memory) for name, n, took, memory in lines],
    )
    learner = StreamFit.load(model).model.learner
    closed = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    low, high = np.asarray(learner.inference.conf_int()).reshape(4, 2).T
    found = np.ravel(learner.weights)
    show(
        "Its weights",
        ("", "truth", "low", "high", "off the closed form, relative"),
        [
            (name, *(f"{value:.6f}" for value in values), abs(weight / exact - 1.0))
            for name, *values, weight, exact in zip(
                (*NAMES[:3], "intercept"), TRUTH, low, high, found, closed, strict=True
            )
        ],
    )


def command(path, model):
    return ["fit", path, "--target", "y", "--model", model, "--force", "-q"]


def both(path, model, repetitions=5):
    """Return the least CPU seconds of reading a folder or file with one thread, and of fitting it.

    The least of several, since the system's share of reading varies threefold from run to run.
    """
    script = reading.ALONE + reading.PARQUET.replace(
        "pq.ParquetFile(path).iter_batches(65_536)",
        "(batch for each in sorted(pathlib.Path(path).glob('*.parquet')) or [path]"
        " for batch in pq.ParquetFile(each).iter_batches(65_536))",
    )
    read = "import pathlib" + script + reading.READ, path, "3"
    runs = [
        (measured(*read)[0], measured(FIT, *command(path, model))[0]) for _ in range(repetitions)
    ]
    return [min(seconds) for seconds in zip(*runs, strict=True)]


def growing(folder, rows):
    """Return the CPU seconds of reading and fitting the first rows, from 1/10,000 of them on."""
    found, first = {}, pa.parquet.read_table(f"{folder}/000.parquet")
    for share in (10_000, 1000, 100, 10, 1):
        some = Path(folder) / f"share-{share}"
        some.mkdir()
        if share > PARTS:
            pa.parquet.write_table(first[: rows // share], some / "0.parquet", compression="none")
        for part in range(PARTS // share):
            (some / f"{part:03d}.parquet").symlink_to(f"{folder}/{part:03d}.parquet")
        found[rows // share] = both(str(some), f"{folder}/model", 2 if share == 1 else 5)
    return found


def wider(folder, rows):
    """Return the CPU seconds per row by columns, at most 0.3 GB each."""
    found, path = {}, f"{folder}/wide.parquet"
    for columns in COLUMNS:
        some = int(min(rows // 10, max(3e7 / columns, 20_000)))
        reading.generate(path, some, columns)
        found[columns] = [seconds / some for seconds in both(path, f"{folder}/model")]
        os.remove(path)
    return found


def draw(by_rows, by_columns, path):
    figure, panels = new_figure(1, 2, width=9.0, height=3.6)
    for axes, found, across, up in (
        (panels[0], by_rows, "rows of four columns", "CPU time, s"),
        (panels[1], {k: np.multiply(v, 1e6) for k, v in by_columns.items()}, "columns",
         "CPU time per row, µs"),
    ):  # fmt: skip
        reads, fits = zip(*found.values(), strict=True)
        axes.plot([*found], fits, marker="o", markersize=4, label="mixfree fit")
        axes.plot([*found], reads, color="#8A8A8A", linewidth=1.0, label="PyArrow reads it")
        log_log(axes, across, up)
    panels[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=150)


def main():
    rows = int(float(os.environ.get("ROWS", "1e9"))) // PARTS * PARTS
    with tempfile.TemporaryDirectory() as folder:
        gram = write(folder, rows)
        whole(folder, rows, gram)
        by_rows, by_columns = growing(folder, rows), wider(folder, rows)
    head = ("reading, CPU s", "fit, CPU s", "ratio")
    lines = [(f"{n:,}", *both, both[1] / both[0]) for n, both in by_rows.items()]
    show("The cost by rows, one process", ("rows of four columns", *head), lines)
    lines = [
        (f"{n:,}", *(1e6 * s for s in both), both[1] / both[0]) for n, both in by_columns.items()
    ]
    head = ("reading, µs per row", "fit, µs per row", "ratio")
    show("The cost by columns, one process", ("columns", *head), lines)
    os.makedirs("results/bench-billion", exist_ok=True)
    draw(by_rows, by_columns, "results/bench-billion/billion-cost.png")
