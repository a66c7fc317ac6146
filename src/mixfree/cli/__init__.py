"""The command line ``mixfree``: one file per command, gathered in :mod:`mixfree.cli.app`."""

import gc
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from mixfree.base.extras import require
from mixfree.base.terminal import literal

__all__ = ["main"]

_COLOUR = r"\x1b\[[0-9;]*m"  # in which other packages write their warnings


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    gc.set_threshold(100_000)  # most objects are of imported modules, and stay
    for stream in (sys.stdout, sys.stderr):  # the terminal may lack some characters
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    before, warnings.formatwarning = warnings.formatwarning, _one_line
    try:
        require("typer")
        from mixfree.cli.app import app

        app(args=None if arguments is None else list(arguments), prog_name="mixfree")
    except ImportError as error:
        print(f"mixfree: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # Ctrl-C during the slow import
        sys.exit(130)
    finally:
        warnings.formatwarning = before


def _one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    """Return a warning without the source line that raised it."""
    return f"mixfree: {literal(re.sub(_COLOUR, '', str(message)))}\n"
