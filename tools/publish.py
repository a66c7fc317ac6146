"""Publish results in the documentation: ``python tools/publish.py results/fig1 …``.

For each folder written by ``mixfree reproduce`` or ``benchmarks/run.py``, copy the tables and the
record of the measurement to ``docs/data/NAME``, and the figures that a page shows to
``docs/figures``.
"""

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def publish(folder: Path, docs: Path = DOCS) -> list[Path]:
    """Copy the tables, the record and the figures; return the files written."""
    report, target = folder / "report.md", docs / "data" / folder.name
    if not report.exists():
        raise FileNotFoundError(f"{report} does not exist: finish the run first")
    target.mkdir(parents=True, exist_ok=True)
    written = [shutil.copyfile(report, target / "report.md"), target / "measured.json"]
    written[1].write_text(json.dumps(_record(folder), indent=1) + "\n", encoding="utf-8")
    pages = "".join(page.read_text(encoding="utf-8") for page in docs.rglob("*.md"))
    for figure in sorted(folder.glob("*.png")):
        if f"figures/{figure.name}" in pages:
            written.append(shutil.copyfile(figure, docs / "figures" / figure.name))
    return written


def _record(folder: Path) -> dict:
    """Return the record of the run; results without one get a date and no source."""
    if (folder / "measured.json").exists():
        return json.loads((folder / "measured.json").read_bytes())
    settings = json.loads((folder / "settings.json").read_bytes())
    written = datetime.fromtimestamp((folder / "report.md").stat().st_mtime, UTC)
    seeds = settings["seeds"]
    return {
        "command": settings["command"],
        "date": f"{written:%Y-%m-%d}",
        "machine": None,
        "seeds": [seeds[0], seeds[-1]],
        "source": None,
    }


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for path in publish(Path(argument)):
            print(path)
