"""Compiled twins of the parts and the loop, tested step by step against the NumPy reference.

Nothing here is imported before it is needed: Numba is slow to load.
"""
