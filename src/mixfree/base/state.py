"""Typed states of a run, each modified by its owner alone."""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import MOST_COUNTED, shown

T = TypeVar("T")


class UnitChange(Protocol):
    """A change of the units of a point's coordinates, applied to points, gradients and samples."""

    growth: Array  # new unit over old unit of each coordinate

    def points(self, x: Array) -> Array:
        """Points, or sums of points, one per row, in the new units."""

    def gradients(self, g: Array) -> Array:
        """Gradients, or sums of gradients, one per row, in the new units."""

    def samples(self, columns: list[Array]) -> list[Array]:
        """Stored samples, one array per part of a sample, in the new units."""


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Raise ValueError instead of any error that a state from outside causes inside the block."""
    try:
        yield
    except (ValueError, ImportError, OSError):
        raise
    except Exception as error:
        why = " ".join(str(error).split())
        why = f"it has no {why}" if isinstance(error, KeyError) else why
        raise ValueError(f"state of the {what} does not fit: {why}") from error


def check_room(state: Any, size: int, what: str) -> None:
    """Raise ValueError if a state of ``size`` coordinates contains no array of that length.

    Called before memory is allocated, so that a small file cannot request a large array.
    """

    def longest(part: Any) -> int:
        if isinstance(part, np.ndarray):
            return max(part.shape, default=1)
        inner = part.values() if isinstance(part, Mapping) else part
        return max(map(longest, inner), default=0) if isinstance(part, dict | list | tuple) else 0

    if longest(state) < size:
        raise ValueError(f"state of the {what} does not fit: it has no array of length {size}")


def shallow(one: T) -> T:
    """Return another object with the same attributes, as ``copy.copy`` does, but faster."""
    found = object.__new__(type(one))
    vars(found).update(vars(one))
    return found


class State:
    """Base class of states: dataclasses of numbers, arrays and other states.

    Examples
    --------
    >>> @dataclass(slots=True)
    ... class Count(State):
    ...     samples: int = 0
    >>> Count().restored({"samples": 3}, "count").plain()
    {'samples': 3}
    >>> Count().restored({"samples": "three"}, "count")
    Traceback (most recent call last):
    ValueError: state of the count does not fit: samples is 'three'
    """

    __slots__ = ()
    saved: ClassVar[tuple[str, ...]] = ()  # names to save; by default the fields of a dataclass
    grows: ClassVar[tuple[str, ...]] = ()  # names of arrays to which a run adds rows
    units: ClassVar[Mapping[str, str]] = {}  # names of "points" and "gradients" of a UnitChange

    def copy(self) -> Self:
        """An independent copy."""
        return copy.deepcopy(self)

    def plain(self) -> dict[str, Any]:
        """Copies of all numbers and arrays by name; nested states become nested dicts."""
        values = {name.lstrip("_"): getattr(self, name) for name in self.names()}
        return {
            k: v.plain() if isinstance(v, State) else copy.deepcopy(v) for k, v in values.items()
        }

    def load(self, values: Mapping[str, Any]) -> None:
        """Take the values that compiled code has computed; unknown names are ignored."""
        for name in self.names():
            if name in values:
                setattr(self, name, values[name])

    def restored(self, plain: Any, what: str) -> Self:
        """Return the state from which ``plain`` was made, after checking it against this one."""
        if not isinstance(plain, Mapping):
            raise ValueError(f"state of the {what} must be a mapping, not {type(plain).__name__}")
        names = {name.lstrip("_"): name for name in self.names()}
        if set(plain) != set(names):
            raise ValueError(
                f"state of the {what} has entries {shown(sorted(map(str, plain)))}, "
                f"not {sorted(names)}"
            )
        found = copy.copy(self)
        for public, name in names.items():
            mine, value = getattr(self, name), plain[public]
            if isinstance(mine, State):
                value = mine.restored(value, public)
            elif problem := _difference(value, mine, grows=name in self.grows):
                raise ValueError(f"state of the {what} does not fit: {public} is {problem}")
            else:
                value = float(value) if isinstance(mine, float) else copy.deepcopy(value)
            object.__setattr__(found, name, value)  # also if it is frozen
        found.check(what)
        return found

    def check(self, what: str) -> None:
        """Raise ValueError for impossible values; overridden by states that have such."""

    def change_units(self, change: UnitChange) -> None:
        """Convert the arrays that have units, and the states in this one, to new units."""
        for name in self.names():
            if name in self.units:
                setattr(self, name, getattr(change, self.units[name])(getattr(self, name)))
            elif isinstance(part := getattr(self, name), State):
                part.change_units(change)

    @classmethod
    @cache
    def names(cls) -> tuple[str, ...]:
        """Names of what is saved."""
        return cls.saved or tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]


@dataclass(slots=True)
class Stateless(State):
    """The state of a part without any."""


@dataclass(slots=True)
class RunState(State):
    """The state of a whole run: point, number of steps, and the states of its parts."""

    x: Array
    steps: int
    gradient: Any
    step: Any
    output: Any

    units: ClassVar[Mapping[str, str]] = {"x": "points"}


def _difference(value: Any, like: Any, grows: bool) -> str:
    """Describe why ``value`` cannot replace ``like``; empty if it can."""
    if isinstance(like, np.ndarray) and isinstance(value, np.ndarray):
        shapes = [array.shape[1:] if grows else array.shape for array in (value, like)]
        if shapes[0] != shapes[1] or (value.dtype, value.ndim) != (like.dtype, like.ndim):
            return f"{value.dtype} of shape {value.shape}, not {like.dtype} of shape {like.shape}"
        return "" if np.isfinite(value).all() else "not finite"
    number = isinstance(like, float) and type(value) is int
    if not (type(value) is type(like) or number):
        return shown(value)
    if isinstance(value, float) and not np.isfinite(value):
        return "not finite"
    counts = isinstance(value, int)  # all whole numbers in a state count something
    return shown(value) if counts and not 0 <= value < MOST_COUNTED else ""
