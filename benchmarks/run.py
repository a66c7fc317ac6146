"""``make bench``: run all benchmarks of speed, or those named, on one core.

python benchmarks/run.py [core chains td streams dropins ...]

Tables are also written to ``results/bench-NAME``, from where ``tools/publish.py`` copies them to
the documentation. By name also networks, which measures losses, tables, which needs more packages,
and gap, intervals, ladder and sensitivity, which measure errors on many seeds: like
``mixfree reproduce``, the latter take a small version or another size, write to ``results/NAME``,
and continue after an interruption.
"""

import argparse
import importlib
import os
import pkgutil
import sys
from pathlib import Path

# One thread each, since CPU time counts those that wait; libraries read this when imported.
if __name__ == "__main__":
    for _library in ("OMP", "OPENBLAS", "NUMBA"):
        os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent))

from benchmarks.table import shown  # noqa: E402
from mixfree.reproduce.engine.run import run_experiment, write_report  # noqa: E402

EXPERIMENTS = {"gap", "intervals", "ladder", "sensitivity"}


def main(arguments, results=Path("results")):
    modules = {module.name for module in pkgutil.iter_modules([str(ROOT)])} - {"run", "table"}
    parser = argparse.ArgumentParser(prog="python benchmarks/run.py")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(sorted(modules)))
    parser.add_argument("--quick", action="store_true", help="small versions of experiments")
    for option in ("--samples", "--seeds", "--first-seed", "--jobs"):
        parser.add_argument(option, type=int, help="of an experiment")
    given = parser.parse_args(arguments)
    for name in set(given.names) - modules:
        parser.error(f"there is no {name!r}; choose from {', '.join(sorted(modules))}")
    for name in given.names or sorted(modules - EXPERIMENTS - {"networks", "billion", "tables"}):
        module, command = importlib.import_module(f"benchmarks.{name}"), f"benchmarks/run.py {name}"
        if name in EXPERIMENTS:
            size = {key: getattr(given, key) for key in ("samples", "seeds", "first_seed")}
            settings = (module.QUICK if given.quick else module.FULL).changed(**size)
            folder = results / (f"{name}-quick" if given.quick else name)
            run_experiment(module, f"python {command}", settings, folder, given.jobs)
        else:
            module.main()
            seeds = getattr(module, "SEEDS", ())
            write_report(results / f"bench-{name}", f"python {command}", shown, seeds)
            shown.clear()


if __name__ == "__main__":
    main(sys.argv[1:])
