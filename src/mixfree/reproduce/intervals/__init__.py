"""Coverage of intervals on correlated streams."""
