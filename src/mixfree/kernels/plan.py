"""An optimiser as the kernels see it: a constant plan, and a run that changes."""

from typing import Any, NamedTuple

import numpy as np

from mixfree.base.state import RunState
from mixfree.kernels import ladder, parts
from mixfree.kernels.run import ROOT, Run, aligned
from mixfree.steps.ladder import LadderState

_PLANS = parts.PLANS | ladder.PLANS


class Plan(NamedTuple):
    """The compiled forms of the four parts; their types determine the compiled code."""

    gradient: Any
    step: Any
    domain: Any
    output: Any
    largest: float  # largest norm of a gradient that can be summed


def compilable(opt: Any) -> bool:
    """Whether each part of the optimiser has a compiled implementation."""
    parts = (opt.gradient, opt.step, opt.domain, opt.output)
    return all(type(getattr(part, "inner", part)) in _PLANS for part in parts)


def plan_of(opt: Any) -> Plan:
    """The plan of an optimiser whose parts are all compilable."""
    parts = (opt.gradient, opt.step, opt.domain, opt.output)
    return Plan._make((*(_PLANS[type(part)](part, opt.x) for part in parts), opt.largest))


def run_of(opt: Any, state: RunState) -> Run:
    """The run's state as arrays for a kernel."""
    gradient, output, x = state.gradient, state.output, state.x
    window = getattr(gradient, "inner", gradient)
    counts = [
        window.samples,
        state.steps,
        getattr(window, "seen", 0),
        getattr(window, "length", 1),
        getattr(gradient, "turn", 0),
        output.count,
    ]
    zeros = np.zeros(x.size)
    sums = [getattr(output, name, zeros) for name in ("sum", "before")]
    table, rates, sketch = ladder.arrays_of(state.step)
    return Run(
        counts=np.array(counts, dtype=np.int64),
        numbers=np.array([getattr(state.step, "root", 0.0), np.inf]),
        x=aligned(x),
        total=aligned(getattr(window, "sum", np.zeros_like(x))),
        group=aligned(getattr(gradient, "group", x[:0])),
        sums=aligned(np.array(sums)),
        kept=getattr(output, "kept", x).copy(),
        gradient=aligned(np.zeros_like(x)),
        table=aligned(table),
        rates=rates,
        sketch=aligned(sketch),
    )


def return_run(opt: Any, state: RunState, run: Run) -> None:
    """Write the arrays that a kernel changed back to the states of the run."""
    samples, steps, seen, length, turn, count = run.counts.tolist()
    gradient = state.gradient
    gradient.load({"turn": turn, "group": run.group})
    getattr(gradient, "inner", gradient).load(
        {"samples": samples, "seen": seen, "length": length, "sum": run.total}
    )
    if isinstance(state.step, LadderState):
        ladder.return_arrays(state.step, run)
    else:
        state.step.load({"root": float(run.numbers[ROOT])})
    newest, before = (row[: run.x.size].copy() for row in run.sums)
    state.output.load({"count": count, "sum": newest, "before": before, "kept": run.kept})
    run.x.flags.writeable = False
    state.load({"x": run.x, "steps": steps})
