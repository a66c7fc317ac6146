"""Run an experiment from start to finish."""

from os import PathLike
from pathlib import Path

from mixfree.base.checks import check_one_of, check_whole
from mixfree.base.figures import save
from mixfree.base.files import replacing
from mixfree.reproduce import experiment
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.store import Store
from mixfree.reproduce.engine.sweep import BACKENDS, sweep

__all__ = ["run_experiment"]


def run_experiment(
    name: str,
    settings: Settings,
    folder: str | PathLike[str],
    jobs: int | None = None,
    backend: str = "loky",
) -> list[Path]:
    """Run an experiment, print its report and write rows, report and figures to ``folder``.

    The files do not depend on the number of jobs, the backend, or interruptions, apart from
    ``measured.json``, which records when, where and by which code the rows were measured.

    Parameters
    ----------
    jobs
        Number of processes; one per core by default.
    backend
        ``"loky"`` (processes on this machine) or ``"dask"``.

    Returns
    -------
    list of Path
        The files written.
    """
    from joblib import cpu_count

    processes = check_whole(cpu_count() if jobs is None else jobs, "jobs")
    check_one_of(backend, "backend", BACKENDS)
    chosen = experiment(name)
    cells = chosen.cells(settings)
    store = Store(folder, name, settings)
    if any(store.rows(cell) is None for cell in cells):
        store.record(Path(vars(chosen)["__file__"]))
    rows = sweep(name, cells, store, processes, backend)
    written = store.write_rows(rows)
    report = chosen.report(rows, settings).judged(settings, chosen.FULL)
    report.show()
    path = store.folder / "report.md"
    with replacing(path) as file:
        file.write(report.markdown().encode())
    for title, figure in report.figures.items():
        written += save(figure, store.folder / title)
    return [*written, path]
