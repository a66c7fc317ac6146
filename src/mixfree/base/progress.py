"""Progress of long work on stderr: a bar, or lines where there is no terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from mixfree.base.extras import require

EVERY = 30.0  # seconds between lines where there is no terminal


class Show(Protocol):
    """Sets the count of a bar; a ``label`` replaces the text before it."""

    def __call__(self, done: int, label: str | None = None) -> None:
        """Show the count."""


@contextmanager
def progress_bar(label: str, total: int | None = None) -> Iterator[Show]:
    """Show a progress bar with the remaining time; yields a function of the count so far.

    Without a terminal, a line is written every 30 seconds instead. An estimated total that turns
    out too small grows with the count.

    Examples
    --------
    >>> with progress_bar("rows", 10) as show:
    ...     show(10)
    """
    rich = require("rich.progress")
    console = require("rich.console").Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _Lines(label, total)
        return
    column = require("rich.table").Column
    whole = partial(column, no_wrap=True, overflow="ignore")  # the bar shrinks first
    columns = (
        rich.TextColumn("{task.description}", markup=False, table_column=column(no_wrap=True)),
        rich.BarColumn(bar_width=None, table_column=column(ratio=1)),
        rich.MofNCompleteColumn(table_column=whole(min_width=2 * len(f"{total}") + 1)),
        rich.TimeRemainingColumn(table_column=whole(min_width=7)),
    )
    with rich.Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task(label, total=total)
        bar.refresh()

        def show(done: int, label: str | None = None) -> None:
            most = None if total is None else max(total, done)
            bar.update(task, completed=done, description=label, total=most, refresh=done == 0)

        yield show


class _Lines:
    """Progress as plain lines."""

    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total, self.told = label, total, time.monotonic()

    def __call__(self, done: int, label: str | None = None) -> None:
        self.label = self.label if label is None else label
        now = time.monotonic()
        if now - self.told >= EVERY:
            self.told = now
            of = "" if self.total is None else f" of {max(self.total, done):,}"
            print(f"{done:,}{of}: {self.label}", file=sys.stderr, flush=True)
