"""Changes that an interruption leaves whole: delayed to their end, or made beside and swapped."""

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])


def shallow(one: T) -> T:
    """Return another object with the same attributes, as ``copy.copy`` does, but faster."""
    twin = object.__new__(type(one))
    vars(twin).update(vars(one))
    return twin


def all_or_nothing(method: F) -> F:
    """Run a method on the object's successor, whose attributes then replace those of the object.

    ``successor()`` returns a copy that shares arrays. What the method changes must be bound anew,
    or written where the object itself does not look. The last step is a single assignment, so that
    an error or Ctrl-C leaves the object as it was or with the whole change.

    Examples
    --------
    >>> class Pair:
    ...     one = other = 0
    ...     successor = shallow
    ...     @all_or_nothing
    ...     def set(self, one, other):
    ...         self.one = one
    ...         self.other = int(other)
    >>> pair = Pair()
    >>> pair.set(1, "x")
    Traceback (most recent call last):
    ValueError: invalid literal for int() with base 10: 'x'
    >>> pair.one
    0
    """

    @functools.wraps(method)
    def whole(self: Any, *arguments: Any, **named: Any) -> None:
        after = self.successor()
        method(after, *arguments, **named)
        self.__dict__ = after.__dict__

    return whole  # type: ignore[return-value]


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if Ctrl-C was pressed in it.

    Does nothing outside the main thread, which alone receives signals, or if Ctrl-C is ignored.

    Examples
    --------
    >>> with interrupts_wait():
    ...     print("not cut in half")
    not cut in half
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
