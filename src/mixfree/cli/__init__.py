"""The command line ``mixfree``: one file a command, gathered in :mod:`mixfree.cli.app`."""

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake in the input is one line on stderr and exit code 2."""
    from mixfree.core.methods import OptionError

    try:
        from mixfree.cli.app import app

        app(args=None if arguments is None else list(arguments), prog_name="mixfree")
    except (ValueError, OSError, ImportError, OptionError) as error:
        if os.environ.get("MIXFREE_DEBUG"):
            raise
        print(f"mixfree: {error}", file=sys.stderr)
        sys.exit(2)
