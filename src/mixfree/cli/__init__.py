"""The command line ``mixfree``: one file per command, gathered in :mod:`mixfree.cli.app`."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    try:
        from mixfree.cli.app import app
    except ImportError as error:
        print(f"mixfree: {error}", file=sys.stderr)
        sys.exit(2)
    app(args=None if arguments is None else list(arguments), prog_name="mixfree")
