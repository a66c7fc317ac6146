"""Checks of arguments: each returns the value in one form, or raises ValueError naming it."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array


def check_point(value: npt.ArrayLike, name: str) -> Array:
    """A fresh one-dimensional float array from the user's ``value``, or an error naming it."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{name} must hold real numbers of at most 64 bits, not {array.dtype}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a vector of at least one entry, not shape {array.shape}")
    point = np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
    if not np.isfinite(point).all():
        where = int(np.flatnonzero(~np.isfinite(point))[0])
        raise ValueError(f"{name} must be finite, but {name}[{where}] is {point[where]}")
    return point


def check_positive(value: Any, name: str) -> float:
    """``value`` as a positive finite float, or an error naming it."""
    number = _real(value, name)
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"{name} must be positive and finite, not {value!r}")
    return number


def check_whole(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """``value`` as an int in ``[least, most]``, or an error naming it."""
    allowed = f"a whole number of at least {least}" + ("" if most is None else f", at most {most}")
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
    return int(value)


def check_one_of(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of the ``allowed`` words, or an error naming it."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return str(value)


def _real(value: Any, name: str) -> float:
    if isinstance(value, bool | str | complex):
        raise ValueError(f"{name} must be a real number, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a real number, not {value!r}") from error
