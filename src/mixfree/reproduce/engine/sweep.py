"""Measure the cells of an experiment, in parallel by joblib."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mixfree.base.extras import require
from mixfree.base.progress import progress_bar
from mixfree.reproduce import experiment
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.engine.store import Cell, Store

__all__ = ["BACKENDS", "sweep"]

BACKENDS = ("loky", "dask")


def sweep(name: str, cells: list[Cell], store: Store, jobs: int, backend: str) -> list[Row]:
    """Measure the cells that the store lacks; return the rows of all cells, in order."""
    todo = [cell for cell in cells if store.rows(cell) is None]
    done = len(cells) - len(todo)
    with progress_bar(name, len(cells)) as show:
        show(done)
        for cell, rows in _measure_all(name, todo, jobs, backend):
            store.keep(cell, rows)
            done += 1
            show(done)
    return [row for cell in cells for row in store.rows(cell) or []]


def _measure(name: str, cell: Cell) -> tuple[Cell, list[Row]]:
    """Return a cell and its rows, with the same bits wherever it runs."""
    from threadpoolctl import threadpool_limits

    # With several threads, BLAS sums matrix products in another order.
    with threadpool_limits(1):
        return cell, experiment(name).measure(cell)


def _measure_all(
    name: str, cells: list[Cell], jobs: int, backend: str
) -> Iterator[tuple[Cell, list[Row]]]:
    from joblib import Parallel, delayed

    if not cells:
        return
    if backend == "loky":
        # The first cell compiles the kernels, which all processes then find in the cache.
        yield _measure(name, cells[0])
        cells = cells[1:]
    with _workers(jobs, backend):
        run = Parallel(jobs, return_as="generator_unordered", batch_size=1)
        yield from run(delayed(_measure)(name, cell) for cell in cells)


@contextmanager
def _workers(jobs: int, backend: str) -> Iterator[None]:
    """Use ``jobs`` processes on this machine, or the Dask cluster of DASK_SCHEDULER_ADDRESS."""
    from joblib import parallel_config

    if backend == "loky":
        with parallel_config("loky"):
            yield
        return
    local: dict[str, Any] = {
        "n_workers": jobs,
        "threads_per_worker": 1,
        "dashboard_address": ":0",  # any free port, as another sweep may have taken the default
    }
    given = {} if "DASK_SCHEDULER_ADDRESS" in os.environ else local
    with require("distributed").Client(**given), parallel_config("dask"):
        yield
