"""The loop, the table of methods, and one call for a whole run."""
