"""Compile time: CPU seconds of a fit with an empty cache minus those with a full cache.

Each number compares two fresh processes on 1,000 rows of 5 columns.
"""

import os
import subprocess
import sys
import tempfile

from benchmarks.core import METHODS
from benchmarks.table import show
from mixfree.td.methods import td_methods

FIT = """
import resource, sys
import numpy as np
import mixfree as mf
from scipy.sparse import csr_array

name, kind = sys.argv[1:]
options = {"mixing_time": 10} if mf.methods()[name].needs_mixing_time() else {}
rng = np.random.default_rng(0)
rows = rng.standard_normal((1000, 5))
targets = rows.sum(axis=1)
if kind == "TD":
    from mixfree.td import TDLearner
    path = rng.integers(5, size=1001)
    learner = TDLearner(np.eye(5), 0.5, 4.0, name, **options)
    learner.update_many(path[:-1], np.ones(1000), path[1:], np.zeros(1000, dtype=bool))
elif kind == "logistic":
    from mixfree.sklearn import StreamClassifier
    StreamClassifier(method=name, options=options).fit(rows, targets > 0.0)
else:
    from mixfree.sklearn import StreamRegressor
    given = csr_array(rows) if kind == "sparse" else rows
    StreamRegressor(method=name, options=options).fit(given, targets)
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
KINDS = ("squared", "logistic", "sparse", "TD")


def seconds(name, kind, cache):
    told = subprocess.run(
        [sys.executable, "-c", FIT, name, kind],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    return float(told.stdout)


def compile_seconds(name, kind):
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds(name, kind, cache)
        return cold - seconds(name, kind, cache)


def main():
    lines = []
    for name in METHODS:
        # Replay methods do not apply to transitions.
        kinds = [kind for kind in KINDS if kind != "TD" or name in td_methods()]
        lines.append([name, *(compile_seconds(name, kind) for kind in kinds)])
    show("A first fit beyond a second one, CPU s", ["", *KINDS], lines)
