"""``mixfree fit --workers``: wall-clock time with one process and with two, taking turns.

STREAM_GB=2 python benchmarks/run.py workers

Two fits of the whole file at once, which share nothing, show what the machine allows.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.streams import generate
from benchmarks.table import show

FIT = "import sys; from mixfree.cli import main; main(sys.argv[1:])"
REPETITIONS = 3
WANTED = 1.7


def seconds(path, folder, workers=1, fits=1):
    """Return the wall-clock seconds of so many fits at once, with one thread per process."""
    start, running = time.perf_counter(), []
    for number in range(fits):
        arguments = ["fit", path, "--target", "y", "--model", f"{folder}/m{number}", "-q"]
        arguments += ["--workers", str(workers)]
        running.append(subprocess.Popen([sys.executable, "-c", FIT, *arguments]))
    assert {each.wait() for each in running} == {0}
    return time.perf_counter() - start


def main():
    gigabytes, lines = float(os.environ.get("STREAM_GB", "0.25")), []
    for columns in (20, 100):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "data.parquet")
            generate(path, int(gigabytes * 1e9 / (8 * columns + 8)), columns, batch=100_000)
            seconds(path, folder)  # brings the file into the system's cache
            ways = (1, 1), (2, 1), (1, 2)
            turns = [[seconds(path, folder, *way) for way in ways] for _ in range(REPETITIONS)]
            one, two, both = map(min, *turns)
            size = os.path.getsize(path) / 1e9
            name = f"{size:.2g} GB, {columns} columns"
            lines.append((name, one, two, one / two, 2 * one / both, WANTED))
    head = "Parquet file", "one process, s", "two workers, s", "ratio", "of two fits", "at least"
    show("mixfree fit --workers 2 beside one process (wall-clock time)", head, lines)
