"""A fit spread over processes or over a cluster: each fits a part, and the fits are merged."""

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

LAST = 1 / 16  # of a worker's share, the last parts: so far apart may workers be at the end
MOST_DEATHS = 3  # deaths of workers with the same part, after which it is not by chance
PAUSE = 0.5  # seconds after which the process that starts workers, if it has died, is replaced
PATIENCE = 10.0  # seconds in which a process that is killed should have ended

Show = Callable[[int, float], None]
_ENDED = (EOFError, OSError)  # what a pipe raises whose other end is gone


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


def parts_of(files: Sequence[StreamFile], workers: int) -> list[tuple[StreamFile, ...]]:
    """Files and Parquet row groups in runs for so many workers, in order.

    Each run is the half of what would be left for a worker, so that the first ones are large and
    the last ones let all workers end at the same time. One worker has one run.

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
    """Where the parts of a stream end, but for the last one, as shares of the stream.

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
    Numbers of processes and of parts; one of each where the files cannot be divided.
    """
    check_whole(workers, "workers")
    check_can_be_spread(fit, source, "workers")
    parts = _parts(fit, source, workers)
    if len(parts) == 1:
        _fit_here(fit, source, show)
        return 1, 1
    workers = min(workers, len(parts))
    with closing(_fitted_here(parts, workers, show)) as results:
        _merge(fit, results)
    return workers, len(parts)


def _fit_here(fit: StreamFit, source: Source, show: Show | None) -> None:
    """Fit what cannot be divided in this process, which is as quick, and predicts ahead too."""
    fit.run(source.pieces(), show=show and (lambda now: show(now.read, now.seconds)))
    fit.end(source.unfinished)


def run_on_cluster(
    fit: StreamFit, source: Source, address: str, show: Show | None = None
) -> tuple[int, int]:
    """The same on a Dask cluster, whose workers must find the files under the same names."""
    check_can_be_spread(fit, source, "cluster")
    with require("distributed").Client(address) as client:
        threads = max(sum(client.nthreads().values()), 1)
        parts = _parts(fit, source, threads)
        _merge(fit, _fitted_there(parts, client, show))
    return threads, len(parts)


def _parts(fit: StreamFit, source: Source, workers: int) -> list[Part]:
    encoder, seed = fit.encoder.state_dict(), int(fit.plan.parameters.get("seed", 0))
    found = []
    for number, files in enumerate(parts_of(source.files, workers)):
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
    source.open(fit.encoder.needs, fit.encoder.numbers, threads=False)
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
) -> Generator[tuple[int, dict[str, Any]]]:
    began, waiting = time.monotonic(), deque(parts)
    read, deaths = Counter[int](), Counter[int]()  # by the number of a part
    crew: list[_Worker] = []
    failed = 0  # starts in succession

    def try_again(part: Part, error: Exception) -> None:
        deaths[part.number] += 1
        if deaths[part.number] == MOST_DEATHS:
            raise OSError(
                f"workers died {MOST_DEATHS} times while fitting part {part.number + 1} of "
                f"{len(parts)}: is there enough memory for `workers`?"
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
                            f"`workers` cannot be started: {error or 'they die'}"
                        ) from error
                    waiting.appendleft(part)
                    time.sleep(PAUSE)
            for worker in _who_answers(crew):
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
                # The worker goes on before its answer is merged here.
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
    """A process that fits one part after the other, and a pipe that nobody else has.

    Workers share no lock and no end of a pipe: whenever and however one ends, its pipe does too,
    and it ends itself when nobody is left at the other end.
    """

    def __init__(self, workers: int, part: Part) -> None:
        context = processes_with(__name__)
        self._pipe, theirs = context.Pipe()
        with theirs:
            self._process = context.Process(target=_work, args=(theirs, workers), daemon=True)
            self._process.start()
        self.give(part)

    def give(self, part: Part) -> None:
        """Let it fit another part."""
        self.part = part
        with suppress(OSError):  # it has died, which is seen when it is asked for an answer
            self._pipe.send(part)

    @property
    def signs(self) -> tuple[Any, int]:
        """What to wait for: an answer, or the end of the process."""
        return self._pipe, self._process.sentinel

    def answer(self) -> Any:
        """Rows read so far, the state of the fit, or what went wrong in it."""
        if not self._pipe.poll():
            raise EOFError("the process has ended")
        return self._pipe.recv()

    def end(self) -> None:
        """End the process, whatever it does."""
        self._pipe.close()
        if self._process.is_alive():
            self._process.kill()
            self._process.join(PATIENCE)


def _who_answers(crew: Sequence[_Worker]) -> list[_Worker]:
    """Workers that have something to say or have died; none if that takes too long."""
    ready = wait([sign for worker in crew for sign in worker.signs], timeout=0.2)
    return [worker for worker in crew if any(sign in ready for sign in worker.signs)]


def _work(pipe: Any, workers: int) -> None:
    """What a worker does: it fits the parts that come until nobody is left to send one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process tells when to stop
    threads = max((os.cpu_count() or 1) // workers, 1)
    require("pyarrow").set_cpu_count(threads)
    require("threadpoolctl").threadpool_limits(threads)
    with suppress(*_ENDED):
        while True:
            pipe.send(_answer(pipe.recv(), pipe))


def _answer(part: Part, pipe: Any) -> dict[str, Any] | Exception:
    """The state of a fit to a part, or what went wrong; on the way, the rows read so far."""
    told = time.monotonic()

    def show(fit: StreamFit) -> None:
        nonlocal told
        if time.monotonic() - told > 0.1:
            try:
                pipe.send(fit.read)
            except OSError:
                sys.exit()  # nobody is left to fit it for
            told = time.monotonic()

    try:
        return fit_part(part, show)
    except Exception as error:
        error.add_note(traceback.format_exc())
        return error
