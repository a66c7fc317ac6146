"""The sketch's norm: unbiased, and with the documented spread."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from mixfree.dropins.sketch import ROWS, SLIDES, Sketch

SIZE = 64
SEEDS = 400
RNG = np.random.default_rng(0)
VECTORS = {
    "normal": [RNG.standard_normal((30, 40)), RNG.standard_normal(100)],
    # Rows that are multiples of each other and all of one sign: a sign a row would not do.
    "rank one": [np.outer(np.linspace(0.5, 2.0, 200), np.ones(SIZE))],
    "ones": [np.ones(5 * ROWS * SIZE)],
    "scalars": [np.ones(()) for _ in range(500)],
    "one large": [np.ones(300), np.array([100.0])],
}


def square(vectors):
    return sum(float((v * v).sum()) for v in vectors)


@pytest.mark.parametrize("name", VECTORS)
def test_square_of_the_norm_is_unbiased_with_the_promised_spread(name):
    tensors = VECTORS[name]
    ratios = np.array(
        [
            square([Sketch(SIZE, 1000, seed).of(tensors, np.concatenate)]) / square(tensors)
            for seed in range(SEEDS)
        ]
    )
    error = ratios.std(ddof=1) / math.sqrt(SEEDS)
    assert abs(ratios.mean() - 1.0) <= 4.0 * error + 1e-12, (ratios.mean(), error)
    # Pieces that are all alike share the table's signs, which doubles the variance at most; a
    # standard deviation from n values has a relative error of about 1/√n for this law.
    promised = math.sqrt((4.0 if name == "ones" else 2.0) / SIZE)
    assert ratios.std(ddof=1) <= promised * (1.0 + 4.0 / math.sqrt(SEEDS)), ratios.std()


def test_spread_is_not_less_than_chance_either():
    tensors = VECTORS["normal"]
    ratios = [
        square([Sketch(SIZE, 1000, seed).of(tensors, np.concatenate)]) / square(tensors)
        for seed in range(SEEDS)
    ]
    assert np.std(ratios) >= (1.0 - 4.0 / math.sqrt(SEEDS)) * math.sqrt(2.0 / SIZE)


def test_linear():
    sketch = Sketch(SIZE, 10_000)
    v, w = ([RNG.standard_normal((90, 100)), RNG.standard_normal(7)] for _ in range(2))
    total = sketch.of([a + 3.0 * b for a, b in zip(v, w, strict=True)], np.concatenate)
    parts = sketch.of(v, np.concatenate) + 3.0 * sketch.of(w, np.concatenate)
    np.testing.assert_allclose(total, parts, atol=1e-9)


@pytest.mark.parametrize("name", VECTORS)
def test_the_same_in_every_library(name):
    tensors, sketch = VECTORS[name], Sketch(SIZE, 1000)
    expected = sketch.of(tensors, np.concatenate)
    mine = sketch.of([torch.tensor(t) for t in tensors], torch.cat, torch.from_numpy(sketch.table))
    np.testing.assert_allclose(mine.numpy(), expected, rtol=1e-12, atol=1e-9)
    if name != "scalars":  # five hundred traced slices are slow and tell nothing new
        theirs = sketch.of([jnp.asarray(t) for t in tensors], jnp.concatenate, sketch.table)
        np.testing.assert_allclose(theirs, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


def test_table_is_fair_and_grows_with_the_model():
    small, large = Sketch(SIZE), Sketch(SIZE, 64 * 300 * SIZE)
    assert small.table.size == ROWS * SIZE + SLIDES
    assert large.table.size == 300 * SIZE + SLIDES
    assert set(np.unique(small.table)) == {-1.0, 1.0}
    assert abs(small.table.sum()) <= 4.0 * math.sqrt(small.table.size)


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_wrong_sizes(size):
    with pytest.raises(ValueError, match="sketch must be a whole number of at least 1"):
        Sketch(size)
