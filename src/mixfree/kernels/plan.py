"""An optimiser as the kernels see it: a plan that stays as it is, and a run that changes."""

from typing import Any, NamedTuple

import numpy as np

from mixfree.base.state import RunState
from mixfree.kernels import domains, ladder, outputs, steps, windows
from mixfree.kernels.memory import aligned
from mixfree.kernels.run import ROOT, Run
from mixfree.steps.ladder import LadderState

_STEPS = steps.PLANS | ladder.PLANS


class Plan(NamedTuple):
    """The twins of the four parts; their types choose the code that is compiled."""

    gradient: Any
    step: Any
    domain: Any
    output: Any
    largest: float  # norm of a gradient that can be summed


def compilable(opt: Any) -> bool:
    """Whether each part of the optimiser has a compiled twin."""
    return all(type(part) in plans for part, plans in _parts(opt))


def plan_of(opt: Any) -> Plan:
    """The plan of an optimiser whose parts are all compilable."""
    twins = (plans[type(part)](part, opt.x) for part, plans in _parts(opt))
    return Plan._make((*twins, opt.largest))


def _parts(opt: Any) -> Any:
    """Each part with the twins that there are of its kind."""
    where = opt.domain if opt.mirror.name == "euclidean" else opt.mirror
    return (
        (opt.gradient, windows.PLANS),
        (opt.step, _STEPS),
        (where, domains.PLANS),
        (opt.output, outputs.PLANS),
    )


def run_of(opt: Any, state: RunState, samples: int) -> Run:
    """The run's state in arrays that a kernel changes over up to ``samples`` samples."""
    gradient, output, x = state.gradient, state.output, state.x
    counts = [
        gradient.samples,
        state.steps,
        getattr(gradient, "seen", 0),
        getattr(gradient, "length", 1),
        getattr(gradient, "turn", 0),
        output.count,
    ]
    zeros = np.zeros(x.size)
    sums = [getattr(output, "sum", zeros), getattr(output, "before", zeros)]
    table, rates = ladder.table_of(opt.step, state.step, state.steps + samples)
    return Run(
        counts=np.array(counts, dtype=np.int64),
        numbers=np.array([getattr(state.step, "root", 0.0), np.inf]),
        x=aligned(x),
        total=aligned(getattr(gradient, "sum", np.zeros_like(x))),
        sums=aligned(np.array(sums)),
        kept=getattr(output, "kept", x).copy(),
        gradient=aligned(np.zeros_like(x)),
        table=aligned(table),
        rates=rates,
    )


def return_run(opt: Any, state: RunState, run: Run) -> None:
    """Hand what a kernel changed to the states of the run."""
    samples, steps, seen, length, turn, count = run.counts.tolist()
    state.gradient.load(
        {"samples": samples, "seen": seen, "length": length, "turn": turn, "sum": run.total}
    )
    if isinstance(state.step, LadderState):
        ladder.return_table(opt.step, state.step, run, steps)
    else:
        state.step.load({"root": float(run.numbers[ROOT])})
    before, newest = (run.sums[row, : run.x.size].copy() for row in (1, 0))
    state.output.load({"count": count, "sum": newest, "before": before, "kept": run.kept})
    run.x.flags.writeable = False
    state.load({"x": run.x, "steps": steps})
