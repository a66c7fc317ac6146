"""Changes of trees of plain values, and of bytes: each by a generator with a seed."""

import base64
import copy
import json

import numpy as np

NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 2**200, 0.5, -0.0, 1e308, -1e308)
NUMBERS += (5e-324, float("nan"), float("inf"), -float("inf"), True, False)
OTHERS = (None, "", "x", "é\0\n", "a" * 3000, [], {}, [[]], {"a": 1}, (), (1, 2), 1j)
DTYPES = ("f8", "f4", "f2", "i8", "i4", "i1", "u8", "u1", "?", "c16", "U3")
MARK = np.int64(0x7FF4_0000_0000_0000)  # NaNs of this kind are private marks of kernels


def changed(tree, rng):
    """A copy of a tree with one to three changes."""
    tree = copy.deepcopy(tree)
    for _ in range(1 + int(rng.integers(4) == 0) + int(rng.integers(8) == 0)):
        places = list(_places(tree))
        # Small things are chosen as often as what contains them.
        path = places[int(rng.integers(len(places)))]
        tree = _replaced(tree, path, rng)
    return tree


def _places(tree, path=()):
    yield path
    if isinstance(tree, dict):
        for key in tree:
            yield from _places(tree[key], (*path, key))
    elif isinstance(tree, list | tuple):
        for at in range(len(tree)):
            yield from _places(tree[at], (*path, at))


def _replaced(tree, path, rng):
    if not path:
        return _other(tree, rng)
    key, *rest = path
    if isinstance(tree, tuple):
        return tuple(_replaced(list(tree), path, rng))
    tree[key] = _replaced(tree[key], tuple(rest), rng)
    return tree


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def anything(rng):
    """A value of any kind."""
    kind = rng.integers(4)
    if kind == 0:
        return copy.deepcopy(pick(rng, OTHERS))
    if kind == 1:
        shape = tuple(rng.integers(0, 4, rng.integers(0, 4)).tolist())
        with np.errstate(all="ignore"):
            return (4.0 * rng.standard_normal(shape)).astype(pick(rng, DTYPES))
    return pick(rng, NUMBERS)


def _other(value, rng):
    if rng.integers(6) == 0:
        return anything(rng)
    if isinstance(value, np.ndarray):
        return _other_array(value, rng)
    if isinstance(value, dict) and value:
        return _other_dict(value, rng)
    if isinstance(value, list | tuple) and len(value):
        return type(value)(_other_list(list(value), rng))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        near = (value + 1, value - 1, -value, 2 * value, value // 2, float(value))
        return pick(rng, NUMBERS) if rng.integers(2) else pick(rng, near)
    if isinstance(value, str):
        return pick(rng, (value[:-1], value + "x", value.upper(), value * 50, ""))
    return anything(rng)


def _other_dict(value, rng):
    names = list(value)
    name, other = pick(rng, names), pick(rng, names)
    kind = rng.integers(5)
    if kind == 0:
        del value[name]
    elif kind == 1:
        value[pick(rng, ("x", "", "$array", "kind", *names))] = anything(rng)
    elif kind == 2:
        value[str(name) + "x"] = value.pop(name)
    elif kind == 3:
        value[name], value[other] = value[other], value[name]
    else:
        value[name] = anything(rng)
    return value


def _other_list(value, rng):
    at, kind = int(rng.integers(len(value))), rng.integers(6)
    if kind == 0:
        del value[at]
    elif kind == 1:
        value.insert(at, copy.deepcopy(value[at]))
    elif kind == 2:
        value.append(anything(rng))
    elif kind == 3:
        value.reverse()
    elif kind == 4:
        value = value * int(rng.integers(2, 9))
    else:
        value[at] = anything(rng)
    return value


def _other_array(array, rng):
    kind = rng.integers(10)
    with np.errstate(all="ignore"):
        if kind == 0:
            texts = array.dtype.kind in "OUSV"  # which need not be numbers
            return (np.zeros(array.shape) if texts else array).astype(pick(rng, DTYPES))
        if kind == 1:
            return array[:-1] if array.ndim else array.reshape(1)
        if kind == 2:
            return np.concatenate([array, array[:1]]) if array.ndim else array[None]
        if kind == 3:
            return pick(
                rng, (array.T, array.ravel(), array[None], array[..., None], array.ravel()[:0])
            )
        if not array.size or array.dtype.kind in "OUSV":
            return np.zeros(pick(rng, ((), 0, 1, (2, 2))), pick(rng, DTYPES))
        array = np.array(array)
        flat = array.reshape(-1)
        at = int(rng.integers(flat.size))
        if kind == 4 and array.dtype == np.float64:
            flat.view(np.int64)[at] = MARK | int(rng.integers(2**40))
        elif kind == 5:
            flat[:] = flat[::-1].copy()
        elif kind == 6:
            flat[:] = -flat if array.dtype.kind in "if" else flat[at]
        elif array.dtype.kind == "f":
            value = pick(rng, [n for n in NUMBERS if abs(n) < 2**64 or n != n])
            flat[at if kind == 7 else slice(None)] = value
        elif array.dtype.kind in "iu":
            info = np.iinfo(array.dtype)
            flat[at] = pick(rng, (info.min, info.max, 0, 1, int(flat[at]) // 2, len(flat)))
        else:
            flat[at] = not flat[at]
    return array


def as_text(tree):
    """A tree in JSON, arrays with their dtype, shape and bytes."""
    return json.dumps(_described(tree)).encode()


def from_text(text):
    """The tree that gave a text."""
    return _restored(json.loads(text))


def _described(value):
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        data = base64.b64encode(value.tobytes()).decode()
        return {"array": [value.dtype.str, list(value.shape), data]}
    if isinstance(value, dict):
        return {"dict": [[_described(k), _described(v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_described(each) for each in value]}
    if isinstance(value, list):
        return [_described(each) for each in value]
    return {"complex": [value.real, value.imag]} if isinstance(value, complex) else value


def _restored(value):
    if isinstance(value, list):
        return [_restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((kind, given),) = value.items()
    if kind == "array":
        dtype, shape, data = given
        return np.frombuffer(base64.b64decode(data), dtype).reshape(shape).copy()
    if kind == "dict":
        return {_restored(k): _restored(v) for k, v in given}
    return tuple(map(_restored, given)) if kind == "tuple" else complex(*given)


def changed_bytes(data, rng, words=(b"",)):
    """A copy of some bytes with one to eight changes: bytes, parts, and words put in."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 4 if rng.integers(4) else 9))):
        at = int(rng.integers(len(data) + 1))
        end = min(len(data), at + int(rng.integers(1, 1 + pick(rng, (1, 8, 64)))))
        kind = rng.integers(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1 and at < len(data):
            data[at] = int(pick(rng, (0, 1, 127, 128, 255, rng.integers(256))))
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            to = int(rng.integers(len(data) + 1))
            data[to:to] = data[at:end] * int(rng.integers(1, 4))
        elif kind == 4:
            data = data[:at] if rng.integers(3) == 0 else data
        else:
            data[at : end if rng.integers(2) else at] = pick(rng, words)
    return bytes(data)
