"""A fit to samples kept of a stream, and the choice between it and the output of a run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.draws import JUDGES
from mixfree.base.sample import UniformSample
from mixfree.base.state import loading
from mixfree.core.finish import TINY, descent

MEMORY = 1 << 17  # most samples kept
INTERPRETED = 1 << 12  # the same where every gradient is a call of a Python function
BYTES = 1 << 25  # most bytes that they take; the judging sample takes half as many
LARGE = 1 << 27  # the same, where fewer bytes would be too few samples for a fit
JUDGING = 1 << 12  # most samples of the judging sample
FEWEST = 32  # samples before the fit is considered
EACH = 10  # the same, per coordinate of the point
EVALUATIONS = 96  # most passes over the kept samples per fit
PIECE = 1 << 16  # most samples taken at a time
FEW = 1 << 10  # fewer samples are placed without compiled code, which sorts all keys again
CLEAR = 1.0  # standard errors by which the fit must be better to be chosen

Add = Callable[[Array, slice, Array], None]
Project = Callable[[Array], Array]
Penalty = Callable[[Array], tuple[float, Array | float]]


class Coordinates(Protocol):
    """Coordinates in which all directions matter about equally, as far as that is known."""

    def of_point(self, x: Array) -> Array:
        """Return the coordinates of a point."""

    def point(self, v: Array) -> Array:
        """Return the point with these coordinates."""

    def of_gradient(self, g: Array) -> Array:
        """Return the gradient with respect to the coordinates."""


class Objective(Protocol):
    """Losses of samples, and their gradients."""

    def total(self, x: Array, kept: UniformSample) -> Array:
        """Return the sum of the gradients of the kept samples at a point."""

    def losses(self, x: Array, kept: UniformSample) -> Array:
        """Return the loss of each kept sample at a point."""

    def slopes(self, x: Array, along: Array, kept: UniformSample) -> Array:
        """Return the inner product of each kept sample's gradient at a point with a vector."""

    def coordinates(self, kept: UniformSample) -> Coordinates:
        """Return coordinates for the fit, a function of the kept samples only."""


@dataclass(frozen=True)
class Choice:
    """The choice between the output of a run and the fit to the kept samples, and its margin.

    Attributes
    ----------
    fitted
        Whether the fit was chosen.
    memory
        Number of samples kept.
    gain, error
        Mean loss of the run's output minus that of the fit, and the standard error of
        this estimate of the difference over all samples of the stream.
    judges
        Number of samples that were compared; 0 if there were too few samples for a fit.
    samples
        Number of samples of the stream at that time.
    """

    fitted: bool
    memory: int
    gain: float = 0.0
    error: float = 0.0
    judges: int = 0
    samples: int = 0

    def __str__(self) -> str:
        return "; ".join(self.lines())

    def lines(self) -> list[str]:
        """The choice and its reason."""
        fit = f"the fit to {self.memory:,} of {self.samples:,} samples"
        if not self.judges:
            return ["the output of the run: there are too few samples for a fit"]
        on = f"{self.gain:.3g} ± {self.error:.1g} on {self.judges:,} samples"
        if not self.fitted:
            return ["the output of the run", f"mean loss above that of {fit} by {on}, not clearly"]
        return [fit, f"mean loss below that of the run's output by {on}"]


class Contest:
    r"""A uniform sample of a stream, and the fit to it.

    While all samples are kept, the fit minimises their mean loss. When more have come, the
    gradient of the mean loss over all N samples is estimated from that over the n kept ones and
    the sum G of all gradients at a fixed point a, the anchor:

    .. math:: \nabla F(x) \approx G/N + \nabla L_n(x) - \nabla L_n(a)

    The error is not that of the kept sample's minimum but smaller by a factor proportional to the
    distance of the anchor from the minimum (control variates, as in SVRG: Johnson and Zhang 2013;
    the surrogate loss of Jordan, Lee and Yang 2019). Whenever the number of samples has doubled,
    the anchor moves to the fit, and the same equation converts G. Neither depends on the order of
    the samples except through the anchors.

    If fewer than ten samples per coordinate can be kept, their minimum is no good estimate, and
    there are no anchors. Then several points of the way there, from the run's output, are
    compared with it.

    A second uniform sample, drawn independently, judges the fit and the run's output, with the
    same correction.

    Parameters
    ----------
    x0
        The first anchor.
    objective
        Losses and gradients.
    values
        Numbers per sample, which determine how many are kept.
    interpreted
        Whether a gradient is a call of a Python function, so that fewer samples are kept.
    seed
        Seed of both samples.
    """

    def __init__(
        self,
        x0: npt.ArrayLike,
        objective: Objective,
        *,
        values: int = 1,
        interpreted: bool = False,
        seed: int = 0,
    ) -> None:
        self._anchor = np.array(x0, np.float64)
        enough, room = EACH * self._anchor.size, LARGE // (8 * values)
        usual = min(MEMORY, INTERPRETED if interpreted else MEMORY, BYTES // (8 * values))
        self.memory = UniformSample(max(FEWEST, usual, enough if enough <= room else 0), seed)
        self._judges = UniformSample(
            max(FEWEST, min(JUDGING, BYTES // (16 * values))), seed, JUDGES
        )
        self._objective = objective
        self._total = np.zeros_like(self._anchor)  # sum of all gradients at the anchor
        self._corrects = self.memory.size >= enough
        self._asked: tuple[Choice, Array] | None = None

    @property
    def samples(self) -> int:
        """Samples seen."""
        return self.memory.seen

    def offer(self, columns: Sequence[Array], add: Add) -> None:
        """Take the next samples; ``add(x, now, out)`` adds the gradients of a slice at x to out."""
        from mixfree.kernels.reservoir import replaced

        done, count = 0, len(columns[0])
        while done < count:
            stop = min(count, done + PIECE, done + self._next_move() - self.samples)
            now = slice(done, stop)
            if self._corrects and self._full:
                self._add(partial(add, self._anchor, now))
            for sample in (self.memory, self._judges):
                placed = sample.place(stop - done, replaced if stop - done > FEW else None)
                sample.store([column[now] for column in columns], *placed)
            self._move_anchor()
            done = stop

    def see(self, sample: Any, grad: Callable[[Array, Any], npt.ArrayLike]) -> None:
        """Take the next sample, of any type, with gradient ``grad(x, sample)``."""
        if self._corrects and self._full:
            self._add(lambda out: np.add(out, grad(self._anchor, sample), out=out))
        self.memory.keep(sample)
        self._judges.keep(sample)
        self._move_anchor()

    def choose(
        self,
        output: Array,
        project: Project = lambda x: x,
        penalty: Penalty = lambda x: (0.0, 0.0),
    ) -> tuple[Choice, Array]:
        """Choose between the output of a run and the fit that starts from it.

        Parameters
        ----------
        output
            The output of a run over the same samples.
        project
            Returns the nearest point of the domain.
        penalty
            Returns a term of the objective without samples, and its gradient.
        """
        if self._asked is None:
            self._asked = self._chosen(np.asarray(output, np.float64), project, penalty)
        return self._asked

    def state_dict(self) -> dict[str, Any]:
        """The kept samples, the anchor and the sum of gradients there."""
        return {
            "memory": self.memory.plain(),
            "judges": self._judges.plain(),
            "anchor": self._anchor.copy(),
            "total": self._total.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where the contest that returned ``state``, with the same arguments, was.

        After an error this contest must not be used any more.
        """
        with loading("contest"):
            self.memory = self.memory.restored(state["memory"], "memory")
            self._judges = self._judges.restored(state["judges"], "sample that judges")
            if self.memory.seen != self._judges.seen:
                raise ValueError("state has samples of different streams")
            for name in ("anchor", "total"):
                found = np.array(state[name], np.float64)
                if found.shape != self._anchor.shape:
                    raise ValueError(f"{name} must have shape {self._anchor.shape}")
                setattr(self, f"_{name}", found)
            self._asked = None
            if self.samples:  # raises an error unless losses can be computed
                self._objective.losses(self._anchor, self._judges)

    @property
    def _full(self) -> bool:
        """Whether the next sample does not fit into the memory."""
        return self.samples >= self.memory.size

    def _next_move(self) -> int:
        """The sample count at which the anchor moves next."""
        size = self.memory.size
        return size << (self.samples // size).bit_length()

    def _add(self, add: Callable[[Array], Any]) -> None:
        """Add gradients at the anchor; without them there is no fit any more."""
        try:
            with np.errstate(all="ignore"):
                add(self._total)
        except (ValueError, ArithmeticError):
            self._total[:] = np.nan

    def _move_anchor(self) -> None:
        """Move the anchor to the fit if the number of samples has doubled."""
        self._asked = None
        times, rest = divmod(self.samples, self.memory.size)
        if rest or times == 0 or times & (times - 1) or not self._corrects:
            return
        tilt = self._tilt()
        self._anchor = self._path(self._anchor, tilt)[-1]
        self._total = self.samples * (self._mean(self._anchor) + tilt)

    def _mean(self, x: Array) -> Array:
        """The mean gradient of the kept samples; NaN where it cannot be computed."""
        try:
            with np.errstate(all="ignore"):
                return self._objective.total(x, self.memory) / self.memory.filled
        except (ValueError, ArithmeticError):
            return np.full_like(x, np.nan)

    def _tilt(self) -> Array:
        """Mean gradient of all samples minus that of the kept ones, both at the anchor."""
        if not self._corrects or self.samples <= self.memory.size:
            return np.zeros_like(self._anchor)
        return self._total / self.samples - self._mean(self._anchor)

    def _path(
        self,
        start: Array,
        tilt: Array,
        project: Project = lambda x: x,
        penalty: Penalty = lambda x: (0.0, 0.0),
        least: float = TINY,
    ) -> list[Array]:
        """Points on the way to the fit."""
        coordinates = self._objective.coordinates(self.memory)

        def gradient(v: Array) -> Array:
            x = project(coordinates.point(v))
            return coordinates.of_gradient(self._mean(x) + tilt + penalty(x)[1])

        with np.errstate(all="ignore"):
            path = descent(gradient, coordinates.of_point(start), EVALUATIONS, least)
            return [project(coordinates.point(v)) for v in path]

    def _chosen(self, output: Array, project: Project, penalty: Penalty) -> tuple[Choice, Array]:
        seen, kept, tilt = self.samples, self.memory.filled, self._tilt()
        if seen < max(FEWEST, EACH * output.size) or not np.isfinite(tilt).all():
            return Choice(False, kept, samples=seen), output
        every = seen <= self.memory.size
        path = self._path(
            output if every or not self._corrects else self._anchor, tilt, project, penalty
        )
        fits = path[-1:]
        if not every and not self._corrects:
            fits += [path[1 << k] for k in range(len(path).bit_length() - 1)]
        judges = self.memory if every else self._judges
        found = [self._judged(output, fit, judges, penalty) for fit in fits]
        (gain, error), fit = max(zip(found, fits, strict=True), key=lambda pair: pair[0][0])
        # Correction for a finite population: the judging samples themselves are known exactly.
        error *= math.sqrt(1.0 - judges.filled / seen)
        fitted = gain > CLEAR * error
        choice = Choice(fitted, kept, gain, error, judges.filled, seen)
        return choice, fit if fitted else output

    def _judged(
        self, output: Array, fit: Array, judges: UniformSample, penalty: Penalty
    ) -> tuple[float, float]:
        """Estimate of the mean loss of the output minus that of the fit, and its error."""
        with np.errstate(all="ignore"):
            before, after = (
                self._objective.losses(x, judges) + penalty(x)[0] for x in (output, fit)
            )
            if judges is not self.memory and self._corrects:
                way = output - fit
                before -= self._objective.slopes(self._anchor, way, judges)
                before += float(self._total @ way) / self.samples
        return _difference(before, after)


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
