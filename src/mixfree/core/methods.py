"""The methods: a small class each, which names its parts, listed in the table at the end."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Unpack, cast

import numpy.typing as npt

from mixfree import gradients, steps
from mixfree.base.checks import check_whole, shown
from mixfree.core.method import Common, Method
from mixfree.gradients import MLMC, DataDrop, ForwardReplay, Plain, Replay, ReverseReplay
from mixfree.steps import AdaGradMax, AdaGradNorm, Constant, InverseSqrt, Step
from mixfree.steps.ladder_rule import BLOCK


class SGD(Method):
    """Plain SGD with step α/√t.

    Examples
    --------
    >>> SGD([0.0, 0.0]).tell([1.0, 0.0])
    True
    """

    name = "sgd"

    def __init__(self, x0: npt.ArrayLike, **common: Unpack[Common]) -> None:
        super().__init__(x0, Plain(), InverseSqrt, **common)


class AdaGrad(Method):
    """AdaGrad-Norm on plain gradients.

    Examples
    --------
    >>> opt = AdaGrad([0.0, 0.0])
    >>> opt.tell([3.0, 4.0]), opt.x
    (True, array([-0.6, -0.8]))
    """

    name = "adagrad"

    def __init__(self, x0: npt.ArrayLike, **common: Unpack[Common]) -> None:
        super().__init__(x0, Plain(), _adagrad(common), **common)


class SGDMLMC(Method):
    """Multi-level Monte Carlo gradients with step α/√t.

    Parameters
    ----------
    levels, weights, horizon
        Levels of the gradient: see :class:`mixfree.MLMC`.
    """

    name = "sgd-mlmc"
    adaptive: ClassVar[bool] = False  # whether steps are those of AdaGrad

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        levels: int | None = 5,
        weights: str = "exact",
        horizon: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        gradient = MLMC(levels, weights, horizon, common.get("seed", 0))
        rule = _adagrad(common) if self.adaptive else InverseSqrt
        super().__init__(x0, gradient, rule, **common)


class MAG(SGDMLMC):
    """MLMC gradients of five levels, as in the paper's experiments, with AdaGrad-Norm steps.

    :class:`Algorithm1` is the paper's algorithm to the letter. Arguments are those of
    :class:`SGDMLMC`.

    Examples
    --------
    >>> import mixfree as mf
    >>> MAG([0.0, 0.0], domain=mf.Ball(1.0), levels=3)
    <mag, levels 1 to 3: 2 dimensions, 0 samples, 0 steps>
    """

    name = "mag"
    adaptive = True


class Algorithm1(Method):
    """Algorithm 1 to the letter: T steps, levels J ~ Geom(½) with 2^J ≤ T, else g⁰; α = D/√2.

    The run ends after T steps, which take about T·log₂ T samples; later samples change nothing.
    The paper's experiments use five levels instead, as :class:`MAG` does. The defaults are those of
    Theorem 3.3 (bounded domain, α = D/√2, average); Theorem 4.3 has no domain and α = 1.

    Parameters
    ----------
    horizon
        T, the number of steps.

    Examples
    --------
    >>> import mixfree as mf
    >>> Algorithm1([0.0, 0.0], horizon=1024, domain=mf.Ball(1.0))
    <algorithm-1, levels 1 to 10, ends after 1,024 steps: 2 dimensions, 0 samples, 0 steps>
    """

    name = "algorithm-1"
    required: ClassVar[Mapping[str, Any]] = {"horizon": 1000}

    def __init__(self, x0: npt.ArrayLike, *, horizon: int, **common: Unpack[Common]) -> None:
        horizon = check_whole(horizon, "horizon")
        gradient = MLMC(None, "exact", horizon, common.get("seed", 0), max_steps=horizon)
        super().__init__(x0, gradient, AdaGradNorm, **common)


class Ladder(Method):
    """AdaGrad per coordinate that finds its own step size, also where samples are correlated.

    Parameters
    ----------
    first, block, length
        As in :class:`mixfree.steps.Ladder`.

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
        first: float | None = None,
        block: int = BLOCK,
        length: float = 1.0,
        **common: Unpack[Common],
    ) -> None:
        rule = partial(steps.Ladder, first=first, block=block, length=length)
        super().__init__(x0, Plain(), rule, **common)


class MiniBatch(Method):
    """SGD on the means of ``batch`` consecutive samples, with step α/√t.

    Examples
    --------
    >>> opt = MiniBatch([0.0], batch=2)
    >>> opt.tell([1.0]), opt.tell([1.0])
    (False, True)
    """

    name = "minibatch"

    def __init__(self, x0: npt.ArrayLike, *, batch: int = 32, **common: Unpack[Common]) -> None:
        super().__init__(x0, gradients.MiniBatch(batch), InverseSqrt, **common)


class EMD(Method):
    """Ergodic mirror descent (Duchi et al. 2012): α/√(τt), or α/√(τT) when T is known.

    Parameters
    ----------
    mixing_time
        The mixing time τ of the stream.
    horizon
        T, the number of steps, if it is known.

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
        **common: Unpack[Common],
    ) -> None:
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
    """

    name = "sgd-dd"
    required: ClassVar[Mapping[str, Any]] = {"mixing_time": 1}
    default_output = "tail"

    def __init__(self, x0: npt.ArrayLike, *, mixing_time: int, **common: Unpack[Common]) -> None:
        super().__init__(x0, DataDrop(mixing_time), InverseSqrt, **common)


class SGDER(Method):
    """Replay of uniform draws from each block (Nagaraj et al. 2020).

    Parameters
    ----------
    mixing_time
        The mixing time τ of the stream.
    buffer, gap
        As in :class:`mixfree.gradients.Replay`; the step is α/(8·buffer), as in Jain et al. 2021
        with α = 1/R.

    Examples
    --------
    >>> SGDER([0.0], mixing_time=1, buffer=2, alpha=16.0).step
    Constant(alpha=1.0)
    """

    name = "sgd-er"
    required: ClassVar[Mapping[str, Any]] = {"mixing_time": 1}
    default_output = "tail"
    replay: ClassVar[type[Replay]] = ForwardReplay

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        mixing_time: int,
        buffer: int | None = None,
        gap: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        replay = self.replay(mixing_time, buffer, gap, common.get("seed", 0))
        divisor = 8.0 * int(replay.buffer or 0)
        super().__init__(x0, replay, lambda alpha: Constant(alpha / divisor), **common)


class SGDRER(SGDER):
    """Replay of each block from newest to oldest (Jain et al. 2021).

    Arguments are those of :class:`SGDER`.
    """

    name = "sgd-rer"
    replay: ClassVar[type[Replay]] = ReverseReplay


class Methods(dict[str, type[Method]]):
    """A dictionary of methods by name, printed as a table."""

    def __str__(self) -> str:
        rows = [("method", "gradient", "step", "output", "needs the mixing time")]
        for name, method in self.items():
            needs = "yes" if method.needs_mixing_time() else "no"
            rows.append((name, *method.parts(), method.default_output, needs))
        return "\n".join(" ".join(f"{cell:14}" for cell in row).rstrip() for row in rows)


_ALL = (SGD, AdaGrad, SGDMLMC, MAG, Algorithm1, Ladder, MiniBatch, EMD, SGDDD, SGDER, SGDRER)
_TABLE = Methods({method.name: method for method in _ALL})


def methods() -> Methods:
    """The table of methods, by name."""
    return Methods(_TABLE)


def find_method(method: str | type[Method]) -> type[Method]:
    """Return the method of the given name, or the given class itself."""
    if isinstance(method, type) and issubclass(method, Method):
        return method
    if not isinstance(method, str) or method not in _TABLE:
        raise ValueError(f"method must be one of {', '.join(_TABLE)}, not {shown(method)}")
    return _TABLE[method]


def start_method(
    method: str | type[Method],
    x0: npt.ArrayLike,
    options: Mapping[str, Any],
    *,
    memory: int | None = None,
    draws: int = 1,
    **common: Any,
) -> Method:
    """Start a run of a method given by name or class, and check its options.

    ``memory`` and ``draws`` are passed to :meth:`Optimizer.remember`; 0 means no memory.
    """
    found = find_method(method)
    found.check_options(options)
    made: Method = cast(Any, found)(x0, **common, **options)
    if memory:
        made.remember(memory, draws)
    return made


def _adagrad(common: Common) -> Callable[[float], Step]:
    """AdaGrad in the norm that belongs to the mirror map."""
    return AdaGradMax if common.get("mirror") == "entropic" else AdaGradNorm
