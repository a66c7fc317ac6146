"""What needs nothing else of mixfree: arithmetic, checks, draws, optional imports, pictures."""
