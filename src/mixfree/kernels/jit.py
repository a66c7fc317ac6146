"""Compilation of the kernels: only the code that a run uses, once, cached on disk."""

import contextlib
import hashlib
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cache, singledispatch
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import intrinsic, overload, register_jitable

# Sums may be reordered to use vector registers and multiply-adds may be fused; everything else
# is IEEE arithmetic, so that NaN and infinity stay visible.
_OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "nogil": True,
}
# Kernels allocate nothing, and their callers keep the arrays alive, so that no references need be
# counted: that would cost more time than the arithmetic, and as much again to compile.
_BORROWING = {**_OPTIONS, "_nrt": False, "no_cfunc_wrapper": True}
_SOURCES = (
    "kernels/*.py",
    "steps/*.py",
    "gradients/mlmc.py",
    "base/arithmetic.py",
    "reproduce/*_kernel.py",
)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first use for each type of arguments, and cache the result on disk."""
    dispatcher = numba.njit(**_BORROWING)(function)
    try:
        dispatcher._cache = found = FunctionCache(function)
        stem = found._cache_file._index_name.removesuffix(".nbi")
        found._cache_file = CacheFiles(found._cache_path, stem, fingerprint())
    except RuntimeError:
        text = "no folder for compiled code is writable; set NUMBA_CACHE_DIR to one that is"
        warnings.warn(text, RuntimeWarning, stacklevel=1)  # this line: said once per process
    _KERNELS.add(dispatcher)
    return dispatcher


def uncached(function: Callable[..., Any]) -> Any:
    """Compile on first use without a cache, for kernels that call a user's function."""
    dispatcher = numba.njit(**_OPTIONS)(function)
    _KERNELS.add(dispatcher)
    return dispatcher


def inline(function: Callable[..., Any]) -> Any:
    """Compile inline, since a call would copy the whole plan and run."""
    return register_jitable(forceinline=True, **_BORROWING)(function)


def out_of_line(function: Callable[..., Any]) -> Any:
    """Compile as a function of its own, for code that rarely runs."""
    return register_jitable(**_BORROWING)(function)


def by_type(function: Callable[..., Any]) -> Any:
    """An inline function with one implementation per type of its first argument, a named tuple.

    As with :func:`functools.singledispatch`, ``function`` is the default. The implementation is
    chosen when a kernel is compiled: others are not compiled, and the choice costs no run time.
    """
    choice = singledispatch(function)

    @overload(choice, jit_options={**_BORROWING, "forceinline": True}, strict=False)
    def choose(part: Any, *others: Any) -> Any:
        return choice.dispatch(part.instance_class)

    return choice


@intrinsic
def prefetch(typing_context: Any, table: Any, row: Any) -> Any:
    """Ask for the cache line at the beginning of a row, which will be written to."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(table)(context, builder, arguments[0])
        first = [arguments[1], context.get_constant(row, 0)]
        found = cgutils.get_item_pointer(context, builder, table, view, first, wraparound=False)
        line, flag = builder.bitcast(found, ir.IntType(8).as_pointer()), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, flag, flag, flag])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(call, [line, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.none(table, row), codegen


class CacheFiles(IndexDataCacheFile):
    """Numba's cache files of a function, valid for the present text of every source.

    Numba numbers its files from 1, so that two processes that compile at the same time can
    overwrite each other's results; here file names are unique.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # damaged, or of another version, whose types are gone
            return {}

    def _data_name(self, number: int) -> str:
        return f"{self._index_name.removesuffix('.nbi')}.{uuid.uuid4().hex[:16]}.nbc"


@cache
def fingerprint() -> str:
    """Hash of the text of every source."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources())).hexdigest()


def sources() -> list[Path]:
    """Every file on which the machine code depends: the kernels, and the modules of constants.

    Examples
    --------
    >>> {"engine.py", "ladder_rule.py"} <= {source.name for source in sources()}
    True
    """
    package = Path(__file__).parent.parent
    return sorted(source for pattern in _SOURCES for source in package.glob(pattern))


@contextlib.contextmanager
def on_compile(tell: Callable[[str], None]) -> Iterator[None]:
    """Call ``tell`` with a message whenever a kernel is compiled rather than loaded from disk.

    Outside of this context, the message is written to stderr, if that is a terminal.

    Examples
    --------
    >>> with on_compile(print):
    ...     uncached(lambda x: x + 1)(1)
    compiling the kernel '<lambda>', once for this method
    2
    """
    _TELL.append(tell)
    try:
        yield
    finally:
        _TELL.remove(tell)


def _tell_terminal(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


class _Compiling(event.Listener):
    """Listens to Numba's events and reports the compilation of kernels."""

    def on_start(self, event: Any) -> None:
        """Report the kernel."""
        if event.data["dispatcher"] in _KERNELS:
            name = event.data["dispatcher"].__name__
            _TELL[-1](f"compiling the kernel {name!r}, once for this method")

    def on_end(self, event: Any) -> None:
        """Nothing: required by Numba."""


_KERNELS: set[Any] = set()
_TELL: list[Callable[[str], None]] = [_tell_terminal]
event.register("numba:compile", _Compiling())
