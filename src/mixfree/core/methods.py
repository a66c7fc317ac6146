"""The methods: each is a small class that names its parts, and a line of the table at the end."""

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, TypedDict, cast

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
    Replay,
    ReverseReplay,
)
from mixfree.outputs import OUTPUTS, EveryOutput, Output, RandomIterate
from mixfree.steps import AdaGradNorm, Constant, Distance, InverseSqrt, Step
from mixfree.steps.ladder import BLOCK

MIRRORS: Mapping[str, Mirror] = {"euclidean": Euclidean(), "entropic": Entropic()}
EVERY = "every"  # the output of runs among which a held-out sample chooses
_COMMON = ("self", "x0", "domain", "alpha", "output", "mirror", "seed")


class Common(TypedDict):
    """The arguments that every method passes on."""

    domain: Domain | None
    alpha: float | None
    output: str | None
    mirror: str | None
    seed: int


class OptionError(TypeError, ValueError):
    """An option that a method does not have, or one that it needs and was not given."""


class Method(Optimizer):
    """An optimiser that has a name in the table; the arguments that all of them take.

    Parameters
    ----------
    x0
        Where to start, inside the domain.
    gradient
        The gradient part.
    step
        What makes the step part of the scale α.
    domain
        Where the point may live; all space unless given.
    alpha
        Scale α of the steps. ``None`` is D/√2 on a domain of diameter D (Theorem 3.3) and 1
        where there are no bounds (Theorem 4.3); a ladder finds its own.
    output
        ``"average"``, ``"weighted"``, ``"tail"``, ``"last"`` or ``"random"``; ``None`` is the
        method's own.
    mirror
        ``"euclidean"`` or ``"entropic"``; ``None`` is the method's own.
    seed
        Seed of every random draw.
    """

    default_output: ClassVar[str] = "average"
    own_mirror: ClassVar[bool] = False  # whether it takes the mirror map that suits the domain
    required: ClassVar[Mapping[str, Any]] = {}  # an example of each option that must be given
    searches: ClassVar[bool] = False  # whether the step finds its scale where none is given

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
        check_whole(seed, "seed", least=0, most=2**64 - 1)
        if domain is not None and not hasattr(domain, "bind"):
            raise ValueError(f"domain must be one such as mixfree.Ball(1.0), not {domain!r}")
        place = (AllSpace() if domain is None else domain).bind(start.size)
        if alpha is None and not self.searches:
            bounded = 0.0 < place.diameter < math.inf
            alpha = place.diameter / math.sqrt(2.0) if bounded else 1.0
        if alpha is not None:
            alpha = check_positive(alpha, "alpha")
        geometry = mirror or (place.mirror.name if self.own_mirror else "euclidean")
        super().__init__(
            start,
            gradient=gradient,
            step=step(alpha),
            domain=place,
            output=_output(output or self.default_output, seed),
            mirror=MIRRORS[check_one_of(geometry, "mirror", tuple(MIRRORS))],
        )

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    @classmethod
    def options(cls) -> dict[str, inspect.Parameter]:
        """What the method takes besides the arguments that all methods take."""
        parameters = inspect.signature(cls.__init__).parameters
        return {name: p for name, p in parameters.items() if name not in _COMMON}

    @classmethod
    def needs_mixing_time(cls) -> bool:
        """Whether the mixing time must be given."""
        return "mixing_time" in cls.options()

    @classmethod
    def parts(cls) -> tuple[str, str]:
        """Names of the gradient part and of the step part."""
        made = start_method(cls, [0.0], cls.required)
        return type(made.gradient).__name__, type(made.step).__name__

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raise OptionError for one that the method does not have, or for a mixing time not given.

        Examples
        --------
        >>> SGD.check_options({"levels": 3})
        Traceback (most recent call last):
        mixfree.core.methods.OptionError: sgd does not take `levels`: it has no options
        """
        allowed = cls.options()
        for name in options:
            if name not in allowed:
                has = f"its options are {', '.join(allowed)}" if allowed else "it has no options"
                raise OptionError(f"{cls.name} does not take `{name}`: {has}")
        if cls.needs_mixing_time() and options.get("mixing_time") is None:
            raise OptionError(f"{cls.name} needs to know the mixing time: give `mixing_time`")


class SGD(Method):
    """Plain SGD with step α/√t.

    Parameters
    ----------
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> opt = SGD([0.0, 0.0])
    >>> opt.tell([1.0, 0.0])
    True
    """

    name = "sgd"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        super().__init__(x0, Plain(), InverseSqrt, **common)


class AdaGrad(Method):
    """AdaGrad-Norm on plain gradients.

    Parameters
    ----------
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> opt = AdaGrad([0.0, 0.0])
    >>> opt.tell([3.0, 4.0])
    True
    >>> opt.x
    array([-0.6, -0.8])
    """

    name = "adagrad"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        super().__init__(x0, Plain(), AdaGradNorm, **common)


class SGDMLMC(Method):
    """Multi-level Monte Carlo gradients with step α/√t.

    Parameters
    ----------
    levels, weights, horizon
        Level law of the gradient: see :class:`mixfree.MLMC`.
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> SGDMLMC([0.0], levels=3).gradient.levels
    3
    """

    name = "sgd-mlmc"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        levels: int | None = 5,
        weights: str = "exact",
        horizon: int | None = None,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        law = MLMC(levels, weights, horizon, seed)
        super().__init__(x0, law, InverseSqrt, **common)


class MAG(Method):
    """Algorithm 1: multi-level Monte Carlo gradients with AdaGrad-Norm steps.

    Parameters
    ----------
    levels, weights, horizon
        Level law of the gradient: see :class:`mixfree.MLMC`.
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> import mixfree as mf
    >>> MAG([0.0, 0.0], domain=mf.Ball(1.0), levels=3)
    <mag: 2 dimensions, 0 samples, 0 steps>
    """

    name = "mag"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        levels: int | None = 5,
        weights: str = "exact",
        horizon: int | None = None,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        law = MLMC(levels, weights, horizon, seed)
        super().__init__(x0, law, AdaGradNorm, **common)


class Ladder(Method):
    """AdaGrad whose accumulator includes the variance inflation of dyadic blocks.

    Parameters
    ----------
    per_coordinate, block, max_levels, distance
        As in :class:`mixfree.steps.Ladder`.
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> opt = Ladder([0.0])
    >>> for _ in range(600):
    ...     stepped = opt.tell(opt.x - 3.0)
    >>> opt.average.round(1)
    array([3.])
    """

    name = "ladder"
    default_output = "weighted"
    searches = True

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        per_coordinate: bool = True,
        block: int = BLOCK,
        max_levels: int | None = None,
        distance: Distance | None = None,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        rule = partial(
            steps.Ladder,
            per_coordinate=per_coordinate,
            block=block,
            max_levels=max_levels,
            distance=Distance() if distance is None else distance,
        )
        super().__init__(x0, Plain(), rule, **common)


class MiniBatch(Method):
    """SGD on the means of fixed batches, with step α/√t.

    Parameters
    ----------
    batch
        Consecutive samples per step.
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> opt = MiniBatch([0.0], batch=2)
    >>> opt.tell([1.0]), opt.tell([1.0])
    (False, True)
    """

    name = "minibatch"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        batch: int = 32,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        super().__init__(x0, gradients.MiniBatch(batch), InverseSqrt, **common)


class EMD(Method):
    """Ergodic mirror descent (Duchi et al. 2012): α/√(τt), or α/√(τT) when T is known.

    Parameters
    ----------
    mixing_time
        The mixing time τ of the stream.
    horizon
        T, the number of steps, if it is known.
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> EMD([0.0], mixing_time=4, alpha=2.0).step
    InverseSqrt(alpha=1.0)
    """

    name = "emd"
    required: ClassVar[Mapping[str, Any]] = {"mixing_time": 1}
    own_mirror = True

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        mixing_time: int,
        horizon: int | None = None,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        root = math.sqrt(check_whole(mixing_time, "mixing_time"))

        def rule(scale: float) -> Step:
            if horizon is None:
                return InverseSqrt(scale / root)
            return Constant(scale / root / math.sqrt(check_whole(horizon, "horizon")))

        super().__init__(x0, Plain(), rule, **common)


class SGDDD(Method):
    """SGD on every τ-th sample (Nagaraj et al. 2020), with step α/√t.

    Parameters
    ----------
    mixing_time
        The mixing time τ of the stream.
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> opt = SGDDD([0.0], mixing_time=2)
    >>> opt.tell([1.0]), opt.tell([1.0])
    (False, True)
    """

    name = "sgd-dd"
    required: ClassVar[Mapping[str, Any]] = {"mixing_time": 1}
    default_output = "tail"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        mixing_time: int,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        super().__init__(x0, DataDrop(mixing_time), InverseSqrt, **common)


class SGDER(Method):
    """Replay of uniform draws from each block (Nagaraj et al. 2020).

    Parameters
    ----------
    mixing_time
        The mixing time τ of the stream.
    buffer, gap
        As in :class:`mixfree.gradients.Replay`; the step is α/(8·buffer).
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> SGDER([0.0], mixing_time=1, buffer=2, alpha=16.0).step
    Constant(alpha=1.0)
    """

    name = "sgd-er"
    required: ClassVar[Mapping[str, Any]] = {"mixing_time": 1}
    default_output = "tail"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        mixing_time: int,
        buffer: int | None = None,
        gap: int | None = None,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        replay = ForwardReplay(mixing_time, buffer, gap, seed)
        super().__init__(x0, replay, _replay_step(replay), **common)


class SGDRER(Method):
    """Replay of each block from newest to oldest (Jain et al. 2021).

    Parameters
    ----------
    mixing_time
        The mixing time τ of the stream.
    buffer, gap
        As in :class:`mixfree.gradients.Replay`; the step is α/(8·buffer).
    x0, domain, alpha, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> SGDRER([0.0], mixing_time=1, buffer=2, alpha=16.0).step
    Constant(alpha=1.0)
    """

    name = "sgd-rer"
    required: ClassVar[Mapping[str, Any]] = {"mixing_time": 1}
    default_output = "tail"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        mixing_time: int,
        buffer: int | None = None,
        gap: int | None = None,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        replay = ReverseReplay(mixing_time, buffer, gap, seed)
        super().__init__(x0, replay, _replay_step(replay), **common)


class Methods(dict[str, type[Method]]):
    """Methods by name; prints as the table."""

    def __str__(self) -> str:
        head = ("method", "gradient", "step", "output", "needs the mixing time")
        lines = [" ".join(f"{cell:14}" for cell in row).rstrip() for row in [head, *self._rows()]]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for name, method in self.items():
            needs = method.needs_mixing_time()
            rows.append((name, *method.parts(), method.default_output, "yes" if needs else "no"))
        return rows


_TABLE = Methods(
    {m.name: m for m in (SGD, AdaGrad, SGDMLMC, MAG, Ladder, MiniBatch, EMD, SGDDD, SGDER, SGDRER)}
)


def methods() -> Methods:
    """The table of methods, by name.

    Examples
    --------
    >>> methods()["mag"]
    <class 'mixfree.core.methods.MAG'>
    """
    return Methods(_TABLE)


def find_method(method: str | type[Method]) -> type[Method]:
    """The method of that name, or the class itself."""
    if isinstance(method, type) and issubclass(method, Method):
        return method
    if not isinstance(method, str) or method not in _TABLE:
        raise ValueError(f"method must be one of {', '.join(_TABLE)}, not {method!r}")
    return _TABLE[method]


def start_method(
    method: str | type[Method],
    x0: npt.ArrayLike,
    options: Mapping[str, Any],
    *,
    memory: int | None = None,
    draws: int = 1,
    seed: int = 0,
    **common: Any,
) -> Method:
    """Begin a run of a method that is given by name, with its options checked by name.

    ``memory`` and ``draws`` are those of :meth:`Optimizer.remember`; no memory where it is 0.
    """
    found = find_method(method)
    found.check_options(options)
    made: Method = cast(Any, found)(x0, seed=seed, **common, **options)
    if memory:
        made.remember(memory, draws, seed)
    return made


def _replay_step(replay: Replay) -> Callable[[float], Step]:
    """The constant step α/(8B) of replay with buffers of B (Jain et al. 2021, with α = 1/R)."""
    return lambda alpha: Constant(alpha / (8.0 * int(replay.buffer or 0)))


def _output(name: str, seed: int) -> Output:
    if name == EVERY:
        return EveryOutput()
    kind = OUTPUTS[check_one_of(name, "output", tuple(OUTPUTS))]
    return kind(seed) if kind is RandomIterate else kind()
