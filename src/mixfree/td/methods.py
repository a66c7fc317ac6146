"""The methods for TD learning: those of the table that step on every gradient, and the baseline."""

from dataclasses import replace
from typing import Any

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, check_positive, check_whole
from mixfree.core.methods import Method, Methods, methods
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import Plain
from mixfree.steps import AdaGradNorm, Constant, Distance, Inverse, Ladder, Step


def projected_step(
    alpha: float,
    gamma: float,
    horizon: int | None = None,
    step_size: float | None = None,
    omega: float | None = None,
) -> Step:
    """The three step sizes of Bhandari et al. (2018), Theorem 3.

    1/√T for a known horizon T; a constant; or 1/(ω(1−γ)t), which needs the least eigenvalue ω of
    ΦᵀMΦ. An α other than 1 multiplies them.
    """
    given = {
        name: value
        for name, value in (("horizon", horizon), ("step_size", step_size), ("omega", omega))
        if value is not None
    }
    if len(given) != 1:
        raise ValueError(
            "projected-td takes one of horizon (step 1/√T), step_size (constant) and "
            f"omega (step 1/(ω(1−γ)t)), not {', '.join(given) or 'none of them'}"
        )
    if horizon is not None:
        return Constant(alpha * check_whole(horizon, "horizon") ** -0.5)
    if step_size is not None:
        return Constant(alpha * check_positive(step_size, "step_size"))
    return Inverse(alpha / (check_positive(omega, "omega") * (1.0 - gamma)))


def distance_step(alpha: float | None = None, max_levels: int | None = 0) -> Ladder:
    """α/√S with α or, without one, the distance come so far: r̄ = max(1, max_i ‖θ_i‖).

    Norms of features are at most 1, so θ has the units of values, and 1 is where its search
    begins. With no levels, S is AdaGrad's Σ‖g‖²; with all of them, the ladder's.
    """
    distance = Distance(first=1.0, of="iterate")
    return Ladder(alpha, per_coordinate=False, max_levels=max_levels, distance=distance)


def ladder_step(alpha: float | None = None, max_levels: int | None = None) -> Ladder:
    """:func:`distance_step` with all levels."""
    return distance_step(alpha, max_levels)


ProjectedTD = Method(
    "projected-td", Plain, projected_step, summary="Projected TD of Bhandari et al. (2018)."
)
LadderTD = replace(methods()["ladder"], step=ladder_step, output="average")
_REPLAYING = ("sgd-er", "sgd-rer")  # they answer a sample later, with others


def td_methods() -> Methods:
    """The table of methods for TD learning, by name.

    Examples
    --------
    >>> sorted({"mag", "adagrad", "projected-td"} & td_methods().keys())
    ['adagrad', 'mag', 'projected-td']
    """
    table = {name: m for name, m in methods().items() if name not in _REPLAYING}
    return Methods({**table, LadderTD.name: LadderTD, ProjectedTD.name: ProjectedTD})


def start_method(
    name: str, theta0: Array, gamma: float, radius: float | None, **settings: Any
) -> Optimizer:
    """Start a method of the table at ``theta0``, inside the ball of that radius."""
    method = td_methods()[check_one_of(name, "method", tuple(td_methods()))]
    if method is ProjectedTD:
        if radius is None:
            raise ValueError("projected-td needs radius, that of a ball which holds θ*")
        settings["gamma"] = gamma
        if settings["alpha"] is None:
            settings["alpha"] = 1.0
    if radius is not None:
        return method(theta0, domain=Ball(radius), **settings)
    if method.step is AdaGradNorm and settings["alpha"] is None:
        method = replace(method, step=distance_step)
    return method(theta0, **settings)
