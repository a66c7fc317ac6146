"""Linear models fitted exactly: one pass, bounded memory, whatever the order of the rows."""
