"""The table of methods: a method is a line that names its parts."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy.typing as npt

from mixfree import gradients, steps
from mixfree.base.checks import check_one_of, check_point, check_positive, check_whole
from mixfree.core.optimizer import Optimizer
from mixfree.domains import AllSpace, Domain, Entropic, Euclidean, Mirror
from mixfree.gradients import (
    MLMC,
    DataDrop,
    ForwardReplay,
    Gradient,
    Plain,
    ReverseReplay,
    buffer_size,
)
from mixfree.outputs import OUTPUTS
from mixfree.steps import AdaGradNorm, Constant, InverseSqrt, Step

MIRRORS: Mapping[str, Mirror] = {"euclidean": Euclidean(), "entropic": Entropic()}
_COMMON = ("alpha", "seed")


def ergodic_step(alpha: float, mixing_time: int, horizon: int | None = None) -> Step:
    """EMD's step (Duchi et al. 2012): α/√(τt), or the constant α/√(τT) when T is known."""
    scale = alpha / math.sqrt(check_whole(mixing_time, "mixing_time"))
    if horizon is None:
        return InverseSqrt(scale)
    return Constant(scale / math.sqrt(check_whole(horizon, "horizon")))


def replay_step(alpha: float, mixing_time: int, buffer: int | None = None) -> Step:
    """The constant step α/(8B) of replay with buffers of B (Jain et al. 2021, with α = 1/R)."""
    return Constant(alpha / (8.0 * buffer_size(mixing_time, buffer)))


class OptionError(TypeError, ValueError):
    """An option that a method does not have, or one that it needs and was not given."""


@dataclass(frozen=True)
class Method:
    """One line of the table; called with a start, it gives an optimiser.

    Parameters
    ----------
    name
        The method's name in the table.
    gradient, step
        What makes these parts; their arguments are the method's options.
    output
        Name of the output part unless the caller chooses another.
    mirror
        ``"euclidean"``, or ``"domain"`` for the mirror map that suits the domain.
    summary
        One sentence.

    Examples
    --------
    >>> import mixfree as mf
    >>> mf.MAG([0.0, 0.0], domain=mf.Ball(1.0), levels=3)
    <mag: 2 dimensions, 0 samples, 0 steps>
    """

    name: str
    gradient: Callable[..., Gradient]
    step: Callable[..., Step]
    output: str = "average"
    mirror: str = "euclidean"
    summary: str = ""

    @property
    def needs_mixing_time(self) -> bool:
        """Whether the mixing time must be given."""
        return "mixing_time" in self.options

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What can be given besides the common arguments, from the parts' own signatures."""
        return {
            name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for part in (self.step, self.gradient)
            for name, parameter in _parameters(part).items()
            if name not in _COMMON
        }

    @property
    def __signature__(self) -> inspect.Signature:
        common = inspect.signature(type(self).__call__).parameters.values()
        named = [p for p in common if p.name != "self" and p.kind is not p.VAR_KEYWORD]
        return inspect.Signature([*named, *self.options.values()], return_annotation=Optimizer)

    def __call__(
        self,
        x0: npt.ArrayLike,
        *,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
        **options: Any,
    ) -> Optimizer:
        """Start a run.

        Parameters
        ----------
        x0
            Where to start, inside the domain.
        domain
            Where the point may live; all space unless given.
        alpha
            Scale of the steps. ``None`` is D/√2 on a domain of diameter D (Theorem 3.3) and 1
            where there are no bounds (Theorem 4.3); a ladder finds its own.
        output
            ``"average"``, ``"weighted"``, ``"tail"``, ``"last"`` or ``"random"``.
        mirror
            ``"euclidean"`` or ``"entropic"``.
        seed
            Of every random draw.
        **options
            Those of the method's gradient and step: ``levels``, ``mixing_time``, ….
        """
        self.check_options(options)
        start = check_point(x0, "x0")
        if domain is not None and not hasattr(domain, "bind"):
            raise ValueError(f"domain must be one such as mixfree.Ball(1.0), not {domain!r}")
        place = (AllSpace() if domain is None else domain).bind(start.size)
        check_whole(seed, "seed", least=0, most=2**64 - 1)
        if alpha is None and not self._finds_scale:
            bounded = 0.0 < place.diameter < math.inf
            alpha = place.diameter / math.sqrt(2.0) if bounded else 1.0
        if alpha is not None:
            alpha = check_positive(alpha, "alpha")
        given = {**options, "alpha": alpha, "seed": seed}
        chosen = check_one_of(output or self.output, "output", tuple(OUTPUTS))
        geometry = mirror or (place.mirror.name if self.mirror == "domain" else self.mirror)
        return Optimizer(
            start,
            gradient=_build(self.gradient, given),
            step=_build(self.step, given),
            domain=place,
            output=_build(OUTPUTS[chosen], given),
            mirror=MIRRORS[check_one_of(geometry, "mirror", tuple(MIRRORS))],
            name=self.name,
        )

    @property
    def _finds_scale(self) -> bool:
        """Whether the step does without an α."""
        return _parameters(self.step)["alpha"].default is None

    def check_options(self, options: Mapping[str, Any], give: str = "`mixing_time`") -> None:
        """OptionError for one that the method does not have, or for a mixing time not given.

        ``give`` says how the caller's own users give the mixing time.

        Examples
        --------
        >>> SGD.check_options({"levels": 3})
        Traceback (most recent call last):
        mixfree.core.methods.OptionError: sgd does not take `levels`: it has no options
        """
        allowed = self.options
        for name in options:
            if name not in allowed:
                has = f"its options are {', '.join(allowed)}" if allowed else "it has no options"
                raise OptionError(f"{self.name} does not take `{name}`: {has}")
        if self.needs_mixing_time and options.get("mixing_time") is None:
            raise OptionError(f"{self.name} needs to know the mixing time: give {give}")


class Methods(dict[str, Method]):
    """Methods by name; prints as the table."""

    def __str__(self) -> str:
        head = ("method", "gradient", "step", "output", "needs the mixing time")
        rows = [
            (
                m.name,
                m.gradient.__name__,
                m.step.__name__,
                m.output,
                "yes" if m.needs_mixing_time else "no",
            )
            for m in self.values()
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = (
            "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in [head, *rows]
        )
        return "\n".join(line.rstrip() for line in lines)


SGD = Method("sgd", Plain, InverseSqrt, summary="Plain SGD with step α/√t.")
AdaGrad = Method("adagrad", Plain, AdaGradNorm, summary="AdaGrad-Norm on plain gradients.")
SGDMLMC = Method("sgd-mlmc", MLMC, InverseSqrt, summary="MLMC gradients with step α/√t.")
MAG = Method("mag", MLMC, AdaGradNorm, summary="Algorithm 1: MLMC gradients, AdaGrad-Norm steps.")
Ladder = Method(
    "ladder",
    Plain,
    steps.Ladder,
    output="weighted",
    summary="AdaGrad that pays for correlation at every scale; nothing to tune.",
)
MiniBatch = Method("minibatch", gradients.MiniBatch, InverseSqrt, summary="Means of fixed batches.")
EMD = Method(
    "emd", Plain, ergodic_step, mirror="domain", summary="Ergodic mirror descent, given τ."
)
SGDDD = Method("sgd-dd", DataDrop, InverseSqrt, output="tail", summary="SGD on every τ-th sample.")
SGDER = Method(
    "sgd-er", ForwardReplay, replay_step, output="tail", summary="Replay by uniform draws, given τ."
)
SGDRER = Method(
    "sgd-rer", ReverseReplay, replay_step, output="tail", summary="Replay in reverse, given τ."
)

_TABLE = Methods(
    {m.name: m for m in (SGD, AdaGrad, SGDMLMC, MAG, Ladder, MiniBatch, EMD, SGDDD, SGDER, SGDRER)}
)


def methods() -> Methods:
    """The table of methods, by name.

    Examples
    --------
    >>> methods()["mag"].needs_mixing_time
    False
    """
    return Methods(_TABLE)


def find_method(method: str | Method) -> Method:
    """The method of that name, or the method itself."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in _TABLE:
        raise ValueError(f"method must be one of {', '.join(_TABLE)}, not {method!r}")
    return _TABLE[method]


@cache
def _parameters(part: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """A part's arguments; to ask Python for them costs more than to make the part."""
    return inspect.signature(part).parameters


def _build(part: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    names = _parameters(part)
    return part(**{name: value for name, value in given.items() if name in names})
