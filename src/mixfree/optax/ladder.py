"""The ladder for Optax: twin of :class:`mixfree.steps.Ladder` in compiled code, leaf by leaf."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.arithmetic import farthest_of
from mixfree.base.checks import check_one_of, check_positive, check_whole
from mixfree.dropins import OUTPUTS, newest_weight
from mixfree.optax.average import AverageState
from mixfree.optax.trees import (
    acceptable,
    apply_if,
    cast_like,
    largest,
    norm,
    real_arrays,
    replicated,
    separate,
    total,
    wide,
    widest,
)
from mixfree.steps import ladder_rule as rule
from mixfree.steps.ladder_rule import BLOCK, LEVELS, Scale

FARTHEST = 1e15  # largest λ whose squares can be summed in float32; float64 has more room


class LadderState(NamedTuple):
    """The state of the reference, with trees for vectors."""

    steps: jax.Array
    skipped: jax.Array  # gradients that were not finite
    scale: Scale
    kappa: jax.Array
    total: jax.Array
    totals: jax.Array
    carry: jax.Array
    halves: jax.Array
    squares: Any
    weighted_sum: Any
    origin: Any
    mean: Any  # the output if it is an ``AverageState``
    before: Any
    output: Any  # another average, or ()
    lost: Any  # rounding errors of parameters narrower than float32, or ()

    @property
    def samples(self) -> jax.Array:
        """Number of gradients used: one per step."""
        return self.steps


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
    check_one_of(output, "output", OUTPUTS)
    return _ladder(alpha, first, block, output)


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
    return _ladder(alpha, first, block, None)


def _ladder(
    alpha: Any, first: Any, block: int, output: str | None
) -> optax.GradientTransformationExtraArgs:
    """Return the ladder with an output and a sign, or without either."""
    for name, value in (("alpha", alpha), ("first", first)):
        if value is not None and not isinstance(value, jax.Array):
            check_positive(value, name)
    check_whole(block, "block", most=1 << 16)

    def init(params: Any) -> LadderState:
        params = real_arrays(params)
        x = jax.tree.map(lambda p: jnp.array(p, wide(p.dtype)), params)
        kind, entries = widest(x), sum(leaf.size for leaf in jax.tree.leaves(x))
        zero, width = jnp.zeros((), kind), rule.width_of(entries)
        rms = norm(x) / max(1, entries) ** 0.5
        begin = rule.first_distance(jnp, largest(x), rms) if first is None else first
        scale = Scale(zero + begin, zero + begin, zero)
        if alpha is not None:
            scale = Scale(zero + alpha, zero + 1.0, zero)
        zeros, none = jax.tree.map(jnp.zeros_like, x), jnp.zeros((), jnp.uint32)
        other = output not in (None, "recent", "last")
        state: LadderState = separate(
            LadderState(
                steps=jnp.zeros((), jnp.int32),
                skipped=none,
                scale=scale._replace(margin=zero + scale.margin),
                kappa=zero + 1.0,
                total=zero,
                totals=jnp.zeros(LEVELS, kind),
                carry=jnp.zeros(width, kind),
                halves=jnp.zeros((LEVELS, width), kind),
                squares=zeros,
                weighted_sum=zeros,
                origin=x,
                mean=AverageState(none, x) if output == "recent" else x,
                before=x,
                output=AverageState(none, x) if other else (),
                lost=() if output is None else jax.tree.map(_nothing_lost, params),
            )
        )
        return state

    def update(updates: Any, state: LadderState, params: Any = None, **extra: Any) -> Any:
        if params is None:
            raise ValueError("ladder needs the parameters: call update(updates, state, params)")
        params, good = real_arrays(params), acceptable(updates)
        x = cast_like(params, state.squares)
        if output is not None:
            x = jax.tree.map(lambda a, p, e: a + e if _is_narrow(p) else a, x, params, state.lost)
        # A gradient that is not finite counts as 0, and does not count as a step.
        g = jax.tree.map(
            lambda a, q: jnp.where(good, a, 0.0).astype(q.dtype), updates, state.squares
        )
        steps, kind = state.steps + good, state.scale.lam.dtype
        t = steps.astype(kind)
        after = state._replace(
            steps=steps,
            skipped=state.skipped + ~good,
            mean=_averaged(state.mean, x, good * rule.newest_share(t)),
        )
        if isinstance(state.output, AverageState):
            weight = good * newest_weight(str(output), jnp.maximum(t, 1.0))
            after = after._replace(output=_averaged(state.output, x, weight))
        if alpha is None:
            after = _search(after, g, x, good)
        else:
            rbar = jnp.zeros_like(state.scale.rbar) + alpha
            after = after._replace(scale=state.scale._replace(rbar=rbar))
        lam, rbar = after.scale.lam, after.scale.rbar
        squares = jax.tree.map(lambda q, a: q + (lam.astype(a.dtype) * a) ** 2, state.squares, g)
        u = jax.tree.map(lambda a, q: lam.astype(a.dtype) * a * _inverse_root(q), g, squares)
        # Beyond this scale the run diverges, and stops.
        farthest = farthest_of(float) if lam.dtype == jnp.float64 else FARTHEST
        factor = jnp.where(lam > farthest, 0.0, rbar) / jnp.sqrt(state.kappa)
        factor = factor if output is None else -factor
        after = _climb(
            after._replace(squares=squares), lam * jnp.sqrt(t) * _sketch(u, kind), block, good
        )
        moved = jax.tree.map(lambda a: factor.astype(a.dtype) * a, u)
        if output is None:
            return cast_like(moved, updates), after
        goals = jax.tree.map(jnp.add, x, moved)
        changes = jax.tree.map(_change, params, goals, moved)
        after = after._replace(lost=jax.tree.map(_lost, params, goals, changes, state.lost))
        return cast_like(changes, updates), after

    return optax.GradientTransformationExtraArgs(init, update)


def _nothing_lost(p: jax.Array) -> jax.Array:
    return jnp.zeros(p.shape if _is_narrow(p) else 0, wide(p.dtype))


def _averaged(average: Any, x: Any, weight: jax.Array) -> Any:
    """Move an average towards the points."""
    if isinstance(average, AverageState):
        count = average.count + (weight > 0).astype(jnp.uint32)
        return AverageState(count, _averaged(average.average, x, weight))
    return jax.tree.map(lambda m, at: m + weight.astype(m.dtype) * (at - m), average, x)


def _inverse_root(squares: jax.Array) -> jax.Array:
    return jnp.where(squares > 0, jax.lax.rsqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)


def _search(state: LadderState, g: Any, x: Any, good: jax.Array) -> LadderState:
    """Update r̄ and λ, and restart from the mean point if the run has arrived."""
    old, kind = state.scale, state.scale.lam.dtype
    mean = state.mean.average if isinstance(state.mean, AverageState) else state.mean

    def free(pull: jax.Array, before: jax.Array, at: jax.Array, origin: jax.Array) -> jax.Array:
        # What does not move in spite of gradients does not hold up the rest.
        return jnp.where((at == origin) & (before != 0.0), 0.0, jnp.abs(pull))

    ways = jax.tree.map(lambda a, at, origin: a * (origin - at), g, x, state.origin)
    pull = jax.tree.map(lambda s, a: s + old.lam.astype(a.dtype) * a, state.weighted_sum, g)
    size = total(jax.tree.map(free, pull, state.weighted_sum, x, state.origin))
    scale = old._replace(numerator=old.numerator + old.lam * total(ways))
    _, scale = rule.update_scale(jnp, scale, size, 0.0)
    scale = Scale(*(jnp.where(good, a, b).astype(kind) for a, b in zip(scale, old, strict=True)))

    def compare(end: Any) -> Any:
        before, origin, pull, scale = end
        moved = largest(jax.tree.map(jnp.subtract, mean, before)).astype(kind)
        arrived, scale = rule.update_scale(jnp, scale, 0.0, moved)
        origin = jax.tree.map(lambda m, o: jnp.where(arrived, m, o), mean, origin)
        pull = jax.tree.map(lambda s: jnp.where(arrived, 0.0, s), pull)
        return mean, origin, pull, Scale(*(value.astype(kind) for value in scale))

    end = (state.before, state.origin, pull, scale)
    before, origin, pull, scale = apply_if(rule.ends_epoch(state.steps) & good, compare, end)
    return state._replace(scale=scale, weighted_sum=pull, origin=origin, before=before)


def _sketch(tree: Any, kind: Any) -> jax.Array:
    """Return every so many of the entries of all leaves."""
    leaves, at, found = [replicated(x) for x in jax.tree.leaves(tree)], 0, []
    stride = rule.stride_of(sum(x.size for x in leaves))
    for x in leaves:
        found.append(x.reshape(-1)[-at % stride :: stride].astype(kind))
        at += x.size
    return jnp.concatenate(found)


def _climb(state: LadderState, sketched: jax.Array, block: int, good: jax.Array) -> LadderState:
    """Add the latest sketch to the levels, and update κ at the end of a block."""
    whole, carry = state.total + sketched @ sketched, state.carry + sketched
    blocks = state.steps // block

    def rise(level: Any) -> Any:
        j, halves, totals, carry = level
        half = halves[j]
        return j + 1, halves, totals.at[j].add(((carry - half) ** 2).sum()), carry + half

    def full(levels: Any) -> Any:
        start = (jnp.zeros((), jnp.int32), *levels[:3])
        j, halves, totals, carry = jax.lax.while_loop(
            lambda level: (blocks >> level[0]) & 1 == 0, rise, start
        )
        kappa = rule.inflation(jnp, totals, whole)
        return halves.at[j].set(carry), totals, jnp.zeros_like(carry), kappa

    levels = (state.halves, state.totals, carry, state.kappa)
    halves, totals, carry, kappa = apply_if((state.steps % block == 0) & good, full, levels)
    return state._replace(halves=halves, totals=totals, carry=carry, kappa=kappa, total=whole)


def _is_narrow(p: jax.Array) -> bool:
    """Whether a parameter has fewer digits than float32, so that short steps would be lost."""
    return bool(p.dtype != wide(p.dtype))


def _change(p: jax.Array, goal: jax.Array, moved: jax.Array) -> jax.Array:
    """Return the update that moves a parameter to the rounded goal."""
    return _rounded(_rounded(goal, p) - p, p) if _is_narrow(p) else moved


def _lost(p: jax.Array, goal: jax.Array, change: jax.Array, before: jax.Array) -> jax.Array:
    """Return the rounding error of a narrow parameter after an update."""
    return goal - _rounded(p + change, p) if _is_narrow(p) else before


def _rounded(x: jax.Array, like: jax.Array) -> jax.Array:
    """Round ``x`` to the dtype of ``like``; XLA may optimise a cast there and back away."""
    kind = jnp.finfo(like.dtype)
    return jax.lax.reduce_precision(x, kind.nexp, kind.nmant)
