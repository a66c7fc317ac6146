"""Check that published experiments still hold after the code has changed.

``python tools/recheck.py [NAME ...]`` runs the short version of every published experiment whose
code has changed, or of those named. If it yields the same numbers as the code that was measured,
the record says that they were rechecked. Otherwise the experiment has to be run again.

A digest of the short run's numbers is recorded while the code is still the one that was measured:
publish an experiment, then run this script.
"""

import hashlib
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet

from mixfree.reproduce import EXPERIMENTS, experiment
from mixfree.reproduce.engine.provenance import changed_since, source_of
from mixfree.reproduce.engine.run import run_experiment

DATA = Path(__file__).parent.parent / "docs" / "data"


def short_run(name: str) -> str:
    """Return a digest of the numbers that the short version measures, to six digits."""
    with tempfile.TemporaryDirectory() as folder:
        run_experiment(name, experiment(name).QUICK, folder)
        rows = pyarrow.parquet.read_table(Path(folder) / "rows.parquet").to_pylist()
    values = [value for row in rows for value in row.values() if isinstance(value, int | float)]
    return hashlib.sha256(" ".join(f"{value:.6g}" for value in values).encode()).hexdigest()[:12]


def recheck(name: str, data: Path = DATA, digest=short_run) -> str:
    """Recheck one experiment, change its record, and return the verdict."""
    path = data / name / "measured.json"
    record = json.loads(path.read_bytes())
    changed = changed_since(record)
    if changed == [] and "short" in record:
        return "the code has not changed"
    if changed != [] and "short" not in record:
        return f"no short run was recorded before the code changed: {record['command']}"
    found = digest(name)
    if changed == []:
        record["short"], verdict = found, "the short run is recorded"
    elif found == record["short"]:
        record["source"] = source_of(Path(vars(experiment(name))["__file__"]))
        record["rechecked"] = f"{datetime.now(UTC):%Y-%m-%d}"
        verdict = "a short run has the same numbers"
    else:
        return f"the short run differs, measure again: {record['command']}"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return verdict


if __name__ == "__main__":
    chosen = sys.argv[1:] or [name for name in EXPERIMENTS if (DATA / name).exists()]
    verdicts = {name: recheck(name) for name in chosen}
    for name, verdict in verdicts.items():
        print(f"{name:12} {verdict}")
