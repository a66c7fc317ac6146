"""Markov chains: path simulation against QuantEcon, exact mixing times, bounds for large walks.

python benchmarks/run.py chains
"""

import time

import networkx
import numpy as np
from quantecon import MarkovChain as QuantEconChain
from scipy import sparse

from benchmarks.core import cpu_seconds_in_turns
from benchmarks.table import show
from mixfree.chains import MarkovChain, cycle, random_chain, random_walk, two_state, winning_streak

STEPS = 2_000_000


def simulated():
    slow = 0.99 * np.eye(50) + 0.01 * random_chain(50, seed=1).P
    lines = []
    for name, chain in {
        "two states, p = 0.5": two_state(0.5),
        "two states, p = 1e-4": two_state(1e-4),
        "winning streak, 30 states": winning_streak(30),
        "ring, 200 states": cycle(200),
        "50 states, mostly staying": MarkovChain(slow),
        "100 states, dense": random_chain(100, seed=0),
        "1,000 states, dense": random_chain(1000, seed=0),
    }.items():
        other = QuantEconChain(chain.P)
        ours, theirs = cpu_seconds_in_turns(
            [
                lambda chain=chain: chain.simulate(STEPS, 0, seed=1),
                lambda other=other: other.simulate(
                    STEPS, init=0, random_state=np.random.default_rng(1)
                ),
            ]
        )
        lines.append((name, STEPS / 1e6 / ours, STEPS / 1e6 / theirs, theirs / ours))
    show("Paths, million steps per second", ["chain", "mixfree", "QuantEcon", "ratio"], lines)


def mixed():
    P = random_chain(1000, seed=0).P
    lines = []
    for stay in (0.0, 0.99, 0.9999):
        chain = MarkovChain(stay * np.eye(1000) + (1 - stay) * P)
        begin = time.process_time()
        tau = chain.mixing_time()
        lines.append((f"staying with {stay:g}", f"{tau:,}", time.process_time() - begin))
    show("Exact mixing time of 1,000 dense states", ["chain", "steps", "seconds"], lines)


def shuffled(states):
    """Return the lazy walk along one of three random permutations or their inverses."""
    rng, here = np.random.default_rng(0), np.arange(states)
    P = 0.5 * sparse.eye_array(states, format="csr")
    for _ in range(3):
        ones = np.full(states, 1 / 12)
        step = sparse.csr_array((ones, (here, rng.permutation(states))), shape=P.shape)
        P = P + step + step.T
    return MarkovChain(P)


def bounded():
    lines = []
    for name, chain in {
        "random 6-regular graph, lazy": random_walk(
            networkx.random_regular_graph(6, 100_000, seed=1), lazy=True
        ),
        "preferential attachment": random_walk(networkx.barabasi_albert_graph(100_000, 3, seed=0)),
        "square grid, Metropolis": random_walk(networkx.grid_2d_graph(316, 317), "metropolis"),
        "ring": cycle(100_001),
        "random permutations, lazy": shuffled(1_000_000),
    }.items():
        begin = time.process_time()
        bounds = chain.mixing_bounds()
        taken = time.process_time() - begin
        lines.append((name, f"{len(chain):,}", f"{bounds.lower:,}", f"{bounds.upper:,}", taken))
    show(
        "Bounds on the mixing time of sparse walks",
        ["walk", "states", "lower", "upper", "seconds"],
        lines,
    )


def main():
    simulated()
    mixed()
    bounded()
