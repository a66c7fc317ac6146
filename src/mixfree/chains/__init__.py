"""Markov chains: exact mixing times, bounds, paths, and estimates from a path."""

from mixfree.chains.chain import MarkovChain
from mixfree.chains.families import (
    birth_death,
    cycle,
    random_chain,
    random_walk,
    two_state,
    winning_streak,
)

__all__ = [
    "MarkovChain",
    "birth_death",
    "cycle",
    "random_chain",
    "random_walk",
    "two_state",
    "winning_streak",
]
