"""Run ``mixfree fit --resume`` again and again and kill it at random moments.

Arguments: data, model, number of kills. Where it can be, processes are forked from this one, in
which all is compiled, so that a moment is a moment of the fit and not of its start. Without a
number of kills the fit is run once.
"""

import os
import random
import signal
import subprocess
import sys
import time

from mixfree.cli import main
from mixfree.streams import formats

formats.ROWS = 100
OPTIONS = ("--checkpoint-every", "200", "--resume")


def run(data, model, *options):
    """Exit code of a fit."""
    try:
        main(["fit", data, "--target", "load", "--model", model, "-q", *options])
    except SystemExit as ended:
        return ended.code


def killed(data, model, after):
    """Whether a fit was still running ``after`` seconds later, when it was killed."""
    if not hasattr(os, "fork"):
        process = subprocess.Popen([sys.executable, __file__, data, model])
        time.sleep(after)
        running = process.poll() is None
        process.kill()
        process.wait()
        return running
    child = os.fork()
    if child == 0:
        os._exit(run(data, model, *OPTIONS))
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status)


def checkpoint(model):
    """When the model was last written."""
    return os.stat(model).st_mtime_ns if os.path.exists(model) else None


if __name__ == "__main__":
    data, model = sys.argv[1:3]
    if len(sys.argv) == 3:
        sys.exit(run(data, model, *OPTIONS))
    kills = int(sys.argv[3])
    draw, span = random.Random(0), 0.2
    assert run(data, model + ".whole") == 0
    hits, advances = 0, 0
    while hits < kills or advances < kills // 2:
        before = checkpoint(model)
        hits += killed(data, model, draw.uniform(0.0, span))
        advanced = checkpoint(model) != before
        advances += advanced
        span *= 0.8 if advanced else 1.3  # about half of the runs get to a checkpoint
    sys.exit(run(data, model, "--resume"))
