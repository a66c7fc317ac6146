"""The estimators and ``mixfree fit`` against the alternatives, in one run.

Rates are CPU time of one thread, so that they are comparable even on a busy machine. ``STREAM_GB``
sets the size of the files for the command line's table.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler

from benchmarks.core import cpu_seconds, problem
from benchmarks.table import show
from mixfree.sklearn import StreamClassifier, StreamRegressor
from mixfree.streams.read import formats

# Scripts that only read the batches with PyArrow.
READ = {
    "parquet": "import sys, pyarrow.parquet as pq\n"
    f"for _ in pq.ParquetFile(sys.argv[1]).iter_batches({formats.ROWS}): pass",
    "csv": "import sys, pyarrow.csv as csv\nfor _ in csv.open_csv(sys.argv[1]): pass",
}
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
ONE_RATE = {"per_coordinate": False}


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
    for name, least in (("mag", 1.0), ("adagrad", 1.0), ("sgd", 1.0), ("ladder", 0.5)):
        found = rate(StreamRegressor(method=name), rows, targets, 3)
        lines.append((f"StreamRegressor, {name}", found, found / base, least))
    head = ("sparse, d = 10⁶, 50 non-zeros", "million rows/s", "ratio", "wanted")
    show("Sparse rows", head, lines)


def command_line(gigabytes):
    """Time ``mixfree fit`` against PyArrow reading the same batches, each in its own process."""
    rows, columns, lines = int(gigabytes * 1e9 / 808), 100, []
    with tempfile.TemporaryDirectory() as folder:
        few = str(Path(folder) / "few.parquet")
        generate(few, 10, columns)
        for ending, size, wanted in (("parquet", rows, 2.0), ("csv", rows // 5, 1.5)):
            path = str(Path(folder) / f"data.{ending}")
            generate(path, size, columns)
            read = measured(READ[ending], path)[0]
            for method in ("auto", "ladder", "mag"):
                for scale in ("none", "running"):
                    settings = ["--target", "y", "--model", folder + "/m", "--method", method]
                    settings += ["--set", f"scale={scale}", "-q"]
                    settings += [] if method == "auto" else ["--set", "memory=0"]
                    # The first time may compile.
                    start = min(measured(FIT, "fit", few, *settings)[0] for _ in range(2))
                    seconds, memory = measured(FIT, "fit", path, *settings)
                    label = f"{ending}, {os.path.getsize(path) / 1e9:.2g} GB, {method}, {scale}"
                    ratios = (seconds / read, (seconds - start) / read)
                    lines.append((label, read, start, seconds, *ratios, wanted, str(memory)))
    head = ("file, method, scale", "read, s", "start, s", "fit, s", "ratio", "without start")
    title = "mixfree fit beside pyarrow reading the same batches (CPU time)"
    show(title, (*head, "at most", "memory, MB"), lines)


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
    child = subprocess.Popen(
        [sys.executable, "-c", script + MEMORY, *arguments], stdout=subprocess.PIPE, text=True
    )
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{arguments} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, int(printed.split()[-1]) // 1024


def order_of_the_stream():
    """Measure the loss on all data after one pass in a non-random order."""
    lines = []
    for stay in (0.99, 0.999):
        rows, labels, order = digits(50_000, stay)
        models = {
            "SGDClassifier, averaged": SGDClassifier(loss="log_loss", average=True, **ONE_PASS),
            "ladder": StreamClassifier(method="ladder", memory=0, scale=None),
            "exact": StreamClassifier(),
            "ladder, one rate, running scale": StreamClassifier(
                method="ladder", memory=0, options=ONE_RATE
            ),
            "mag": StreamClassifier(method="mag", scale=None),
        }
        for name, model in models.items():
            model.fit(rows[order], labels[order])
            found = model.predict_proba(rows)[np.arange(len(labels)), labels]
            loss = -float(np.log(np.maximum(found, 1e-300)).mean())
            lines.append((f"digits, a label stays for {1 / (1 - stay):.0f}: {name}", loss, None))
    sensors = {
        f"sensor {seed}, regimes of {1 / change:.0f}": sensor(200_000, change, seed=seed)
        for change in (1e-3, 2e-4)
        for seed in (0, 1)
    }
    rows, targets = sensor(200_000, 1e-3)
    order = np.argsort(targets, kind="stable")
    sensors["sensor 0, sorted by target"] = rows[order], targets[order]
    for stream, (rows, targets) in sensors.items():
        best = 0.5 * np.mean((LinearRegression().fit(rows, targets).predict(rows) - targets) ** 2)
        models = {
            "SGDRegressor, averaged": SGDRegressor(average=True, **ONE_PASS),
            "ladder": StreamRegressor(method="ladder", memory=0, scale=None),
            "exact": StreamRegressor(),
            "ladder, one rate, running scale": StreamRegressor(
                method="ladder", memory=0, options=ONE_RATE
            ),
            "ladder, one rate, step_scale=1": StreamRegressor(
                method="ladder", memory=0, scale=None, step_scale=1.0, options=ONE_RATE
            ),
            "mag": StreamRegressor(method="mag", scale=None),
        }
        for name, model in models.items():
            found = model.fit(rows, targets).predict(rows)
            loss = float(0.5 * np.mean((found - targets) ** 2))
            lines.append((f"{stream}: {name}", loss, float(best)))
    show("Loss on the whole data", ("stream, method", "loss", "least possible"), lines)


def digits(samples, stay, seed=0):
    """Return digits and an order in which the label cycles slowly."""
    rng = np.random.default_rng(seed)
    rows, labels = load_digits(return_X_y=True)
    label = np.cumsum(rng.random(samples) > stay) % 10
    of = [np.flatnonzero(labels == k) for k in range(10)]
    order = [of[k][int(u * len(of[k]))] for k, u in zip(label, rng.random(samples), strict=True)]
    return rows / 16.0, labels, np.array(order)


def sensor(samples, change, regimes=5, columns=20, seed=0):
    """Return standardised readings and targets whose means change from regime to regime."""
    rng = np.random.default_rng(seed)
    spell = np.cumsum(rng.random(samples) < change)
    regime = rng.integers(0, regimes, spell[-1] + 1)[spell]
    means = rng.standard_normal((regimes, columns))
    rows = 0.5 * rng.standard_normal((samples, columns)) + means[regime]
    targets = rows @ rng.standard_normal(columns) + 2.0 * rng.standard_normal(regimes)[regime]
    targets += 0.1 * rng.standard_normal(samples)
    return StandardScaler().fit_transform(rows), targets


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
    start = time.perf_counter()
    dense()
    exact()
    sparse()
    small_chunks()
    order_of_the_stream()
    command_line(float(os.environ.get("STREAM_GB", "0.25")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.perf_counter() - start:.0f} s, {peak:.0f} MB")
