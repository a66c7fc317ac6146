"""``make bench``: every table, or those named, in one run on one core.

python benchmarks/run.py [core chains td streams dropins ...]

Each one's tables are also written to ``results/bench-NAME``, from where ``tools/publish.py`` takes
them to the pages.
"""

import importlib
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent))

from benchmarks.table import shown  # noqa: E402
from mixfree.reproduce.engine.provenance import write_report  # noqa: E402


def main(names, results=Path("results")):
    modules = {module.name for module in pkgutil.iter_modules([str(ROOT)])}
    there = sorted(modules - {"run", "table"})
    for name in names:
        if name not in there:
            sys.exit(f"no benchmark {name!r}: there are {', '.join(there)}")
    for name in names or there:
        importlib.import_module(f"benchmarks.{name}").main()
        command = f"python benchmarks/run.py {name}"
        write_report(results / f"bench-{name}", ROOT / f"{name}.py", command, shown)
        shown.clear()


if __name__ == "__main__":
    main(sys.argv[1:])
