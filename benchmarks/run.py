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
    there = sorted(m.name for m in pkgutil.iter_modules([str(ROOT)]) if m.name != "run")
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in there}
    tables = [name for name, module in modules.items() if hasattr(module, "main")]
    for name in names or tables:
        if name not in tables:
            sys.exit(f"no benchmark {name!r}: there are {', '.join(tables)}")
        modules[name].main()


if __name__ == "__main__":
    main(sys.argv[1:])
