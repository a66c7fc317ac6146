"""Optional dependencies: imported when first needed, with an error that says what to install."""

import importlib
import sys
from types import ModuleType

EXTRA_OF = {
    **dict.fromkeys(("typer", "rich", "matplotlib", "pyarrow"), "cli"),
    **dict.fromkeys(("bokeh", "jinja2", "markupsafe"), "report"),
    **dict.fromkeys(("jax", "optax"), "jax"),
    **dict.fromkeys(("dask", "distributed"), "dask"),
    "torch": "torch",
    "gymnasium": "rl",
    "networkx": "graphs",
}


def require(module: str) -> ModuleType:
    """Import ``module`` or raise an ImportError naming the extra that brings it."""
    if (found := sys.modules.get(module)) is not None:  # an import takes ten times as long
        return found
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ImportError(
            f"{package} is not installed; it comes with the extra {EXTRA_OF[package]!r}: "
            f"pip install 'mixfree[{EXTRA_OF[package]}]'"
        ) from error
