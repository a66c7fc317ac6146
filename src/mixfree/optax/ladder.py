"""The ladder for Optax: twin of :class:`mixfree.steps.Ladder` in compiled code, leaf by leaf."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.arithmetic import farthest_of
from mixfree.base.checks import check_positive, check_whole
from mixfree.optax.average import averaging
from mixfree.optax.guard import guarded
from mixfree.optax.rounding import unrounded
from mixfree.optax.trees import apply_if, cast_like, largest, norm, replicated, total, wide, widest
from mixfree.steps.ladder_rule import (
    BLOCK,
    LEVELS,
    Scale,
    ends_epoch,
    first_distance,
    inflation,
    newest_share,
    stride_of,
    update_scale,
)

FARTHEST = 1e15  # largest λ whose squares can be summed in float32; float64 has more room


class LadderState(NamedTuple):
    """The state of the reference, with trees for vectors."""

    step: jax.Array
    scale: Scale
    kappa: jax.Array
    total: jax.Array
    totals: jax.Array
    carry: jax.Array
    halves: jax.Array
    squares: Any
    weighted_sum: Any
    origin: Any
    mean: Any
    before: Any


def ladder(
    *,
    alpha: Any = None,
    first: Any = None,
    block: int = BLOCK,
    output: str = "recent",
) -> optax.GradientTransformationExtraArgs:
    """AdaGrad with its own distance and one factor for the correlation of gradients.

    It needs no learning rate: see :class:`mixfree.steps.Ladder`, whose twin it is. A gradient that
    is not finite is skipped: the update is zero, and ``state.skipped`` counts it. Parameters
    narrower than float32 carry their rounding errors along.

    Parameters
    ----------
    alpha, first
        As in :class:`mixfree.steps.Ladder`; may be arrays.
    block
        As in :class:`mixfree.steps.Ladder`.
    output
        ``"recent"``, ``"weighted"``, ``"average"`` or ``"last"``: what :func:`averaged` returns.

    Examples
    --------
    >>> opt = ladder()
    >>> w, goal = jnp.zeros(3), jnp.array([1.0, 2.0, 3.0])
    >>> state, update = opt.init(w), jax.jit(opt.update)
    >>> for _ in range(600):
    ...     updates, state = update(w - goal, state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> bool(jnp.linalg.norm(w - goal) < 0.2)
    True
    """
    step = scale_by_ladder(alpha=alpha, first=first, block=block)
    return guarded(unrounded(optax.chain(averaging(output), step, optax.scale(-1.0))))


def scale_by_ladder(
    *, alpha: Any = None, first: Any = None, block: int = BLOCK
) -> optax.GradientTransformation:
    """Scale gradients to the steps of a ladder; like ``optax.scale_by_adam``, with their sign.

    The distance follows the parameters themselves, so that anything may come behind it: a
    schedule, weight decay, a mask.

    Parameters
    ----------
    alpha, first, block
        As in :func:`ladder`.

    Examples
    --------
    >>> opt = optax.chain(
    ...     scale_by_ladder(), optax.scale_by_schedule(optax.cosine_decay_schedule(-1.0, 600))
    ... )
    >>> w = jnp.ones(3)
    >>> state, update = opt.init(w), jax.jit(opt.update)
    >>> for _ in range(600):
    ...     updates, state = update(w - 3.0, state, w)
    ...     w = optax.apply_updates(w, updates)
    >>> bool(jnp.abs(w - 3.0).max() < 0.1)
    True
    """
    for name, value in (("alpha", alpha), ("first", first)):
        if value is not None and not isinstance(value, jax.Array):
            check_positive(value, name)
    check_whole(block, "block", most=1 << 16)

    def init(params: Any) -> LadderState:
        x = jax.tree.map(lambda p: jnp.array(p, wide(p.dtype)), params)
        kind, entries = widest(x), sum(leaf.size for leaf in jax.tree.leaves(x))
        zero, width = jnp.zeros((), kind), len(range(0, entries, stride_of(entries)))
        rms = norm(x) / max(1, entries) ** 0.5
        begin = first_distance(jnp, largest(x), rms) if first is None else first
        scale = Scale(zero + begin, zero + begin, zero)
        if alpha is not None:
            scale = Scale(zero + alpha, zero + 1.0, zero)
        zeros = jax.tree.map(jnp.zeros_like, x)
        return LadderState(
            step=jnp.zeros((), jnp.int32),
            scale=scale._replace(margin=zero + scale.margin),
            kappa=zero + 1.0,
            total=zero,
            totals=jnp.zeros(LEVELS, kind),
            carry=jnp.zeros(width, kind),
            halves=jnp.zeros((LEVELS, width), kind),
            squares=zeros,
            weighted_sum=zeros,
            origin=x,
            mean=x,
            before=x,
        )

    def update(updates: Any, state: LadderState, params: Any = None) -> Any:
        if params is None:
            raise ValueError("ladder needs the parameters: call update(updates, state, params)")
        g, x = cast_like(updates, state.squares), cast_like(params, state.squares)
        after = state._replace(step=state.step + 1)
        if alpha is None:
            after = _search(after, g, x)
        else:
            rbar = jnp.zeros_like(state.scale.rbar) + alpha
            after = after._replace(scale=state.scale._replace(rbar=rbar))
        lam, rbar = after.scale.lam, after.scale.rbar
        squares = jax.tree.map(lambda q, a: q + (lam.astype(a.dtype) * a) ** 2, state.squares, g)
        u = jax.tree.map(lambda a, q: lam.astype(a.dtype) * a * _inverse_root(q), g, squares)
        # Beyond this scale the run diverges, and stops.
        farthest = farthest_of(float) if lam.dtype == jnp.float64 else FARTHEST
        factor = jnp.where(lam > farthest, 0.0, rbar) / jnp.sqrt(state.kappa)
        moved = jax.tree.map(lambda a, b: (factor.astype(a.dtype) * a).astype(b.dtype), u, updates)
        weight = lam * jnp.sqrt(after.step.astype(lam.dtype))
        sketched = weight * _sketch(u, lam.dtype)
        return moved, _climb(after._replace(squares=squares), sketched, block)

    return optax.GradientTransformation(init, update)


def _inverse_root(squares: jax.Array) -> jax.Array:
    return jnp.where(squares > 0, 1.0 / jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)


def _search(state: LadderState, g: Any, x: Any) -> LadderState:
    """Update r̄ and λ, and restart from the mean point if the run has arrived."""
    scale, step = state.scale, state.step
    kind = scale.lam.dtype

    def free(pull: jax.Array, before: jax.Array, at: jax.Array, origin: jax.Array) -> jax.Array:
        # What does not move in spite of gradients does not hold up the rest.
        return jnp.where((at == origin) & (before != 0.0), 0.0, jnp.abs(pull))

    ways = jax.tree.map(lambda a, at, origin: a * (origin - at), g, x, state.origin)
    pull = jax.tree.map(lambda s, a: s + scale.lam.astype(a.dtype) * a, state.weighted_sum, g)
    size = total(jax.tree.map(free, pull, state.weighted_sum, x, state.origin))
    share = newest_share(step.astype(kind))
    mean = jax.tree.map(lambda m, at: m + share.astype(m.dtype) * (at - m), state.mean, x)
    before, moved = apply_if(
        ends_epoch(step),
        lambda old: (mean, largest(jax.tree.map(jnp.subtract, mean, old[0])).astype(kind)),
        (state.before, jnp.zeros((), kind)),
    )
    scale = scale._replace(numerator=scale.numerator + scale.lam * total(ways))
    arrived, scale = update_scale(jnp, scale, size, moved)
    origin, pull = apply_if(
        arrived, lambda old: (mean, jax.tree.map(jnp.zeros_like, old[1])), (state.origin, pull)
    )
    return state._replace(
        scale=Scale(*(value.astype(kind) for value in scale)),
        weighted_sum=pull,
        origin=origin,
        mean=mean,
        before=before,
    )


def _sketch(tree: Any, kind: Any) -> jax.Array:
    """Return every so many of the entries of all leaves."""
    leaves, at, found = [replicated(x) for x in jax.tree.leaves(tree)], 0, []
    stride = stride_of(sum(x.size for x in leaves))
    for x in leaves:
        found.append(x.reshape(-1)[-at % stride :: stride].astype(kind))
        at += x.size
    return jnp.concatenate(found)


def _climb(state: LadderState, sketched: jax.Array, block: int) -> LadderState:
    """Add the latest sketch to the levels, and update κ at the end of a block."""
    whole, carry = state.total + sketched @ sketched, state.carry + sketched
    blocks = state.step // block

    def rise(level: Any) -> Any:
        j, halves, totals, carry = level
        half = halves[j]
        return j + 1, halves, totals.at[j].add(((carry - half) ** 2).sum()), carry + half

    def full(levels: Any) -> Any:
        start = (jnp.zeros((), jnp.int32), *levels[:3])
        j, halves, totals, carry = jax.lax.while_loop(
            lambda level: (blocks >> level[0]) & 1 == 0, rise, start
        )
        kappa = inflation(jnp, totals, whole)
        return halves.at[j].set(carry), totals, jnp.zeros_like(carry), kappa

    levels = (state.halves, state.totals, carry, state.kappa)
    halves, totals, carry, kappa = apply_if(state.step % block == 0, full, levels)
    return state._replace(halves=halves, totals=totals, carry=carry, kappa=kappa, total=whole)
