"""A fit spread over processes or over a cluster: each fits a part, and the fits are merged."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import groupby
from multiprocessing import forkserver, get_all_start_methods, get_context
from typing import Any, NamedTuple

from mixfree.base.checks import check_whole
from mixfree.base.extras import require
from mixfree.linear.exact.learner import ExactLearner
from mixfree.streams.encoder import Encoder
from mixfree.streams.files import STDIN, StreamFile
from mixfree.streams.plan import FitPlan
from mixfree.streams.reservoir import Reservoir
from mixfree.streams.source import Source
from mixfree.streams.stream_fit import StreamFit

__all__ = ["check_can_be_spread", "parts_of", "prepare_workers", "run_on_cluster", "run_on_workers"]

PER_WORKER = 4  # parts per worker, so that all have work until the end
MOST_DEATHS = 3  # deaths of workers after which something else must be wrong

Show = Callable[[int, float], None]


class Part(NamedTuple):
    """What a worker is given: consecutive files or row groups, and how to learn from them."""

    number: int
    files: tuple[StreamFile, ...]
    plan: FitPlan
    encoder: dict[str, Any]


def check_can_be_spread(fit: StreamFit, source: Source, given: str) -> None:
    """ValueError if parts of the stream cannot be fitted apart, as the argument ``given`` asks."""
    plan = fit.plan
    if not isinstance(fit.learner, ExactLearner):
        raise ValueError(f"`{given}` needs `method='exact'`: steps follow one another")
    if fit.learner.forgetting is not None:
        raise ValueError(f"`{given}` needs `half_life=None`: forgetting goes on row by row")
    if plan.missing == "mean":
        raise ValueError(
            f"`{given}` does not go with `missing='mean'`, which depends on all rows before; "
            "`missing='skip'` does not"
        )
    if plan.compare:
        raise ValueError(f"`{given}` does not go with `compare`: plain SGD takes row after row")
    if any(file.path == STDIN for file in source.files):
        raise ValueError(f"`{given}` needs files: standard input can only be read in one piece")


def parts_of(files: Sequence[StreamFile], count: int) -> list[tuple[StreamFile, ...]]:
    """Files and Parquet row groups in at most ``count`` runs of about the same size, in order.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mixfree.streams.files import find_files
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, size in (("1.csv", 10), ("2.csv", 10), ("3.csv", 20)):
    ...     _ = (folder / name).write_text("x" * size)
    >>> parts = parts_of(find_files([str(folder)]), 2)
    >>> [[Path(file.path).name for file in part] for part in parts]
    [['1.csv', '2.csv'], ['3.csv']]
    """
    pieces = [piece for file in files for piece in file.parts()]
    total, before, places = max(sum(size for _, size in pieces), 1), 0, []
    for piece, size in pieces:
        middle = before + size / 2
        places.append((int(count * middle / total), piece))
        before += size
    runs = groupby(places, key=lambda each: each[0])
    return [tuple(_joined([piece for _, piece in run])) for _, run in runs]


def _joined(pieces: Sequence[StreamFile]) -> Iterator[StreamFile]:
    """Row groups that follow one another in a file as one piece of it."""
    last: StreamFile | None = None
    for piece in pieces:
        if last is not None and piece.start and last.row_groups and piece.row_groups:
            last = replace(last, row_groups=(*last.row_groups, *piece.row_groups))
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def prepare_workers() -> None:
    """Begin to import, in another process, what workers need, while this one looks at the data."""
    if _context().get_start_method() == "forkserver":
        forkserver.ensure_running()


def _context() -> Any:
    """How workers are started: as copies of a process that has imported all, where that exists."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def run_on_workers(
    fit: StreamFit, source: Source, workers: int, show: Show | None = None
) -> tuple[int, int]:
    """Fit the whole source in so many processes of this machine.

    A worker that dies is replaced and its part is fitted anew; a part counts when it is complete.

    Parameters
    ----------
    fit
        From :meth:`StreamFit.begin`; it learns everything.
    source
        What it was begun with.
    workers
        Number of processes.
    show
        Called with the number of rows read so far and the seconds that it took.

    Returns
    -------
    Numbers of processes and of parts.
    """
    check_whole(workers, "workers")
    check_can_be_spread(fit, source, "workers")
    parts = _parts(fit, source, PER_WORKER * workers if workers > 1 else 1)
    workers = min(workers, len(parts))
    _merge(fit, _fitted_here(parts, workers, show))
    return workers, len(parts)


def run_on_cluster(
    fit: StreamFit, source: Source, address: str, show: Show | None = None
) -> tuple[int, int]:
    """The same on a Dask cluster, whose workers must find the files under the same names."""
    check_can_be_spread(fit, source, "cluster")
    with require("distributed").Client(address) as client:
        threads = max(sum(client.nthreads().values()), 1)
        parts = _parts(fit, source, PER_WORKER * threads)
        _merge(fit, _fitted_there(parts, client, show))
    return threads, len(parts)


def _parts(fit: StreamFit, source: Source, count: int) -> list[Part]:
    encoder, seed = fit.encoder.state_dict(), int(fit.plan.parameters.get("seed", 0))
    found = []
    for number, files in enumerate(parts_of(source.files, count)):
        for file in files:
            if file.path != source.files[0].path and not file.start:
                source.check_same_columns(str(file), Source([file]).schema.names)
        # Rows to keep are drawn with a seed of its own in every part.
        parameters = {**fit.plan.parameters, "seed": seed + number}
        found.append(Part(number, files, replace(fit.plan, parameters=parameters), encoder))
    return found


def _merge(fit: StreamFit, results: Iterator[tuple[int, dict[str, Any]]]) -> None:
    """Merge fits of parts in the order of the stream, whatever the order in which they come."""
    began, early, following = time.monotonic(), dict[int, dict[str, Any]](), 0
    for number, state in results:
        early[number] = state
        while following in early:
            fit.merge(StreamFit.from_state(early.pop(following)))
            following += 1
    fit.end(seconds=time.monotonic() - began)


def fit_part(part: Part, show: Callable[[StreamFit], None] | None = None) -> dict[str, Any]:
    """The state of a fit to a part alone."""
    fit = StreamFit(part.plan, Encoder.from_state(part.encoder))
    fit.tests_first, fit.reservoir = False, Reservoir(seed=part.number)
    source = Source(part.files)
    source.open(fit.encoder.needs, fit.encoder.numbers)
    fit.run(source.pieces(), show=show)
    fit.end(source.unfinished)
    return fit.state_dict()


def _fitted_there(
    parts: Sequence[Part], client: Any, show: Show | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    futures = {client.submit(fit_part, part, pure=False): part.number for part in parts}
    began, read = time.monotonic(), 0
    for future, state in require("distributed").as_completed(list(futures), with_results=True):
        read += sum(file["rows"] for file in state["read"]["files"])
        if show is not None:
            show(read, time.monotonic() - began)
        yield futures.pop(future), state
        future.release()


def _fitted_here(
    parts: Sequence[Part], workers: int, show: Show | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    context = _context()
    # Rows read of each part, and whether to stop. No lock: a worker could die while it has it.
    counts = context.RawArray("q", len(parts) + 1)
    began, deaths = time.monotonic(), 0
    waiting = {part.number: part for part in parts}
    while waiting:
        pool = ProcessPoolExecutor(min(workers, len(waiting)), context, _begin, (counts, workers))
        try:
            pending = {pool.submit(_fit_counted, part) for part in waiting.values()}
            while pending:
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                if show is not None:
                    show(sum(counts[:-1]), time.monotonic() - began)
                for future in done:
                    number, state = future.result()
                    del waiting[number]
                    yield number, state
        except BrokenProcessPool as error:
            deaths += 1
            if deaths == MOST_DEATHS:
                raise OSError(
                    f"workers died {deaths} times, the last while fitting part "
                    f"{min(waiting) + 1} of {len(parts)}: is there enough memory for `workers`?"
                ) from error
        except BaseException:
            counts[len(parts)] = 1
            raise
        finally:
            pool.shutdown(cancel_futures=True)


_counts: Any = None


def _begin(counts: Any, workers: int) -> None:
    """Prepare a worker, which shares the machine with the others."""
    global _counts
    _counts = counts
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process tells when to stop
    threads = max((os.cpu_count() or 1) // workers, 1)
    require("pyarrow").set_cpu_count(threads)
    require("threadpoolctl").threadpool_limits(threads)


def _fit_counted(part: Part) -> tuple[int, dict[str, Any]]:
    def show(fit: StreamFit) -> None:
        _counts[part.number] = fit.read
        if _counts[len(_counts) - 1]:
            raise InterruptedError("the fit was stopped")

    return part.number, fit_part(part, show)
