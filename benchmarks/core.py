"""Speed of the core: every method's kernel against the alternatives, in one run.

All numbers are CPU time of one thread, the best of several repetitions, so that they are comparable
even on a busy machine.
"""

import resource
import subprocess
import sys
import time
import tracemalloc

import numba
import numpy as np
from sklearn.linear_model import SGDRegressor

import mixfree as mf
from benchmarks.table import show
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared

# All methods with a kernel but Algorithm 1, which is mag with a horizon.
METHODS = [name for name in mf.methods() if name != "algorithm-1"]


def cpu_seconds(work, repetitions=5):
    """Return the least CPU time of ``work()`` over repetitions, after a warm-up."""
    return cpu_seconds_in_turns([work], repetitions)[0]


def cpu_seconds_in_turns(works, repetitions=7, warm_ups=1):
    """Return the least CPU time of each function, in turns so that other load affects all alike."""
    for work in works:
        for _ in range(warm_ups):
            work()
    times = [[] for _ in works]
    for _ in range(repetitions):
        for work, taken in zip(works, times, strict=True):
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
    return [min(taken) for taken in times]


def problem(samples, size, dtype=np.float64):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((samples, size)).astype(dtype)
    weights = rng.standard_normal(size)
    weights *= 0.7 / np.linalg.norm(weights)  # inside the ball of radius 1, as in the paper
    return rows, (rows @ weights + 0.03 * rng.standard_normal(samples)).astype(dtype)


def kernel_rate(name, rows, targets, repetitions=5):
    method = mf.methods()[name]
    options = {"mixing_time": 10} if method.needs_mixing_time() else {}
    start = np.zeros(rows.shape[1], rows.dtype)

    def work():
        opt = method(start, domain=mf.Ball(1.0), alpha=1.0, **options)
        advance_linear(opt, Squared(), rows, targets)

    return len(rows) / cpu_seconds(work, repetitions)


@numba.njit(fastmath=True)
def _read(rows):
    total = 0.0
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            total += rows[i, k]
    return total


def read_rate(rows):
    return len(rows) / cpu_seconds(lambda: _read(rows), 10)


def sklearn_rate(rows, targets, average):
    model = SGDRegressor(
        average=average, shuffle=False, max_iter=1, tol=None, fit_intercept=False, eta0=1e-3
    )
    return len(rows) / cpu_seconds(lambda: model.fit(rows, targets), 3)


def gradient(row, target, x):
    """Return the gradient of the squared loss, as written by hand in a loop."""
    return (row @ x - target) * row


def loop_rate(rows, targets, samples=20_000):
    def work():
        opt = mf.MAG(np.zeros(rows.shape[1]), domain=mf.Ball(1.0), alpha=1.0)
        for row, target in zip(rows[:samples], targets[:samples], strict=True):
            opt.tell(gradient(row, target, opt.x))

    return samples / cpu_seconds(work, 3)


def methods_table():
    rows, targets = problem(500_000, 100)
    sklearn = sklearn_rate(rows, targets, average=True)
    read = read_rate(rows)
    single = [part.astype(np.float32) for part in (rows, targets)]
    lines = []
    for name in METHODS:
        rate, rate32 = kernel_rate(name, rows, targets), kernel_rate(name, *single)
        lines.append([f"{name} kernel", rate / 1e6, rate / sklearn, rate / read, rate32 / 1e6])
    plain = sklearn_rate(rows, targets, average=False)
    loop = loop_rate(rows, targets)
    for label, rate in (
        ("scikit-learn SGDRegressor, averaged", sklearn),
        ("scikit-learn SGDRegressor", plain),
        ("NumPy loop of mag (tell)", loop),
        ("plain read of the array", read),
    ):
        lines.append([label, rate / 1e6, rate / sklearn, rate / read, None])
    show(
        "Squared loss, d = 100, one pass in order, one core (ratios: float64)",
        ["", "million samples/s", "to scikit-learn averaged", "to plain read", "float32, M/s"],
        lines,
    )


def growth_table():
    lines = []
    for size in (10, 100, 1000, 10_000):
        rows, targets = problem(max(2_000, 20_000_000 // size), size)
        read = read_rate(rows)
        rates = [kernel_rate(name, rows, targets, 3) for name in ("sgd", "adagrad", "mag")]
        lines.append([f"{size:,}", *(1e9 / rate / size for rate in rates), rates[-1] / read])
    show(
        "Growth with the dimension",
        ["d", "sgd, ns/number", "adagrad", "mag", "mag to plain read"],
        lines,
    )


def tell_microseconds(name, size=100, calls=20_000):
    gradients = list(np.random.default_rng(0).standard_normal((64, size)))
    opt = mf.methods()[name](np.zeros(size))

    def work():
        for i in range(calls):
            opt.tell(gradients[i & 63])

    return 1e6 * cpu_seconds(work, 5) / calls


def mag_bytes_per_number(samples, size=100_000):
    """Return the peak traced memory of a run of ``tell``, in bytes per entry of the point."""
    g = np.ones(size)
    tracemalloc.start()
    opt = mf.MAG(np.zeros(size))
    for _ in range(samples):
        opt.tell(g)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / size


def process_seconds(code, repetitions=3):
    """Return the CPU time of a fresh Python process that runs ``code``, minus an empty one's."""

    def once(text):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", text], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once(code) for _ in range(repetitions)) - min(once("") for _ in range(repetitions))


FIRST_FIT = """
import numpy as np, mixfree as mf
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared
advance_linear(mf.MAG(np.zeros(3)), Squared(), np.ones((10, 3)), np.ones(10))
"""


def small_table():
    lines = [[f"tell of {n}, d = 100, µs", tell_microseconds(n)] for n in ("mag", "adagrad", "sgd")]
    lines += [
        [f"memory of mag after {n} samples, bytes per entry", mag_bytes_per_number(n)]
        for n in (10, 1000)
    ]
    lines.append(["import mixfree, CPU s", process_seconds("import mixfree")])
    process_seconds(FIRST_FIT, 1)  # fills the compile cache
    lines.append(
        ["first fit of a new process, warm compile cache, CPU s", process_seconds(FIRST_FIT)]
    )
    show("Calls, memory, start-up", ["", "measured"], lines)


def main():
    methods_table()
    growth_table()
    small_table()
