"""The iterative methods for TD learning: projected TD and the general table."""

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, check_whole
from mixfree.core import methods as table
from mixfree.core.method import Common, Method
from mixfree.core.methods import Methods
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import Plain
from mixfree.steps import Constant, Inverse, Step


class ProjectedTD(Method):
    """Projected TD with the step sizes of Bhandari et al. (2018), Theorem 3.

    Parameters
    ----------
    gamma
        The discount.
    horizon
        T, for the step 1/√T.
    step_size
        A constant step.
    omega
        The least eigenvalue ω of ΦᵀMΦ, for the step 1/(ω(1−γ)t).
    x0, domain, alpha, output, mirror, seed
        As for every :class:`mixfree.Method`; α, by default 1, multiplies the step.
    """

    name = "projected-td"
    required: ClassVar[Mapping[str, Any]] = {"gamma": 0.5, "step_size": 1.0}

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        gamma: float,
        horizon: int | None = None,
        step_size: float | None = None,
        omega: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        given = {"horizon": horizon, "step_size": step_size, "omega": omega}
        names = [name for name, value in given.items() if value is not None]
        if len(names) != 1:
            raise ValueError(
                "projected-td takes one of horizon (step 1/√T), step_size (constant) and "
                f"omega (step 1/(ω(1−γ)t)), not {', '.join(names) or 'none of them'}"
            )

        def rule(scale: float) -> Step:
            if horizon is not None:
                return Constant(scale * check_whole(horizon, "horizon") ** -0.5)
            if step_size is not None:
                return Constant(scale * check_positive(step_size, "step_size"))
            return Inverse(scale / (check_positive(omega, "omega") * (1.0 - gamma)))

        if common.get("alpha") is None:
            common["alpha"] = 1.0
        super().__init__(x0, Plain(), rule, **common)


_OF_RADIUS = ("mag", "adagrad")  # their step size is that of the radius
# Feature norms are at most 1, so θ has the units of values, and the ladder starts at 1.
_LADDER = {"first": 1.0}


def td_methods() -> Methods:
    """Return the table of methods for TD learning by name.

    Examples
    --------
    >>> sorted({"mag", "ladder", "projected-td"} & td_methods().keys())
    ['ladder', 'mag', 'projected-td']
    """
    found = {**table.methods(), ProjectedTD.name: ProjectedTD}
    # Replay needs gradients of earlier samples.
    return Methods({name: found[name] for name in found if name not in ("sgd-er", "sgd-rer")})


def start_method(
    name: str | None,
    theta0: Array,
    gamma: float,
    radius: float | None,
    alpha: float | None = None,
    **settings: Any,
) -> Optimizer:
    """Start a method of the table at ``theta0``, on a ball if a radius is given.

    The default method is ``mag``, or ``ladder`` if neither radius nor α is given.
    """
    unscaled = radius is None and alpha is None
    if name is None:
        name = "ladder" if unscaled else "mag"
    method = td_methods()[name]
    if unscaled and name in _OF_RADIUS:
        raise ValueError(
            f"{name} takes its step size from `radius`, a bound on ‖θ*‖: give it, or use "
            "`method='ladder'`, which needs none"
        )
    if name == "ladder":
        settings = _LADDER | settings
    if "gamma" in method.options():
        settings["gamma"] = gamma
    if method is ProjectedTD and radius is None:
        raise ValueError(
            "projected-td needs radius, that of a ball that contains θ*: give radius=…"
        )
    common = {name: settings.pop(name) for name in ("output", "seed") if name in settings}
    domain = None if radius is None else Ball(radius)
    return table.start_method(method, theta0, settings, domain=domain, alpha=alpha, **common)
