"""Records of when, where and by which code something was measured."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mixfree.base.files import replacing
from mixfree.base.table import Table

__all__ = ["record", "write_json", "write_report"]

PACKAGES = ("mixfree", "numpy", "scipy", "numba", "joblib", "matplotlib", "pyarrow")


def record(command: str, seeds: Sequence[int] = ()) -> dict[str, Any]:
    """Return command, date, machine, seeds, versions of packages and the commit."""
    versions = {package: version(package) for package in PACKAGES}
    return {
        "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "seeds": [seeds[0], seeds[-1]] if seeds else None,
        "versions": {"python": platform.python_version(), **versions},
        "commit": _commit(),
    }


def write_report(
    folder: Path, command: str, tables: Iterable[Table], seeds: Sequence[int] = ()
) -> None:
    """Write tables measured by a script, with their record, as for an experiment."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "measured.json", record(command, seeds))
    with replacing(folder / "report.md") as file:
        file.write(("\n\n".join(table.markdown() for table in tables) + "\n").encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, atomically."""
    with replacing(path) as file:
        file.write((json.dumps(value, indent=1) + "\n").encode())


def _commit() -> str | None:
    """Return the commit of this code, with a + if files have changed since; None without Git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    ours = [*git, "ls-files", "--error-unmatch", __file__]
    told = [*git, "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    try:
        # A package installed inside another project's repository is none of its files.
        subprocess.run(ours, capture_output=True, check=True)
        return subprocess.run(told, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.machine()])[0]
