"""The demo: the paper's four methods on its correlated stream, in a few seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mixfree.base.progress import progress_bar
from mixfree.reproduce.engine.report import Row
from mixfree.reproduce.paper.problem import problem_of, stream_of
from mixfree.reproduce.paper.runs import PAPER_METHODS, start, trace

if TYPE_CHECKING:
    from mixfree.core.optimizer import Optimizer

__all__ = ["SWITCHING", "run_demo"]

SWITCHING = 1e-4  # p, the switching probability


def run_demo(samples: int, seeds: int) -> tuple[list[Row], dict[str, float]]:
    """Rows of every method and seed, and samples per second of each method."""
    rows: list[Row] = []
    total, done = samples * seeds * len(PAPER_METHODS), 0
    with progress_bar("compiling", total) as show:
        _compile()
        seconds = dict.fromkeys(PAPER_METHODS, 0.0)
        for seed in range(seeds):
            for method in PAPER_METHODS:
                problem, order = problem_of(seed), stream_of(seed, SWITCHING, samples)
                opt = start(problem, method, SWITCHING, seed=seed)

                def each(at: Optimizer, before: int = done, method: str = method) -> None:
                    show(before + at.samples, method)

                began = time.perf_counter()
                counts, _, gaps = trace(opt, problem, order, each)
                seconds[method] += time.perf_counter() - began
                rows += [
                    {"method": method, "seed": seed, "samples": int(count), "suboptimality": gap}
                    for count, gap in zip(counts, gaps.tolist(), strict=True)
                ]
                done += samples
    return rows, {method: samples * seeds / spent for method, spent in seconds.items()}


def _compile() -> None:
    """Compile the kernel, so that its compilation is not timed."""
    problem = problem_of(0)
    trace(start(problem, "mag", SWITCHING), problem, stream_of(0, SWITCHING, 1))
