"""Compiled twins of the parts and the loop, tested step by step against the NumPy reference.

Imported only when needed, since Numba is slow to load.
"""
