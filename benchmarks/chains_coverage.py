"""Coverage and width of the 95 % intervals for the mixing time."""

import numpy as np

from benchmarks.table import show
from mixfree.chains import birth_death, cycle, random_chain, two_state, winning_streak
from mixfree.chains.estimate import METHODS, estimate_mixing_time

SEEDS = range(1000, 1200)  # one path each
CHAINS = {
    "two states, p = 0.01": two_state(0.01),
    "ring, 5": cycle(5),
    "reversed streak, 5": winning_streak(5).reversal(),
    "line, 4": birth_death([0.3, 0.3, 0.3, 0.0], [0.0, 0.2, 0.2, 0.2]),
    "random, 6": random_chain(6, seed=0),
}
LENGTHS = (10_000, 1_000_000)
HEAD = ["chain", "mixing time", "samples", *METHODS, "least coverage"]


def intervals(chain, length, seeds):
    """Return the ends of the intervals of each applicable method, over paths."""
    methods = [method for method in METHODS if method != "reversible" or chain.is_reversible]
    ends = {method: np.empty((2, len(seeds))) for method in methods}
    for place, seed in enumerate(seeds):
        path = chain.simulate(length, seed=np.random.default_rng([length, seed]))
        for method in methods:
            found = estimate_mixing_time(path, method=method)
            ends[method][:, place] = found.lower, found.upper
    return ends


def lines_of(name, chain):
    truth = chain.mixing_time()
    for length in LENGTHS:
        ends = intervals(chain, length, SEEDS)
        inside = min(np.mean((low <= truth) & (truth <= high)) for low, high in ends.values())
        medians = {
            method: f"{np.median(low):.0f} to {np.median(high):.0f}".replace("inf", "∞")
            for method, (low, high) in ends.items()
        }
        shown = [medians.get(method, "not reversible") for method in METHODS]
        yield name, truth, f"{length:,}", *shown, f"{inside:.1%}"


def main():
    title = f"{len(SEEDS)} paths of each chain: medians of 95 % intervals"
    show(title, HEAD, [line for name, chain in CHAINS.items() for line in lines_of(name, chain)])
