"""``mixfree fit`` beside what only reads, or sums, the same file: CPU time of one run.

STREAM_GB=0.9 python benchmarks/run.py reading

Each line is a process of its own with one thread. The start of Python and of its packages, measured
on the same work with 100 rows, is subtracted.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.streams import FIT, measured
from benchmarks.table import show

BATCH = 100_000
REPETITIONS = 7
ALONE = """
import sys
path, columns = sys.argv[1], [f"x{k}" for k in range(int(sys.argv[2]))]
"""
PARQUET = """
import pyarrow as pa, pyarrow.parquet as pq
pa.set_cpu_count(1)
batches = pq.ParquetFile(path).iter_batches(65_536)
"""
CSV = """
import pyarrow as pa, pyarrow.csv as csv
pa.set_cpu_count(1)
batches = csv.open_csv(path)
"""
READ = "for batch in batches: pass"
DECODED = """
import pyarrow.compute as pc
for batch in batches:
    batch["text"].dictionary_encode()
    for part in (pc.hour, pc.day_of_week, pc.day_of_year):
        part(batch["when"])
"""
SUMS = """
import numpy as np
gram = 0.0
for batch in batches:
    rows = np.column_stack([batch[name].to_numpy() for name in (*columns, "y")])
    rows = np.column_stack([rows, np.ones(len(rows))])
    gram = gram + rows.T @ rows
np.linalg.solve(np.delete(np.delete(gram, -2, 0), -2, 1), np.delete(gram[-2], -2))
"""
SGD = """
import numpy as np
from sklearn.linear_model import SGDRegressor
model = SGDRegressor(average=True)
for batch in batches:
    rows = np.column_stack([batch[name].to_numpy() for name in columns])
    model.partial_fit(rows, batch["y"].to_numpy())
"""
POLARS = """
import os
os.environ["POLARS_MAX_THREADS"] = "1"
import polars as pl
scan = pl.scan_parquet if path.endswith("parquet") else pl.scan_csv
names = [*columns, "y"]
pairs = [(pl.col(a) * pl.col(b)).sum().alias(f"{a}*{b}")
         for i, a in enumerate(names) for b in names[i:]]
scan(path).select(pl.col(*names).sum(), *pairs).collect(engine="streaming")
"""
DUCKDB = """
import duckdb
names = [*columns, "y"]
pairs = [f"sum({a} * {b})" for i, a in enumerate(names) for b in names[i:]]
duckdb.sql("set threads to 1")
duckdb.sql(f"select {', '.join(pairs)} from '{path}'").fetchall()
"""


def generate(path, rows, columns, kind="squared"):
    """Write correlated rows; with kind="mixed" also a text and a date."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(columns) / np.sqrt(columns)
    writer = None
    for start in range(0, rows, BATCH):
        n = min(BATCH, rows - start)
        x = rng.standard_normal((n, columns))
        x[1:] += 0.5 * x[:-1]
        y = x @ weights + rng.standard_normal(n)
        data = {f"x{k}": x[:, k] for k in range(columns)}
        data["y"] = y if kind != "logistic" else (y > 0.0).astype(float)
        if kind == "mixed":
            data["text"] = np.array([f"unit {k}" for k in range(40)])[rng.integers(0, 40, n)]
            data["when"] = np.datetime64("2020-01-01", "s") + (start + np.arange(n)) * 60
        table = pa.table(data)
        if writer is None:
            parquet = path.endswith("parquet")
            writer = (pa.parquet.ParquetWriter if parquet else pa.csv.CSVWriter)(path, table.schema)
        writer.write_table(table)
    writer.close()


def cost(script, path, few, columns):
    """Return the CPU seconds beyond those of 100 rows."""
    # The system's share of reading varies threefold from run to run, so the least of several.
    start, whole = (
        min(measured(script, each, str(columns))[0] for _ in range(REPETITIONS))
        for each in (few, path)
    )
    return whole - start


def main():
    gigabytes = float(os.environ.get("STREAM_GB", "0.25"))
    lines = []
    cases = [
        # file, columns, kind, share of the size, most: times reading
        ("parquet", 20, "squared", 1.0, 1.5),
        ("parquet", 100, "squared", 1.0, 1.5),
        ("parquet", 20, "logistic", 1.0, 2.5),
        ("parquet", 5, "mixed", 0.25, 1.5),
        ("csv", 20, "squared", 0.4, 1.15),
    ]
    with tempfile.TemporaryDirectory() as folder:
        few = str(Path(folder) / "start.parquet")
        generate(few, 100, 20)
        fit = FIT.replace(
            "main(sys.argv[1:])",
            f"main(['fit', sys.argv[1], '--target', 'y', '--model', {folder + '/m'!r}, '-q'])",
        )
        starts = [measured(fit, few, "20")[0] for _ in range(REPETITIONS)]
        lines.append(("start: 100 rows", min(starts), None, 0.8))
        for ending, columns, kind, share, most in cases:
            path, few = (str(Path(folder) / f"{name}.{ending}") for name in ("data", "few"))
            generate(few, 100, columns, kind)
            generate(path, int(share * gigabytes * 1e9 / (8 * columns + 8)), columns, kind)
            open_file = ALONE + (PARQUET if ending == "parquet" else CSV)
            base = cost(open_file + (DECODED if kind == "mixed" else READ), path, few, columns)
            label = f"{ending}, {columns} columns, {kind}"
            lines.append((f"{label}: PyArrow reads it", base, 1.0, None))
            rivals = {"mixfree fit": fit}
            if kind == "squared":
                rivals["sums by NumPy, six lines"] = open_file + SUMS
                rivals["averaged SGD, partial_fit"] = open_file + SGD
                if columns == 20:
                    rivals |= {"sums by Polars": ALONE + POLARS, "sums by DuckDB": ALONE + DUCKDB}
            for name, script in rivals.items():
                seconds = cost(script, path, few, columns)
                wanted = most if name == "mixfree fit" else None
                lines.append((f"{label}: {name}", seconds, seconds / base, wanted))
            os.remove(path)
    show("The cost of a fit beside reading", ("file", "CPU, s", "ratio", "at most"), lines)
