"""The ladder for Optax: twin of :class:`mixfree.steps.Ladder` inside compiled code."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mixfree.base.checks import check_positive, check_whole
from mixfree.dropins.sketch import Sketch, is_exact
from mixfree.optax.average import averaging
from mixfree.optax.guard import guarded
from mixfree.optax.trees import norm, times_power_of_two, widest
from mixfree.steps.distance import FIRST_EPOCH, KEPT, MARGIN, MOVED, RELATIVE, Distance
from mixfree.steps.ladder import BLOCK, EARLY

LEVELS = 24  # arrays cannot grow in compiled code
_POWERS = {  # of the gradient in each sum
    1: ("sum", "carry", "halves", "weighted_sum", "numerator"),
    2: ("squares", "total", "levels", "excess"),
    -1: ("rate",),
}


class LadderState(NamedTuple):
    """As the state of the reference, with all levels, and a row above them, from the start."""

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
    rbar: jax.Array
    lam: jax.Array
    origin: jax.Array
    mean: jax.Array
    weight: jax.Array
    before: jax.Array
    epoch: jax.Array
    weighted_sum: jax.Array
    numerator: jax.Array
    margin: jax.Array


def ladder(
    alpha: Any = None,
    per_coordinate: bool | None = None,
    block: int = BLOCK,
    max_levels: int | None = None,
    distance: Distance | None = None,
    sketch: int | None = 1024,
    seed: int = 0,
    *,
    output: str = "weighted",
) -> optax.GradientTransformationExtraArgs:
    """AdaGrad that pays for correlation at every scale, and finds its own step size.

    A model of at most ``16·sketch`` entries has exact totals; a larger one those of a sketch of
    its gradients, so that a level costs ``sketch`` numbers and not one a parameter. A gradient
    that is not finite is left out: the update is zero, and ``state.skipped`` counts it.

    Parameters
    ----------
    alpha
        A fixed scale instead of the distance; may be an array.
    per_coordinate, sketch, seed, output
        As in :class:`mixfree.torch.Ladder`.
    block, distance
        As in :class:`mixfree.steps.Ladder`.
    max_levels
        Levels at most; ``None`` is 24, enough for 64·2^24 samples.

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
        raise ValueError(f"distance must be a Distance, not {distance!r}")
    return guarded(
        optax.chain(
            averaging(output),
            _scale_by_ladder(alpha, per_coordinate, block, rungs, distance, sketch, seed),
        )
    )


def _scale_by_ladder(
    alpha: Any,
    per_coordinate: bool | None,
    block: int,
    rungs: int,
    distance: Distance,
    sketch: int | None,
    seed: int,
) -> optax.GradientTransformation:
    bounded = alpha is None and distance.of == "bound"

    def has_exact_totals(tree: Any) -> bool:
        entries = sum(x.size for x in jax.tree.leaves(tree))
        return is_exact(entries, sketch, per_coordinate)

    def by_coordinate(tree: Any) -> bool:
        return has_exact_totals(tree) and per_coordinate is not False

    def vector(tree: Any) -> jax.Array:
        """All leaves as one vector, or its sketch."""
        leaves = [x.astype(widest(tree)) for x in jax.tree.leaves(tree)]
        if has_exact_totals(tree) or sketch is None:
            return jnp.concatenate([x.reshape(-1) for x in leaves])
        signs = Sketch(sketch, sum(x.size for x in leaves), seed)
        return signs.of(leaves, jnp.concatenate, jnp.asarray(signs.table))

    def init(params: Any) -> LadderState:
        x = vector(params)
        width = x.size if by_coordinate(params) else 1
        size = jnp.abs(x).max() if by_coordinate(params) else norm(x)
        first = RELATIVE * (1 + size) if distance.first is None else distance.first
        zeros = lambda *shape: jnp.zeros(shape, x.dtype)  # noqa: E731
        return LadderState(
            step=jnp.zeros((), jnp.int32),
            unit=jnp.zeros((), jnp.int32),
            rate=zeros(width),
            sum=zeros(x.size),
            squares=zeros(width),
            carry=zeros(x.size),
            total=zeros(width),
            halves=zeros(rungs + 1, x.size),
            levels=zeros(rungs + 1, width),
            excess=zeros(rungs + 1, width),
            rbar=zeros(width) + (first if alpha is None else alpha),
            lam=zeros() + (first if bounded else 1.0),
            origin=x,
            mean=x,
            weight=zeros(),
            before=x,
            epoch=jnp.full((), FIRST_EPOCH, jnp.int32),
            weighted_sum=zeros(x.size),
            numerator=zeros(),
            margin=zeros() + MARGIN,
        )

    def update(updates: Any, state: LadderState, params: Any = None) -> Any:
        if params is None:
            raise ValueError("ladder needs the parameters: call update(updates, state, params)")
        direction = vector(updates)
        size = norm(direction)
        state = _with_unit(state, size)
        g = times_power_of_two(direction, -state.unit)
        length = times_power_of_two(size, -state.unit)
        step = state.step + 1
        state = state._replace(
            step=step,
            squares=state.squares + (g * g if by_coordinate(params) else length * length),
            sum=state.sum + g,
        )
        if alpha is not None:
            state = state._replace(rbar=jnp.zeros_like(state.rbar) + alpha)

        def refresh() -> LadderState:
            x = vector(params)
            taken = _take_in(state, g, length, x, bounded)
            climbed = jax.lax.cond(
                step % block == 0, lambda: _climb(taken, step // block, rungs), lambda: taken
            )
            if alpha is None:
                passed = jnp.where(step <= EARLY * block, 1, block)
                climbed = _walk(climbed, x, step.astype(g.dtype) * passed.astype(g.dtype), distance)
            root = jnp.sqrt(climbed.total + climbed.excess[0])
            scale = climbed.lam * climbed.rbar
            return climbed._replace(
                rate=jnp.where(root > 0, scale / jnp.where(root > 0, root, 1), 0)
            )

        state = jax.lax.cond((step <= EARLY * block) | (step % block == 0), refresh, lambda: state)
        if by_coordinate(params):
            moved = _unravel(-jnp.clip(state.rate * g, -state.rbar, state.rbar), updates)
        else:
            longest = jnp.where(length > 0, state.rbar[0] / jnp.where(length > 0, length, 1), 0)
            factor = -jnp.minimum(state.rate[0], longest)
            moved = jax.tree.map(
                lambda x: (factor * times_power_of_two(x, -state.unit)).astype(x.dtype), updates
            )
        return moved, state

    return optax.GradientTransformation(init, update)


def _with_unit(state: LadderState, size: jax.Array) -> LadderState:
    """Keep squares far from overflow; a change of unit is a power of two, hence exact."""
    most = 256 if size.dtype == jnp.float64 else 30
    change = jnp.where(size > 0, jnp.frexp(size)[1] - state.unit, 0)
    nothing_yet = (change < -most) & ~jnp.any(state.squares + state.total > 0)

    def rescaled() -> LadderState:
        scaled = {
            name: times_power_of_two(getattr(state, name), -power * change)
            for power, names in _POWERS.items()
            for name in names
        }
        return state._replace(unit=state.unit + change, **scaled)

    return jax.lax.cond((change > most) | nothing_yet, rescaled, lambda: state)


def _take_in(
    state: LadderState, g: jax.Array, length: jax.Array, x: jax.Array, measured: bool
) -> LadderState:
    """Take the gradients since the last time into all sums, weighted by λ."""
    weight, total = state.lam, state.sum
    if measured:
        # Σ g_i·(o − x_i), where x_i came from x_t by steps at the rates that now end.
        earlier = total - g
        if state.rate.size < total.size:
            back = state.rate[0] * (norm(earlier) ** 2 + state.squares[0] - length * length)
        else:
            back = state.rate @ (earlier**2 + (state.squares - g * g))
        state = state._replace(
            numerator=state.numerator + weight * (total @ (state.origin - x) - 0.5 * back),
            weighted_sum=state.weighted_sum + weight * total,
        )
    return state._replace(
        total=state.total + weight**2 * state.squares,
        carry=state.carry + weight * total,
        squares=jnp.zeros_like(state.squares),
        sum=jnp.zeros_like(total),
    )


def _climb(state: LadderState, blocks: jax.Array, rungs: int) -> LadderState:
    """Give the block's sum to the first level, and what is complete to the next."""
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
    # The row above the last level takes what no level will use.
    halves = state.halves.at[complete].set(carry)
    # excess[j] is the sum over level j and those above, which have not changed.
    excess = jax.lax.fori_loop(0, complete, fall, state.excess)
    return state._replace(
        carry=jnp.zeros_like(state.carry), halves=halves, levels=levels, excess=excess
    )


def _walk(state: LadderState, x: jax.Array, weight: jax.Array, distance: Distance) -> LadderState:
    """Twin of :meth:`mixfree.steps.distance.Distance.update`."""
    total = state.weight + weight
    mean = state.mean + (weight / total) * (x - state.mean)
    state = state._replace(weight=total, mean=mean)
    if distance.of == "bound":
        return _bound(state)
    gone = jnp.abs(x - state.origin)
    rbar = jnp.maximum(state.rbar, gone if state.rbar.size > 1 else norm(gone))
    return state._replace(rbar=rbar)


def _bound(state: LadderState) -> LadderState:
    per_coordinate = state.rbar.size > 1
    size = jnp.abs(state.weighted_sum).sum() if per_coordinate else norm(state.weighted_sum)
    found = jnp.where(size > 0, state.margin * state.numerator / jnp.where(size > 0, size, 1), 0)
    rbar = jnp.maximum(state.rbar[0], found)
    movement = state.mean - state.before
    moved = MOVED * (jnp.abs(movement).max() if per_coordinate else norm(movement))
    over = state.step >= state.epoch
    arrived = over & (moved < rbar)
    rbar = jnp.where(arrived, jnp.maximum(moved, KEPT * rbar), rbar)
    return state._replace(
        rbar=jnp.zeros_like(state.rbar) + rbar,
        lam=jnp.maximum(state.lam, rbar),
        origin=jnp.where(arrived, state.mean, state.origin),
        numerator=jnp.where(arrived, 0, state.numerator),
        margin=jnp.where(arrived, 1, state.margin),
        weighted_sum=jnp.where(arrived, 0, state.weighted_sum),
        before=jnp.where(over, state.mean, state.before),
        weight=jnp.where(over, 0, state.weight),
        epoch=jnp.where(over, 2 * state.epoch, state.epoch),
    )


def _unravel(vector: jax.Array, like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    parts, at = [], 0
    for leaf in leaves:
        parts.append(vector[at : at + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        at += leaf.size
    return jax.tree.unflatten(structure, parts)
