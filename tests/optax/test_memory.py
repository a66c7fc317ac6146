"""The memory for JAX keeps and draws the same samples as the one for PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import mixfree.optax as mo
import mixfree.torch as mt
from mixfree.base import draws
from mixfree.optax.memory import _below


def test_whole_numbers_below_a_limit_are_those_of_the_reference():
    """A product whose carry or upper half is lost."""
    own, other = draws.key(3, draws.SAMPLE), mo.memory(1, seed=3).init(jnp.zeros(1)).draw
    limits = np.array([1, 7, 65_535, 65_537, 2**31 + 5, 2**32 - 1], np.uint32)
    found = jax.jit(_below, static_argnums=3)
    for n in (0, 1, 2**31, 2**32 - 2):
        expected = [draws.below(own, n, int(limit)) for limit in limits]
        assert found(other, jnp.uint32(n), jnp.asarray(limits), 0).tolist() == expected


@pytest.mark.parametrize("seed", [0, 2**40 + 5])
@pytest.mark.parametrize("batch", [1, 8, 60])
def test_the_same_samples_as_in_pytorch(seed, batch):
    """Draws after the whole batch was written; an earlier row left where a later one belongs."""
    remember, torch_memory = mo.memory(20, 3, seed), mt.Memory(20, 3, seed)
    numbers = np.arange(240, dtype=np.int32)
    state, mix = remember.init(numbers[:batch]), jax.jit(remember.mix)
    for fresh in np.split(numbers, len(numbers) // batch):
        mixed, state = mix(fresh, state)
        assert mixed.tolist() == torch_memory.mix(torch.from_numpy(fresh)).tolist()
    kept = torch_memory.state_dict()["kept"]["batch"]
    assert state.kept.tolist() == kept.tolist() and int(state.seen) == 240


def test_inside_scan_with_trees_and_donated_states():
    """Arrays of one batch that are mixed by different draws."""
    remember = mo.memory(10, draws=2)
    numbers = jnp.arange(120).reshape(20, 6)
    batches = {"x": numbers[..., None].astype(jnp.float32), "y": (numbers,)}
    first = jax.tree.map(lambda rows: rows[0], batches)

    @jax.jit
    def run(state):
        return jax.lax.scan(lambda s, b: remember.mix(b, s)[::-1], state, batches)

    state, mixed = run(remember.init(first))
    assert mixed["x"].shape == (20, 18, 1) and int(state.seen) == 120
    np.testing.assert_array_equal(mixed["x"][..., 0], mixed["y"][0])
    np.testing.assert_array_equal(state.kept["x"][:, 0], state.kept["y"][0])
    again = jax.jit(remember.mix, donate_argnums=1)(first, remember.init(first))
    np.testing.assert_array_equal(again[0]["y"][0], mixed["y"][0][0])


def test_seeds_under_vmap_draw_each_for_itself():
    numbers = jnp.arange(100).reshape(10, 10)

    def drawn(seed):
        remember = mo.memory(20, seed=seed)
        step = lambda s, b: remember.mix(b, s)[::-1]  # noqa: E731
        return jax.lax.scan(step, remember.init(numbers[0]), numbers)[1]

    one, other = jax.vmap(drawn)(jnp.arange(2, dtype=jnp.uint32))
    assert not np.array_equal(one, other)
    torch_memory = mt.Memory(20, seed=1)
    expected = [torch_memory.mix(torch.arange(10) + 10 * i).tolist() for i in range(10)]
    assert other.tolist() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity must be a whole number of at least 1"),
        ({"capacity": 5, "draws": 0}, "draws must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        mo.memory(**options)


@pytest.mark.parametrize("batch", [(jnp.zeros(3), jnp.zeros(4)), jnp.zeros(())])
def test_arrays_without_common_rows(batch):
    with pytest.raises(ValueError, match="the same number of rows throughout"):
        mo.memory(5).init(batch)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (jnp.zeros((3, 4)), r"float32 of shape \(4,\)"),
        (jnp.zeros((3, 2), jnp.int32), r"int32 of shape \(2,\)"),
        ({"x": jnp.zeros((3, 2))}, "'x'"),
    ],
)
def test_rows_unlike_those_before(batch, found):
    """Whole numbers that become floating-point ones; an error deep in JAX."""
    remember = mo.memory(5)
    with pytest.raises(ValueError, match=f"rows of a batch must be .* as before, not .*{found}"):
        remember.mix(batch, remember.init(jnp.zeros((3, 2))))


def test_a_batch_without_rows_changes_nothing():
    remember = mo.memory(5)
    state = remember.init(jnp.zeros((3, 2)))
    mixed, after = remember.mix(jnp.zeros((0, 2)), state)
    assert mixed.shape == (0, 2) and int(after.seen) == 0


@pytest.mark.parametrize("key", [jax.random.PRNGKey(0), jax.random.key(0)])
def test_a_key_is_not_a_seed(key):
    """Two words that make two memories of one."""
    with pytest.raises(ValueError, match=r"seed must be a whole number, not .* \(a key of jax"):
        mo.memory(5, seed=key).init(jnp.zeros(3))
