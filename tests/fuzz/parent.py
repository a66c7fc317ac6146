"""Share out inputs to child processes that may die, and keep what went wrong."""

import collections
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.targets import SECONDS, input_of, target

FOUND = Path(__file__).with_name("found")
PATIENCE = 20 * SECONDS  # seconds after which a child that works at the same input is killed


class Tally:
    """What became of the inputs so far."""

    def __init__(self):
        self.done = collections.Counter()  # the number of the next input, by target
        self.outcomes = collections.Counter()
        self.wrong = []  # target, seed, number, what happened
        self.keeps = True  # whether inputs that went wrong are written down

    @property
    def inputs(self):
        return sum(self.outcomes.values())


def run(jobs, tally, stop=float("inf"), show=lambda tally: None, environment=(), keeps=True):
    """Run jobs, each a target, a seed, the first number and a count, by one child after another."""
    jobs = [list(job) for job in jobs]
    while jobs and time.time() < stop:
        with tempfile.TemporaryDirectory() as folder:
            mark = Path(folder) / "mark"
            mark.write_bytes(bytes(16))
            tally.keeps = keeps
            jobs = _one_child(jobs, tally, stop, show, mark, dict(environment))


def _one_child(jobs, tally, stop, show, mark, environment):
    """Run a child to its end, good or bad; the jobs that are left."""
    # A pipe that nobody reads while the child writes its answers would be full one day.
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.child", mark, json.dumps(jobs), str(stop)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                **environment,
            },
        ) as child,
    ):
        watch = _Watch(child, mark)
        for line in child.stdout:
            answer = json.loads(line)
            if "wrong" in answer:
                keep(tally, *answer["wrong"])
                continue
            name, number, outcomes = answer["done"]
            tally.done[name] = max(tally.done[name], number)
            tally.outcomes.update(outcomes)
            show(tally)
        code = child.wait()
        watch.end()
        errors.seek(0)
        error = errors.read()
    if code == 0:
        return []
    place, number = struct.unpack("<QQ", mark.read_bytes())
    name, seed, first, count = jobs[place]
    if number == 0 and place == 0 and "Traceback" in error:
        raise RuntimeError(error)
    why = f"the process ended with {code}: {error.strip()[-200:]}"
    keep(tally, name, seed, number, why)
    tally.outcomes.update({"wrong": 1, "before a crash": number - first})
    tally.done[name] = number + 1
    return [[name, seed, number + 1, first + count - number - 1], *jobs[place + 1 :]]


class _Watch:
    """Kills a child whose input stays the same for too long."""

    def __init__(self, child, mark):
        import threading

        self._child, self._mark, self._over = child, mark, threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self):
        before, since = None, time.monotonic()
        while not self._over.wait(1.0):
            now = self._mark.read_bytes() if self._mark.exists() else None
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                self._child.kill()

    def end(self):
        self._over.set()


def keep(tally, name, seed, number, why):
    """Write down an input that went wrong, one per kind of failure."""
    tally.wrong.append((name, seed, number, why))
    kind = (name, why.partition("[")[2] or why)
    known = {(n, w.partition("[")[2] or w) for n, _, _, w in tally.wrong[:-1]}
    if tally.keeps and kind not in known:
        FOUND.mkdir(exist_ok=True)
        path = FOUND / f"{name.replace('/', '--')}--{seed}-{number}.{target(name).ending}"
        path.write_bytes(input_of(name, seed, number))


def found():
    """Jobs with every input that ever went wrong."""
    kept = [path for path in sorted(FOUND.iterdir()) if path.suffix != ".md"]
    return [[p.name.rsplit("--", 1)[0].replace("--", "/"), str(p), 0, 1] for p in kept]
