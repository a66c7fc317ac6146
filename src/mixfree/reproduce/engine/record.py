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

__all__ = ["record", "versions", "write_json", "write_report"]

PACKAGES = ("mixfree", "numpy", "scipy", "numba", "joblib", "matplotlib", "pyarrow")


def record(command: str, seeds: Sequence[int] = ()) -> dict[str, Any]:
    """Return command, date, machine, seeds, versions of packages and the commit."""
    return {
        "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": _machine(),
        "seeds": [seeds[0], seeds[-1]] if seeds else None,
        "versions": versions(),
        "commit": _commit(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that numbers depend on."""
    found = {package: version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **found}


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
    told = ["describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    try:
        # A package installed inside another project's repository is none of its files.
        subprocess.run(
            [*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True
        )
        found = subprocess.run([*git, *told], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def _machine() -> str:
    """Describe the processor, cores and system."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        named = []
    return f"{(named or [platform.machine()])[0]}, {os.cpu_count()} cores, {platform.system()}"
