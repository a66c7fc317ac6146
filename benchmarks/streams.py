"""The estimators against the alternatives, in one run; ``reading.py`` has ``mixfree fit``.

Rates are CPU time of one thread, so that they are comparable even on a busy machine.
"""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier, SGDRegressor

from benchmarks.core import cpu_seconds, problem
from benchmarks.table import show
from mixfree.sklearn import StreamClassifier, StreamRegressor

FIT = """
import sys
from mixfree.cli import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert ended.code == 0
"""
# The resource usage of a forked child includes its parent's, so the child reports its own.
MEMORY = """
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""
ONE_PASS = {"shuffle": False, "max_iter": 1, "tol": None}


def rate(model, rows, targets, repetitions=5):
    """Return millions of rows per second."""
    return rows.shape[0] / cpu_seconds(lambda: model.fit(rows, targets), repetitions) / 1e6


def dense():
    rows, targets = problem(200_000, 100)
    base = rate(SGDRegressor(average=True, **ONE_PASS), rows, targets)
    lines = [("SGDRegressor, averaged", base, 1.0, None)]
    for name, least in (("mag", 4.0), ("ladder", 3.0)):
        found = rate(StreamRegressor(method=name, memory=0, scale=None), rows, targets)
        lines.append((f"StreamRegressor, {name}", found, found / base, least))
    without = rate(StreamRegressor(method="ladder", memory=0), rows, targets)
    lines.append(("StreamRegressor, ladder, running scale", without, without / base, None))
    found = rate(StreamRegressor(method="ladder", memory=1000), rows, targets)
    lines.append(("the same, memory=1000, beside none", found, found / without, 0.4))
    for name, of in (("river", river_rate), ("Vowpal Wabbit", vowpal_rate)):
        found = of(rows, targets)
        lines.append((f"{name}, linear regression", found, found / base, None))
    labels = np.where(targets > 0, 1, -1)
    base = rate(SGDClassifier(loss="log_loss", average=True, **ONE_PASS), rows, labels)
    lines.append(("SGDClassifier, averaged", base, 1.0, None))
    for name in ("mag", "ladder"):
        found = rate(StreamClassifier(method=name, memory=0, scale=None), rows, labels)
        lines.append((f"StreamClassifier, {name}", found, found / base, 3.0))
    head = ("dense, d = 100, float64", "million rows/s", "ratio", "wanted")
    show("One pass over rows in their order", head, lines)


def exact():
    """Time the estimators' default, including solving for the weights at the end.

    Streams exceed the memory, so that the logistic loss is fitted once.
    """
    lines = []
    for columns, wanted in ((10, None), (30, (3.0, 1.5)), (100, (0.8, 0.5)), (300, None)):
        rows, targets = problem(60_000_000 // columns, columns)
        labels = np.where(targets > 0, 1, -1)
        for place, (theirs, ours, aims) in enumerate(
            (
                (SGDRegressor(average=True, **ONE_PASS), StreamRegressor(), targets),
                (
                    SGDClassifier(loss="log_loss", average=True, **ONE_PASS),
                    StreamClassifier(),
                    labels,
                ),
            )
        ):
            base = rate(theirs, rows, aims, 3)
            found = len(rows) / cpu_seconds(lambda m=ours, x=rows, y=aims: m.fit(x, y).coef_, 3)
            least = wanted[place] if wanted else None
            name = f"{type(ours).__name__}, d = {columns}"
            lines.append((name, found / 1e6, found / 1e6 / base, least))
    rows, targets = problem(100_000, 30)
    base = rate(SGDRegressor(average=True, **ONE_PASS), rows, targets, 3)
    found = rate(StreamRegressor(half_life="auto"), rows, targets, 1)
    lines.append(('half_life="auto", d = 30', found, found / base, 1.0))
    model, (rows, targets) = StreamRegressor(), problem(20_000, 100)
    pieces = np.split(np.arange(20_000), 2_000)
    seconds = cpu_seconds(lambda: [model.partial_fit(rows[p], targets[p]) for p in pieces], 1)
    head = ("exact, float64", "million rows/s", "of averaged SGD", "wanted")
    show("Exact fits, whatever the order of the rows", head, lines)
    print(f"partial_fit of 10 rows, d = 100: {seconds / 2_000 * 1e3:.3f} ms (wanted: 0.2)")


def river_rate(rows, targets, samples=3_000):
    from river import linear_model, optim

    names = [str(k) for k in range(rows.shape[1])]
    pairs = [
        (dict(zip(names, row.tolist(), strict=True)), float(target))
        for row, target in zip(rows[:samples], targets[:samples], strict=True)
    ]

    def work():
        model = linear_model.LinearRegression(optim.SGD(1e-3))
        for row, target in pairs:
            model.learn_one(row, target)

    return samples / cpu_seconds(work, 3) / 1e6


def vowpal_rate(rows, targets, samples=20_000):
    """Time learning from parsed examples, since parsing would take longer than learning."""
    from vowpalwabbit import Workspace

    model = Workspace("--quiet --loss_function squared")
    examples = [
        model.parse(f"{target} | " + " ".join(f"{k}:{v:.6f}" for k, v in enumerate(row)))
        for row, target in zip(rows[:samples], targets[:samples], strict=True)
    ]

    def work():
        for example in examples:
            model.learn(example)

    return samples / cpu_seconds(work, 3) / 1e6


def sparse(samples=200_000, columns=1_000_000, non_zeros=50):
    rng = np.random.default_rng(0)
    places = np.sort(rng.integers(0, columns, (samples, non_zeros)), axis=1).astype(np.int32)
    starts = np.arange(0, samples * non_zeros + 1, non_zeros)
    values = rng.standard_normal(samples * non_zeros)
    rows = csr_matrix((values, places.ravel(), starts), shape=(samples, columns))
    rows.sum_duplicates()
    targets = rng.standard_normal(samples)
    base = rate(SGDRegressor(average=True, **ONE_PASS), rows, targets, 3)
    plain = rate(SGDRegressor(**ONE_PASS), rows, targets, 3)
    lines = [
        ("SGDRegressor, averaged", base, 1.0, None),
        ("SGDRegressor, not averaged", plain, plain / base, None),
    ]
    for name, memory, least in (("", 0, 0.5), (", 8,192 rows kept", "auto", None)):
        found = rate(StreamRegressor(method="ladder", memory=memory), rows, targets, 3)
        lines.append((f"StreamRegressor, ladder{name}", found, found / base, least))
    head = ("sparse, d = 10⁶, 50 non-zeros", "million rows/s", "ratio", "wanted")
    show("Sparse rows", head, lines)


def generate(path, rows, columns, batch=500_000):
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(columns) / 10.0
    names = [*(f"x{k}" for k in range(columns)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    parquet = path.endswith("parquet")
    kind = pa.parquet.ParquetWriter if parquet else pa.csv.CSVWriter
    options = {"compression": "none", "use_dictionary": False} if parquet else {}
    with kind(path, schema, **options) as writer:
        for start in range(0, rows, batch):
            x = rng.standard_normal((min(batch, rows - start), columns))
            y = x @ weights + 0.1 * rng.standard_normal(len(x))
            writer.write_table(pa.table([*x.T.copy(), y], names=names))


def measured(script, *arguments):
    """Return the CPU seconds of a process, and the peak memory in megabytes that it reports."""
    command = [sys.executable, "-c", script + MEMORY, *arguments]
    # As users have it: Python keeps what it has compiled, and BLAS looks at the processor.
    other = "PYTHONDONTWRITEBYTECODE", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"
    environment = {k: v for k, v in os.environ.items() if k not in other}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{arguments} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, int(printed.split()[-1]) // 1024


def small_chunks():
    rows, targets = problem(10, 100)
    lines = []
    for name, model in (
        ("SGDRegressor, averaged", SGDRegressor(average=True)),
        ("StreamRegressor, exact", StreamRegressor()),
        ("StreamRegressor, ladder", StreamRegressor(method="ladder", memory=0, scale=None)),
        ("StreamRegressor, mag", StreamRegressor(method="mag", scale=None)),
    ):
        model.partial_fit(rows, targets)
        seconds = cpu_seconds(lambda m=model: m.partial_fit(rows, targets), 300)
        lines.append((name, seconds * 1e6))
    show("partial_fit of 10 rows", ("d = 100", "µs"), lines)


def main():
    dense()
    exact()
    sparse()
    small_chunks()
