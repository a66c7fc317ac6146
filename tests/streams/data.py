"""Small files for the tests of streams."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from mixfree.streams import FitPlan, Source, StreamFit, find_files
from tests.helpers import run_command as run

__all__ = ["fitted", "run", "table", "write"]
ROWS = 3000


def fitted(data, target, **plan):
    """Fit a file, or a table with a place to write it to."""
    source = Source(find_files([str(data) if not isinstance(data, tuple) else write(*data)]))
    fit = StreamFit.begin(source, FitPlan(target, **plan))
    fit.run(source.pieces())
    return fit


def table(rows=ROWS, seed=0):
    """Return a slow walk with two numbers, a text and a boolean, and a target made of them."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.standard_normal((rows, 2)), axis=0)
    colour = rng.choice(["red", "green", "blue"], rows)
    on = rng.random(rows) < 0.5
    load = walk @ [1.0, -0.5] + 2.0 * (colour == "red") + on + 0.1 * rng.standard_normal(rows)
    return pa.table({"u": walk[:, 0], "v": walk[:, 1], "colour": colour, "on": on, "load": load})


def write(data, path):
    """Write a table in the format of the file extension."""
    path = str(path)
    if path.endswith(".parquet"):
        pa.parquet.write_table(data, path, row_group_size=701)
    elif path.endswith(".arrow"):
        pa.feather.write_feather(data, path, compression="uncompressed")
    elif path.endswith(".jsonl"):
        with open(path, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in data.to_pylist())
    else:
        with pa.output_stream(path, compression="detect") as file:
            pa.csv.write_csv(data, file)
    return path
