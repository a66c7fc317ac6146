"""Processes that start as copies of one that has imported what they need."""

from multiprocessing import forkserver, get_all_start_methods, get_context
from typing import Any

__all__ = ["import_ahead", "processes_with"]


def processes_with(module: str) -> Any:
    """The context of :mod:`multiprocessing` in which processes begin with a module imported.

    Where processes cannot be copied, as on Windows, each imports it itself.

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
    """Begin to import, in another process, what copies of it will need, and do not wait."""
    if processes_with(module).get_start_method() == "forkserver":
        forkserver.ensure_running()
