"""Alignment of the kernels' arrays, aliasing information for LLVM, and prefetching."""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mixfree.base.arithmetic import Array

LINE = 64  # bytes of a cache line
FIRST, SECOND = 3, 2  # the caches as LLVM counts them


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
    view.data = builder.call(_opaque(builder.module, "own", kind, kind), [view.data])
    # An opaque reader keeps LLVM from dropping stores that are read after the kernel.
    builder.call(_opaque(builder.module, "look", ir.VoidType(), kind), [view.data])
    # A kernel that counts references must not count these, which it did not acquire.
    view.meminfo = cgutils.get_null_value(view.meminfo.type)
    return view._getvalue()


def _opaque(module: Any, name: str, result: Any, pointer: Any) -> Any:
    """A function that LLVM cannot inspect, which returns its argument or nothing.

    LLVM assumes that no other pointer refers to the memory of a returned pointer.
    """
    name = f"mixfree.{name}.{pointer.pointee}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(result, [pointer]), name)
    function.linkage = "internal"
    for attribute in ("noinline", "optnone"):
        function.attributes.add(attribute)
    body = ir.IRBuilder(function.append_basic_block())
    if result == pointer:
        function.return_value.add_attribute("noalias")
        body.ret(function.args[0])
    else:
        body.ret_void()
    return function


@intrinsic(prefer_literal=True)
def prefetch(typing_context: Any, matrix: Any, row: Any, column: Any, cache: Any) -> Any:
    """Prefetch an entry of a matrix into the cache ``FIRST`` or ``SECOND``."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        strides = cgutils.unpack_tuple(builder, view.strides)
        place = builder.ptrtoint(view.data, strides[0].type)
        for stride, index in zip(strides, arguments[1:3], strict=True):
            place = builder.add(place, builder.mul(stride, index))
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        asked = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte] + 3 * [number])
        )
        read, data = number(0), number(1)
        near = number(signature.args[3].literal_value)
        builder.call(asked, [builder.inttoptr(place, byte), read, near, data])
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp, cache), codegen
