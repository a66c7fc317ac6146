"""The arrays of a run that a kernel changes: positions, alignment, and aliasing for LLVM."""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mixfree.base.arithmetic import Array

# Positions in Run.counts.
SAMPLES, STEPS, SEEN, LENGTH, TURN, COUNT = range(6)
# Positions in Run.numbers: AdaGrad's root, and an upper bound of the norm of the point.
ROOT, REACH = range(2)


class Run(NamedTuple):
    """The arrays of a run, of the same types for every method."""

    counts: np.ndarray
    numbers: np.ndarray
    x: np.ndarray
    total: np.ndarray  # the window's signed sum
    group: np.ndarray  # sum of a sample's gradient and those of its draws; empty without memory
    sums: np.ndarray  # three rows for the output
    kept: np.ndarray  # the random iterate
    gradient: np.ndarray  # scratch
    table: np.ndarray  # of the ladder; empty for other steps
    rates: np.ndarray  # numbers of the ladder
    sketch: np.ndarray  # of the ladder


LINE = 64  # bytes of a cache line


def aligned(values: Array) -> Array:
    """A copy whose rows start at cache lines, padded with zeros.

    Storing a vector register across two cache lines costs twice as much.
    """
    entries = LINE // values.itemsize
    *rows, size = values.shape
    shape = (*rows, size + -size % entries if rows else size)
    room = np.zeros(math.prod(shape) + entries, values.dtype)
    first = -room.__array_interface__["data"][0] % LINE // values.itemsize
    copy = room[first : room.size - entries + first].reshape(shape)
    copy[..., :size] = values
    return copy


@intrinsic
def unshared(typing_context: Any, arrays: Any) -> Any:
    """The same array, or tuple with arrays in it, which overlap no other array of the kernel.

    Without this information LLVM compares the addresses of all arrays before each loop, and does
    not vectorise loops over many arrays.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _unshared(context, builder, arrays, arguments[0])

    return arrays(arrays), codegen


def _unshared(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The value with :func:`_own` applied to every array in it."""
    if isinstance(kind, types.Array):
        return _own(builder, context.make_array(kind)(context, builder, value))
    if isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        members = cgutils.unpack_tuple(builder, value)
        pairs = zip(kind, members, strict=True)
        found = [_unshared(context, builder, *pair) for pair in pairs]
        return context.make_tuple(builder, kind, found)
    return value


def _own(builder: Any, view: Any) -> Any:
    kind = view.data.type
    view.data = builder.call(_own_pointer(builder.module, kind), [view.data])
    # What assembly sees may be read after the kernel: LLVM must not drop stores to it.
    seen = ir.FunctionType(ir.VoidType(), [kind])
    builder.asm(seen, "", "r,~{memory}", [view.data], side_effect=True)
    # A kernel that counts references must not count these, which it did not acquire.
    view.meminfo = cgutils.get_null_value(view.meminfo.type)
    return view._getvalue()


def _own_pointer(module: Any, pointer: Any) -> Any:
    """A function that returns its argument, which LLVM cannot inspect.

    LLVM assumes that no other pointer refers to the memory of a returned pointer.
    """
    name = f"mixfree.own.{pointer.pointee}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(pointer, [pointer]), name)
    function.linkage = "internal"
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)
    function.return_value.add_attribute("noalias")
    body = ir.IRBuilder(function.append_basic_block())
    body.ret(function.args[0])
    return function
