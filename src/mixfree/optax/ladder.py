"""The ladder for Optax: twin of :class:`mixfree.steps.Ladder` in compiled code."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.arithmetic import farthest_of
from mixfree.base.checks import check_positive, check_whole, shown
from mixfree.dropins import Sketch, is_exact
from mixfree.dropins.old_distance import Distance
from mixfree.dropins.old_ladder import BLOCK, EARLY
from mixfree.optax import distance as scales
from mixfree.optax.average import averaging
from mixfree.optax.distance import DistanceState
from mixfree.optax.guard import guarded
from mixfree.optax.rounding import unrounded
from mixfree.optax.trees import norm, times_power_of_two, widest

FARTHEST = 1e15  # largest scale of steps whose squares can be summed in float32
LEVELS = 24  # allocated at the start, since arrays cannot grow in compiled code


class LadderState(NamedTuple):
    """The fields of the reference's state, with all levels and an extra row from the start."""

    step: jax.Array
    unit: jax.Array
    rate: jax.Array
    sum: jax.Array
    squares: jax.Array
    carry: jax.Array
    total: jax.Array
    halves: jax.Array
    levels: jax.Array
    excess: jax.Array
    distance: DistanceState


def ladder(
    *,
    alpha: Any = None,
    per_coordinate: bool | None = None,
    block: int = BLOCK,
    max_levels: int | None = None,
    distance: Distance | None = None,
    sketch: int | None = 1024,
    seed: int = 0,
    output: str = "recent",
) -> optax.GradientTransformationExtraArgs:
    """AdaGrad whose accumulator includes the variance inflation of dyadic blocks.

    It needs no step size. A model of at most ``256·sketch`` entries has exact totals. For a larger
    one, totals are those of a sketch of its gradients, so that a level takes ``sketch`` numbers
    instead of one per parameter. A gradient that is not finite is skipped: the update is zero, and
    ``state.skipped`` counts it.

    Parameters
    ----------
    alpha
        A fixed scale of the steps instead of the distance; may be an array.
    per_coordinate, sketch, seed, output
        As in :class:`mixfree.torch.Ladder`.
    block, distance
        As in :class:`mixfree.steps.Ladder`.
    max_levels
        Largest number of levels; ``None`` is 24, enough for 64·2^24 samples.

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
    if alpha is not None and not isinstance(alpha, jax.Array):
        check_positive(alpha, "alpha")
    if sketch is not None:
        Sketch(sketch, seed=seed)
    check_whole(block, "block", most=1 << 16)
    rungs = LEVELS if max_levels is None else check_whole(max_levels, "max_levels", 0, LEVELS)
    distance = Distance() if distance is None else distance
    if not isinstance(distance, Distance):
        raise ValueError(f"distance must be a Distance, not {shown(distance)}")
    step = _scale_by_ladder(alpha, per_coordinate, block, rungs, distance, sketch, seed)
    return guarded(unrounded(optax.chain(averaging(output), step)))


def _scale_by_ladder(
    alpha: Any,
    per_coordinate: bool | None,
    block: int,
    rungs: int,
    distance: Distance,
    sketch: int | None,
    seed: int,
) -> optax.GradientTransformation:
    def has_exact_totals(tree: Any) -> bool:
        entries = sum(x.size for x in jax.tree.leaves(tree))
        return is_exact(entries, sketch, per_coordinate)

    def by_coordinate(tree: Any) -> bool:
        return has_exact_totals(tree) and per_coordinate is not False

    def vector(tree: Any) -> jax.Array:
        """Return all leaves as one vector, or its sketch."""
        leaves = [x.astype(widest(tree)) for x in jax.tree.leaves(tree)]
        if has_exact_totals(tree) or sketch is None:
            return jnp.concatenate([x.reshape(-1) for x in leaves])
        signs = Sketch(sketch, sum(x.size for x in leaves), seed)
        sketched: jax.Array = signs.of(leaves, jnp.concatenate, jnp.asarray(signs.table))
        return sketched

    def init(params: Any) -> LadderState:
        x = vector(params)
        width = x.size if by_coordinate(params) else 1
        wide, narrow = jnp.zeros(x.size, x.dtype), jnp.zeros(width, x.dtype)
        rows = jnp.zeros((rungs + 1, width), x.dtype)
        return LadderState(
            step=jnp.zeros((), jnp.int32),
            unit=jnp.zeros((), jnp.int32),
            rate=narrow,
            sum=wide,
            squares=narrow,
            carry=wide,
            total=narrow,
            halves=jnp.zeros((rungs + 1, x.size), x.dtype),
            levels=rows,
            excess=rows,
            distance=scales.start(distance, x, by_coordinate(params), alpha),
        )

    def update(updates: Any, state: LadderState, params: Any = None) -> Any:
        if params is None:
            raise ValueError("ladder needs the parameters: call update(updates, state, params)")
        direction = vector(updates)
        size = norm(direction)
        state = _with_unit(state, size)
        g = times_power_of_two(direction, -state.unit)
        length = times_power_of_two(size, -state.unit)
        step, earlier = state.step + 1, state
        state = state._replace(
            step=step,
            squares=state.squares + (g * g if by_coordinate(params) else length * length),
            sum=state.sum + g,
        )
        if alpha is not None:
            state = state._replace(distance=scales.set_scale(state.distance, alpha))

        def refresh() -> LadderState:
            x, scale = vector(params), state.distance
            if alpha is None:
                scale = scales.add(scale, state.sum, x, _back(earlier))
            taken = _take_in(state)
            after: LadderState = jax.lax.cond(
                step % block == 0, lambda: _climb(taken, step // block, rungs), lambda: taken
            )
            if alpha is None:
                passed = jnp.where(step <= EARLY * block, 1, block)
                scale = scales.update(scale, x, step, passed)
            root = jnp.sqrt(after.total + after.excess[0])
            rate = scale.lam * scale.rbar / jnp.where(root > 0, root, 1)
            # Beyond this scale the run diverges, and stops.
            farthest = farthest_of(x.dtype) if x.dtype == jnp.float64 else FARTHEST
            moves = (root > 0) & (jnp.maximum(scale.lam, scale.rbar.max()) <= farthest)
            return after._replace(rate=jnp.where(moves, rate, 0), distance=scale)

        state = jax.lax.cond((step <= EARLY * block) | (step % block == 0), refresh, lambda: state)
        rbar = state.distance.rbar
        if by_coordinate(params):
            moved = _unravel(-jnp.clip(state.rate * g, -rbar, rbar), updates)
        else:
            longest = jnp.where(length > 0, rbar[0] / jnp.where(length > 0, length, 1), 0)
            factor = -jnp.minimum(state.rate[0], longest)
            moved = jax.tree.map(
                lambda x: (factor * times_power_of_two(x, -state.unit)).astype(x.dtype), updates
            )
        return moved, state

    return optax.GradientTransformation(init, update)


def _with_unit(state: LadderState, size: jax.Array) -> LadderState:
    """Change the unit by a power of two, which is exact, before squares can overflow."""
    most = 256 if size.dtype == jnp.float64 else 30
    change = jnp.where(size > 0, jnp.frexp(size)[1] - state.unit, 0)
    nothing_yet = (change < -most) & ~jnp.any(state.squares + state.total > 0)

    def rescaled() -> LadderState:
        powers = dict.fromkeys(("sum", "carry", "halves"), 1)  # of the gradient in each sum
        powers |= dict.fromkeys(("squares", "total", "levels", "excess"), 2)
        scaled = {
            name: times_power_of_two(getattr(state, name), -power * change)
            for name, power in powers.items()
        }
        return state._replace(
            unit=state.unit + change,
            # An infinite rate times a gradient of zero would be NaN.
            rate=jnp.minimum(
                times_power_of_two(state.rate, change), jnp.finfo(state.rate.dtype).max
            ),
            distance=scales.scale_gradients(state.distance, -change),
            **scaled,
        )

    found: LadderState = jax.lax.cond((change > most) | nothing_yet, rescaled, lambda: state)
    return found


def _back(earlier: LadderState) -> jax.Array:
    """Return Σ g_i·(x_i − x_t), where the steps from x_i to x_t had the current rates.

    Computed from the sums before the newest gradient: subtracting it from later sums would leave a
    rounding error, which a change of unit may multiply by a huge rate.
    """
    if earlier.rate.size < earlier.sum.size:
        return 0.5 * (earlier.rate[0] * (norm(earlier.sum) ** 2 + earlier.squares[0]))
    return 0.5 * (earlier.rate @ (earlier.sum**2 + earlier.squares))


def _take_in(state: LadderState) -> LadderState:
    """Add the gradients since the last refresh to all sums, weighted by λ."""
    weight = state.distance.lam
    return state._replace(
        total=state.total + weight**2 * state.squares,
        carry=state.carry + weight * state.sum,
        squares=jnp.zeros_like(state.squares),
        sum=jnp.zeros_like(state.sum),
    )


def _climb(state: LadderState, blocks: jax.Array, rungs: int) -> LadderState:
    """Add the block's sum to the first level, and complete levels to the next."""
    complete = jnp.minimum(jax.lax.population_count((blocks & -blocks) - 1), rungs)
    narrow = state.levels.shape[1] < state.carry.size

    def rise(j: jax.Array, carried: Any) -> Any:
        carry, levels = carried
        difference = carry - state.halves[j]
        square = norm(difference)[None] ** 2 if narrow else difference**2
        return carry + state.halves[j], levels.at[j].add(square)

    def fall(i: jax.Array, excess: jax.Array) -> jax.Array:
        j = complete - 1 - i
        return excess.at[j].set(excess[j + 1] + jnp.maximum(levels[j] - state.total, 0))

    carry, levels = jax.lax.fori_loop(0, complete, rise, (state.carry, state.levels))
    # The extra row takes sums beyond the last level.
    halves = state.halves.at[complete].set(carry)
    # excess[j] is the sum over levels j and above; levels above `complete` are unchanged.
    excess = jax.lax.fori_loop(0, complete, fall, state.excess)
    return state._replace(
        carry=jnp.zeros_like(state.carry), halves=halves, levels=levels, excess=excess
    )


def _unravel(vector: jax.Array, like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    parts, at = [], 0
    for leaf in leaves:
        parts.append(vector[at : at + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        at += leaf.size
    return jax.tree.unflatten(structure, parts)
