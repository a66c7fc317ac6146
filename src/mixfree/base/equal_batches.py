"""Equally long batches of a stream, of which neighbours are joined when there are too many."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from mixfree.base.checks import check_whole
from mixfree.base.state import State

T = TypeVar("T", bound=State)


@dataclass(frozen=True)
class EqualBatches(State, Generic[T]):
    """What is known of each batch, in order; immutable.

    The length of the batches doubles with the stream, so that it need not be chosen.
    """

    nothing: T  # what is known of no rows; a state restores saved items
    join: Callable[[T, T], T]  # of two neighbouring batches
    most: int  # number of batches at which neighbours are joined; there are always fewer
    length: int  # rows per batch
    items: tuple[T, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def added(self, *items: T) -> Self:
        """Return these batches and those that follow."""
        found = replace(self, items=self.items + items)
        while len(found.items) >= self.most:
            found = found.doubled()
        return found

    def doubled(self) -> Self:
        """Join neighbours; a last one without a neighbour is dropped."""
        pairs = zip(self.items[::2], self.items[1::2], strict=False)
        joined = tuple(self.join(one, other) for one, other in pairs)
        return replace(self, items=joined, length=2 * self.length)

    def merged(self, other: Self) -> Self:
        """Return the batches of both, joined until all have the same length."""
        if self.length < other.length:
            return self.doubled().merged(other)
        if self.length > other.length:
            return self.merged(other.doubled())
        return self.added(*other.items)

    def plain(self) -> dict[str, Any]:
        """Return the length, and the items as plain values."""
        return {"length": self.length, "items": [item.plain() for item in self.items]}

    def restored(self, plain: Any, what: str) -> Self:
        """Return the batches from which ``plain`` was made, after checking it."""
        length = check_whole(plain["length"], f"length of the state of {what}")
        items = tuple(self.nothing.restored(each, what) for each in plain["items"])
        if len(items) >= self.most:
            raise ValueError(
                f"state of the {what} does not fit: it must have fewer than {self.most} batches, "
                f"not {len(items)}"
            )
        return replace(self, length=length, items=items)
