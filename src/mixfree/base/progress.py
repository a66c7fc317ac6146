"""Progress bars on stderr, for work that takes a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from mixfree.base.extras import require

__all__ = ["Show", "progress_bar"]


class Show(Protocol):
    """Sets the count of a bar; a ``label`` replaces the text before it."""

    def __call__(self, done: int, label: str | None = None) -> None:
        """Show the count."""


@contextmanager
def progress_bar(label: str, total: int | None = None) -> Iterator[Show]:
    """Show a bar with the time spent and left, at once; call what it yields with the count so far.

    Examples
    --------
    >>> with progress_bar("rows", 10) as show:
    ...     show(10)
    """
    rich = require("rich.progress")
    console = require("rich.console").Console(stderr=True)
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        bar.refresh()
        yield lambda done, label=None: bar.update(task, completed=done, description=label)
