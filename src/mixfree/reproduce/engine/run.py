"""Run an experiment: measure its cells in parallel, resume after an interruption, report.

A folder belongs to one experiment with one set of settings. Every finished cell is a file of its
own, written atomically, so an interrupted run loses only the cells that were being measured.
"""

import csv
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.extras import require
from mixfree.base.figures import save
from mixfree.base.files import replacing
from mixfree.base.progress import progress_bar
from mixfree.reproduce import Experiment
from mixfree.reproduce.engine.record import record, versions, write_json
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.settings import Settings

__all__ = ["check_writable_folder", "run_experiment"]

Cell = dict[str, Any]
BACKENDS = ("loky", "dask")


def run_experiment(
    chosen: Experiment,
    command: str,
    settings: Settings,
    path: str | PathLike[str],
    jobs: int | None = None,
    backend: str = "loky",
) -> list[Path]:
    """Run an experiment, print its report, write rows, report and figures; return their paths.

    The files do not depend on the number of jobs, the backend or interruptions, apart from
    ``measured.json``, which records when, where and by which commit the rows were measured.

    Parameters
    ----------
    command
        What runs this experiment, without the options of ``settings``.
    jobs
        Number of processes; one per core by default.
    backend
        ``"loky"`` (processes on this machine) or ``"dask"``.
    """
    from joblib import cpu_count

    processes = check_whole(cpu_count() if jobs is None else jobs, "jobs")
    check_one_of(backend, "backend", BACKENDS)
    cells, command = chosen.cells(settings), f"{command} {settings.options()}"
    folder = _claimed(Path(path), command, settings)
    parts = {_name(cell): folder / "parts" / f"{_name(cell)}.json" for cell in cells}
    todo = [cell for cell in cells if not parts[_name(cell)].exists()]
    if todo:
        _write_record(folder / "measured.json", command, settings, begun=len(todo) < len(cells))
    with progress_bar(command.split(" --")[0], len(cells)) as show:
        show(len(cells) - len(todo))
        for done, (cell, found) in enumerate(_measured(chosen, todo, processes, backend), start=1):
            write_json(parts[_name(cell)], {"cell": cell, "rows": found})
            show(len(cells) - len(todo) + done)
    rows = [row for part in parts.values() for row in json.loads(part.read_bytes())["rows"]]
    report = chosen.report(rows, settings).judged(settings, chosen.FULL)
    report.show()
    written = []
    for name, content in (*_tabulated(rows), ("report.md", report.markdown().encode())):
        with replacing(folder / name) as file:
            file.write(content)
        written.append(folder / name)
    return written + [each for n, f in report.figures.items() for each in save(f, folder / n)]


def check_writable_folder(path: str | PathLike[str]) -> Path:
    """Create the folder if needed and check that it is writable; raise OSError if not.

    Work that takes minutes should fail before it begins.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise OSError(f"cannot write in the folder {folder}: {error.strerror}") from error


def _claimed(folder: Path, command: str, settings: Settings) -> Path:
    """Mark the folder as that of these settings and versions, or check that it is."""
    check_writable_folder(folder)
    path = folder / "settings.json"
    about = {"command": command, "settings": asdict(settings), "versions": versions()}
    # A killed run may leave temporary files, whose names begin with a dot.
    others = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    if not others:
        write_json(path, about)
    elif not path.exists():
        raise ValueError(
            f"{folder} contains other files ({', '.join(others[:3])}): choose another folder"
        )
    theirs, mine = (
        {**each["settings"], **each["versions"], "command": each["command"]}
        for each in (json.loads(path.read_bytes()), json.loads(json.dumps(about)))
    )
    for name, value in mine.items():
        if theirs.get(name) != value:
            raise ValueError(
                f"{path} describes other results ({name} {theirs.get(name)}, not {value}): "
                "choose another folder"
            )
    check_writable_folder(folder / "parts")
    return folder


def _write_record(path: Path, command: str, settings: Settings, begun: bool) -> None:
    """Record this run; one that goes on with results of another commit has both."""
    now = record(command, settings.seed_numbers)
    before = json.loads(path.read_bytes())["commit"] if begun and path.exists() else now["commit"]
    if before != now["commit"]:
        now["commit"] = f"{before}, {now['commit']}"
    write_json(path, now)


def _name(cell: Cell) -> str:
    return hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:20]


def _measure(chosen: Experiment, cell: Cell) -> tuple[Cell, list[Row]]:
    """Return a cell and its rows, with the same bits wherever it runs."""
    from threadpoolctl import threadpool_limits

    # With several threads, BLAS sums matrix products in another order.
    with threadpool_limits(1):
        return cell, chosen.measure(cell)


def _measured(
    chosen: Experiment, cells: list[Cell], jobs: int, backend: str
) -> Iterator[tuple[Cell, list[Row]]]:
    from joblib import Parallel, delayed

    if backend == "loky" and cells:
        # The first cell compiles the kernels, which all processes then find in the cache.
        yield _measure(chosen, cells[0])
        cells = cells[1:]
    if cells:
        with _workers(jobs, backend):
            run = Parallel(jobs, return_as="generator_unordered", batch_size=1)
            yield from run(delayed(_measure)(chosen, cell) for cell in cells)


@contextmanager
def _workers(jobs: int, backend: str) -> Iterator[None]:
    """Use ``jobs`` processes on this machine, or the Dask cluster of DASK_SCHEDULER_ADDRESS."""
    from joblib import parallel_config

    if backend == "loky":
        with parallel_config("loky"):
            yield
        return
    # Any free port, as another sweep may have taken the default.
    local = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": ":0"}
    given = {} if "DASK_SCHEDULER_ADDRESS" in os.environ else local
    with require("distributed").Client(**given), parallel_config("dask"):
        yield


def _tabulated(rows: list[Row]) -> Iterator[tuple[str, bytes]]:
    """Yield all rows as a CSV and a Parquet file; missing values are empty."""
    names = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    yield "rows.csv", text.getvalue().encode()
    pyarrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    sink = pyarrow.BufferOutputStream()
    complete = [{name: row.get(name) for name in names} for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(complete), sink)
    yield "rows.parquet", bytes(sink.getvalue())
