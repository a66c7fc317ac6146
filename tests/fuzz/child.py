"""Run some inputs and tell what became of them; started by :mod:`tests.fuzz.parent`.

Arguments: a file in which the number of the input at work is written, the jobs in JSON, each a
target, a seed, the number of its first input and how many there are, and when to stop. A file in
the seed's place is the input itself. Every failure is a line of JSON on stdout, and so is every
job that has ended.
"""

import collections
import json
import mmap
import os
import signal
import struct
import sys
import time
import traceback
import warnings

from tests.fuzz.targets import SECONDS, input_of, target

MEMORY = 8 << 30  # bytes of address space, most of which libraries take for themselves


def _too_slow(number, frame):
    raise TimeoutError(f"more than {SECONDS} seconds")


def _allow(seconds):
    """Raise an error after so many seconds of the processor; 0 for never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _run(one, data):
    """What became of one input, and whether that may be."""
    _allow(SECONDS)
    try:
        return one.run(data), True
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return (
            f"{type(error).__name__}: {str(error)[:200]} [{place.filename}:{place.lineno}]",
            False,
        )
    finally:
        _allow(0.0)


def main(mark, jobs, stop):
    warnings.simplefilter("ignore")
    if hasattr(signal, "setitimer"):  # elsewhere, only the parent's patience limits an input
        import resource

        signal.signal(signal.SIGPROF, _too_slow)
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a command prints is none
    with open(mark, "r+b") as file, mmap.mmap(file.fileno(), 16) as at:
        for place, (name, seed, first, count) in enumerate(jobs):
            one, outcomes, done = target(name), collections.Counter(), 0
            for number in range(first, first + count):
                if time.time() > stop:
                    break
                at[:] = struct.pack("<QQ", place, number)
                outcome, right = _run(one, input_of(name, seed, number))
                outcomes[outcome if right else "wrong"] += 1
                done += 1
                if not right:
                    print(
                        json.dumps({"wrong": [name, seed, number, outcome]}),
                        file=answers,
                        flush=True,
                    )
            print(json.dumps({"done": [name, first + done, outcomes]}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3]))
