"""Linear models fitted exactly: one pass, bounded memory, for rows in any order."""
