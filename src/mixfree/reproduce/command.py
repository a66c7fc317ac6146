"""An experiment from start to finish."""

from os import PathLike
from pathlib import Path

from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.figures import save
from mixfree.reproduce import experiment
from mixfree.reproduce.settings import Settings
from mixfree.reproduce.store import Store, write_whole
from mixfree.reproduce.sweep import BACKENDS, sweep


def run(
    name: str,
    settings: Settings,
    folder: str | PathLike[str],
    jobs: int | None = None,
    backend: str = "loky",
) -> list[Path]:
    """Run an experiment, show its report and write everything to ``folder``.

    The files are the same for any number of jobs, any backend, and with any interruptions.

    Returns
    -------
    list of Path
        The files written: rows, report and figures.
    """
    from joblib import cpu_count

    processes = check_whole(cpu_count() if jobs is None else jobs, "jobs")
    check_one_of(backend, "backend", BACKENDS)
    chosen = experiment(name)
    cells = chosen.cells(settings)
    store = Store(folder, name, settings)
    rows = sweep(name, cells, store, processes, backend)
    written = store.finish(rows)
    report = chosen.report(rows, settings)
    if not settings.covers(chosen.FULL):
        report = report.too_small(chosen.FULL)
    report.show()
    path = store.folder / "report.md"
    write_whole(path, report.markdown().encode())
    for title, figure in report.figures.items():
        written += save(figure, store.folder / title)
    return [*written, path]
