"""Runs of one method side by side, and a held-out sample that chooses among their outputs."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.held_out import HeldOut
from mixfree.base.sample import UniformSample
from mixfree.base.state import UnitChange
from mixfree.core.methods import EVERY, Method, find_method, start_method
from mixfree.core.optimizer import Optimizer

MEMORY = 4096  # samples that "auto" keeps, if they are not too large
BYTES = 1 << 26  # what they may take
FEWEST = 32  # held-out samples below which nothing is chosen but the default
PIECE = 1 << 14  # samples to look at together for those to be held out
CUT = 1 << 16  # samples from which on runs are given up, at every power of two
FAR = 4.0  # standard errors by which a run that is given up is worse

Losses = Callable[[Array, UniformSample], Array]


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

    A uniform sample of the stream is held out, never learnt from, and judges the runs' outputs.

    Parameters
    ----------
    method, x0, options, **common
        As of :func:`mixfree.core.methods.start_method`. What they settle is not tried otherwise.
    losses
        Gives the loss at a point of each sample that is held out, to be compared by their mean.
    values
        Numbers per sample, which limit how many samples are kept.
    draws
        Draws per sample.
    output
        The only output to hand back; None for a choice of three.
    seed
        Of all draws.

    Attributes
    ----------
    runs
        The optimisers that are left, by what they differ in; the default first.
    """

    def __init__(
        self,
        method: str | type[Method],
        x0: npt.ArrayLike,
        options: Mapping[str, Any],
        *,
        losses: Losses,
        values: int = 1,
        draws: int = 1,
        output: str | None = None,
        seed: int = 0,
        **common: Any,
    ) -> None:
        found = find_method(method)
        memory = max(FEWEST, min(MEMORY, BYTES // (8 * values)))
        chooses_rate = "per_coordinate" in found.options() and "per_coordinate" not in options
        self._outputs = ("weighted", "tail", "last") if output is None else (output,)
        common |= {"output": EVERY if output is None else output, "draws": draws, "seed": seed}
        self.runs: dict[Candidate, Optimizer] = {}
        for size in (0, memory):
            for one_rate in (False, True) if chooses_rate else (False,):
                rates = {"per_coordinate": False} if one_rate else {}
                run = start_method(found, x0, {**options, **rates}, memory=size, **common)
                self.runs[Candidate(size, one_rate, self._outputs[0])] = run
        self._losses, self._held_out = losses, HeldOut.start(seed)
        self._choice, self._judged = self._chosen(self.runs), 0

    @property
    def samples(self) -> int:
        """Samples seen, those held out included."""
        return self._held_out.seen

    @property
    def steps(self) -> int:
        """Steps of the run that is chosen."""
        return self.optimizer.steps

    def judge(self) -> Choice:
        """Choose the candidate with the least held-out loss, if clearly better than the default.

        Clearly: by more than two standard errors of the mean of the paired differences.
        """
        if self._judged != self.samples:
            self._choice, self._judged = self._chosen(self.runs), self.samples
        return self._choice

    @property
    def optimizer(self) -> Optimizer:
        """The run whose output was chosen when it was last judged."""
        return self._run(self._choice.chosen)

    @property
    def average(self) -> Array:
        """The output that was chosen when it was last judged."""
        return self._point(self._choice.chosen)

    def takes(self, sample: Any) -> bool:
        """Whether the next sample is held out."""
        return self._held_out.takes(sample)

    def pieces(self, columns: Sequence[Array]) -> Iterator[tuple[slice, Array]]:
        """The next samples in pieces to be learnt from, and which of each are not held out.

        Each piece must have been learnt from before the next one is asked for.
        """
        done, count = 0, len(columns[0])
        while done < count:
            seen = self.samples
            stop = min(count, done + PIECE - seen % PIECE, done + (1 << seen.bit_length()) - seen)
            now = slice(done, stop)
            yield now, self._held_out.split([column[now] for column in columns])
            self.learnt()
            done = stop

    def teach(self, learn: Callable[[Optimizer], None]) -> None:
        """Let every run learn; one that ends in an error where the default does not is given up."""
        for name, run in list(self.runs.items()):
            try:
                learn(run)
            except (ValueError, ArithmeticError):
                if name == next(iter(self.runs)):
                    raise
                self.runs = {each: other for each, other in self.runs.items() if each != name}
                self._choice, self._judged = self._chosen(self.runs), self.samples

    def learnt(self) -> None:
        """All runs have learnt from what was seen so far and not held out.

        At fixed numbers of samples, runs that have clearly lost to one with other rates are given
        up. Memory is not: a stream may mix so slowly that what it is good for has not come yet.
        """
        seen = self.samples
        if seen & (seen - 1):
            return
        if seen >= CUT and self._held.filled >= FEWEST:
            self.runs = dict(self.runs)  # what was exported stays as it is
            self._cut()
        self.judge()

    def change_units(self, change: UnitChange) -> None:
        """Express the runs and what is held out in new units."""
        for run in self.runs.values():
            run.change_units(change)
        if self._held.filled:
            self._held.change_columns(change.samples(self._held.columns))
        self._judged = -1

    def export(self) -> tuple[Any, ...]:
        """All that changes but the runs' own states."""
        return self.runs, self._held_out.copy(), self._choice, self._judged

    def restore(self, exported: tuple[Any, ...]) -> None:
        """Be as when ``exported`` was."""
        self.runs, self._held_out, self._choice, self._judged = exported

    def state_dict(self) -> dict[str, Any]:
        """The runs that are left, and the sample that judges them."""
        runs = [[name.memory, name.one_rate, run.state_dict()] for name, run in self.runs.items()]
        return {"runs": runs, "held_out": self._held_out.plain()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the contest with the same arguments that gave ``state`` was.

        If that fails, the contest is of no use any more.
        """
        names = [Candidate(size, one, self._outputs[0]) for size, one, _ in state["runs"]]
        if not names or not set(names) <= set(self.runs):
            raise ValueError(f"state has other runs: {', '.join(map(str, names)) or 'none'}")
        self._held_out = self._held_out.restored(state["held_out"], "held-out sample")
        self.runs = {name: self.runs[name] for name in names}
        for run, (_, _, saved) in zip(self.runs.values(), state["runs"], strict=True):
            run.load_state_dict(saved)

    def _cut(self) -> None:
        """Of two runs that differ in their rates alone, give up one that is far worse.

        Not the default, which the others have to beat.
        """
        found: dict[Candidate, Array] = {}
        for run in self.runs:
            points = [self._point(run._replace(output=output)) for output in self._outputs]
            found[run] = min((self._losses(x, self._held) for x in points), key=np.mean)
        for run, losses in list(found.items())[1:]:
            other = run._replace(one_rate=not run.one_rate)
            if other in found:
                worse, error = _difference(losses, found[other])
                if worse > FAR * error:
                    del self.runs[run]

    def _chosen(self, runs: Iterable[Candidate]) -> Choice:
        held = self._held
        candidates = [run._replace(output=output) for run in runs for output in self._outputs]
        chosen, gain, error = candidates[0], 0.0, 0.0
        if held.filled >= FEWEST:
            before = self._losses(self._point(chosen), held)
            for candidate in candidates[1:]:
                better, spread = _difference(before, self._losses(self._point(candidate), held))
                if better > max(gain, 2.0 * spread):
                    chosen, gain, error = candidate, better, spread
        return Choice(chosen, candidates[0], gain, error, held.filled, len(candidates))

    @property
    def _held(self) -> UniformSample:
        return self._held_out.sample

    def _name(self, candidate: Candidate) -> Candidate:
        return candidate._replace(output=self._outputs[0])

    def _run(self, candidate: Candidate) -> Optimizer:
        return self.runs[self._name(candidate)]

    def _point(self, candidate: Candidate) -> Array:
        run = self._run(candidate)
        return run.outputs()[candidate.output] if len(self._outputs) > 1 else run.average


def _difference(one: Array, other: Array) -> tuple[float, float]:
    """Mean of one − other, and its standard error; infinite if only one of them is finite."""
    if not np.isfinite(other).all():
        return -math.inf, 0.0
    if not np.isfinite(one).all():
        return math.inf, 0.0
    apart = one - other
    return float(apart.mean()), float(apart.std(ddof=1)) / math.sqrt(apart.size)
