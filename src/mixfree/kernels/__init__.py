"""The parts and the loop, compiled, and tested step by step against the NumPy reference.

Imported only when needed, since Numba is slow to load.
"""
