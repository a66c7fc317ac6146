"""MAG for Optax: Algorithm 1 as MLMC gradients, AdaGrad-Norm steps and an average."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.checks import check_positive
from mixfree.optax.average import averaging
from mixfree.optax.mlmc import mlmc
from mixfree.optax.trees import norm, widest


class AdaGradNormState(NamedTuple):
    """Square root of the sum of all squared norms so far."""

    root: jax.Array


def adagrad_norm(alpha: Any = 1.0) -> optax.GradientTransformation:
    """Scale updates by AdaGrad-Norm, with one step size for the whole tree.

    Twin of :class:`mixfree.steps.AdaGradNorm`.

    Parameters
    ----------
    alpha
        Scale of the steps; may be an array.

    Examples
    --------
    >>> opt = adagrad_norm()
    >>> updates, _ = opt.update(jnp.array([3.0, 4.0]), opt.init(jnp.zeros(2)))
    >>> updates.tolist()
    [-0.6000..., -0.8000...]
    """
    if not isinstance(alpha, jax.Array):
        check_positive(alpha, "alpha")

    def init(params: Any) -> AdaGradNormState:
        return AdaGradNormState(jnp.zeros((), widest(params)))

    def update(updates: Any, state: AdaGradNormState, params: Any = None) -> Any:
        root = jnp.hypot(state.root, norm(updates).astype(state.root.dtype))
        safe = jnp.where(root > 0, root, 1)
        moved = jax.tree.map(lambda g: (-alpha * (g / safe)).astype(g.dtype), updates)
        return moved, AdaGradNormState(root)

    return optax.GradientTransformation(init, update)


def mag(
    levels: Any = 5,
    weights: str = "exact",
    alpha: Any = 1.0,
    seed: Any = 0,
    *,
    horizon: int | None = None,
    output: str = "average",
) -> optax.GradientTransformationExtraArgs:
    """MLMC gradients with AdaGrad-Norm steps; :func:`averaged` returns the average.

    Parameters
    ----------
    levels, weights, horizon, seed
        As in :func:`mlmc`.
    alpha
        Scale of the steps; may be an array.
    output
        ``"average"``, ``"weighted"``, ``"recent"`` or ``"last"``: what :func:`averaged` returns.

    Examples
    --------
    >>> opt = mag(levels=3)
    >>> w = jnp.zeros(2)
    >>> state = opt.init(w)
    >>> update = jax.jit(opt.update)
    >>> for _ in range(100):
    ...     updates, state = update(w - 1.0, state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> bool(jnp.abs(w - 1.0).max() < 0.1)
    True
    """
    return mlmc(
        optax.chain(averaging(output), adagrad_norm(alpha)),
        levels,
        weights,
        seed,
        horizon=horizon,
    )
