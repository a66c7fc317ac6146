"""Linear models fitted exactly, in one pass and in bounded memory, whatever the order of the rows."""
