"""The loop: one optimiser made of four parts."""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from mixfree.base.arithmetic import Array, State, inner, largest_of, norm
from mixfree.base.checks import check_point, check_whole
from mixfree.domains import AllSpace, Domain, Euclidean, Mirror, Simplex
from mixfree.gradients import Gradient
from mixfree.outputs import Average, Output
from mixfree.steps import CorrelationScale, Profile, Step

FORMAT = 2  # of state_dict
_PARTS = ("gradient", "step", "output")  # those with a state
_ALL_PARTS = (*_PARTS, "domain", "mirror")


class GradientRefused(ValueError):
    """A gradient that is not finite, or too large to be squared."""


class Optimizer:
    """A run of one method: tell it gradients taken at ``x``, and it moves ``x``.

    Usually made by a name of the table of methods, such as :data:`mixfree.MAG`; any four parts
    can be put together here.

    Parameters
    ----------
    x0
        Where to start: a vector inside the domain. float32 stays float32.
    gradient, step, domain, output
        The four parts.
    mirror
        The geometry of a step; Euclidean unless given.
    name
        What to call the method.

    Examples
    --------
    >>> import mixfree as mf
    >>> opt = mf.AdaGrad([0.0, 0.0], domain=mf.Ball(1.0))
    >>> opt.tell([-3.0, -4.0])
    True
    >>> opt.x
    array([0.6, 0.8])
    """

    def __init__(
        self,
        x0: npt.ArrayLike,
        gradient: Gradient,
        step: Step,
        domain: Domain | None = None,
        output: Output | None = None,
        mirror: Mirror | None = None,
        name: str = "custom",
    ) -> None:
        self._x = check_point(x0, "x0")
        self.name = name
        self.gradient = gradient
        self.step = step
        self.domain = (domain or AllSpace()).bind(self._x.size)
        self.output = output or Average()
        self.mirror = mirror or Euclidean()
        self._check_start()
        self._x.flags.writeable = False
        self._shape, self._dtype = self._x.shape, self._x.dtype
        self._steps = 0
        self._gradient_state = gradient.start(self._x)
        self._step_state = step.start(self._x)
        self._output_state = self.output.start(self._x)
        self.largest = largest_of(self._x.dtype)

    @property
    def x(self) -> Array:
        """The point at which the next gradient is wanted (read-only)."""
        return self._x

    @property
    def average(self) -> Array:
        """The output point: the average of the iterates, or what ``output`` says."""
        return self.output.point(self._output_state, self._x)

    @property
    def samples(self) -> int:
        """Samples observed so far."""
        return int(self._gradient_state["samples"])

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return self._steps

    @property
    def pending(self) -> int:
        """Samples observed that no step has used yet."""
        return self.gradient.pending(self._gradient_state)

    @property
    def number(self) -> int:
        """Place in the stream (from 1) of the sample whose gradient is wanted next."""
        return self.gradient.number(self._gradient_state)

    @property
    def states(self) -> tuple[State, State, State]:
        """Live states of the gradient, step and output parts, for the compiled twins."""
        return self._gradient_state, self._step_state, self._output_state

    def go_to(self, x: Array, steps: int) -> None:
        """Be at ``x`` after ``steps`` steps, as a compiled twin found it."""
        x.flags.writeable = False
        self._x, self._steps = x, steps

    def offer(self, sample: Any) -> Iterator[Any]:
        """Give a sample of the stream and get those whose gradients are wanted now.

        Only the replaying methods need it; every other one gives the sample straight back.
        """
        return self.gradient.offer(self._gradient_state, sample)

    def tell(self, gradient: npt.ArrayLike) -> bool:
        """Take the gradient of one sample at ``x``; True when the point moved.

        Raises
        ------
        ValueError
            For a gradient of the wrong shape or kind, or one that is not finite. The message
            has the sample's number, and the optimiser is as it was before the call.
        """
        g = gradient if type(gradient) is ndarray else np.asarray(gradient)
        if g.shape != self._shape or g.dtype is not self._dtype:
            g = self._converted(g)
        # One dot product says that all is well; only if it does not, look closer.
        if not isfinite(inner(g, g)):
            self._refuse_if_not_finite(g)
        direction = self.gradient.add(self._gradient_state, g, self._steps)
        return direction is not None and self._step_along(direction)

    def take(self, g: Array) -> bool:
        """What :meth:`tell` does with a gradient of the point's shape and dtype, known finite."""
        direction = self.gradient.add(self._gradient_state, g, self._steps)
        return direction is not None and self._step_along(direction)

    def _step_along(self, direction: Array) -> bool:
        self._steps += 1
        displacement = self.step.move(self._step_state, direction, self._steps, self._x)
        before, after = self._x, self.mirror.move(self._x, displacement, self.domain)
        iterate = self.gradient.iterate(self._gradient_state, before, after)
        if iterate is not None:
            self.output.add(self._output_state, iterate)
        after.setflags(False)  # type: ignore[call-arg]  # a quarter of the time of flags.writeable
        self._x = after
        return True

    def profile(self) -> Profile:
        """The ladder's levels: how correlated the gradients are at each scale.

        Raises
        ------
        TypeError
            When the step part is not a ladder.
        """
        profile = getattr(self.step, "profile", None)
        if profile is None:
            raise TypeError(f"only a ladder step keeps a profile, not {self.step!r}")
        found: Profile = profile(self._step_state, self._steps)
        return found

    def correlation_scale(self) -> CorrelationScale:
        """Samples over which gradients stay correlated, by a ladder's profile."""
        return self.profile().correlation_scale()

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during the run, as numbers and arrays of its own."""
        return {
            "format": FORMAT,
            "method": self.name,
            "settings": {name: _settings(getattr(self, name)) for name in _ALL_PARTS},
            "x": self._x.copy(),
            "steps": self._steps,
            "gradient": copy.deepcopy(self._gradient_state),
            "step": copy.deepcopy(self._step_state),
            "output": copy.deepcopy(self._output_state),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where the optimiser that gave ``state`` was.

        The optimiser must have been made with the same method, parts, settings and point size;
        otherwise ValueError, and nothing has changed.
        """
        if not isinstance(state, Mapping):
            raise ValueError(f"state must be a mapping, not {type(state).__name__}")
        mine = self.state_dict()
        if state.get("format") != FORMAT:
            raise ValueError(f"state has format {state.get('format')!r}, not {FORMAT}")
        if state.get("method") != self.name:
            raise ValueError(f"state is of method {state.get('method')!r}, not {self.name!r}")
        if state.keys() != mine.keys():
            raise ValueError(f"state has entries {sorted(state)}, not {sorted(mine)}")
        _check_settings(state["settings"], mine["settings"])
        x = np.asarray(state["x"])
        if x.shape != self._x.shape or x.dtype != self._x.dtype:
            raise ValueError(
                f"state is of a point of {x.shape} {x.dtype}, not {self._x.shape} {self._x.dtype}"
            )
        if not np.isfinite(x).all():
            raise ValueError("the point of the state is not finite")
        check_whole(state["steps"], "steps of the state", least=0)
        for part in _PARTS:
            _check_alike(state[part], mine[part], part)
        loaded = copy.deepcopy(dict(state))
        self.go_to(np.array(x), int(loaded["steps"]))
        self._gradient_state = loaded["gradient"]
        self._step_state = loaded["step"]
        self._output_state = loaded["output"]

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {self._x.size} dimensions, {self.samples} samples, {self.steps} steps>"
        )

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

    def _refuse_if_not_finite(self, g: Array) -> None:
        if not norm(g) < self.largest:
            raise GradientRefused(
                f"gradient of sample {self.number} is not finite or above "
                f"{self.largest:.1e}: its largest entry is {float(np.abs(g).max())}"
            )

    def _check_start(self) -> None:
        nearest = self.domain.project(self._x)
        distance = norm(self._x - nearest)
        rounding = 8.0 * float(np.finfo(self._x.dtype).eps) * max(1.0, norm(self._x))
        if distance > rounding:
            raise ValueError(f"x0 is outside the domain {self.domain}, by {distance:.3g}")
        if self.mirror.name == "entropic":
            if not isinstance(self.domain, Simplex):
                raise ValueError(f"the entropic mirror map needs a Simplex, not {self.domain}")
            if not (self._x > 0.0).all():
                raise ValueError("x0 must be positive in every entry for the entropic mirror map")


def _settings(part: Any) -> State:
    """What a part is and was made with, as plain values."""
    found: State = {"kind": type(part).__name__}
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    for field in fields:
        if field.init:
            found[field.name] = _plain(getattr(part, field.name))
    return found


def _plain(value: Any) -> Any:
    """A setting as a value that can be saved and compared."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return _settings(value) if dataclasses.is_dataclass(value) else value


def _check_settings(theirs: Mapping[str, Any], mine: State) -> None:
    """Raise ValueError naming the first part that differs."""
    if not isinstance(theirs, Mapping):
        raise ValueError(f"settings of the state must be a mapping, not {type(theirs).__name__}")
    for part in (*mine, *theirs):
        there, here = theirs.get(part), mine.get(part)
        if there != here:
            raise ValueError(f"state was made with other settings: {part} {there}, not {here}")


def _check_alike(theirs: State, mine: State, part: str) -> None:
    """Raise ValueError unless a part's state could have come from the same part."""
    if not isinstance(theirs, Mapping):
        raise ValueError(f"state of the {part} must be a mapping, not {type(theirs).__name__}")
    if theirs.keys() != mine.keys():
        raise ValueError(f"state of the {part} has entries {sorted(theirs)}, not {sorted(mine)}")
    for name, value in mine.items():
        other = theirs[name]
        alike = isinstance(other, type(value))
        if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
            # Rows may be added during a run, as the ladder adds levels; columns never.
            alike = (other.dtype, other.ndim, other.shape[-1:]) == (
                value.dtype,
                value.ndim,
                value.shape[-1:],
            )
        if not alike:
            raise ValueError(f"state of the {part} does not fit: {name} is {other!r}")
