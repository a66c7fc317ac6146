"""Progress bars on stderr, for work that takes a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mixfree.extras import require


@contextmanager
def progress_bar(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left; what it gives is called with the count so far.

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
        yield lambda done: bar.update(task, completed=done)
