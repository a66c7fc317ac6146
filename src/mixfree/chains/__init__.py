"""Markov chains: exact mixing times, bounds, paths, and estimates from a path."""

from mixfree.chains.autocorrelation import AutocorrelationTime, autocorrelation_time
from mixfree.chains.bounds import Bound, MixingBounds
from mixfree.chains.chain import MarkovChain
from mixfree.chains.estimate import Coefficient, MixingTimeEstimate, estimate_mixing_time
from mixfree.chains.families import (
    birth_death,
    cycle,
    random_chain,
    random_walk,
    two_state,
    winning_streak,
)

__all__ = [
    "AutocorrelationTime",
    "Bound",
    "Coefficient",
    "MarkovChain",
    "MixingBounds",
    "MixingTimeEstimate",
    "autocorrelation_time",
    "birth_death",
    "cycle",
    "estimate_mixing_time",
    "random_chain",
    "random_walk",
    "two_state",
    "winning_streak",
]
