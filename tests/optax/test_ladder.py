"""The ladder inside what Optax and JAX put around it; its twin is tested in ``tests/dropins``."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import mixfree.optax as mo

GOAL = {"w": np.full((3, 2), 2.0, np.float32), "b": np.full(2, -1.0, np.float32)}
START = jax.tree.map(np.ones_like, GOAL)


def run(opt, steps=400, start=START):
    """The end of a run on ‖x − goal‖²/2 with noise, in a scan."""
    noise = np.random.default_rng(0).standard_normal((steps, 1)).astype(np.float32)

    def step(carry, each):
        params, state = carry
        gradient = jax.tree.map(lambda p, goal: p - goal + 0.1 * each, params, GOAL)
        updates, state = opt.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.jit(lambda p: jax.lax.scan(step, (p, opt.init(p)), noise)[0])(start)


def error(params, goal=GOAL):
    return max(float(jnp.abs(params[name] - goal[name]).max()) for name in goal)


def assert_same(one, other, rtol=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), one, other)


def test_the_alias_is_the_scaling_with_a_sign():
    params, _ = run(mo.ladder())
    same, _ = run(optax.chain(mo.scale_by_ladder(), optax.scale(-1.0)))
    assert_same(params, same)
    assert error(params) < 0.2


def test_clipping_before_and_a_schedule_behind():
    """A distance that does not see that steps are shorter, or a limit on them instead."""
    schedule = optax.scale_by_schedule(optax.cosine_decay_schedule(-1.0, 400))
    params, _ = run(optax.chain(optax.clip(0.5), mo.scale_by_ladder(), schedule))
    assert error(params) < 0.1


def test_what_is_frozen_behind_it_does_not_hold_up_the_rest():
    """Gradients that never change in the denominator of r̄: the rest would hardly move."""
    frozen = optax.masked(optax.set_to_zero(), {"w": False, "b": True})
    params, _ = run(optax.chain(mo.ladder(), frozen))
    alone, _ = run(optax.chain(frozen, mo.ladder()))
    assert_same(params, alone)
    np.testing.assert_array_equal(params["b"], START["b"])
    assert error(params, {"w": GOAL["w"]}) < 0.2


def test_two_ladders_by_labels():
    labels = {"w": "one", "b": "other"}
    params, state = run(optax.multi_transform({"one": mo.ladder(), "other": mo.ladder()}, labels))
    assert error(params) < 0.2
    assert error(mo.averaged(state, params)) < 0.2


def test_gradients_of_several_batches():
    """A state that does not wait for MultiSteps."""
    params, state = run(optax.MultiSteps(mo.ladder(), 4), steps=1600)
    assert int(state.inner_opt_state.samples) == 400
    assert error(params) < 0.2


def test_a_scale_that_changes_during_the_run():
    opt = optax.inject_hyperparams(mo.ladder, static_args=("block", "output"))(alpha=0.5)
    params, state = run(opt)
    same, _ = run(mo.ladder(alpha=0.5))
    assert_same(params, same)
    assert float(state.hyperparams["alpha"]) == 0.5


def test_under_vmap_each_run_is_its_own():
    starts = jax.tree.map(lambda x: np.stack([x, 3.0 * x]), START)
    opt = mo.ladder()
    params, _ = jax.vmap(lambda p: run(opt, start=p))(starts)
    for i in range(2):
        alone, _ = run(opt, start=jax.tree.map(lambda x, i=i: x[i], starts))
        assert_same(jax.tree.map(lambda x, i=i: x[i], params), alone, rtol=1e-4)


SHARDED = """
from contextlib import nullcontext
import jax, jax.numpy as jnp, numpy as np, optax, mixfree.optax as mo
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
assert len(jax.devices()) == 2
weights = np.linspace(0.5, 1.5, 2048, dtype=np.float32)
start = {"w": weights.reshape(64, 32), "b": np.ones(2, np.float32)}
opt = mo.ladder()

def step(params, state):
    gradient = jax.tree.map(lambda p: p - 2.0, params)
    updates, state = opt.update(gradient, state, params)
    return optax.apply_updates(params, updates), state

def run(params):
    state, go = opt.init(params), jax.jit(step)
    for _ in range(60):
        params, state = jax.block_until_ready(go(params, state))
    return params, state

alone, _ = run(start)
for kind, within in ((AxisType.Auto, True), (AxisType.Explicit, True), (AxisType.Explicit, False)):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(kind,))
    with jax.set_mesh(mesh) if within else nullcontext():
        there = {"w": jax.device_put(start["w"], NamedSharding(mesh, P("x", None))),
                 "b": jax.device_put(start["b"], NamedSharding(mesh, P()))}
        params, state = run(there)
        assert params["w"].sharding.spec[0] == "x", params["w"].sharding
        assert state.squares["w"].sharding.spec[0] == "x"
    for name in start:
        np.testing.assert_allclose(params[name], alone[name], rtol=1e-4)
"""


def test_sharded_parameters_are_the_same_run():
    """Sums over one device's part; a state that is gathered; reshapes that explicit axes refuse."""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
