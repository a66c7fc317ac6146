"""The cells of an experiment, spread over processes or a cluster by joblib."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from mixfree.base.extras import require
from mixfree.base.progress import progress_bar
from mixfree.reproduce import experiment
from mixfree.reproduce.report import Row
from mixfree.reproduce.store import Cell, Store

BACKENDS = ("loky", "dask", "ray")


def sweep(name: str, cells: list[Cell], store: Store, jobs: int, backend: str) -> list[Row]:
    """Do the cells that the store does not have yet; the rows of all, in the cells' order."""
    todo = [cell for cell in cells if store.kept(cell) is None]
    done = len(cells) - len(todo)
    with progress_bar(name, len(cells)) as show:
        show(done)
        for cell, rows in _results(name, todo, jobs, backend):
            store.keep(cell, rows)
            done += 1
            show(done)
    return [row for cell in cells for row in store.kept(cell) or []]


def measured(name: str, cell: Cell) -> tuple[Cell, list[Row]]:
    """A cell and its rows, with the same bits wherever it runs."""
    from threadpoolctl import threadpool_limits

    # A product of matrices shared among threads is summed in another order.
    with threadpool_limits(1):
        return cell, experiment(name).measure(cell)


def _results(
    name: str, cells: list[Cell], jobs: int, backend: str
) -> Iterator[tuple[Cell, list[Row]]]:
    from joblib import Parallel, delayed

    if not cells:
        return
    if backend == "loky":
        # What the first cell compiles is then in the cache for all the processes.
        yield measured(name, cells[0])
        cells = cells[1:]
    work = (delayed(measured)(name, cell) for cell in cells)
    with _cluster(jobs, backend):
        if backend == "ray":
            # Ray's backend gives results only at the end, so it is given little at a time.
            while batch := list(islice(work, 4 * jobs)):
                yield from Parallel(jobs)(batch)
        else:
            yield from Parallel(jobs, return_as="generator_unordered", batch_size=1)(work)


@contextmanager
def _cluster(jobs: int, backend: str) -> Iterator[None]:
    """Work inside goes to the backend: to a running cluster if the environment names one.

    ``DASK_SCHEDULER_ADDRESS`` and ``RAY_ADDRESS`` are what Dask and Ray themselves look at;
    without them a cluster of ``jobs`` processes is started on this machine.
    """
    from joblib import parallel_config

    if backend == "dask":
        with (
            require("distributed").Client(
                **_unless(
                    "DASK_SCHEDULER_ADDRESS",
                    n_workers=jobs,
                    threads_per_worker=1,
                    dashboard_address=":0",  # any free port: another sweep may have the usual one
                )
            ),
            parallel_config("dask"),
        ):
            yield
    elif backend == "ray":
        ray, joblib_backend = require("ray"), require("ray.util.joblib")
        ray.init(**_unless("RAY_ADDRESS", num_cpus=jobs))
        joblib_backend.register_ray()
        try:
            with parallel_config("ray"):
                yield
        finally:
            ray.shutdown()
    else:
        with parallel_config("loky"):
            yield


def _unless(variable: str, **local: Any) -> dict[str, Any]:
    return {} if variable in os.environ else local
