"""How everything here is compiled."""

import contextlib
import hashlib
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Sums may be reordered to use vector registers and multiply-adds may be fused; everything else
# is IEEE arithmetic, so that NaN and infinity stay visible.
_OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
}
FIRST, SECOND = 3, 2  # the caches as LLVM counts them
_SOURCES = ("kernels/*.py", "steps/*.py", "base/arithmetic.py", "reproduce/*/*_kernel.py")


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first use and keep the result on disk."""
    dispatcher = numba.njit(cache=True, **_OPTIONS)(function)
    make_safe(dispatcher._cache._cache_file)
    return dispatcher


def make_safe(files: Any) -> None:
    """Let Numba's cache of a function never give the result of another source or signature.

    Numba would take a stale result when only a function that the kernel calls has changed. And
    it counts its files from 1, so that of two processes which compile at once each may write
    what the other's entry in the index stands for: a name must belong to one result only.
    Nothing would then be written over, so that what no index names any more is removed.
    """
    files._source_stamp = _fingerprint()
    stem = files._index_name.removesuffix(".nbi")
    files._data_name = lambda number: f"{stem}.{uuid.uuid4().hex[:16]}.nbc"
    save_index = files._save_index

    def save_and_tidy(overloads: dict[Any, str]) -> None:
        save_index(overloads)
        _remove_others(Path(files._cache_path), stem, {files._index_name, *overloads.values()})

    files._save_index = save_and_tidy


def _remove_others(folder: Path, stem: str, kept: set[str]) -> None:
    """Remove what the cache has of a function besides ``kept``, from any line of its module.

    Whoever was about to read one of them compiles anew.
    """
    function, _, line_and_version = stem.rpartition("-")
    version = line_and_version.partition(".")[2]
    for path in folder.iterdir():
        name = path.name
        own = name.startswith(f"{function}-") and f".{version}." in name
        if own and path.suffix in (".nbi", ".nbc") and name not in kept:
            with contextlib.suppress(OSError):
                path.unlink()


def inline(function: Callable[..., Any]) -> Any:
    """Compile into whatever calls it: a call would copy the whole plan and run."""
    return numba.njit(forceinline=True, **_OPTIONS)(function)


def exact(function: Callable[..., Any]) -> Any:
    """Compile into whatever calls it, in the order as written: for what makes up for rounding."""
    return numba.njit(forceinline=True, **{**_OPTIONS, "fastmath": {"contract"}})(function)


def apart(function: Callable[..., Any]) -> Any:
    """Compile as a function to be called: for what is rare."""
    return numba.njit(**_OPTIONS)(function)


@cache
def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in sources():
        digest.update(source.read_bytes())
    return digest.hexdigest()


def sources() -> list[Path]:
    """Every file whose text the machine code depends on: the twins, and where constants are from.

    Examples
    --------
    >>> {"engine.py", "distance.py"} <= {source.name for source in sources()}
    True
    """
    package = Path(__file__).parent.parent
    return sorted(source for pattern in _SOURCES for source in package.glob(pattern))


@intrinsic
def borrowed(typing_context: Any, array: Any) -> Any:
    """The same array without reference counting, which would cost more than the arithmetic.

    The kernel's caller keeps the array alive while the kernel runs.
    """
    return array(array), _borrow


@intrinsic
def unshared(typing_context: Any, array: Any) -> Any:
    """A borrowed array that overlaps no other one of the kernel.

    Without that promise LLVM compares the addresses of all arrays before each loop, and gives
    up on loops over many.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(
            context, builder, _borrow(context, builder, signature, arguments)
        )
        kind = view.data.type
        view.data = builder.call(_opaque(builder.module, "own", kind, kind), [view.data])
        # Whoever looks at it here may look again after the kernel: what is stored must be there.
        look = _opaque(builder.module, "look", ir.VoidType(), kind)
        builder.call(look, [view.data])
        return view._getvalue()

    return array(array), codegen


def _borrow(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    view = context.make_array(signature.args[0])(context, builder, arguments[0])
    view.meminfo = cgutils.get_null_value(view.meminfo.type)
    view.parent = cgutils.get_null_value(view.parent.type)
    return view._getvalue()


def _opaque(module: Any, name: str, result: Any, pointer: Any) -> Any:
    """A function into which LLVM does not look: it gives its argument back, or nothing.

    A pointer that it gives back counts as one to memory that no other pointer reaches.
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
    """Ask for an entry of a matrix to be in the cache ``FIRST`` or ``SECOND`` when it is needed."""

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
