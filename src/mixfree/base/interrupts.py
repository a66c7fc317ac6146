"""A Ctrl-C that waits for the end of a step."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["interrupts_wait"]


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if Ctrl-C was pressed in it.

    Only the main thread hears of it; elsewhere this does nothing.

    Examples
    --------
    >>> with interrupts_wait():
    ...     print("not cut in half")
    not cut in half
    """
    pressed = []

    def remember(number: int, frame: Any) -> None:
        pressed.append(number)

    try:
        before = signal.signal(signal.SIGINT, remember)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
