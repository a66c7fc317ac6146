"""Losses other than the squared one in one pass: kept rows, corrected by sums over all rows."""
