"""Columns of a stream: their kinds, and their encoding as features."""
