"""An optimiser as the kernels see it: a plan of numbers and a run of arrays."""

from typing import Any, NamedTuple

import numpy as np

from mixfree.base.state import RunState
from mixfree.domains import AllSpace, Ball, Box, Simplex
from mixfree.gradients import MLMC, DataDrop, MiniBatch, Plain, Replay
from mixfree.kernels.ladder import (
    LadderPlan,
    LadderRun,
    ladder_plan,
    ladder_run,
    return_ladder,
)
from mixfree.kernels.memory import aligned
from mixfree.outputs import Average, Last, RandomIterate, TailAverage, WeightedAverage
from mixfree.steps import AdaGradNorm, Constant, Inverse, InverseSqrt, Ladder
from mixfree.steps.ladder import LadderState

PLAIN, MINIBATCH, DROP, TRUNCATED, GEOMETRIC = range(5)
CONSTANT, INVERSE_SQRT, INVERSE, ADAGRAD, LADDER = range(5)
SPACE, BALL, BOX, SIMPLEX, ENTROPIC = range(5)
AVERAGE, WEIGHTED, TAIL, LAST, RANDOM = range(5)

# Places in Run.counts and Run.numbers.
SAMPLES, STEPS, SEEN, LENGTH, TURN, COUNT = range(6)
ROOT, REACH = range(2)

_GRADIENTS = {Plain: PLAIN, MiniBatch: MINIBATCH, DataDrop: DROP}
_STEPS = {
    Constant: CONSTANT,
    InverseSqrt: INVERSE_SQRT,
    Inverse: INVERSE,
    AdaGradNorm: ADAGRAD,
    Ladder: LADDER,
}
_DOMAINS = {AllSpace: SPACE, Ball: BALL, Box: BOX, Simplex: SIMPLEX}
_OUTPUTS = {
    Average: AVERAGE,
    WeightedAverage: WEIGHTED,
    TailAverage: TAIL,
    Last: LAST,
    RandomIterate: RANDOM,
}


class Plan(NamedTuple):
    """The numbers that do not change during a run."""

    gradient: int
    length: int  # of every window, or the number of levels
    horizon: int  # of the geometric law; 0: the samples seen so far
    share: float  # scale of a window's sum
    level_key: tuple[int, int]
    record_every: int  # 0: the point before each step; n: the point after every n-th
    step: int
    alpha: float
    ladder: LadderPlan
    domain: int
    bound: float  # radius or total
    output: int
    output_key: tuple[int, int]
    largest: float
    tiny: float
    slack: float  # what rounding can add to the length of a move, as a factor


class Run(NamedTuple):
    """The arrays of a run."""

    counts: np.ndarray
    numbers: np.ndarray
    x: np.ndarray
    total: np.ndarray  # the window's signed sum
    sums: np.ndarray  # two rows for the output
    kept: np.ndarray  # the random iterate
    gradient: np.ndarray  # scratch
    low: np.ndarray  # of a box; also the center of a ball
    high: np.ndarray
    ladder: LadderRun


def compilable(opt: Any) -> bool:
    """Whether each part of the optimiser has a compiled twin."""
    return (
        (type(opt.gradient) in _GRADIENTS or isinstance(opt.gradient, MLMC | Replay))
        and type(opt.step) in _STEPS
        and type(opt.domain) in _DOMAINS
        and type(opt.output) in _OUTPUTS
    )


def plan_of(opt: Any) -> Plan:
    """The plan of an optimiser whose parts are all compilable."""
    rule, domain = opt.gradient, opt.domain
    length, horizon, share, level_key = 1, 0, 1.0, (0, 0)
    if isinstance(rule, MLMC):
        gradient = GEOMETRIC if rule.levels is None else TRUNCATED
        length, horizon = rule.levels or 0, rule.horizon or 0
        share, level_key = rule.scale(2), tuple(rule.key)
    elif isinstance(rule, Replay):
        gradient = PLAIN
    else:
        gradient, length = _GRADIENTS[type(rule)], rule.length(0, 0)
        share = rule.scale(length)
    entropic = opt.mirror.name == "entropic"
    return Plan(
        gradient=gradient,
        length=length,
        horizon=horizon,
        share=share,
        level_key=level_key,
        record_every=int(rule.buffer) if isinstance(rule, Replay) else 0,
        step=_STEPS[type(opt.step)],
        alpha=float(opt.step.alpha or 0.0),
        ladder=ladder_plan(opt.step, opt.x.size),
        domain=ENTROPIC if entropic else _DOMAINS[type(domain)],
        bound=float(getattr(domain, "radius", getattr(domain, "total", 0.0))),
        output=_OUTPUTS[type(opt.output)],
        output_key=tuple(opt.output.key) if isinstance(opt.output, RandomIterate) else (0, 0),
        largest=opt.largest,
        tiny=float(np.finfo(opt.x.dtype).tiny),
        slack=1.0 + (opt.x.size + 8) * float(np.finfo(opt.x.dtype).eps),
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
    zeros, low, high = np.zeros(x.size), np.zeros(0), np.zeros(0)
    if isinstance(opt.domain, Ball) and opt.domain.center is not None:
        low = opt.domain.center
    elif isinstance(opt.domain, Box):
        low, high = opt.domain.low, opt.domain.high
    sums = [getattr(output, "sum", zeros), getattr(output, "before", zeros)]
    return Run(
        counts=np.array(counts, dtype=np.int64),
        numbers=np.array([getattr(state.step, "root", 0.0), np.inf]),
        x=aligned(x),
        total=aligned(getattr(gradient, "sum", np.zeros_like(x))),
        sums=aligned(np.array(sums)),
        kept=getattr(output, "kept", x).copy(),
        gradient=aligned(np.zeros_like(x)),
        low=np.array(low, dtype=np.float64),
        high=np.array(high, dtype=np.float64),
        ladder=ladder_run(opt.step, state.step, state.steps + samples),
    )


def return_run(opt: Any, state: RunState, run: Run) -> None:
    """Hand what a kernel changed to the states of the run."""
    samples, steps, seen, length, turn, count = run.counts.tolist()
    state.gradient.load(
        {"samples": samples, "seen": seen, "length": length, "turn": turn, "sum": run.total}
    )
    if isinstance(state.step, LadderState):
        return_ladder(opt.step, state.step, run.ladder, steps)
    else:
        state.step.load({"root": float(run.numbers[ROOT])})
    before, newest = (run.sums[row, : run.x.size].copy() for row in (1, 0))
    state.output.load({"count": count, "sum": newest, "before": before, "kept": run.kept})
    run.x.flags.writeable = False
    state.load({"x": run.x, "steps": steps})
