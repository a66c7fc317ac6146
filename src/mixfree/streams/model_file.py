"""The model file: arrays and plain values with a checksum, replaced in one piece.

Layout, all numbers little-endian::

    8 bytes    b"mixfree\\0"
    4 bytes    version of the format
    8 bytes    length of the header
    header     JSON in UTF-8: {"content": …, "arrays": [[dtype, shape], …]}
    arrays     the bytes of each array, C order, one after the other
    32 bytes   SHA-256 of everything before

In the content, ``{"$array": i}`` stands for the i-th array and ``{"$tuple": […]}`` for a tuple;
a key that begins with ``$`` itself has another one before it.
Reading makes numbers, strings, lists, dicts and arrays, nothing else: it never runs code.
"""

import hashlib
import json
import math
import os
import struct
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.files import replacing

__all__ = ["check_place", "is_model", "load", "save"]

MAGIC = b"mixfree\0"
VERSION = 6
_FIXED = struct.Struct("<8sIQ")
_DIGEST = hashlib.sha256().digest_size
_DTYPES = ("float64", "float32", "int64", "int32", "uint64", "uint32", "uint8", "bool")


def save(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write plain values and arrays to a file that is replaced in one piece.

    Parameters
    ----------
    path
        The file; an old one stays until the new one is complete and on the disk.
    content
        Nested dicts, lists and tuples of numbers, strings, ``None`` and arrays of numbers.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/small.mixfree"
    >>> save(path, {"weights": np.arange(3.0), "rows": 7})
    >>> load(path)
    {'weights': array([0., 1., 2.]), 'rows': 7}
    """
    arrays: list[Array] = []
    described = _describe(content, arrays)
    kinds = [[array.dtype.name, list(array.shape)] for array in arrays]
    header = json.dumps({"content": described, "arrays": kinds}, allow_nan=False).encode()
    with replacing(os.path.realpath(path)) as file:  # a link goes on being one
        digest = hashlib.sha256()
        for part in (_FIXED.pack(MAGIC, VERSION, len(header)), header, *map(_bytes, arrays)):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def check_place(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> None:
    """ValueError or OSError if a model must not or cannot be written to ``path``.

    It must not take the place of an input, or of anything that is not a model; and its folder
    must let a file be made, which is tried.

    Examples
    --------
    >>> check_place(tempfile.mkdtemp())
    Traceback (most recent call last):
    ValueError: model must not be ..., which is not a file
    """
    place = Path(path)
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} to write the model to")
    if place.exists():
        if not place.is_file():
            raise ValueError(f"model must not be {path}, which is not a file")
        for name in inputs:
            if Path(name).exists() and place.samefile(name):
                raise ValueError(f"model must not be {path}, which is read from")
        if place.stat().st_size and not is_model(place):
            raise ValueError(
                f"model must not be {path}, which is there and is not a mixfree model file: "
                "give another name"
            )
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a model file."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what :func:`save` wrote.

    Raises
    ------
    ValueError
        For a file that is not a model file, is of another version, or is damaged.
    """
    data = Path(path).read_bytes()
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{path} is not a mixfree model file")
    if len(data) < _FIXED.size + _DIGEST:
        raise ValueError(f"{path} is cut short: it has {len(data)} bytes")
    _, version, length = _FIXED.unpack_from(data)
    if version != VERSION:
        raise ValueError(
            f"{path} has version {version} of the model format; this mixfree reads {VERSION}"
        )
    body = memoryview(data)[:-_DIGEST]
    if hashlib.sha256(body).digest() != data[-_DIGEST:]:
        raise ValueError(f"{path} is damaged: its checksum does not match its content")
    header = json.loads(bytes(body[_FIXED.size : _FIXED.size + length]))
    arrays, at = [], _FIXED.size + length
    for name, shape in header["arrays"]:
        if name not in _DTYPES:
            raise ValueError(f"{path} has an array of {name!r}, which a model file cannot have")
        dtype, count = np.dtype(name).newbyteorder("<"), math.prod(shape)
        found = np.frombuffer(body, dtype, count, at).reshape(shape)
        arrays.append(found.astype(np.dtype(name)))
        at += dtype.itemsize * count
    content: dict[str, Any] = _restore(header["content"], arrays)
    return content


def _describe(value: Any, arrays: list[Array]) -> Any:
    """``value`` as JSON, with its arrays put aside."""
    match value:
        case np.ndarray():
            if value.dtype.name not in _DTYPES:
                raise ValueError(f"a model file cannot hold an array of {value.dtype}")
            arrays.append(value)
            return {"$array": len(arrays) - 1}
        case dict():
            for key in value:
                if not isinstance(key, str):
                    raise ValueError(f"a model file cannot hold the key {key!r}")
            return {_escaped(key): _describe(each, arrays) for key, each in value.items()}
        case tuple():
            return {"$tuple": [_describe(each, arrays) for each in value]}
        case list():
            return [_describe(each, arrays) for each in value]
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case np.generic():
            return _describe(value.item(), arrays)
    raise ValueError(f"a model file cannot hold {value!r}")


def _restore(value: Any, arrays: list[Array]) -> Any:
    match value:
        case {"$array": index}:
            return arrays[index]
        case {"$tuple": entries}:
            return tuple(_restore(each, arrays) for each in entries)
        case {"$float": text}:
            return float(text)
        case dict():
            return {_unescaped(key): _restore(each, arrays) for key, each in value.items()}
        case list():
            return [_restore(each, arrays) for each in value]
    return value


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _unescaped(key: str) -> str:
    return key[1:] if key.startswith("$$") else key


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
