"""The command line ``mixfree``: one file per command, gathered in :mod:`mixfree.cli.app`."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["main"]


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
    warnings.formatwarning = lambda message, *_, **__: f"mixfree: {literal(str(message))}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before
