"""Run an experiment: measure its cells in parallel, resume after an interruption, report.

A folder belongs to one experiment with one set of settings and versions. Every finished cell is a
file of its own, written atomically, so an interrupted run loses only the cells in progress.
"""

import csv
import io
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mixfree
from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.extras import require
from mixfree.base.figures import save
from mixfree.base.files import replacing
from mixfree.base.terminal import Table, progress_bar
from mixfree.reproduce import Experiment
from mixfree.reproduce.engine.report import Report, Settings
from mixfree.reproduce.engine.rows import Row

PACKAGES = ("numpy", "scipy", "numba", "joblib", "matplotlib", "pyarrow")


def run_experiment(
    experiment: Experiment,
    command: str,
    settings: Settings,
    folder: Path,
    jobs: int | None = None,
    backend: str = "loky",
) -> list[Path]:
    """Run an experiment, print its report, write rows, report and figures; return their paths.

    Apart from dates and commits, the files do not depend on jobs, backend or interruptions.
    ``command`` runs this experiment, without the options of ``settings``. The backend is ``"loky"``
    (processes on this machine, by default one per core) or ``"dask"``.
    """
    from joblib import cpu_count, hash

    processes = check_whole(cpu_count() if jobs is None else jobs, "jobs")
    check_one_of(backend, "backend", ("loky", "dask"))
    cells = experiment.cells(settings)
    now = record(f"{command} {settings.options()}", settings.seed_numbers)
    claimed = _claimed(folder, now)
    parts = [folder / "parts" / f"{hash(cell)}.json" for cell in cells]
    todo = {at: cells[at] for at, part in enumerate(parts) if not part.exists()}
    with progress_bar(command, len(cells)) as show:
        measured = _measured(experiment, todo, processes, backend)
        for done, (at, rows) in enumerate(measured, len(cells) - len(todo) + 1):
            write_json(parts[at], {"commit": now["commit"], "rows": rows})
            show(done)
    found = [json.loads(part.read_bytes()) for part in parts]
    commits = dict.fromkeys(str(part["commit"]) for part in found)
    write_json(folder / "measured.json", {**claimed, "commit": ", ".join(commits)})
    rows = [row for part in found for row in part["rows"]]
    report = experiment.report(rows, settings).qualified(settings, experiment.FULL)
    for table in report.all_tables():
        table.show()
    print(*report.notes, sep="\n")
    _write(folder / "rows.csv", _csv(rows))
    _write(folder / "report.md", report.markdown())
    figures = [each for n, figure in report.figures.items() for each in save(figure, folder / n)]
    return [folder / "rows.csv", folder / "report.md", *figures]


def _claimed(folder: Path, now: dict[str, Any]) -> dict[str, Any]:
    """Return the record of the folder, which must be empty or hold results of the same run."""
    path = folder / "measured.json"
    folder.mkdir(parents=True, exist_ok=True)
    # A killed run may leave temporary files, whose names begin with a dot.
    others = sorted(each.name for each in folder.glob("[!.]*"))
    if not others:
        write_json(path, now)
    elif path.name not in others:
        raise ValueError(f"{folder} contains other files ({others[0]}): choose another folder")
    before: dict[str, Any] = json.loads(path.read_bytes())
    for name in ("command", "versions"):
        if before[name] != now[name]:
            raise ValueError(
                f"{path} describes other results ({name} {before[name]}, not {now[name]}): "
                "choose another folder"
            )
    (folder / "parts").mkdir(exist_ok=True)
    return before


def _measure(experiment: Experiment, at: int, cell: Row) -> tuple[int, list[Row]]:
    """Return the rows of a cell, with the same bits wherever it runs."""
    from threadpoolctl import threadpool_limits

    # With several threads, BLAS sums matrix products in another order.
    with threadpool_limits(1):
        return at, experiment.measure(cell)


def _measured(
    experiment: Experiment, cells: dict[int, Row], jobs: int, backend: str
) -> Iterator[tuple[int, list[Row]]]:
    """Yield the rows of cells, from processes or the Dask cluster of DASK_SCHEDULER_ADDRESS."""
    from joblib import Parallel, delayed, parallel_config

    left, cluster = list(cells.items()), nullcontext()
    if left and backend == "loky":
        # The first cell compiles the kernels, which all processes then find in the cache.
        yield _measure(experiment, *left.pop(0))
    elif left:
        cluster = require("distributed").Client()
    with cluster, parallel_config(backend):
        run = Parallel(jobs, return_as="generator_unordered", batch_size=1)
        yield from run(delayed(_measure)(experiment, *each) for each in left)


def _csv(rows: list[Row]) -> str:
    """Write all rows as a CSV file; missing values are empty."""
    text, names = io.StringIO(), dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def record(command: str, seeds: Sequence[int] = ()) -> dict[str, Any]:
    """Return command, date, machine, seeds, versions of packages and the commit."""
    versions = {"python": platform.python_version(), "mixfree": mixfree.__version__}
    return {
        "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "seeds": [seeds[0], seeds[-1]] if seeds else None,
        "versions": versions | {package: version(package) for package in PACKAGES},
        "commit": _commit(),
    }


def write_report(
    folder: Path, command: str, tables: Iterable[Table], seeds: Sequence[int] = ()
) -> None:
    """Write tables measured by a script, with their record, as for an experiment."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "measured.json", record(command, seeds))
    _write(folder / "report.md", Report(list(tables), {}).markdown())


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, atomically."""
    _write(path, json.dumps(value, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


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
    told = Path("/proc/cpuinfo")
    text = told.read_text(encoding="utf-8") if told.exists() else ""
    named = re.search(r"^model name\s*: (.*)", text, re.MULTILINE)
    return named[1] if named else platform.machine()
