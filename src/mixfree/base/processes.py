"""Processes forked from a server that has already imported a module."""

from multiprocessing import forkserver, get_all_start_methods, get_context
from typing import Any

__all__ = ["import_ahead", "processes_with"]


def processes_with(module: str) -> Any:
    """Return a :mod:`multiprocessing` context whose processes start with a module imported.

    Without fork, as on Windows, each process imports the module itself.

    Examples
    --------
    >>> processes_with("mixfree.base.draws").Process.__name__[-7:]
    'Process'
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([module])
    return context


def import_ahead(module: str) -> None:
    """Start the server that imports the module, without waiting for it."""
    if processes_with(module).get_start_method() == "forkserver":
        forkserver.ensure_running()
