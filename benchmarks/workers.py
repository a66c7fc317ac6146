"""``mixfree fit --workers``: wall-clock time with one process and with two, taking turns.

STREAM_GB=2 python benchmarks/run.py workers
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


def seconds(path, workers, folder):
    """Return the wall-clock seconds of one fit, with one thread per process."""
    arguments = ["fit", path, "--target", "y", "--model", f"{folder}/m", "-q"]
    arguments += ["--workers", str(workers)]
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", FIT, *arguments], check=True)
    return time.perf_counter() - start


def main():
    gigabytes, lines = float(os.environ.get("STREAM_GB", "0.25")), []
    for columns in (20, 100):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "data.parquet")
            generate(path, int(gigabytes * 1e9 / (8 * columns + 8)), columns, batch=100_000)
            seconds(path, 1, folder)  # brings the file into the system's cache
            turns = [[seconds(path, n, folder) for n in (1, 2)] for _ in range(REPETITIONS)]
            one, two = (min(turn[place] for turn in turns) for place in (0, 1))
            size = os.path.getsize(path) / 1e9
            lines.append((f"{size:.2g} GB, {columns} columns", one, two, one / two, WANTED))
    head = ("Parquet file", "one process, s", "two workers, s", "ratio", "at least")
    show("mixfree fit --workers 2 beside one process (wall-clock time)", head, lines)
