"""The command line ``mixfree``: one file per command, gathered in :mod:`mixfree.cli.app`."""

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["main"]

_COLOUR = r"\x1b\[[0-9;]*m"  # in which other packages write their warnings


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):  # the terminal may lack some characters
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        from mixfree.cli.app import app
    except ImportError as error:
        print(f"mixfree: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # Ctrl-C during the slow import
        sys.exit(130)
    with _plain_warnings():
        app(args=None if arguments is None else list(arguments), prog_name="mixfree")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show each warning as one line, without the source line that raised it."""
    from mixfree.base.literal import literal

    before = warnings.formatwarning

    def plain(message: Warning | str, *_: Any, **__: Any) -> str:
        return f"mixfree: {literal(re.sub(_COLOUR, '', str(message)))}\n"

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = before
