"""The choices that the paper's experiment leaves open, each changed alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mixfree.gradients import MLMC

__all__ = ["AS_SET", "CHOICES", "SHORT", "Choice"]

Options = Mapping[str, Any]
FIFTH = 0.2  # fraction of the samples for costly choices
AS_SET = "as set"
SHORT = "as set, a fifth of the samples"


@dataclass(frozen=True)
class Choice:
    """One open choice, made differently: one line of the table.

    Parameters
    ----------
    about
        Subject of the choice.
    name
        The alternative chosen.
    data
        Options of :meth:`Regression.draw`, for the problem.
    stream
        ``"two-state"``, ``"ring"``, ``"graph"`` or ``"continuous"``: the chain.
    start
        ``"origin"``, ``"edge"`` of the ball, or ``"one state"`` for the optimum of a state.
    whole
        Whether a step observes all rows of its state.
    common, own
        Options of all methods, and of some methods alone.
    share
        Fraction of the samples of a run.
    heavy
        Whether errors have heavy tails, so that all seeds are needed.
    beside
        The choice whose runs are used for the methods that ``own`` does not name.
    """

    about: str
    name: str
    data: Options = field(default_factory=dict)
    stream: str = "two-state"
    start: str = "origin"
    whole: bool = False
    common: Options = field(default_factory=dict)
    own: Mapping[str, Options] = field(default_factory=dict)
    share: float = 1.0
    heavy: bool = False
    beside: str | None = None


def _mlmc(name: str, heavy: bool = False, **options: Any) -> Choice:
    """Return a choice about the MLMC gradient alone."""
    own = {"sgd-mlmc": options, "mag": options}
    return Choice("levels", name, own=own, heavy=heavy, beside=AS_SET)


def _mag(name: str, **options: Any) -> Choice:
    """Return a choice about MAG with the level law of Algorithm 1, on short streams."""
    return Choice("tails", name, own={"mag": options}, share=FIFTH, heavy=True, beside=SHORT)


_ROOT_OF_SAMPLES = MLMC(5).expected_samples ** -0.5
_ALL = (
    Choice("", AS_SET, heavy=True),
    Choice("", SHORT, share=FIFTH, heavy=True),
    Choice("truth", "w† uniform on [0, c]^d, norm 1", {"law": "uniform"}),
    Choice("truth", "norm of w† 3.2, r = 1", {"size": 3.2}),
    Choice("truth", "norm of w† 3.2, r = 3.2", {"size": 3.2, "radius": 3.2}),
    Choice("truth", "w† ~ N(0, I), r = 1", {"size": 10.0}),
    Choice("truth", "w† ~ N(0, I), r = 10", {"size": 10.0, "radius": 10.0}),
    Choice("radius", "r = 0.5", {"radius": 0.5}),
    Choice("radius", "r = 2", {"radius": 2.0}),
    Choice("radius", "r = 10", {"radius": 10.0}),
    Choice("radius", "r = 100", {"radius": 100.0}),
    Choice("start", "a random point of norm r", start="edge"),
    Choice("start", "the optimum of one state", start="one state"),
    Choice("observed", "the whole state, a fifth of the samples", whole=True, share=FIFTH),
    Choice("scale", "α = 0.1", common={"alpha": 0.1}),
    Choice("scale", "α = 0.32", common={"alpha": 0.32}),
    Choice("scale", "α = D/√2 = 1.41", common={"alpha": math.sqrt(2.0)}),
    Choice("scale", "α = 10", common={"alpha": 10.0}),
    Choice(
        "scale",
        "w† ~ N(0, I), r = 10, α = D/√2 = 14.1",
        {"size": 10.0, "radius": 10.0},
        common={"alpha": 10.0 * math.sqrt(2.0)},
    ),
    Choice(
        "step",
        "SGD and SGD-MLMC with 1/√T",
        own={"sgd": {"constant": True}, "sgd-mlmc": {"constant": True}},
        beside=AS_SET,
    ),
    Choice(
        "step",
        "t counts samples in SGD-MLMC's 1/√t",
        own={"sgd-mlmc": {"alpha": _ROOT_OF_SAMPLES}},
        beside=AS_SET,
    ),
    Choice("output", "average of the last half", common={"output": "tail"}),
    Choice("output", "last iterate", common={"output": "last"}),
    _mlmc("3 levels", levels=3),
    _mlmc("7 levels", levels=7),
    _mlmc("10 levels", levels=10),
    _mlmc("5 levels, the paper's weights 2^J", weights="paper"),
    _mlmc("whole law", heavy=True, levels=None, horizon="T"),
    Choice(
        "levels",
        "Algorithm 1 for MAG: whole law, α = D/√2",
        heavy=True,
        own={"mag": {"horizon": "T", "alpha": math.sqrt(2.0)}},
        beside=AS_SET,
    ),
    Choice("chain", "walk on a ring of 200 states", stream="ring"),
    Choice("chain", "walk over a graph of 100 agents", stream="graph"),
    Choice("chain", "continuous states", stream="continuous"),
    _mag("whole law", levels=None, horizon="T"),
)
CHOICES = {f"{choice.about}: {choice.name}" if choice.about else choice.name: choice
           for choice in _ALL}  # fmt: skip
