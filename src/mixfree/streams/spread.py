"""A fit spread over processes or a cluster: each fits a part, and the fits are merged."""

import os
import signal
import sys
import time
import traceback
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import groupby
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from mixfree.base.checks import check_whole
from mixfree.base.extras import require
from mixfree.base.processes import processes_with
from mixfree.linear.exact.learner import ExactLearner
from mixfree.streams.encoder import Encoder
from mixfree.streams.files import STDIN, StreamFile
from mixfree.streams.plan import FitPlan
from mixfree.streams.reservoir import Reservoir
from mixfree.streams.source import Source
from mixfree.streams.stream_fit import StreamFit

__all__ = ["check_can_be_spread", "parts_of", "run_on_cluster", "run_on_workers"]

LAST = 1 / 16  # size of the last parts, as a fraction of a worker's share of the stream
MOST_DEATHS = 3  # number of worker deaths with the same part after which the fit fails
PAUSE = 0.5  # seconds before another worker is started after a failure to start one
PATIENCE = 10.0  # seconds to wait for a killed process to end

Show = Callable[[int, float], None]
_ENDED = (EOFError, OSError)  # raised by a pipe whose other end has closed


class Part(NamedTuple):
    """The task of a worker: consecutive files or row groups, and how to learn from them."""

    number: int
    files: tuple[StreamFile, ...]
    plan: FitPlan
    encoder: dict[str, Any]


def check_can_be_spread(fit: StreamFit, source: Source, given: str) -> None:
    """Raise ValueError if the fit cannot be spread as the argument ``given`` asks."""
    plan = fit.plan
    if not isinstance(fit.learner, ExactLearner):
        raise ValueError(f"`{given}` needs `method='exact'`: steps are sequential")
    if fit.learner.forgetting is not None:
        raise ValueError(f"`{given}` needs `half_life=None`: forgetting is sequential")
    if plan.missing == "mean":
        raise ValueError(
            f"`{given}` cannot be combined with `missing='mean'`, which depends on all earlier "
            "rows: give `missing='skip'`"
        )
    if any(file.path == STDIN for file in source.files):
        raise ValueError(f"`{given}` needs files: standard input cannot be split")


def parts_of(files: Sequence[StreamFile], workers: int) -> list[tuple[StreamFile, ...]]:
    """Divide files and Parquet row groups into consecutive parts for a number of workers.

    Each part is half of a worker's share of the remaining stream, so that the last parts are small
    and all workers finish at about the same time. A single worker has a single part.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mixfree.streams.files import find_files
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("1.csv", "2.csv", "3.csv", "4.csv", "5.csv", "6.csv", "7.csv", "8.csv"):
    ...     _ = (folder / name).write_text("x" * 10)
    >>> parts = parts_of(find_files([str(folder)]), 2)
    >>> ["".join(Path(file.path).name[0] for file in part) for part in parts]
    ['12', '34', '5', '6', '7', '8']
    """
    pieces = [piece for file in files for piece in file.parts()]
    total, before, places = max(sum(size for _, size in pieces), 1), 0, []
    ends = _ends(workers)
    for piece, size in pieces:
        middle = before + size / 2
        places.append((bisect_left(ends, middle / total), piece))
        before += size
    runs = groupby(places, key=lambda each: each[0])
    return [tuple(_joined([piece for _, piece in run])) for _, run in runs]


def _ends(workers: int) -> list[float]:
    """Return where the parts of a stream end, except the last, as fractions of the stream.

    Examples
    --------
    >>> [round(end, 3) for end in _ends(2)[:4]], _ends(1)
    ([0.25, 0.438, 0.578, 0.684], [])
    """
    least, ends, left = LAST / workers, list[float](), 1.0
    while workers > 1 and left > 1.5 * least:
        left -= max(left / (2 * workers), least)
        ends.append(1.0 - left)
    return ends


def _joined(pieces: Sequence[StreamFile]) -> Iterator[StreamFile]:
    """Join consecutive row groups of a file."""
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


def run_on_workers(
    fit: StreamFit, source: Source, workers: int, show: Show | None = None
) -> tuple[int, int]:
    """Fit the whole source in several processes on this machine.

    A worker that dies is replaced, and its part is fitted again from its beginning.

    Parameters
    ----------
    fit
        From :meth:`StreamFit.begin`; learns from all rows.
    source
        The source it was begun with.
    workers
        Number of processes.
    show
        Called with the number of rows read so far and the seconds elapsed.

    Returns
    -------
    Numbers of processes and of parts; both 1 if the files cannot be divided.
    """
    check_whole(workers, "workers")
    check_can_be_spread(fit, source, "workers")
    parts = _parts(fit, source, workers)
    if len(parts) == 1:
        # In this process, which is as fast and also gives a test-then-train loss.
        fit.run(source.pieces(), show=show and (lambda now: show(now.read, now.seconds)))
        fit.end(source.unfinished)
        return 1, 1
    workers = min(workers, len(parts))
    with closing(_from_workers(parts, workers, show)) as results:
        _merge(fit, results)
    return workers, len(parts)


def run_on_cluster(
    fit: StreamFit, source: Source, address: str, show: Show | None = None
) -> tuple[int, int]:
    """Fit the whole source on a Dask cluster, whose workers find the files by the same paths."""
    check_can_be_spread(fit, source, "cluster")
    with require("distributed").Client(address) as client:
        threads = max(sum(client.nthreads().values()), 1)
        parts = _parts(fit, source, threads)
        _merge(fit, _from_cluster(parts, client, show))
    return threads, len(parts)


def _parts(fit: StreamFit, source: Source, workers: int) -> list[Part]:
    encoder, seed = fit.encoder.state_dict(), int(fit.plan.parameters.get("seed", 0))
    found = []
    for number, files in enumerate(parts_of(source.files, workers)):
        for file in files:
            if file.path != source.files[0].path and not file.start:
                source.check_same_columns(str(file), Source([file]).schema.names)
        # Each part draws the rows that it keeps with its own seed.
        parameters = {**fit.plan.parameters, "seed": seed + number}
        found.append(Part(number, files, replace(fit.plan, parameters=parameters), encoder))
    return found


def _merge(fit: StreamFit, results: Iterator[tuple[int, dict[str, Any]]]) -> None:
    """Merge the fits of parts in the order of the stream, in whichever order they arrive."""
    began, early, following = time.monotonic(), dict[int, dict[str, Any]](), 0
    for number, state in results:
        early[number] = state
        while following in early:
            fit.merge(StreamFit.from_state(early.pop(following)))
            following += 1
    fit.end(seconds=time.monotonic() - began)


def fit_part(part: Part, show: Callable[[StreamFit], None] | None = None) -> dict[str, Any]:
    """Fit one part; return the state of the fit."""
    fit = StreamFit(part.plan, Encoder.from_state(part.encoder))
    fit.tests_first, fit.reservoir = False, Reservoir(seed=part.number)
    source = Source(part.files)
    source.open(fit.encoder.needs, fit.encoder.numbers, threads=False)
    fit.run(source.pieces(), show=show)
    fit.end(source.unfinished)
    return fit.state_dict()


def _from_cluster(
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


def _from_workers(
    parts: Sequence[Part], workers: int, show: Show | None
) -> Generator[tuple[int, dict[str, Any]]]:
    began, waiting = time.monotonic(), deque(parts)
    read, deaths = Counter[int](), Counter[int]()  # by the number of a part
    crew: list[_Worker] = []
    failed = 0  # consecutive failures to start a worker

    def try_again(part: Part, error: Exception) -> None:
        deaths[part.number] += 1
        if deaths[part.number] == MOST_DEATHS:
            raise OSError(
                f"workers died {MOST_DEATHS} times while fitting part {part.number + 1} of "
                f"{len(parts)}, perhaps for lack of memory: give fewer `workers`"
            ) from error
        waiting.appendleft(part)

    try:
        while waiting or crew:
            while waiting and len(crew) < workers:
                part = waiting.popleft()
                try:
                    crew.append(_Worker(workers, part))
                    failed = 0
                except _ENDED as error:
                    failed += 1
                    if failed == MOST_DEATHS:
                        raise OSError(
                            f"`workers` cannot be started: {error or 'they die at once'}"
                        ) from error
                    waiting.appendleft(part)
                    time.sleep(PAUSE)
            for worker in _answering(crew):
                part = worker.part
                try:
                    answer = worker.answer()
                except _ENDED as error:
                    crew.remove(worker)
                    worker.end()
                    try_again(part, error)
                    continue
                if isinstance(answer, Exception):
                    raise answer
                if isinstance(answer, int):
                    read[part.number] = answer
                    continue
                # The worker gets its next part before this one is merged.
                if waiting:
                    worker.give(waiting.popleft())
                else:
                    crew.remove(worker)
                    worker.end()
                read[part.number] = sum(file["rows"] for file in answer["read"]["files"])
                yield part.number, answer
            if show is not None:
                show(read.total(), time.monotonic() - began)
    finally:
        for worker in crew:
            worker.end()


class _Worker:
    """A process that fits one part after another, with a pipe of its own.

    Workers share neither locks nor pipes: when a worker dies, its pipe closes, and when the parent
    dies, the worker exits.
    """

    def __init__(self, workers: int, part: Part) -> None:
        context = processes_with(__name__)
        self._pipe, theirs = context.Pipe()
        with theirs:
            self._process = context.Process(target=_work, args=(theirs, workers), daemon=True)
            self._process.start()
        self.give(part)

    def give(self, part: Part) -> None:
        """Send the worker another part."""
        self.part = part
        with suppress(OSError):  # the worker has died, which `answer` will report
            self._pipe.send(part)

    @property
    def signs(self) -> tuple[Any, int]:
        """Objects to wait for: an answer, or the end of the process."""
        return self._pipe, self._process.sentinel

    def answer(self) -> Any:
        """Return the rows read so far, the state of the fit, or its exception."""
        if not self._pipe.poll():
            raise EOFError("the process has ended")
        return self._pipe.recv()

    def end(self) -> None:
        """Kill the process if it is still running."""
        self._pipe.close()
        if self._process.is_alive():
            self._process.kill()
            self._process.join(PATIENCE)


def _answering(crew: Sequence[_Worker]) -> list[_Worker]:
    """Return the workers that have answered or died, within 0.2 seconds."""
    ready = wait([sign for worker in crew for sign in worker.signs], timeout=0.2)
    return [worker for worker in crew if any(sign in ready for sign in worker.signs)]


def _work(pipe: Any, workers: int) -> None:
    """Fit the parts received from a pipe until it closes; runs in the worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    threads = max((os.cpu_count() or 1) // workers, 1)
    require("pyarrow").set_cpu_count(threads)
    require("threadpoolctl").threadpool_limits(threads)
    with suppress(*_ENDED):
        while True:
            pipe.send(_answer(pipe.recv(), pipe))


def _answer(part: Part, pipe: Any) -> dict[str, Any] | Exception:
    """Return the state of a fit to a part, or its exception; send the rows read meanwhile."""
    reported = time.monotonic()

    def show(fit: StreamFit) -> None:
        nonlocal reported
        if time.monotonic() - reported > 0.1:
            try:
                pipe.send(fit.read)
            except OSError:
                sys.exit()  # the parent has died
            reported = time.monotonic()

    try:
        return fit_part(part, show)
    except Exception as error:
        error.add_note(traceback.format_exc())
        return error
