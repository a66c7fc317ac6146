"""The methods for TD learning: those that step on every gradient, DoG variants, projected TD."""

from dataclasses import replace
from typing import Any

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, check_positive, check_whole
from mixfree.core.methods import Method, Methods, methods
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import MLMC, Plain
from mixfree.steps import Constant, Distance, Inverse, Ladder, Step

__all__ = ["td_methods"]

DOG = Distance(first=1.0, of="iterate")  # r̄ = max(1, max_i ‖θ_i‖)


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


def dog_step(alpha: float | None = None) -> Ladder:
    """Distance over gradients (Ivgi et al. 2023): r̄/√Σ‖g‖² with r̄ = max(1, max_i ‖θ_i‖).

    Norms of features are at most 1, so θ has the units of values, and 1 is where r̄ begins.
    """
    if alpha is not None:
        raise ValueError(f"alpha must not be given for a DoG step, which finds it, not {alpha!r}")
    return Ladder(per_coordinate=False, max_levels=0, distance=DOG)


def ladder_step(alpha: float | None = None, max_levels: int | None = None) -> Ladder:
    """The ladder with one rate for all coordinates, and DoG's distance as its scale."""
    return Ladder(alpha, per_coordinate=False, max_levels=max_levels, distance=DOG)


ProjectedTD = Method(
    "projected-td", Plain, projected_step, summary="Projected TD of Bhandari et al. (2018)."
)
LadderTD = replace(methods()["ladder"], step=ladder_step, output="average")
DoG = Method("dog", Plain, dog_step, summary="Plain gradients, DoG steps; needs no radius.")
MAGDoG = Method("mag-dog", MLMC, dog_step, summary="MLMC gradients, DoG steps; needs no radius.")

_REPLAY = ("sgd-er", "sgd-rer")  # they ask for gradients of earlier samples, which TD cannot give
_WITHOUT_RADIUS = {"mag": MAGDoG.name, "adagrad": DoG.name}


def td_methods() -> Methods:
    """The table of methods for TD learning, by name.

    Examples
    --------
    >>> sorted({"mag", "mag-dog", "projected-td"} & td_methods().keys())
    ['mag', 'mag-dog', 'projected-td']
    """
    table = {name: m for name, m in methods().items() if name not in _REPLAY}
    return Methods(table | {m.name: m for m in (LadderTD, MAGDoG, DoG, ProjectedTD)})


def start_method(
    name: str | None,
    theta0: Array,
    gamma: float,
    radius: float | None,
    alpha: float | None = None,
    **settings: Any,
) -> Optimizer:
    """Start a method of the table at ``theta0``, on the ball of that radius if one is given.

    Without a name: ``mag``, or ``mag-dog`` where neither radius nor α gives ``mag`` a step size.
    """
    unscaled = radius is None and alpha is None
    if name is None:
        name = "mag-dog" if unscaled else "mag"
    method = td_methods()[check_one_of(name, "method", tuple(td_methods()))]
    if unscaled and name in _WITHOUT_RADIUS:
        raise ValueError(
            f"{name} takes its step size from radius, a bound on ‖θ*‖: give radius=…, or use "
            f"method={_WITHOUT_RADIUS[name]!r}, which needs none"
        )
    if method is ProjectedTD:
        if radius is None:
            raise ValueError("projected-td needs radius, that of a ball which holds θ*")
        settings["gamma"] = gamma
        alpha = 1.0 if alpha is None else alpha
    domain = None if radius is None else Ball(radius)
    return method(theta0, domain=domain, alpha=alpha, **settings)
