"""``make bench``: every table, or those named, in one run on one core.

python benchmarks/run.py [core chains td streams dropins ...]
"""

import importlib
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parent))


def main(names):
    modules = {module.name for module in pkgutil.iter_modules([str(ROOT)])}
    there = sorted(modules - {"run", "table"})
    for name in names:
        if name not in there:
            sys.exit(f"no benchmark {name!r}: there are {', '.join(there)}")
    for name in names or there:
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
