"""``python -m mixfree.cli``."""

from mixfree.cli import main

main()
