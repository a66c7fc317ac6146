"""``make soak``: long runs, kills, rivals and a full disk; each ends with a verdict.

``--minutes`` shortens it: three fifths of the time are for samples, the rest for kills, and for
two writers with a reader.
"""

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mixfree.base.progress import progress_bar
from mixfree.linear import Squared
from mixfree.linear.learner_for import learner_for
from mixfree.streams import StreamFit
from tests.streams.data import table, write

SAMPLES = 10**9
CHUNK = 1 << 17
RUNS = {  # by name, the parameters of a learner
    "mag": {"method": "mag", "step_scale": 3.0},
    "ladder": {"method": "ladder", "memory": 0},
    "exact": {"method": "exact"},
    "memory": {"method": "ladder", "memory": 1024},
}
TRUTH = np.array([1.0, -2.0, 0.5, 3.0])
WRITING = "import sys; from mixfree.cli import main; main(sys.argv[1:])"


def verdict(name, text, right):
    """Print how a part has ended; whether it was well."""
    print(f"{name:<18} {text}: {'ok' if right else 'WRONG'}", flush=True)
    return right


def rss():
    """Most bytes that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def samples(name, seconds, most):
    """A correlated stream without end: the weights stay right, and nothing grows."""
    rng, learner = np.random.default_rng(1), learner_for(Squared(), 3, **RUNS[name])
    rows = np.repeat(rng.standard_normal((CHUNK // 32, 3)), 32, axis=0)
    targets = rows @ TRUTH[:3] + TRUTH[3] + 0.1 * rng.standard_normal(CHUNK)
    for _ in range(4):  # compiles, and takes the memory that it needs
        learner.advance(rows, targets)
    began, base, stop = time.monotonic(), rss(), time.monotonic() + seconds
    with progress_bar(f"samples, {name}", most) as show:
        while learner.samples < most and time.monotonic() < stop:
            learner.advance(rows, targets)
            show(learner.samples)
    taken, grown = time.monotonic() - began, (rss() - base) / 2**20
    twin = learner_for(Squared(), 3, **RUNS[name])
    twin.load_state_dict(learner.state_dict())
    for each in (learner, twin):
        each.advance(rows, targets)
    same = twin.weights.tobytes() == learner.weights.tobytes()
    error = float(np.abs(learner.weights[0] - TRUTH).max())
    text = f"{learner.samples:,} in {taken:,.0f} s, error {error:.2g}, grew by {grown:.0f} MB"
    return verdict(f"samples {name}", text, same and error < 0.05 and grown < 64.0)


def kills(folder, seconds):
    """Fits that are killed at random moments end with the bits of one that was not."""
    data, script = write(table(40_000), folder / "data.parquet"), Path(__file__).parent
    stop, hits, wrong = time.monotonic() + seconds, 0, 0
    options = ([], ["--loss", "huber", "--memory", "2000"], ["--method", "mag"])
    while time.monotonic() < stop:
        for each in options:
            model = folder / f"killed-{hits}"
            done = _python([script / "streams" / "killing.py", data, model, "10", *each])
            whole, resumed = (StreamFit.load(f"{model}{end}") for end in (".whole", ""))
            bits = [fit.learner.weights.tobytes() for fit in (whole, resumed)]
            wrong += done.returncode != 0 or bits[0] != bits[1]
            hits += 10
    return verdict("kills", f"{hits:,} kills, {wrong} of the fits with other bits", wrong == 0)


def _python(arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _write(data, model, stop, seed, counts):
    """Fit again and again; count what was written, refused, and ended in another way."""
    while time.time() < stop:
        options = ["--checkpoint-every", "500", "-q", "--model", model, "--seed", str(seed)]
        done = _python(["-c", WRITING, "fit", data, "--target", "load", *options])
        refused = done.returncode == 2 and "is being written by another" in done.stderr
        counts.put("written" if done.returncode == 0 else "refused" if refused else done.stderr)


def rivals(folder, seconds):
    """Two writers of one model take turns, and a reader always finds a whole one."""
    data, model = write(table(20_000), folder / "d.csv"), folder / "m"
    stop, read, wrong, found = time.time() + seconds, 0, 0, {}
    counts = multiprocessing.Queue()
    writers = [
        multiprocessing.Process(target=_write, args=(data, str(model), stop, seed, counts))
        for seed in (0, 1)
    ]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers) or not counts.empty():
        if model.exists():
            try:
                StreamFit.load(model)
                read += 1
            except ValueError:
                wrong += 1
        while not counts.empty():
            each = counts.get()
            found[each] = found.get(each, 0) + 1
        time.sleep(0.02)
    text = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
    left = sorted(set(os.listdir(folder)) - {"d.csv", "m"})
    right = wrong == 0 and set(found) <= {"written", "refused"} and read > 0 and not left
    return verdict("two writers", f"{text}; {read:,} reads, {wrong} of no model", right)


def full_disk(folder):
    """A disk that fills at any byte leaves the model that was there, and nothing else."""
    data, model = write(table(), folder / "d.csv"), folder / "m"
    fit = ["fit", data, "--target", "load", "-q", "--model", model]
    assert _python(["-c", WRITING, *fit]).returncode == 0
    before, wrong, limits = model.read_bytes(), 0, (0, 1, 20, 1000, model.stat().st_size - 200)
    for limit in limits:
        limited = (
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); {WRITING}"
        )
        environment = ["-W", "ignore", "-c", limited, *fit, "--l2", "0.5"]
        done = _python(environment)
        left = sorted(os.listdir(folder)) == ["d.csv", "m"]
        said = done.stderr.count("\n") == 1 and "what was there is unchanged" in done.stderr
        wrong += not (done.returncode == 2 and said and left and model.read_bytes() == before)
    return verdict("full disk", f"at {len(limits)} sizes, {wrong} with another end", wrong == 0)


def main():
    about = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    about.add_argument("--minutes", type=float, default=240.0, help="about how long it may take")
    about.add_argument("--samples", type=int, default=SAMPLES, help="samples of each method")
    given = about.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seconds = 60.0 * given.minutes
    ends = [samples(name, 0.6 * seconds / len(RUNS), given.samples) for name in RUNS]
    parts = ((kills, 0.25 * seconds), (rivals, 0.1 * seconds), (full_disk,))
    for part, *arguments in parts:
        with tempfile.TemporaryDirectory() as folder:
            ends.append(part(Path(folder), *arguments))
    verdict("soak", f"{sum(ends)} of {len(ends)} parts well", all(ends))
    sys.exit(not all(ends))


if __name__ == "__main__":
    main()
