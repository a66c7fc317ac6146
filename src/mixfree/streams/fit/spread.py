"""A fit spread over threads or a cluster: each fits a part, and the fits are merged."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mixfree.base.checks import check_whole
from mixfree.base.extras import require
from mixfree.linear.exact_learner import ExactLearner
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.read.files import STDIN, StreamFile
from mixfree.streams.read.source import Source

PARTS_PER_WORKER = 4  # of a cluster, so that all finish at about the same time, and few are lost

Show = Callable[[int, float], None]


def check_can_be_spread(fit: StreamFit, source: Source) -> None:
    """Raise ValueError if the fit cannot be spread."""
    if not isinstance(fit.learner, ExactLearner):
        raise ValueError("`workers` needs `method='exact'`: steps are sequential")
    if fit.learner.forgetting is not None:
        raise ValueError("`workers` needs `half_life=None`: forgetting is sequential")
    if any(file.path == STDIN for file in source.files):
        raise ValueError("`workers` needs files: standard input cannot be split")


def parts_of(files: Sequence[StreamFile], count: int) -> list[tuple[StreamFile, ...]]:
    """Divide files and Parquet row groups into at most ``count`` consecutive, similar parts."""
    pieces = [piece for file in files for piece in file.parts()]
    sizes = np.array([size for _, size in pieces], float)
    middles = (np.cumsum(sizes) - sizes / 2) / max(sizes.sum(), 1.0)
    found: dict[int, list[StreamFile]] = {}
    for middle, (piece, _) in zip(middles, pieces, strict=True):
        part = found.setdefault(int(middle * count), [])
        if part and piece.start:  # the next row group of the same file
            groups = (*(part[-1].row_groups or ()), *(piece.row_groups or ()))
            part[-1] = replace(part[-1], row_groups=groups)
        else:
            part.append(piece)
    return [tuple(part) for part in found.values()]


def run_on_workers(
    fit: StreamFit, source: Source, workers: int, show: Show | None = None
) -> tuple[int, int]:
    """Fit the whole source, with which the fit was begun, in several threads.

    ``show`` is called with the rows read so far and the seconds elapsed. Returns the numbers of
    threads and of parts, both 1 if the files cannot be divided.
    """
    check_whole(workers, "workers")
    check_can_be_spread(fit, source)
    parts = _parts(fit, source, workers)
    if len(parts) == 1:
        # Alone, which is as fast and also gives a test-then-train loss.
        fit.run(source.pieces(), show=show and (lambda now: show(now.read, now.seconds)))
        fit.end()
        return 1, 1
    read, stopped, began = dict.fromkeys(range(len(parts)), 0), Event(), time.monotonic()

    def tell(number: int, now: StreamFit) -> None:
        if stopped.is_set():
            raise InterruptedError("stopped")
        read[number] = now.read
        if show is not None:
            show(sum(read.values()), time.monotonic() - began)

    pool = ThreadPoolExecutor(len(parts))
    try:
        with threadpool_limits(1, "blas"):
            futures = [pool.submit(partial(fit_part, tell=tell), *part) for part in parts]
            for each in as_completed(futures):
                each.result()  # raises the first error of any part
            _merge(fit, (each.result() for each in futures))
        fit.seconds = time.monotonic() - began
    finally:
        stopped.set()  # after an error or Ctrl-C, the other threads stop as well
        pool.shutdown(cancel_futures=True)
    return len(parts), len(parts)


def run_on_cluster(
    fit: StreamFit, source: Source, address: str, show: Show | None = None
) -> tuple[int, int]:
    """Fit the whole source on a Dask cluster, whose workers find the files by the same paths.

    Dask fits the parts of a worker that dies on another one.
    """
    check_can_be_spread(fit, source)
    with require("distributed").Client(address) as client:
        threads = max(sum(client.nthreads().values()), 1)
        parts = _parts(fit, source, PARTS_PER_WORKER * threads)
        futures = client.map(fit_part, *zip(*parts, strict=True), pure=False)
        _merge(fit, (future.result() for future in futures), show)
    return threads, len(parts)


def _parts(fit: StreamFit, source: Source, count: int) -> list[tuple[Any, ...]]:
    found = parts_of(source.files, count)
    for file in {file.path: file for files in found for file in files}.values():
        if file.path != source.files[0].path:
            source.check_same_columns(str(file), Source([file]).schema.names)
    untrained = StreamFit(fit.plan, fit.encoder.again(fixed=False))
    return [(untrained, number, files) for number, files in enumerate(found)]


def _merge(fit: StreamFit, parts: Iterable[StreamFit], show: Show | None = None) -> None:
    """Merge the fits of parts, in the order of the stream."""
    began = time.monotonic()
    for part in parts:
        fit.merge(part)
        if show is not None:
            show(fit.read, time.monotonic() - began)
    fit.end(seconds=time.monotonic() - began)


def fit_part(untrained: StreamFit, number: int, files: Any, tell: Any = None) -> StreamFit:
    """Return the fit of a part, with a seed of its own, and ``tell`` of it after each batch."""
    given = untrained.plan.parameters
    parameters = {**given, "seed": int(given.get("seed", 0)) + number}
    encoder = untrained.encoder.again(fixed=False)
    fit = StreamFit(replace(untrained.plan, parameters=parameters), encoder)
    fit.tests_first = False
    source = Source(files)
    source.open(encoder.needs, encoder.numbers, threads=False)
    fit.run(source.pieces(), show=tell and partial(tell, number))
    return fit
