"""Runs of one method side by side, and a held-out sample that chooses among their outputs."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.core.methods import EVERY, Method, find_method, start_method
from mixfree.core.optimizer import Optimizer
from mixfree.gradients import Reservoir, Window

MEMORY = 4096  # samples that "auto" keeps, if they are not too large
BYTES = 1 << 26  # what they may take
FEWEST = 32  # held-out samples below which nothing is chosen but the default
CUT = 1 << 16  # samples from which on runs are given up, at every power of two

Losses = Callable[[Array], Array]


class Candidate(NamedTuple):
    """One output of one run."""

    memory: int  # samples kept
    one_rate: bool  # whether all coordinates have one rate, for methods that have a choice
    output: str

    def __str__(self) -> str:
        kept = f"{self.memory:,} samples kept" if self.memory else "nothing kept"
        rates = "one rate" if self.one_rate else "the method's own rates"
        outputs = {"weighted": "weighted average", "tail": "tail average", "last": "last point"}
        return f"{kept}, {rates}, {outputs.get(self.output, self.output)}"


@dataclass(frozen=True)
class Choice:
    """What a held-out sample has chosen, and by how much.

    Attributes
    ----------
    chosen, default
        The candidate, and the one that it had to beat.
    gain, error
        Mean loss of the default less that of the candidate, with its standard error.
    held_out
        Samples that were never learnt from and judged.
    candidates
        How many there were.
    """

    chosen: Candidate
    default: Candidate
    gain: float
    error: float
    held_out: int
    candidates: int

    def __str__(self) -> str:
        judges = f"by {self.held_out:,} samples that were never learnt from"
        if self.chosen == self.default:
            return f"{self.chosen}: no other of {self.candidates} is clearly better {judges}"
        return (
            f"{self.chosen}: better than {self.default} "
            f"by {self.gain:.3g} ± {self.error:.1g} {judges}"
        )


class Contest:
    """Up to four runs: with and without memory, with one rate or the method's own.

    Parameters
    ----------
    method, x0, options, **common
        As of :func:`mixfree.core.methods.start_method`. What they settle is not tried otherwise.
    values
        Numbers per sample, which limit how many samples are kept.
    draws
        Draws per sample.
    output
        The only output to hand back; None for a choice of three.

    Attributes
    ----------
    runs
        The optimisers that are left, by what they differ in; the default first.
    choice
        What was chosen when it was last judged.
    """

    def __init__(
        self,
        method: str | type[Method],
        x0: npt.ArrayLike,
        options: Mapping[str, Any],
        *,
        values: int = 1,
        draws: int = 1,
        output: str | None = None,
        **common: Any,
    ) -> None:
        found = find_method(method)
        memory = max(FEWEST, min(MEMORY, BYTES // (8 * values)))
        chooses_rate = "per_coordinate" in found.options() and "per_coordinate" not in options
        self._outputs = ("weighted", "tail", "last") if output is None else (output,)
        self.runs: dict[Candidate, Optimizer] = {}
        for size in (0, memory):
            for one_rate in (False, True) if chooses_rate else (False,):
                settings = {**options, **({"per_coordinate": False} if one_rate else {})}
                run = start_method(
                    found,
                    x0,
                    settings,
                    memory=size,
                    draws=draws,
                    output=EVERY if output is None else output,
                    **common,
                )
                self.runs[Candidate(size, one_rate, self._outputs[0])] = run
                if not isinstance(run.gradient, Window | Reservoir):
                    raise ValueError(f"memory does not go with {found.name}, which replays samples")
        default = next(iter(self.runs))
        self.choice = Choice(default, default, 0.0, 0.0, 0, self.candidates)

    @property
    def candidates(self) -> int:
        """Number of outputs to choose from."""
        return len(self.runs) * len(self._outputs)

    @property
    def optimizer(self) -> Optimizer:
        """The run whose output is chosen."""
        return self.runs[self.choice.chosen._replace(output=self._outputs[0])]

    @property
    def average(self) -> Array:
        """The output that is chosen."""
        return self._points(self.optimizer)[self.choice.chosen.output]

    def judge(self, losses: Losses, weights: Array) -> Choice:
        """Choose the candidate with the least loss, if it is clearly better than the default.

        ``losses`` gives the loss of each held-out sample at a point. Clearly: by more than two
        standard errors of the mean of the paired differences.
        """
        self.choice = self._chosen(self.runs, losses, weights)
        return self.choice

    def cut(self, seen: int, losses: Losses, weights: Array) -> None:
        """Give up runs that have lost; only at fixed numbers of samples, the powers of two.

        Of two runs that differ in their rates alone, the better one is left. Memory is given up
        if it is clearly worse and the stream is long: what a few thousand samples tell does not
        grow any more, while what the stream itself tells does.
        """
        if seen < CUT or seen & (seen - 1):
            return
        best = [
            self._chosen([each for each in self.runs if bool(each.memory) == kind], losses, weights)
            for kind in {bool(each.memory) for each in self.runs}
        ]
        left = {each.chosen._replace(output=self._outputs[0]) for each in best}
        if len(best) == 2:
            without, within = (losses(self._point(each.chosen)) for each in best)
            gain, error = _difference(within, without, weights)
            if gain > 2.0 * error:
                left = {each for each in left if not each.memory}
        self.runs = {each: run for each, run in self.runs.items() if each in left}
        self.judge(losses, weights)

    def state_dict(self) -> dict[str, Any]:
        """The runs that are left, and what is chosen."""
        return {
            "runs": [[*name[:2], run.state_dict()] for name, run in self.runs.items()],
            "choice": {
                **vars(self.choice),
                "chosen": list(self.choice.chosen),
                "default": list(self.choice.default),
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the contest with the same arguments that gave ``state`` was."""
        names = [Candidate(*run[:2], self._outputs[0]) for run in state["runs"]]
        if not names or not set(names) <= set(self.runs):
            raise ValueError(f"state has other runs: {', '.join(map(str, names)) or 'none'}")
        runs = {}
        for name, (_, _, saved) in zip(names, state["runs"], strict=True):
            runs[name] = self.runs[name]
            runs[name].load_state_dict(saved)
        made = dict(state["choice"])
        made["chosen"], made["default"] = Candidate(*made["chosen"]), Candidate(*made["default"])
        self.runs, self.choice = runs, Choice(**made)

    def _chosen(
        self, runs: Iterable[Candidate], losses: Losses, weights: Array
    ) -> Choice:
        candidates = [run._replace(output=output) for run in runs for output in self._outputs]
        default, gain, error = candidates[0], 0.0, 0.0
        chosen, held = default, len(weights)
        if held >= FEWEST:
            before = losses(self._point(default))
            for candidate in candidates[1:]:
                better, spread = _difference(before, losses(self._point(candidate)), weights)
                if better > max(gain, 2.0 * spread):
                    chosen, gain, error = candidate, better, spread
        return Choice(chosen, default, gain, error, held, len(candidates))

    def _point(self, candidate: Candidate) -> Array:
        run = self.runs[candidate._replace(output=self._outputs[0])]
        return self._points(run)[candidate.output]

    def _points(self, run: Optimizer) -> dict[str, Array]:
        return run.outputs() if len(self._outputs) > 1 else {self._outputs[0]: run.average}


def _difference(one: Array, other: Array, weights: Array) -> tuple[float, float]:
    """Mean of one − other, and its standard error; −∞ if the other is not finite."""
    if not np.isfinite(other).all():
        return -math.inf, 0.0
    if not np.isfinite(one).all():
        return math.inf, 0.0
    total, apart = weights.sum(), one - other
    mean = float(weights @ apart / total)
    spread = math.sqrt(float((weights * (apart - mean)) @ (weights * (apart - mean))))
    return mean, spread / float(total)
