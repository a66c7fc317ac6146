"""``python -m mixfree``."""

from mixfree.cli import main

main()
