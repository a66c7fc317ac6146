"""Checks of arguments: each returns the value in one form, or raises ValueError naming it."""

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import MAX_VALUE, Array, inner

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MOST_COUNTED = 2**62  # limit of counters, so that they never overflow 64 bits


def shown(value: Any) -> str:
    """Format a value from outside as one short line.

    Examples
    --------
    >>> shown(np.zeros((2, 2)))
    'array([[0., 0.], [0., 0.]])'
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:79] + "…"


def check_point(value: npt.ArrayLike, name: str) -> Array:
    """A fresh read-only vector of floats from the user's ``value``, or an error naming it."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{name} must hold real numbers of at most 64 bits, not {array.dtype}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a vector of at least one entry, not shape {array.shape}")
    point = np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
    if not np.isfinite(point).all():
        where = int(np.flatnonzero(~np.isfinite(point))[0])
        raise ValueError(f"{name} must be finite, but {name}[{where}] is {point[where]}")
    point.flags.writeable = False
    return point


def check_positive(value: Any, name: str) -> float:
    """``value`` as a positive finite float, or an error naming it."""
    number = check_not_negative(value, name, "positive")
    if number == 0.0:
        raise ValueError(f"{name} must be positive and finite, not {shown(value)}")
    return number


def check_not_negative(value: Any, name: str, allowed: str = "at least 0") -> float:
    """``value`` as a finite float of at least 0, or an error naming it."""
    # float() accepts an array of one number, but arithmetic would keep its shape.
    if isinstance(value, bool | str | complex) or tuple(getattr(value, "shape", ())) != ():
        raise ValueError(f"{name} must be a real number, not {shown(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a real number, not {shown(value)}") from error
    if not 0.0 <= number < math.inf:
        raise ValueError(f"{name} must be {allowed} and finite, not {shown(value)}")
    return number


def check_whole(value: Any, name: str, least: int = 1, most: float | None = None) -> int:
    """``value`` as an int in ``[least, most]``, or an error naming it.

    By default ``most`` is the largest value from which a 64-bit counter can continue.
    """
    limited = most is not None and most < math.inf
    allowed = f"a whole number of at least {least}" + (f", at most {most}" if limited else "")
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be {allowed}, not {shown(value)}")
    if not least <= value <= (MOST_COUNTED - 1 if most is None else most):
        limit = " below 2^62" if most is None and value > least else ""
        raise ValueError(f"{name} must be {allowed}{limit}, not {shown(value)}")
    return int(value)


def check_bytes(value: str, name: str, instead: str = "a number of bytes, or") -> float:
    """Parse a size such as ``"32MB"`` (10⁶ bytes each) or ``"32MiB"`` (2²⁰ bytes each).

    ``instead`` names the alternatives in the error message.

    Examples
    --------
    >>> check_bytes("32MB", "memory"), check_bytes("1.5 kib", "memory")
    (32000000.0, 1536.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]+)\s*", value)
    if found is None or found[2].upper() not in UNITS or not float(found[1]) > 0.0:
        raise ValueError(f"{name} must be {instead} such as '32MB', not {shown(value)}")
    return float(found[1]) * UNITS[found[2].upper()]


def check_one_of(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of the ``allowed`` words, or an error naming it."""
    if not (isinstance(value, str) and value in allowed):
        listed = ", ".join(map(repr, allowed))
        raise ValueError(f"{name} must be one of {listed}, not {shown(value)}")
    return str(value)


def check_values(**arrays: Array) -> None:
    """Raise ValueError for values that are not finite, or above ``MAX_VALUE`` in size."""
    for name, array in arrays.items():
        flat = array.ravel(order="K")
        if float(inner(flat, flat)) <= MAX_VALUE**2:  # quicker than a look at every value
            continue
        wrong = ~(np.abs(array.astype(np.float64)) <= MAX_VALUE)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            where = f"a value in column {place[-1]}" if array.ndim > 1 else "one"
            raise ValueError(
                f"{name} must be finite and at most {MAX_VALUE:g} in size, but {where} is "
                f"{array[place]}"
            )
