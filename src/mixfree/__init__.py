"""Optimisers for ordered, correlated data that never need the mixing time."""

__version__ = "0.1.0"
