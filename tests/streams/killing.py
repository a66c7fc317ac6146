"""Run ``mixfree fit --resume`` again and again and kill it at random moments.

Arguments: data, model, number of kills. Where possible, processes are forked from this one, in
which all kernels are compiled, so that they are killed during the fit, not during its start.
"""

import multiprocessing
import os
import random
import sys
import time

from mixfree.cli import main
from mixfree.streams.read import formats

formats.ROWS = 100
FORK = "fork" in multiprocessing.get_all_start_methods()
PROCESSES = multiprocessing.get_context("fork" if FORK else "spawn")


def run(data, model, *options):
    try:
        main(["fit", data, "--target", "load", "--model", model, "-q", *options])
    except SystemExit as ended:
        return ended.code


def killed(data, model, after, options):
    """Return whether a fit was still running after ``after`` seconds, when it was killed."""
    options = (*options, "--checkpoint-every", "200", "--resume")
    process = PROCESSES.Process(target=run, args=(data, model, *options))
    process.start()
    time.sleep(after)
    process.kill()
    process.join()
    return process.exitcode < 0


def checkpoint(model):
    """Return when the model was last written."""
    return os.stat(model).st_mtime_ns if os.path.exists(model) else None


if __name__ == "__main__":
    data, model, kills, *options = sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]
    draw, span = random.Random(0), 0.2
    assert run(data, model + ".whole", *options) == 0
    hits, advances = 0, 0
    while hits < kills or advances < kills // 2:
        before = checkpoint(model)
        hits += killed(data, model, draw.uniform(0.0, span), options)
        advanced = checkpoint(model) != before
        advances += advanced
        span *= 0.8 if advanced else 1.3  # about half of the runs get to a checkpoint
    sys.exit(run(data, model, "--resume", *options))
