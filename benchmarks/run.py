"""``make bench``: run all benchmarks, or those named, on one core.

python benchmarks/run.py [core chains td streams dropins ...]

Tables are also written to ``results/bench-NAME``, from where ``tools/publish.py`` copies them to
the documentation.
"""

import importlib
import os
import pkgutil
import sys
from pathlib import Path

# One thread each, since CPU time counts those that wait; libraries read this when imported.
for _library in ("OMP", "OPENBLAS", "NUMBA"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent))

from benchmarks.table import shown  # noqa: E402
from mixfree.reproduce.engine.record import write_report  # noqa: E402


def main(names, results=Path("results")):
    modules = {module.name for module in pkgutil.iter_modules([str(ROOT)])}
    there = sorted(modules - {"run", "table"})
    for name in names:
        if name not in there:
            sys.exit(f"there is no benchmark {name!r}; choose from {', '.join(there)}")
    for name in names or there:
        importlib.import_module(f"benchmarks.{name}").main()
        command = f"python benchmarks/run.py {name}"
        write_report(results / f"bench-{name}", command, shown)
        shown.clear()


if __name__ == "__main__":
    main(sys.argv[1:])
