"""A fit in one pass: its settings, its state, its file."""
