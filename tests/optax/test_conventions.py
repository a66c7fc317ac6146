"""What Optax and JAX promise of every transformation."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mixfree.optax as mo

START = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}


def mag(**options):
    return mo.mag(levels=3, **options)


def mlmc(**options):
    return mo.mlmc(optax.adam(0.01), levels=3, **options)


def ladder(**options):
    return mo.ladder(block=4, **options)


WINDOWS = {"mag": mag, "mlmc": mlmc}  # updates are zero for a whole level
MAKERS = {**WINDOWS, "ladder": ladder}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.fixture(params=WINDOWS)
def window(request):
    return WINDOWS[request.param]


def gradients(samples=40, seed=0):
    rng = np.random.default_rng(seed)
    w, b = rng.standard_normal((samples, 3, 2)), 1.0 + rng.standard_normal((samples, 2))
    return {"w": w.astype(np.float32), "b": b.astype(np.float32)}


def advance(opt, carry, gradient):
    params, state = carry
    updates, state = opt.update(gradient, state, params)
    return optax.apply_updates(params, updates), state


def loop(opt, params, many):
    step = jax.jit(lambda carry, gradient: advance(opt, carry, gradient))
    carry = params, opt.init(params)
    for i in range(len(many["b"])):
        carry = step(carry, jax.tree.map(lambda x, i=i: x[i], many))
    return carry


def scan(opt, params, many):
    start = params, opt.init(params)
    return jax.lax.scan(lambda c, g: (advance(opt, c, g), None), start, many)[0]


def assert_close(one, other, rtol=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), one, other)


def test_scan_is_the_loop_which_is_compiled_once(make):
    opt, traces, many = make(), [], gradients()

    @jax.jit
    def step(carry, gradient):
        traces.append(1)
        return advance(opt, carry, gradient)

    carry = START, opt.init(START)
    for i in range(40):
        carry = step(carry, jax.tree.map(lambda x, i=i: x[i], many))
    assert len(traces) == 1
    assert_close(carry, jax.jit(lambda m: scan(opt, START, m))(many))


def test_state_can_be_donated_since_no_two_leaves_share_a_buffer(make):
    opt, many = make(), gradients(8)
    step = jax.jit(lambda carry, gradient: advance(opt, carry, gradient), donate_argnums=0)
    params = jax.tree.map(jnp.array, START)
    carry = params, opt.init(params)
    for i in range(8):
        carry = step(carry, jax.tree.map(lambda x, i=i: x[i], many))
    assert_close(carry, loop(opt, START, many))


def test_vmap_over_seeds_is_one_run_per_seed(window):
    many, seeds = gradients(), jnp.array([0, 3, 2**31 - 1])
    params, states = jax.jit(jax.vmap(lambda s: scan(window(seed=s), START, many)))(seeds)
    for i, seed in enumerate(seeds.tolist()):
        alone, state = loop(window(seed=seed), START, many)
        assert_close(jax.tree.map(lambda x, i=i: x[i], params), alone)
        assert int(states.steps[i]) == int(state.steps)
    assert len({int(s) for s in states.steps}) > 1


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_dtypes_and_shapes_are_stable(make, dtype):
    params = jax.tree.map(lambda x: x.astype(dtype), START)
    opt = make()
    state = opt.init(params)
    updates, after = jax.eval_shape(opt.update, params, state, params)
    kinds = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)  # noqa: E731
    assert kinds(updates) == kinds(params)
    assert kinds(after) == kinds(state)
    sums = jax.tree.leaves(state.sum if hasattr(state, "sum") else state)
    assert all(x.dtype == jnp.float32 for x in sums if jnp.issubdtype(x.dtype, jnp.floating))


def test_injected_levels_and_seed_draw_the_same():
    many = gradients()
    injected, state = loop(optax.inject_hyperparams(mo.mag)(levels=3, seed=5), START, many)
    params, plain = loop(mo.mag(levels=3, seed=5), START, many)
    assert_close(injected, params)
    assert int(state.inner_state.steps) == int(plain.steps)


def test_extra_arguments_reach_the_inner_transformation():
    def init(params):
        return jnp.zeros(())

    def update(updates, state, params=None, *, value):
        return updates, state + value

    inner = optax.GradientTransformationExtraArgs(init, update)
    opt = mo.mlmc(inner, levels=1)
    state, step = opt.init(START), jax.jit(opt.update)
    for _ in range(6):
        _, state = step(START, state, START, value=2.0)
    assert float(state.inner) == 2.0 * int(state.steps) == 6.0


@pytest.mark.parametrize(("output", "power"), [("average", 0), ("weighted", 1), ("recent", 3)])
def test_weights_of_an_average(output, power):
    """Weights are 1, t and t(t + 1)(t + 2); a count from 0 would shift all of them."""
    opt = mo.averaging(output)
    points = jnp.array([3.0, -1.0, 4.0, 1.0, -5.0])
    state = opt.init(points[0])
    for point in points:
        _, state = opt.update(jnp.zeros(()), state, point)
    t = np.arange(1.0, len(points) + 1.0)
    weights = np.prod([t + k for k in range(power)], axis=0) * np.ones(len(t))
    mean = np.average(points, weights=weights)
    np.testing.assert_allclose(mo.averaged(state, points[-1]), mean, rtol=1e-6)


def test_averages_of_narrow_parameters_keep_their_digits():
    params = jnp.ones(2, jnp.bfloat16)
    opt = mo.mag(levels=1)
    _, state = scan(opt, params, jnp.full((4000, 2), -1.0, jnp.bfloat16))
    assert mo.averaged(state, params).dtype == jnp.bfloat16
    average = jax.tree.leaves(state.inner, is_leaf=lambda s: isinstance(s, mo.AverageState))
    assert average[0].average.dtype == jnp.float32


def test_two_averages_are_refused():
    opt = optax.chain(mag(), mag())
    with pytest.raises(ValueError, match="state has 2 averages"):
        mo.averaged(opt.init(START), START)


def test_average_needs_the_parameters():
    opt = mag()
    with pytest.raises(ValueError, match="averaging needs the parameters"):
        opt.update(START, opt.init(START))


def test_levels_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match=r"levels must be .* at most 30, not 31"):
        mo.mag(levels=31)
    with pytest.raises(ValueError, match=r"horizon must be .* not 2147483648"):
        mo.mag(levels=None, horizon=2**31)


def test_a_ladder_on_a_loss_without_a_minimum_stays_at_a_finite_point():
    """Steps that grow until a sum overflows end in NaN."""
    opt, start = mo.ladder(), jnp.zeros(50)

    def step(carry, _):
        return advance(opt, carry, jnp.ones(50)), None

    (params, _), _ = jax.lax.scan(step, (start, opt.init(start)), length=2_000)
    assert bool(jnp.isfinite(params).all()) and float(jnp.abs(params).max()) > 1e10


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_a_ladder_learns_parameters_of_few_digits(dtype):
    """Its first steps are shorter than the spacing of the numbers: rounded, they were all lost."""
    goal = jnp.linspace(1.0, 2.0, 50)
    opt = mo.ladder(first=1e-6)

    def step(carry, _):
        params, state = carry
        gradient = jax.tree.map(lambda p: p - goal.astype(p.dtype), params)
        updates, state = opt.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    errors = []
    for kind in (jnp.float32, dtype):
        start = {"narrow": jnp.ones(50, kind), "wide": jnp.ones(50)}
        (params, _), _ = jax.lax.scan(step, (start, opt.init(start)), length=600)
        errors.append([float(jnp.abs(p - goal).max()) for p in jax.tree.leaves(params)])
    # Numbers near 2 are 2⁻⁷ apart in bfloat16; gradients are rounded as well.
    assert (np.array(errors[1]) < np.array(errors[0]) + 0.05).all()


def test_numbers_among_the_parameters(make):
    """Parameters such as ``{"bias": 0.0}``, which every transformation of Optax takes."""
    opt, numbers, arrays = make(), {"a": 1.0}, {"a": jnp.array(1.0)}
    gradient = {"a": jnp.array(0.5)}
    updates = [opt.update(gradient, opt.init(p), p)[0] for p in (numbers, arrays)]
    assert updates[0] == updates[1]


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.complex64])
def test_parameters_that_are_not_real(make, dtype):
    """Imaginary parts that are dropped."""
    with pytest.raises(ValueError, match=f"real floating-point arrays, not {jnp.dtype(dtype)}"):
        make().init({"a": jnp.zeros(3, dtype)})


def test_not_a_transformation():
    with pytest.raises(ValueError, match=r"inner must be an Optax transformation, not 0\.001"):
        mo.mlmc(1e-3)


def test_averages_of_some_parameters():
    """A state under ``masked`` or ``multi_transform``, whose averages JAX cannot match."""
    many = gradients()
    one = optax.masked(mag(), {"w": True, "b": False})
    two = optax.multi_transform({"w": mag(), "b": mag()}, {"w": "w", "b": "b"})
    params, state = loop(one, START, many)
    both = mo.averaged(loop(two, START, many)[1], START)
    found = mo.averaged(state, params)
    assert found["b"] is params["b"] and not np.array_equal(found["w"], params["w"])
    assert_close(found["w"], both["w"])
    assert not np.array_equal(both["b"], START["b"])
    with pytest.raises(ValueError, match="structure of those that were averaged"):
        mo.averaged(state, {"b": params["b"]})


def test_a_ladder_without_parameters_or_with_another_state_says_so():
    opt, state = ladder(), ladder().init(jnp.zeros(2))
    with pytest.raises(ValueError, match=r"call update\(updates, state, params\)"):
        opt.update(jnp.ones(2), state)
    with pytest.raises(ValueError, match="state is of other parameters, or of another version"):
        opt.update(jnp.ones(2), state._replace(origin={"w": jnp.zeros((1, 2))}), jnp.zeros(2))


@pytest.mark.parametrize("params", [{}, {"w": np.zeros((0, 3), np.float32)}])
def test_trees_without_entries(make, params):
    """Usual where transformations share the parameters, as in ``optax.multi_transform``."""
    opt = make()
    state, update = opt.init(params), jax.jit(opt.update)
    for _ in range(40):
        updates, state = update(params, state, params)
    assert int(state.samples) == 40
    assert jax.tree.map(np.shape, updates) == jax.tree.map(np.shape, params)


def test_sums_that_a_narrow_type_cannot_hold(window):
    many = jnp.repeat(jnp.array([3e4, -3e4] * 36, jnp.float16), 4)[:, None]
    params, state = scan(window(), jnp.zeros(1, jnp.float16), many)
    assert int(state.skipped) == 0 and bool(jnp.isfinite(params).all())
