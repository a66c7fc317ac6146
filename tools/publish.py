"""Publish results in the documentation: ``python tools/publish.py results/fig1 …``.

For each folder written by ``mixfree reproduce`` or ``benchmarks/run.py``, copy the tables and the
record of the measurement to ``docs/data/NAME``, and the figures that a page shows to
``docs/figures``.
"""

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def publish(folder: Path, docs: Path = DOCS) -> list[Path]:
    """Copy the tables, the record and the figures; return the files written."""
    target = docs / "data" / folder.name
    if not (folder / "report.md").exists():
        raise FileNotFoundError(f"{folder / 'report.md'} does not exist: finish the run first")
    target.mkdir(parents=True, exist_ok=True)
    written = [shutil.copy(folder / name, target) for name in ("report.md", "measured.json")]
    pages = "".join(page.read_text(encoding="utf-8") for page in docs.rglob("*.md"))
    for figure in sorted(folder.glob("*.png")):
        if f"figures/{figure.name}" in pages:
            written.append(shutil.copyfile(figure, docs / "figures" / figure.name))
    return written


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for path in publish(Path(argument)):
            print(path)
