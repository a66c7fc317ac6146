"""How often the confidence intervals for the mixing time hold the truth, and how wide they are.

    python benchmarks/chains_coverage.py [paths]

200 paths of each of five chains by default, at the 95 % level.
"""

import sys

import numpy as np
from rich.console import Console
from rich.table import Table

from mixfree.chains import birth_death, cycle, random_chain, two_state, winning_streak
from mixfree.chains.estimate import METHODS, estimate_mixing_time

CHAINS = {
    "two states, p = 0.01": two_state(0.01),
    "ring, 5 states": cycle(5),
    "reversed streak, 5 states": winning_streak(5).reversal(),
    "line, 4 states": birth_death([0.3, 0.3, 0.3, 0.0], [0.0, 0.2, 0.2, 0.2]),
    "random, 6 states": random_chain(6, seed=0),
}
LENGTHS = (10_000, 1_000_000)


def main(paths: int = 200) -> None:
    table = Table(
        "chain", "mixing time", "samples", "method", "coverage", "median interval", "finite"
    )
    for name, chain in CHAINS.items():
        truth = chain.mixing_time()
        for length in LENGTHS:
            drawn = [
                chain.simulate(length, seed=np.random.default_rng([length, run]))
                for run in range(paths)
            ]
            for method in METHODS:
                if method == "reversible" and not chain.is_reversible:
                    continue
                found = [estimate_mixing_time(path, method=method) for path in drawn]
                inside = np.mean([result.lower <= truth <= result.upper for result in found])
                low = np.median([result.lower for result in found])
                high = np.median([result.upper for result in found])
                finite = np.mean([np.isfinite(result.upper) for result in found])
                table.add_row(
                    name,
                    str(truth),
                    f"{length:,}",
                    method,
                    f"{inside:.1%}",
                    f"[{low:g}, {high:g}]",
                    f"{finite:.0%}",
                )
    Console(width=120).print(table)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
