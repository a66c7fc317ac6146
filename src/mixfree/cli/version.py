"""``mixfree version``."""

import mixfree


def version() -> None:
    """Print the version."""
    print(mixfree.__version__)
