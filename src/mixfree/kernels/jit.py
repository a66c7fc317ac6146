"""Compilation of the kernels: only the code that a run uses, once, cached on disk."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any

import numba
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import overload, register_jitable

from mixfree.kernels.cache import keep_on_disk

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
PATIENCE = 1.0  # seconds of compiling before a message is printed


class _PartLibrary(JITCodeLibrary):
    """The code of a function that is only called from kernels, which are optimised as a whole."""

    def _optimize_final_module(self) -> None:
        pass


class _PartCompiler(Compiler):
    """Numba's pipeline with such a library, so that code seven calls deep is optimised once."""

    def define_pipelines(self) -> Any:
        """Numba's standard pipeline."""
        state = self.state
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


_PART = {**_BORROWING, "pipeline_class": _PartCompiler}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first use for each type of arguments, and cache the result on disk."""
    dispatcher = numba.njit(**_BORROWING)(function)
    keep_on_disk(dispatcher)
    _KERNELS.add(dispatcher)
    return dispatcher


def uncached(function: Callable[..., Any]) -> Any:
    """Compile on first use without a cache, for kernels that call a user's function."""
    dispatcher = numba.njit(**_OPTIONS)(function)
    _KERNELS.add(dispatcher)
    return dispatcher


def inline(function: Callable[..., Any]) -> Any:
    """Compile inline, since a call would copy the whole plan and run."""
    return register_jitable(forceinline=True, **_PART)(function)


def apart(function: Callable[..., Any]) -> Any:
    """Compile as a function of its own, for code that rarely runs."""
    return register_jitable(**_PART)(function)


def chosen(function: Callable[..., Any]) -> Any:
    """An inline function with one implementation per type of its first argument, a named tuple.

    As with :func:`functools.singledispatch`, ``function`` is the default. The implementation is
    chosen when a kernel is compiled: others are not compiled, and the choice costs no run time.
    """
    choice = singledispatch(function)

    @overload(choice, jit_options={**_PART, "forceinline": True}, strict=False)
    def choose(part: Any, *others: Any) -> Any:
        return choice.dispatch(part.instance_class)

    return choice


@contextlib.contextmanager
def on_compile(tell: Callable[[str], None]) -> Iterator[None]:
    """Call ``tell`` with a message whenever a kernel is compiled rather than loaded from disk.

    Outside of this context, a line is written to stderr, if that is a terminal, once compiling
    has taken a second.

    Examples
    --------
    >>> import numpy as np
    >>> with on_compile(print):
    ...     uncached(lambda x: x + 1)(1)
    compiling the kernel '<lambda>', once for this method
    2
    """
    before, _COMPILING.tell = _COMPILING.tell, tell
    try:
        yield
    finally:
        _COMPILING.tell = before


class _Compiling(event.Listener):
    """Listens to Numba's events and reports the compilation of kernels."""

    tell: Callable[[str], None] | None = None
    _timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """Report it, or start the timer."""
        if event.data["dispatcher"] not in _KERNELS:
            return
        name = event.data["dispatcher"].__name__
        text = f"compiling the kernel {name!r}, once for this method"
        if self.tell is not None:
            self.tell(text)
        elif sys.stderr.isatty():
            self._timer = threading.Timer(PATIENCE, print, [text], {"file": sys.stderr})
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Cancel the timer."""
        if event.data["dispatcher"] in _KERNELS and self._timer is not None:
            self._timer.cancel()


_KERNELS: set[Any] = set()
_COMPILING = _Compiling()
event.register("numba:compile", _COMPILING)
