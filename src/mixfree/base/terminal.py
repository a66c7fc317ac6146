"""The terminal: text printed literally, tables (also in Markdown), progress, Ctrl-C."""

import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from mixfree.base.extras import require

EVERY = 30.0  # seconds between lines where there is no terminal


class Show(Protocol):
    """Sets the count of a bar, and the text before it."""

    def __call__(self, done: int, label: str = ...) -> None:
        """Show the count."""


def literal(text: str) -> str:
    r"""Return the text as one line with unprintable characters escaped.

    A terminal would obey control characters, and direction marks can hide text.

    Examples
    --------
    >>> literal("load\n\x1b[31m"), literal("straße")
    ('load\\n\\x1b[31m', 'straße')
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def say(*lines: str) -> None:
    """Print each line on standard output, with line breaks escaped."""
    for line in lines:
        print(literal(line))


def complain(line: str) -> None:
    """Print a line on standard error."""
    print(literal(line), file=sys.stderr)


@dataclass(frozen=True)
class Table:
    """A table; the first column is aligned left, the others right."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[object]]

    def markdown(self) -> str:
        """Format as Markdown.

        Examples
        --------
        >>> print(Table("Squares", ["n", "n²"], [(3, 9)]).markdown())
        Squares
        <BLANKLINE>
        | n | n² |
        |:--|--:|
        | 3 | 9 |
        """
        rule = "|:--" + "|--:" * (len(self.head) - 1) + "|"
        rows = ["| " + " | ".join(map(str, line)) + " |" for line in self.lines]
        return "\n".join([self.title, "", "| " + " | ".join(self.head) + " |", rule, *rows])

    def show(self) -> None:
        """Print to the terminal."""
        table = require("rich.table").Table(title=literal(self.title), title_justify="left")
        for index, name in enumerate(self.head):
            table.add_column(name, justify="right" if index else "left")
        for line in self.lines:
            table.add_row(*(literal(str(cell)) for cell in line))
        require("rich.console").Console(markup=False, emoji=False, highlight=False).print(table)


@contextmanager
def progress_bar(label: str, total: int | None = None) -> Iterator[Show]:
    """Show a progress bar with the remaining time; yields a function of the count so far.

    A second argument of the function replaces the label. Without a terminal, a line is written
    every 30 seconds. An estimated total that turns out too small grows with the count.
    """
    rich = require("rich.progress")
    console = require("rich.console").Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _lines(label, total)
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

        def show(done: int, label: str = label) -> None:
            most = None if total is None else max(total, done)
            bar.update(task, completed=done, description=label, total=most, refresh=done == 0)

        yield show


def _lines(first: str, total: int | None) -> Show:
    """Progress as plain lines."""
    told = time.monotonic()

    def show(done: int, label: str = first) -> None:
        nonlocal told
        if (now := time.monotonic()) - told >= EVERY:
            told = now
            of = "" if total is None else f" of {max(total, done):,}"
            print(f"{done:,}{of}: {label}", file=sys.stderr, flush=True)

    return show


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if Ctrl-C was pressed in it.

    Does nothing outside the main thread, which alone receives signals, or if Ctrl-C is ignored.
    """
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or before in (signal.SIG_IGN, None):
        yield
        return
    pressed = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
