"""The ladder for Optax: :class:`mixfree.steps.Ladder` in compiled code, leaf by leaf."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree import steps as reference
from mixfree.base.checks import check_one_of, check_whole
from mixfree.dropins import OUTPUTS, farthest, newest_weight
from mixfree.optax import trees
from mixfree.optax.average import AverageState, towards
from mixfree.steps import ladder_rule as rule
from mixfree.steps.ladder_rule import BLOCK, LEVELS, SAMPLE, WIDTH, Scale


class LadderState(NamedTuple):
    """The state of the reference, with trees for vectors."""

    steps: jax.Array
    skipped: jax.Array  # gradients that were not finite
    scale: Scale
    kappa: jax.Array
    totals: jax.Array  # V_j of every level j, and V_0 at the end
    carry: jax.Array
    halves: jax.Array
    sketched: jax.Array  # the squares of the sketch's coordinates
    squares: Any
    weighted_sum: jax.Array
    origin: jax.Array
    before: jax.Array
    mean: Any  # the output if it is an ``AverageState``
    output: Any  # another average, or ()
    lost: Any  # rounding errors of parameters narrower than float32

    @property
    def samples(self) -> jax.Array:
        """Number of gradients used: one per step."""
        return self.steps


def ladder(
    *, alpha: Any = None, first: Any = None, block: int = BLOCK, output: str = "recent"
) -> optax.GradientTransformationExtraArgs:
    """AdaGrad with its own distance and one factor for the correlation of gradients.

    It needs no learning rate: see :class:`mixfree.steps.Ladder`, its reference. A gradient that
    is not finite is skipped: the update is zero, and ``state.skipped`` counts it. Parameters
    narrower than float32 carry their rounding errors along.

    Parameters
    ----------
    alpha, first, block
        As in :class:`mixfree.steps.Ladder`; the first two may be arrays.
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
    return _ladder(alpha, first, block, check_one_of(output, "output", OUTPUTS))


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
    >>> schedule = optax.scale_by_schedule(optax.cosine_decay_schedule(-1.0, 600))
    >>> opt = optax.chain(scale_by_ladder(), schedule)
    >>> updates, state = opt.update(jnp.ones(3), opt.init(jnp.zeros(3)), jnp.zeros(3))
    >>> updates.tolist()
    [-9.999...e-07, -9.999...e-07, -9.999...e-07]
    """
    return _ladder(alpha, first, block, None)


def _ladder(
    alpha: Any, first: Any, block: int, output: str | None
) -> optax.GradientTransformationExtraArgs:
    """Return the ladder with an output and a sign, or without either."""
    given = {"alpha": alpha, "first": first, "block": check_whole(block, "block", most=1 << 16)}
    reference.Ladder(**{k: v for k, v in given.items() if not isinstance(v, jax.Array)})

    def nothing_lost(p: jax.Array, x: jax.Array) -> jax.Array:
        # Parameters from float32 on have no rounding errors to carry along.
        carries = output is not None and p.dtype != x.dtype
        return jnp.zeros(p.shape if carries else 0, x.dtype)

    def init(params: Any) -> Any:
        params = trees.real_arrays(params)
        x = trees.widened(params)
        kind, rms = trees.widest(x), trees.norm(x) / max(1, trees.entries(x)) ** 0.5
        scale = rule.first_scale(jnp, alpha, first, trees.largest(x), rms)
        at, none = trees.sample(x, SAMPLE, kind), jnp.zeros((), jnp.uint32)
        sketch = jnp.zeros_like(trees.sample(x, WIDTH, kind))
        state = LadderState(
            steps=jnp.zeros((), jnp.int32),
            skipped=none,
            scale=Scale(*(jnp.asarray(value, kind) for value in scale)),
            kappa=jnp.ones((), kind),
            totals=jnp.zeros(LEVELS + 1, kind),
            carry=sketch,
            halves=jnp.tile(sketch, (LEVELS, 1)),
            sketched=sketch,
            squares=jax.tree.map(jnp.zeros_like, x),
            weighted_sum=jnp.zeros_like(at),
            origin=at,
            before=at,
            mean=AverageState(none, x) if output == "recent" else x,
            output=AverageState(none, x) if output in ("average", "weighted") else (),
            lost=jax.tree.map(nothing_lost, params, x),
        )
        return jax.tree.map(jnp.copy, state)  # so that no two leaves are one: it can be donated

    def update(updates: Any, state: LadderState, params: Any = None, **extra: Any) -> Any:
        if params is None:
            raise ValueError("ladder needs the parameters: call update(updates, state, params)")
        params, kind = trees.real_arrays(params), state.scale.lam.dtype
        if getattr(state.origin, "shape", ()) != (rule.width_of(trees.entries(params), SAMPLE),):
            raise ValueError("state is of other parameters, or of another version of mixfree")
        x = trees.cast_like(params, state.squares)
        x = jax.tree.map(lambda a, e: a + e if e.size else a, x, state.lost)
        g = trees.cast_like(updates, x)
        sampled = trees.sample(g, SAMPLE, kind)
        vector = sampled if sampled.size == trees.entries(g) else g
        good = jnp.isfinite(trees.norm(vector))
        # A gradient that is not finite counts as 0, and does not count as a step.
        sampled, vector, g = jax.tree.map(lambda a: jnp.where(good, a, 0.0), (sampled, vector, g))
        steps = state.steps + good
        t = steps.astype(kind)
        mean = towards(state.mean, x, good * rule.newest_share(t))
        after = state._replace(steps=steps, skipped=state.skipped + ~good, mean=mean)
        if isinstance(state.output, AverageState):
            share = good * newest_weight(str(output), jnp.maximum(t, 1.0))
            after = after._replace(output=towards(state.output, x, share))
        if alpha is None:
            after = _search(after, sampled, x, good)
        else:
            after = after._replace(scale=state.scale._replace(rbar=jnp.asarray(alpha, kind)))
        after = _climb(after, trees.sample(vector, WIDTH, kind), block, good)
        lam, rbar = after.scale.lam, after.scale.rbar
        # Beyond this scale the run diverges, and stops.
        factor = jnp.where(lam > farthest(kind == jnp.float64), 0.0, rbar) / jnp.sqrt(state.kappa)
        factor = factor if output is None else -factor
        squares, u = trees.two_of(partial(_normalised, lam), state.squares, g)
        moved = jax.tree.map(lambda a: factor.astype(a.dtype) * a, u)
        moved, lost = trees.two_of(_rounded, params, x, moved, state.lost)
        return trees.cast_like(moved, updates), after._replace(squares=squares, lost=lost)

    return optax.GradientTransformationExtraArgs(init, update)


def _search(state: LadderState, g: jax.Array, x: Any, good: jax.Array) -> LadderState:
    """Update r̄ and λ, and restart from the mean point if the run has arrived."""
    old, kind = state.scale, state.scale.lam.dtype
    mean = state.mean.average if isinstance(state.mean, AverageState) else state.mean
    at = trees.sample(x, SAMPLE, kind)
    sums, (size, along) = rule.pull(jnp, state.weighted_sum, state.origin, g, at, old.lam)
    _, scale = rule.update_scale(jnp, old._replace(numerator=old.numerator + along), size, 0.0)
    scale = trees.cast_like(jax.tree.map(partial(jnp.where, good), scale, old), old)

    def compare(end: Any) -> Any:
        before, origin, sums, scale = end
        # Always true, which XLA does not know: it would gather the mean at every step, outside.
        now = jax.tree.map(lambda a: jnp.where(scale.rbar > 0.0, a, 0.0), mean)
        means = trees.sample(now, SAMPLE, kind)
        arrived, scale = rule.update_scale(jnp, scale, 0.0, rule.movement(means, before, at))
        scale = trees.cast_like(scale, old)
        return means, jnp.where(arrived, means, origin), jnp.where(arrived, 0.0, sums), scale

    end = (state.before, state.origin, sums, scale)
    before, origin, sums, scale = trees.apply_if(rule.ends_epoch(state.steps) & good, compare, end)
    return state._replace(scale=scale, weighted_sum=sums, origin=origin, before=before)


def _climb(state: LadderState, g: jax.Array, block: int, good: jax.Array) -> LadderState:
    """Add the sketch of λ√t·u to the levels, and update κ at the end of a block."""
    lam, t = state.scale.lam, state.steps.astype(g.dtype)
    squares, u = _normalised(lam, state.sketched, g)
    sketched = lam * jnp.sqrt(t) * u
    totals = state.totals.at[-1].add(sketched @ sketched)
    carry, blocks = state.carry + sketched, state.steps // block

    def full(levels: Any) -> Any:
        """Do as :func:`mixfree.steps.ladder_rule.climb`."""
        halves, totals, carry, _ = levels

        def rise(j: jax.Array, rising: Any) -> Any:
            totals, carry = rising
            return totals.at[j].add(((carry - halves[j]) ** 2).sum()), carry + halves[j]

        level = jax.lax.population_count((blocks & -blocks) - 1)
        totals, carry = jax.lax.fori_loop(0, level, rise, (totals, carry))
        kappa = rule.inflation(totals[:-1], totals[-1])
        return halves.at[level].set(carry), totals, jnp.zeros_like(carry), kappa

    levels = (state.halves, totals, carry, state.kappa)
    halves, totals, carry, kappa = trees.apply_if((state.steps % block == 0) & good, full, levels)
    return state._replace(halves=halves, totals=totals, carry=carry, kappa=kappa, sketched=squares)


def _normalised(lam: jax.Array, squares: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return Q + (λ g)², and u = λ g/√Q."""
    weighted = lam.astype(g.dtype) * g
    squares = squares + weighted**2
    # A square of 0 is that of a gradient of 0, and so is u.
    return squares, weighted * jax.lax.rsqrt(squares + (squares == 0.0))


def _rounded(p: jax.Array, x: jax.Array, moved: jax.Array, lost: jax.Array) -> Any:
    """Return the update of a parameter from x, before its rounding, and the new rounding error."""
    if not lost.size:
        return moved, lost
    kind = jnp.finfo(p.dtype)
    # XLA may optimise a cast there and back away.
    rounded = partial(jax.lax.reduce_precision, exponent_bits=kind.nexp, mantissa_bits=kind.nmant)
    change = rounded(rounded(x + moved) - p)
    return change, x + moved - rounded(p + change)
