"""Compilation of the kernels: only the code that a run uses, once, cached on disk."""

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any, ClassVar

import numba
from numba._dynfunc import make_function
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
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
# Numba's passes for ``with``, ``raise``, functions in functions, and loops over tuples.
_UNUSED = {
    "with_lifting",
    "inline_closure_likes",
    "rewrite_dynamic_raises",
    "make_function_op_code_to_jit_function",
    "inline_inlinables",
    "find_literally",
    "literal_unroll",
    "literal_propagation",
    "inline_overloads",
    "annotate_types",
}
PATIENCE = 1.0  # seconds of compiling before a message is printed


class _Flags(Flags):
    """Options of a function that is being compiled: equal ones are the same object.

    Numba compares them option by option whenever it looks up the type of an expression, which
    would take a sixth of the time.
    """

    _known: ClassVar[dict[str, "_Flags"]] = {}

    def copy(self) -> "_Flags":
        """The object with these options; Numba does not change what it has copied."""
        return self._known.setdefault(self.summary(), _Flags(self))

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class _Compiler(CompilerBase):
    """Numba's compiler without things that only take time."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.state.flags = _Flags(self.state.flags)

    def compile_extra(self, func: Any) -> Any:
        """Compile without searching Numba's many objects for cycles all the time."""
        searching = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if searching:
                gc.enable()

    def define_pipelines(self) -> list[Any]:
        """Numba's standard pipeline without the passes for Python that kernels do not use."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [given for given in pipeline.passes if given[0].name() not in _UNUSED]
        return [pipeline]


class _PartLibrary(JITCodeLibrary):
    """The code of a function that is only called from kernels.

    Numba optimises every function together with everything that it calls and generates machine
    code for both, so that a function seven calls deep is compiled eight times. Here only the
    kernel is optimised and compiled, once.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _ApartLibrary(_PartLibrary):
    """Machine code of a function that must not be inlined.

    It would inherit from its caller that it must be inlined. Setting Numba's option would have
    what it calls compiled twice, for callers with either option.
    """

    def add_ir_module(self, ir_module: Any) -> None:
        """Mark the function as one that is not inlined."""
        for function in ir_module.functions:
            if function.blocks:
                function.attributes.discard("alwaysinline")
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)


class _PartCompiler(_Compiler):
    """Numba's pipeline with such a library."""

    library: ClassVar[type[_PartLibrary]] = _PartLibrary

    def define_pipelines(self) -> list[Any]:
        """Numba's standard pipeline."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.targetctx = state.targetctx.subtarget(get_executable=_without_address)
        return super().define_pipelines()


class _ApartCompiler(_PartCompiler):
    """Compiles a function that must not be inlined."""

    library = _ApartLibrary


def _without_address(library: Any, description: Any, environment: Any) -> Any:
    """A placeholder for the function through which Python would call a part."""
    name = description.qualname.split(".")[-1]
    return make_function(description.lookup_module(), name, "", 0, environment, (library,))


_PART = {**_BORROWING, "pipeline_class": _PartCompiler}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first use for each type of arguments, and cache the result on disk."""
    dispatcher = numba.njit(pipeline_class=_Compiler, **_BORROWING)(function)
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


def exact(function: Callable[..., Any]) -> Any:
    """Compile inline without reordering sums, for code that compensates rounding errors."""
    return register_jitable(forceinline=True, **{**_PART, "fastmath": {"contract"}})(function)


def apart(function: Callable[..., Any]) -> Any:
    """Compile as a separate function, for code that rarely runs."""
    return register_jitable(**{**_PART, "pipeline_class": _ApartCompiler})(function)


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
