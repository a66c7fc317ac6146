"""The loop: one optimiser made of four parts."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from mixfree.base.arithmetic import Array, inner, largest_of, norm
from mixfree.base.checks import check_point, shown
from mixfree.base.state import RunState, UnitChange, loading
from mixfree.domains import AllSpace, Domain, Euclidean, Mirror, Simplex
from mixfree.gradients import Gradient, Reservoir, Window
from mixfree.outputs import Average, Output
from mixfree.steps import CorrelationScale, Profile, Step

FORMAT = 5  # version of what state_dict gives
PARTS = ("gradient", "step", "output", "domain", "mirror")
Kernel = Callable[[Any, Any, tuple[Array, ...], Array], int]


class GradientRefused(ValueError):
    """Raised for a gradient that is not finite or is too large to be squared."""


class Optimizer:
    """A run of one method: :meth:`tell` takes gradients evaluated at ``x`` and moves ``x``.

    Usually created as a method of the table, such as :data:`mixfree.MAG`; this class combines
    any four parts.

    Parameters
    ----------
    x0
        The starting point, a vector inside the domain. float32 stays float32.
    gradient, step, domain, output, mirror
        The four parts, and the geometry of a step.
    name
        The name of the method.

    Examples
    --------
    >>> import mixfree as mf
    >>> opt = mf.AdaGrad([0.0, 0.0], domain=mf.Ball(1.0))
    >>> opt.tell([-3.0, -4.0])
    True
    >>> opt.x
    array([0.6, 0.8])
    """

    name: str = "custom"
    seed: int = 0

    def __init__(
        self,
        x0: npt.ArrayLike,
        gradient: Gradient,
        step: Step,
        domain: Domain | None = None,
        output: Output | None = None,
        mirror: Mirror | None = None,
        name: str | None = None,
    ) -> None:
        x = check_point(x0, "x0")
        self.name = name or self.name
        self.gradient = gradient
        self.step = step
        self.domain = (domain or AllSpace()).bind(x.size)
        self.output = output or Average()
        self.mirror = mirror or Euclidean()
        self._check_start(x)
        self._shape, self._dtype = x.shape, x.dtype
        self._run = RunState(x, 0, gradient.start(x), step.start(x), self.output.start(x))
        self.largest = largest_of(x.dtype)
        self._reach = getattr(step, "reach", None)

    @property
    def x(self) -> Array:
        """The point at which to evaluate the next gradient (read-only)."""
        return self._run.x

    @property
    def average(self) -> Array:
        """The output point: the average of the iterates, or the point that ``output`` defines."""
        return self.output.point(self._run.output, self._run.x)

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self._run.gradient.samples)

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self._run.steps

    @property
    def pending(self) -> int:
        """Samples observed that no step has used yet."""
        return self.gradient.pending(self._run.gradient)

    @property
    def number(self) -> int:
        """Position in the stream, from 1, of the sample whose gradient is due next."""
        return self.gradient.number(self._run.gradient)

    def remember(self, size: int, draws: int = 1, seed: int | None = None) -> None:
        """Keep a uniform sample of ``size`` and include draws from it in every gradient.

        Each of the ``draws`` per sample costs one more gradient. Must be called before the first
        sample; samples must then be passed to :meth:`offer`.

        Examples
        --------
        >>> import mixfree as mf
        >>> opt = mf.Ladder([0.0])
        >>> opt.remember(1000)
        >>> for sample in (2.0, 4.0):
        ...     for z in opt.offer(sample):
        ...         stepped = opt.tell(opt.x - z)
        >>> opt.samples, opt.steps
        (2, 2)
        """
        if self.samples or isinstance(self.gradient, Reservoir):
            raise ValueError("memory must be given once, and before the first sample")
        if not isinstance(self.gradient, Window):
            raise ValueError(f"memory does not go with {self.name}, which replays samples already")
        self.gradient = Reservoir(self.gradient, size, draws, self.seed if seed is None else seed)
        self._run.gradient = self.gradient.start(self.x)

    def offer(self, sample: Any) -> Iterator[Any]:
        """Pass the next sample of the stream; yields the samples whose gradients are due now.

        Required for memory and replay, which use old samples again; every other method yields
        the sample itself.
        """
        return self.gradient.offer(self._run.gradient, sample)

    def tell(self, gradient: npt.ArrayLike) -> bool:
        """Take the gradient of one sample at ``x``; return True if the point moved.

        A gradient of the wrong shape or dtype or that is not finite, or of a run that has diverged,
        raises ValueError with the sample's number; the optimiser is unchanged.
        """
        g = gradient if type(gradient) is ndarray else np.asarray(gradient)
        if g.shape != self._shape or g.dtype is not self._dtype:
            g = self._converted(g)
        # One dot product is small for nearly every valid gradient; otherwise look closer.
        if not (inner(g, g) <= self.largest or norm(g) <= self.largest):
            raise self.refusal(g)
        return self.take(g)

    def take(self, g: Array) -> bool:
        """As :meth:`tell`, for a gradient known to be finite and of the point's shape and dtype."""
        run = self._run
        if self._reach is not None and self._runs_away():
            raise self.refusal(g)
        direction = self.gradient.add(run.gradient, g, run.steps)
        return direction is not None and self._step_along(run, direction)

    def _step_along(self, run: RunState, direction: Array) -> bool:
        run.steps += 1
        before = run.x
        displacement = self.step.move(run.step, direction, run.steps, before)
        after = self.mirror.move(before, displacement, self.domain)
        iterate = self.gradient.iterate(run.gradient, before, after)
        if iterate is not None:
            self.output.add(run.output, iterate)
        after.setflags(False)  # type: ignore[call-arg]  # a quarter of the time of flags.writeable
        run.x = after
        return True

    @property
    def has_kernel(self) -> bool:
        """Whether every part is compiled, which :meth:`advance` requires."""
        from mixfree.kernels.plan import compilable

        return compilable(self)

    def advance(self, kernel: Kernel, arrays: tuple[Array, ...], order: Array | range) -> None:
        """Take the samples at positions ``order`` of parallel arrays, with gradients from a kernel.

        The samples before a gradient that is refused have been used.
        """
        from mixfree.kernels.runner import run_kernel

        if not run_kernel(self, self._run, kernel, arrays, order):
            raise self.refusal()

    def refusal(self, gradient: Array | None = None) -> GradientRefused:
        """Return the error to raise when the gradient of the next sample is refused."""
        # Gradients of a run that diverges are refused long before its point is that large.
        if self._runs_away() or norm(self.x) > math.sqrt(self.largest):
            return GradientRefused(self._diverged(gradient))
        found = "" if gradient is None else f": its largest entry is {np.abs(gradient).max()}"
        return GradientRefused(
            f"gradient of sample {self.number} is not finite or above {self.largest:.1e}{found}"
        )

    def _runs_away(self) -> bool:
        """Whether the scale of the steps has grown beyond every plausible minimum."""
        return self._reach is not None and self._reach(self._run.step) > self.largest

    def _diverged(self, gradient: Array | None) -> str:
        """The error message for a diverged run."""
        return (
            f"the steps have grown beyond {self.largest:.0e} by sample {self.number}: the loss "
            "falls without end, or its gradient never changes; the last point is kept"
        )

    def begin(self, distance: float) -> None:
        """Set the first distance of a step that searches for it, before the first sample."""
        begin = getattr(self.step, "begin", None)
        if begin is not None and self.samples == 0:
            begin(self._run.step, distance)

    def change_units(self, change: UnitChange) -> None:
        """Convert the run, including its pending window, to new units of the coordinates."""
        self._run.change_units(change)
        self._run.x = np.array(self.domain.project(self._run.x))
        self._run.x.flags.writeable = False

    def export_run(self, own: bool = True) -> RunState:
        """A copy of the run's state, or the state itself to a caller that does not modify it."""
        return self._run.copy() if own else self._run

    def import_run(self, run: RunState) -> None:
        """Continue from a state."""
        self._run = run
        self._run.x.flags.writeable = False

    def profile(self) -> Profile:
        """The ladder's profile: how correlated the gradients are at each block length."""
        profile = getattr(self.step, "profile", None)
        if profile is None:
            raise TypeError(f"only a ladder step keeps a profile, not {self.step!r}")
        found: Profile = profile(self._run.step, self._run.steps)
        return found

    def correlation_scale(self) -> CorrelationScale:
        """Number of samples over which gradients stay correlated, from a ladder's profile."""
        return self.profile().correlation_scale()

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during the run, as copies of numbers and arrays."""
        return {
            "format": FORMAT,
            "method": self.name,
            "settings": self._part_settings(),
            **self._run.plain(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where the optimiser that returned ``state`` was.

        Raises ValueError and changes nothing unless method, parts, settings and the size of the
        point are the same.
        """
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a mapping, not {type(state).__name__}")
        run = dict(state)
        for name, mine in (("format", FORMAT), ("method", self.name)):
            if (theirs := run.pop(name, None)) != mine:
                raise ValueError(f"state has {name} {shown(theirs)}, not {mine!r}")
        with loading("optimiser"):
            _check_settings(run.pop("settings"), self._part_settings())
        self.import_run(self._run.restored(run, "optimiser"))

    def _part_settings(self) -> dict[str, Any]:
        return {name: _settings(getattr(self, name)) for name in PARTS}

    def __repr__(self) -> str:
        about = getattr(self.gradient, "about", "")
        name = f"{self.name}, {about}" if about else self.name
        return f"<{name}: {self.x.size} dimensions, {self.samples} samples, {self.steps} steps>"

    def _converted(self, g: Array) -> Array:
        if g.shape != self._shape:
            raise ValueError(
                f"gradient of sample {self.number} has shape {g.shape}, the point has {self._shape}"
            )
        if g.dtype.kind not in "iuf":
            raise ValueError(
                f"gradient of sample {self.number} must hold real numbers, not {g.dtype}"
            )
        return g.astype(self._dtype)

    def _check_start(self, x: Array) -> None:
        nearest = self.domain.project(x)
        distance = norm(x - nearest)
        rounding = 8.0 * float(np.finfo(x.dtype).eps) * max(1.0, norm(x))
        if distance > rounding:
            raise ValueError(f"x0 is outside the domain {self.domain}, by {distance:.3g}")
        if self.mirror.name == "entropic":
            if not isinstance(self.domain, Simplex):
                raise ValueError(f"the entropic mirror map needs a Simplex, not {self.domain}")
            if not (x > 0.0).all():
                raise ValueError("x0 must be positive in every entry for the entropic mirror map")


def _settings(part: Any) -> dict[str, Any]:
    """The type of a part and its settings, as plain values."""
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    settings = {each.name: _plain(getattr(part, each.name)) for each in fields if each.init}
    return {"kind": type(part).__name__, **settings}


def _plain(value: Any) -> Any:
    """A setting as a value that can be saved and compared."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return _settings(value) if dataclasses.is_dataclass(value) else value


def _check_settings(theirs: Any, mine: dict[str, Any]) -> None:
    """Raise ValueError naming the first part that differs."""
    if not isinstance(theirs, Mapping):
        raise ValueError(f"settings of the state must be a mapping, not {type(theirs).__name__}")
    for part in (*mine, *theirs):
        there, here = theirs.get(part), mine.get(part)
        if there != here:
            name = " ".join(str(part).split())[:40]
            raise ValueError(
                f"state was made with other settings: {name} {shown(there)}, not {here}"
            )
