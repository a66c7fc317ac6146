"""The model file: arrays and plain values with a checksum, replaced atomically.

Layout, all numbers little-endian::

    8 bytes    b"mixfree\\0"
    4 bytes    version of the format
    8 bytes    length of the header
    header     JSON with NaN and Infinity: {"content": …, "arrays": [[dtype, shape], …]}
    arrays     the bytes of each array, C order, one after the other
    32 bytes   SHA-256 of everything before

In the content, ``{"$array": i}`` stands for the i-th array and ``{"$tuple": […]}`` for a tuple;
a key that begins with ``$`` is written with a second ``$``.
Reading creates numbers, strings, lists, tuples, dicts and arrays only; it never runs code.
"""

import hashlib
import json
import math
import os
import struct
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.files import replacing

MAGIC = b"mixfree\0"
VERSION = 14
_FIXED = struct.Struct("<8sIQ")
_DIGEST = hashlib.sha256().digest_size
MAX_AXIS = 1 << 48  # bound on the length of an axis
_DTYPES = ("float64", "float32", "int64", "int32", "uint64", "uint32", "uint8", "bool")


def save(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write plain values and arrays to a file, atomically.

    Parameters
    ----------
    path
        The file; an existing one stays until the new one is complete and on disk.
    content
        Nested dicts, lists and tuples of numbers, strings, ``None`` and arrays of numbers.
    """
    arrays: list[Array] = []
    described = _describe(content, arrays)
    kinds = [[array.dtype.name, list(array.shape)] for array in arrays]
    header = json.dumps({"content": described, "arrays": kinds}).encode()
    with replacing(path) as file:
        digest = hashlib.sha256()
        little: Any = (np.ascontiguousarray(a, a.dtype.newbyteorder("<")).data for a in arrays)
        for part in (_FIXED.pack(MAGIC, VERSION, len(header)), header, *little):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as model files do."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what :func:`save` wrote.

    ValueError if the file is no model file, has another version, is damaged, or has a valid
    checksum over content that :func:`save` never writes.
    """
    with open(path, "rb") as file:
        data = file.read(len(MAGIC))
        if data != MAGIC:  # checked before reading on, since a device has no end
            raise ValueError(f"{path} is not a mixfree model file")
        data += file.read()
    if len(data) < _FIXED.size + _DIGEST:
        raise ValueError(f"{path} is truncated: it has only {len(data)} bytes")
    _, version, length = _FIXED.unpack_from(data)
    if version != VERSION:
        raise ValueError(
            f"{path} has version {version} of the model format; mixfree reads version {VERSION}"
        )
    body = memoryview(data)[:-_DIGEST]
    if hashlib.sha256(body).digest() != data[-_DIGEST:]:
        raise ValueError(f"{path} is damaged: its checksum does not match its content")
    try:
        return _parsed(body[_FIXED.size :], length)
    except (ValueError, RecursionError) as error:
        why = "its values are nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{path} is not a valid mixfree model file: {why}") from error


def _parsed(body: memoryview, length: int) -> dict[str, Any]:
    """Parse a header of ``length`` bytes and the arrays after it."""
    if length > len(body):
        raise ValueError(f"its header of {length} bytes is longer than the file")
    header = json.loads(bytes(body[:length]))
    match header:
        case {"content": dict() as content, "arrays": list() as kinds} if len(header) == 2:
            arrays: list[Array | None] = []
            at = length
            for kind in kinds:
                found = _array(kind, body[at:])
                arrays.append(found)
                at += found.nbytes
            if at != len(body):
                raise ValueError(f"{len(body) - at} bytes follow its arrays")
            return dict(_restore(content, arrays))
    raise ValueError("its header must have exactly content and arrays")


def _array(kind: Any, body: memoryview) -> Array:
    """Read an array, described by ``[dtype, shape]``, from the beginning of ``body``."""
    match kind:
        case [str() as name, list() as shape] if name in _DTYPES and all(
            type(length) is int and 0 <= length < MAX_AXIS for length in shape
        ):
            dtype, count = np.dtype(name), math.prod(shape)
            if count * dtype.itemsize > len(body):
                raise ValueError(f"an array of shape {shape} is longer than the file")
            if name == "bool" and (np.frombuffer(body, np.uint8, count) > 1).any():
                raise ValueError("a boolean is neither 0 nor 1")
            found = np.frombuffer(body, dtype.newbyteorder("<"), count).reshape(shape)
            return found.astype(dtype)
    raise ValueError(f"{repr(kind)[:80]} is not the dtype and shape of an array")


def _describe(value: Any, arrays: list[Array]) -> Any:
    """Return ``value`` as JSON, with its arrays appended to ``arrays``."""
    match value:
        case np.ndarray():
            if value.dtype.name not in _DTYPES:
                raise ValueError(f"a model file cannot store an array of {value.dtype}")
            arrays.append(value)
            return {"$array": len(arrays) - 1}
        case dict():
            for key in value:
                if not isinstance(key, str):
                    raise ValueError(f"a model file cannot store the key {key!r}")
            return {
                f"${key}" if key.startswith("$") else key: _describe(each, arrays)
                for key, each in value.items()
            }
        case tuple():
            return {"$tuple": [_describe(each, arrays) for each in value]}
        case list():
            return [_describe(each, arrays) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case np.generic():
            return _describe(value.item(), arrays)
    raise ValueError(f"a model file cannot store {value!r}")


def _restore(value: Any, arrays: list[Array | None]) -> Any:
    """Invert :func:`_describe`; an array, once used, is replaced by None in the list."""
    match value:
        case {"$array": int() as index} if len(value) == 1 and type(index) is int:
            array = arrays[index] if 0 <= index < len(arrays) else None
            if array is None:
                raise ValueError(f"array {index} does not exist, or is used twice")
            arrays[index] = None
            return array
        case {"$tuple": list() as entries} if len(value) == 1:
            return tuple(_restore(each, arrays) for each in entries)
        case dict():
            return {_unescaped(key): _restore(each, arrays) for key, each in value.items()}
        case list():
            return [_restore(each, arrays) for each in value]
    return value


def _unescaped(key: str) -> str:
    if key.startswith("$") and not key.startswith("$$"):
        raise ValueError(f"the key {key[:80]!r} is not part of the format")
    return key[1:] if key.startswith("$$") else key
