"""The base class of all methods: an optimiser with a name, common arguments and own options."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypedDict, cast

import numpy.typing as npt

from mixfree.base.arithmetic import Array, norm
from mixfree.base.checks import check_one_of, check_point, check_positive, check_whole, shown
from mixfree.core.optimizer import Optimizer
from mixfree.domains import AllSpace, Domain, Entropic, Euclidean, Mirror
from mixfree.gradients import Gradient
from mixfree.outputs import OUTPUTS, RandomIterate
from mixfree.steps import Step

MIRRORS: Mapping[str, Mirror] = {"euclidean": Euclidean(), "entropic": Entropic()}


class Common(TypedDict, total=False):
    """The arguments that every method passes to :class:`Method`."""

    domain: Domain | None
    alpha: float | None
    output: str | None
    mirror: str | None
    seed: int


class OptionError(TypeError, ValueError):
    """An option that a method does not have, or a required option that is missing."""


class Method(Optimizer):
    """An optimiser with a name in the table of methods, and the arguments common to all.

    Parameters
    ----------
    x0
        The starting point, inside the domain.
    gradient, step
        The gradient part, and what makes the step part from the scale α.
    domain
        The feasible set; unbounded by default.
    alpha
        Scale α of the steps. The default is D/√2 on a domain of diameter D (Theorem 3.3), 1 on
        an unbounded one (Theorem 4.3) and √(log d) with the entropic mirror map, whose divergence
        from the uniform point is at most log d. The ladder finds its own scale.
    output
        ``"average"``, ``"weighted"``, ``"tail"``, ``"last"`` or ``"random"``; the default
        depends on the method.
    mirror
        ``"euclidean"`` or ``"entropic"``; the default depends on the method.
    seed
        Seed of every random draw.
    """

    default_output: ClassVar[str] = "average"
    own_mirror: ClassVar[bool] = False  # whether the domain chooses the mirror map
    required: ClassVar[Mapping[str, Any]] = {}  # required options, with an example value each
    searches: ClassVar[bool] = False  # whether the step finds its own scale
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        """Show the common arguments in signature and docstring in place of ``**common``."""
        _, *listed = inspect.signature(cls.__init__).parameters.values()
        missing = _COMMON.keys() - {parameter.name for parameter in listed}
        if listed and listed[-1].kind is inspect.Parameter.VAR_KEYWORD:
            listed[-1:] = [p for name, p in _COMMON.items() if name in missing]
            own, examples, rest = inspect.cleandoc(cls.__doc__ or "").partition("\nExamples\n")
            head = "\n" if "\nParameters\n" in own else "\n\nParameters\n----------\n"
            about = f"{', '.join(('x0', *_COMMON))}\n    As for every :class:`Method`.\n"
            cls.__doc__ = own.rstrip() + head + about + examples + rest
        elif missing:
            raise TypeError(
                f"{cls.__name__}.__init__ must take {', '.join(_COMMON)} as keywords, for instance "
                "by **common, and pass them on"
            )
        cls.__signature__ = inspect.Signature(listed)

    def __init__(
        self,
        x0: npt.ArrayLike,
        gradient: Gradient,
        step: Callable[[Any], Step],
        *,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        start = check_point(x0, "x0")
        self.seed = check_whole(seed, "seed", least=0, most=2**64 - 1)
        if domain is not None and not hasattr(domain, "bind"):
            raise ValueError(f"domain must be one such as mixfree.Ball(1.0), not {shown(domain)}")
        place = (AllSpace() if domain is None else domain).bind(start.size)
        geometry = mirror or (place.mirror.name if self.own_mirror else "euclidean")
        if alpha is None and not self.searches:
            bounded = 0.0 < place.diameter < math.inf
            alpha = place.diameter / math.sqrt(2.0) if bounded else 1.0
            if geometry == "entropic":
                alpha = math.sqrt(math.log(max(start.size, 2)))
        if alpha is not None:
            alpha = check_positive(alpha, "alpha")
        kind = OUTPUTS[check_one_of(output or self.default_output, "output", tuple(OUTPUTS))]
        super().__init__(
            start,
            gradient=gradient,
            step=step(alpha),
            domain=place,
            output=kind(seed) if kind is RandomIterate else kind(),
            mirror=MIRRORS[check_one_of(geometry, "mirror", tuple(MIRRORS))],
        )
        self._alpha = alpha

    def _diverged(self, gradient: Array | None) -> str:
        """Suggest a power of ten, at most α/10 and ‖x‖/(100‖g‖), where ‖x‖/‖g‖ is close to 1/L."""
        if self._alpha is None:
            return super()._diverged(gradient)
        limit = self._alpha / 10.0
        if gradient is not None and 0.0 < norm(gradient) < math.inf:
            limit = min(limit, norm(self.x) / norm(gradient) / 100.0)
        smaller = 10.0 ** math.floor(math.log10(limit))
        return (
            f"{self.name} has diverged by sample {self.number}: alpha={self._alpha:g} is too "
            f"large, type alpha={smaller:g}, or `step_scale={smaller:g}` for linear models"
        )

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    @classmethod
    def options(cls) -> dict[str, inspect.Parameter]:
        """The arguments of the method that are not common to all methods."""
        parameters = inspect.signature(cls).parameters
        return {name: p for name, p in parameters.items() if name not in ("x0", *_COMMON)}

    @classmethod
    def needs_mixing_time(cls) -> bool:
        """Whether the mixing time must be given."""
        return "mixing_time" in cls.options()

    @classmethod
    def parts(cls) -> tuple[str, str]:
        """Names of the gradient part and of the step part."""
        made = cast(Any, cls)([0.0], **cls.required)
        return type(made.gradient).__name__, type(made.step).__name__

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raise OptionError for an unknown option or for a required one that is missing."""
        allowed = cls.options()
        for name in options:
            if name not in allowed:
                has = f"its options are {', '.join(allowed)}" if allowed else "it has no options"
                raise OptionError(f"{cls.name} does not take `{name}`: {has}")
        for name in cls.required:
            if options.get(name) is None and allowed[name].default is inspect.Parameter.empty:
                known = "to know the mixing time: give " if name == "mixing_time" else ""
                raise OptionError(f"{cls.name} needs {known}`{name}`")


_COMMON = {
    name: parameter
    for name, parameter in inspect.signature(Method.__init__).parameters.items()
    if name in Common.__annotations__
}
