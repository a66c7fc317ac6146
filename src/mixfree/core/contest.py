"""Several runs of one method side by side, compared on a uniform sample of the stream."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole, shown
from mixfree.base.draws import JUDGES
from mixfree.base.sample import UniformSample
from mixfree.base.state import UnitChange, loading
from mixfree.core.method import EVERY, Method
from mixfree.core.methods import find_method, start_method
from mixfree.core.optimizer import Optimizer

MEMORY = 1 << 17  # most samples that a run with memory keeps
BYTES = 1 << 25  # most bytes that these samples take; the judging sample takes half as many
LENGTH = 4.0  # factor of the steps with memory, for methods with the option `length`
FEWEST = 32  # samples before anything but the default is chosen
EACH = 10  # the same, per coordinate of the point
CUT = 1 << 16  # samples after which only the best run with memory continues
PIECE = 1 << 16  # most samples taken at a time
CLEAR = 1.0  # standard errors by which a candidate must beat the default to be chosen

Losses = Callable[[Sequence[Array], UniformSample], Iterable[Array]]


class Candidate(NamedTuple):
    """One output of one run."""

    memory: int  # samples kept
    one_rate: bool  # whether all coordinates share one rate, for methods with the choice
    length: float  # factor of the steps, for methods with the option
    output: str

    def __str__(self) -> str:
        kept = f"up to {self.memory:,} samples kept" if self.memory else "nothing kept"
        rates = "one rate" if self.one_rate else "the method's own rates"
        steps = f", steps {self.length:g} times as long" if self.length != 1.0 else ""
        outputs = {"weighted": "weighted average", "tail": "tail average", "last": "last point"}
        return f"{kept}, {rates}{steps}, {outputs.get(self.output, self.output)}"


@dataclass(frozen=True)
class Choice:
    """The candidate chosen by a uniform sample of the stream, and its margin.

    Attributes
    ----------
    chosen, default
        The chosen candidate, and the default that it had to beat.
    gain, error
        Mean loss of the default minus that of the chosen candidate, and the standard error of
        this estimate of the difference over all samples of the stream.
    judges
        Number of samples in the judging sample.
    samples
        Number of samples of the stream at that time.
    candidates
        Number of candidates.
    """

    chosen: Candidate
    default: Candidate
    gain: float = 0.0
    error: float = 0.0
    judges: int = 0
    samples: int = 0
    candidates: int = 1

    def __str__(self) -> str:
        judges = f"by {self.judges:,} of the first {self.samples:,} samples"
        if not self.judges:
            return f"{self.chosen}: too few samples to choose by"
        if self.chosen == self.default:
            return f"{self.chosen}: no other of {self.candidates} is clearly better {judges}"
        return (
            f"{self.chosen}: better than {self.default} "
            f"by {self.gain:.3g} ± {self.error:.1g} {judges}"
        )


class Contest:
    """A default run without memory, and runs with memory that compete with it.

    The runs with memory take longer steps, with one rate for all coordinates or the method's own
    rates. Every run learns from every sample, so the default run equals the method without a
    contest. A uniform sample of the stream, drawn independently of the runs, judges their outputs
    at fixed sample counts, four per doubling, and when a result is requested. Its mean loss is an
    unbiased estimate of the mean loss over all samples so far.

    Parameters
    ----------
    method, x0, options, **common
        As for :func:`mixfree.core.methods.start_method`. An option given here is not varied.
    losses
        Function that returns the losses of the judging samples at each of several points.
    values
        Numbers per sample, which determine how many samples fit into the memory.
    judges
        Largest number of judging samples.
    draws
        Draws from the memory per sample.
    output
        The only output to consider; None for a choice of three.
    seed
        Seed of all draws.

    Attributes
    ----------
    runs
        The remaining optimisers, the default first.
    """

    def __init__(
        self,
        method: str | type[Method],
        x0: npt.ArrayLike,
        options: Mapping[str, Any],
        *,
        losses: Losses,
        values: int = 1,
        judges: int = 1 << 12,
        draws: int = 1,
        output: str | None = None,
        seed: int = 0,
        **common: Any,
    ) -> None:
        found = find_method(method)
        memory = max(FEWEST, min(MEMORY, BYTES // (8 * values)))
        offers, first = found.options(), "weighted" if output is None else output
        rates = [bool(not options.get("per_coordinate", True))]
        if "per_coordinate" in offers and "per_coordinate" not in options:
            rates = [False, True]
        given = options.get("length", 1.0)
        longer = LENGTH if "length" in offers and "length" not in options else given
        names = [Candidate(0, rates[0], given, first)]
        names += [Candidate(memory, one, longer, first) for one in rates]
        self._outputs = ("weighted", "tail", "last") if output is None else (output,)
        common |= {"output": EVERY if output is None else output, "draws": draws, "seed": seed}
        self.runs: dict[Candidate, Optimizer] = {}
        for name in names:
            tried = {"per_coordinate": not name.one_rate, "length": name.length}
            own = {each: value for each, value in tried.items() if each in offers}
            self.runs[name] = start_method(
                found, x0, {**options, **own}, memory=name.memory, **common
            )
        self._losses = losses
        self._judges = UniformSample(max(FEWEST, min(judges, BYTES // (16 * values))), seed, JUDGES)
        self._choice = self._undecided()
        self._clear: dict[Candidate, float] = {}  # significant gains when last judged
        self._asked: Choice | None = None  # the answer to a request between two fixed counts

    @property
    def samples(self) -> int:
        """Samples seen."""
        return self._judges.seen

    @property
    def steps(self) -> int:
        """Steps of the chosen run."""
        return self.optimizer.steps

    @property
    def choice(self) -> Choice:
        """The choice at the present points.

        Candidates that were significantly better at the last fixed count are judged again, since
        their points have moved in the meantime.
        """
        if not self._clear or self._choice.samples == self.samples:
            return self._choice
        if self._asked is None or self._asked.samples != self.samples:
            self._asked, _ = self._chosen(self._judged(self._clear))
        return self._asked

    @property
    def optimizer(self) -> Optimizer:
        """The chosen run."""
        return self.runs[self._name(self.choice.chosen)]

    @property
    def average(self) -> Array:
        """The chosen output."""
        chosen = self.choice.chosen
        return self._outputs_of(self._name(chosen))[chosen.output]

    def see(self, sample: Any) -> None:
        """Offer the next sample to the judging sample."""
        self._judges.keep(sample)

    def pieces(self, columns: Sequence[Array]) -> Iterator[slice]:
        """Yield the next samples in pieces; the runs must learn from each before the next."""
        from mixfree.kernels.reservoir import replaced

        done, count = 0, len(columns[0])
        while done < count:
            mark = _next_mark(max(self.samples, self._fewest - 1))
            stop = min(count, done + PIECE, done + mark - self.samples)
            now = slice(done, stop)
            placed = self._judges.place(stop - done, replaced if stop - done > FEWEST else None)
            self._judges.store([column[now] for column in columns], *placed)
            yield now
            self.learnt()
            done = stop

    def teach(self, learn: Callable[[Optimizer], None]) -> None:
        """Let every run learn; drop a run that raises an error where the default does not."""
        for name, run in list(self.runs.items()):
            try:
                learn(run)
            except (ValueError, ArithmeticError):
                if name == self._default:
                    raise
                self._give_up(name)

    def learnt(self) -> None:
        """Judge the runs if all have reached a mark.

        After ``CUT`` samples only the better of two runs with memory continues.
        """
        seen = self.samples
        if seen < self._fewest or seen != _next_mark(seen - 1):
            return
        found = self._judged(self._candidates())
        self._choice, self._clear = self._chosen(found)
        if seen >= CUT and len(self.runs) > 2:
            self._give_up(self._worst(found))

    def change_units(self, change: UnitChange) -> None:
        """Convert the runs and the judging samples to new units."""
        for run in self.runs.values():
            run.change_units(change)
        self._judges.change_units(change)

    def export(self) -> tuple[Any, ...]:
        """Everything that changes except the states of the runs."""
        return self.runs, self._judges.copy(), self._choice, self._clear

    def restore(self, exported: tuple[Any, ...]) -> None:
        """Return to an exported state."""
        self.runs, self._judges, self._choice, self._clear = exported
        self._asked = None

    def state_dict(self) -> dict[str, Any]:
        """The remaining runs, the judging sample and the choice."""
        runs = [[list(name), run.state_dict()] for name, run in self.runs.items()]
        choice = asdict(self._choice) | {"chosen": list(self._choice.chosen)}
        del choice["default"]
        clear = [[list(name), gain] for name, gain in self._clear.items()]
        return {"runs": runs, "judges": self._judges.plain(), "choice": choice, "clear": clear}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where the contest that returned ``state``, with the same arguments, was.

        After an error this contest must not be used any more.
        """
        with loading("contest"):
            names = [Candidate(*name) for name, _ in state["runs"]]
            other = not set(names) <= set(self.runs) or len(set(names)) < len(names)
            if self._default not in names or other:
                raise ValueError(f"state has other runs: {shown(names)}")
            chosen = Candidate(*state["choice"]["chosen"])
            if self._name(chosen) not in names or chosen.output not in self._outputs:
                raise ValueError(f"state has chosen a run that it has not: {shown(chosen)}")
            choice = state["choice"]
            gain, error = float(choice["gain"]), float(choice["error"])
            counts = (
                check_whole(choice[name], name, least=0)
                for name in ("judges", "samples", "candidates")
            )
            self._choice = Choice(chosen, self._default, gain, error, *counts)
            self._judges = self._judges.restored(state["judges"], "sample that judges")
            self._clear = {Candidate(*name): float(gain) for name, gain in state["clear"]}
            if not {self._name(each) for each in self._clear} <= set(names):
                raise ValueError(f"state has judged runs that it has not: {shown(self._clear)}")
            self._asked = None
            self.runs = {name: self.runs[name] for name in names}
            for run, (_, saved) in zip(self.runs.values(), state["runs"], strict=True):
                run.load_state_dict(saved)
            if self._judges.filled:  # raises an error unless losses can be computed
                self._losses([self.average], self._judges)

    @property
    def _fewest(self) -> int:
        """Samples before anything but the default is chosen."""
        return max(FEWEST, EACH * self.runs[self._default].x.size)

    @property
    def _default(self) -> Candidate:
        return next(iter(self.runs))

    def _undecided(self) -> Choice:
        return Choice(self._default, self._default)

    def _give_up(self, name: Candidate) -> None:
        """Drop a run; exported states are not affected."""
        self.runs = {each: run for each, run in self.runs.items() if each != name}
        self._clear = {each: gain for each, gain in self._clear.items() if self._name(each) != name}
        self._asked = None
        if self._name(self._choice.chosen) == name:
            self._choice = self._undecided()

    def _candidates(self) -> list[Candidate]:
        return [run._replace(output=output) for run in self.runs for output in self._outputs]

    def _judged(self, names: Iterable[Candidate]) -> dict[Candidate, Array]:
        """Losses of the judging samples for the default and the given candidates."""
        judged = list(dict.fromkeys([self._default, *names]))
        outputs = {run: self._outputs_of(run) for run in map(self._name, judged)}
        points = [outputs[self._name(each)][each.output] for each in judged]
        return dict(zip(judged, self._losses(points, self._judges), strict=True))

    def _chosen(self, found: Mapping[Candidate, Array]) -> tuple[Choice, dict[Candidate, float]]:
        """The best of the candidates that beat the default twice in a row.

        Also returns the gains of all candidates that beat it now.
        """
        default, count = self._default, self._judges.filled
        # Correction for a finite population: the judging samples themselves are known exactly.
        unseen = math.sqrt(max(0.0, 1.0 - count / self.samples))
        clear, errors = {}, {default: 0.0}
        for candidate, losses in found.items():
            gain, error = _difference(found[default], losses)
            if gain > CLEAR * unseen * error:
                clear[candidate], errors[candidate] = gain, unseen * error
        # Requiring two wins in a row rules out points that are good by chance.
        twice = [name for name in clear if name in self._clear]
        chosen = max(twice, key=clear.__getitem__, default=default)
        gain, every = clear.get(chosen, 0.0), len(self._candidates())
        return Choice(chosen, default, gain, errors[chosen], count, self.samples, every), clear

    def _worst(self, found: Mapping[Candidate, Array]) -> Candidate:
        """The run with memory whose best output has the largest mean loss."""
        best = {run: math.inf for run in self.runs if run != self._default}
        for candidate, losses in found.items():
            run, mean = self._name(candidate), float(losses.mean())
            if run in best and mean < best[run]:  # NaN never is
                best[run] = mean
        return max(best, key=lambda run: best[run])

    def _name(self, candidate: Candidate) -> Candidate:
        return candidate._replace(output=self._outputs[0])

    def _outputs_of(self, name: Candidate) -> dict[str, Array]:
        run = self.runs[name]
        return run.outputs() if len(self._outputs) > 1 else {self._outputs[0]: run.average}


def _next_mark(seen: int) -> int:
    """The next sample count after ``seen`` at which outputs are judged: four per doubling."""
    quarter = max(1, (1 << seen.bit_length()) // 8)
    return (seen // quarter + 1) * quarter


def _difference(one: Array, other: Array) -> tuple[float, float]:
    """Mean of one − other, and its standard error; infinite if only one of them is finite."""
    if not np.isfinite(other).all():
        return -math.inf, 0.0
    if not np.isfinite(one).all():
        return math.inf, 0.0
    apart = one - other
    unit = 2.0 ** (int(np.frexp(np.abs(apart).max())[1]) - 1)  # so that squares do not overflow
    apart = apart / unit
    return unit * float(apart.mean()), unit * float(apart.std(ddof=1)) / math.sqrt(apart.size)
