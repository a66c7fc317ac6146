"""Clipped and median-of-means estimates against a few lines that have the whole window at once."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.gradients import ClippedMLMC, MedianMLMC
from mixfree.linear.scaling import Rescaling, Units
from mixfree.steps import AdaGradNorm
from tests.helpers import assert_same_bits

GRADIENTS = np.random.default_rng(5).standard_normal((900, 3)) ** 3


def windows(law):
    """The gradients of each step, cut out of the stream by the law's own levels."""
    used = 0
    for step in range(10**6):
        length = law.length(step, used)
        if used + length > len(GRADIENTS):
            return
        yield used, GRADIENTS[used : used + length]
        used += length


def estimates(part):
    state, found, steps = part.start(np.zeros(3)), [], 0
    for gradient in GRADIENTS:
        direction = part.add(state, gradient, steps)
        if direction is not None:
            found.append(np.array(direction))
            steps += 1
    return np.array(found)


def plain(part, window):
    """Eq. (6) by means of the first half and of all."""
    if len(window) == 1:
        return window[0]
    half = len(window) // 2
    difference = window.mean(axis=0) - window[:half].mean(axis=0)
    return window[0] + part.scale(len(window)) * len(window) * difference


@pytest.mark.parametrize("law", [(5, "exact", None), (4, "paper", None), (None, "exact", 256)])
def test_clipped(law):
    """Catches clipping by the window's own size, by the newest gradient, or of the correction."""
    part = ClippedMLMC(*law, seed=2, clip=2.5)
    expected, cut = [], 0
    for first, window in windows(part):
        g = plain(part, window)
        seen = GRADIENTS[: first + len(window)]
        longest = 2.5 * np.sqrt(np.mean(np.sum(seen**2, axis=1)))
        cut += np.linalg.norm(g) > longest
        expected.append(g * min(1.0, longest / np.linalg.norm(g)))
    assert 5 < cut < len(expected) - 5
    np.testing.assert_allclose(estimates(part), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("law", [(5, "exact", None), (4, "paper", None), (None, "exact", 256)])
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_medians_of_means(law, blocks):
    """Catches medians of all samples, blocks across the halves, and medians of short windows."""
    part = MedianMLMC(*law, seed=2, blocks=blocks)
    expected, changed = [], 0
    for _, window in windows(part):
        g, half = plain(part, window), len(window) // 2
        if half >= blocks:
            first, second = (
                each.reshape(blocks, -1, 3).mean(axis=1) for each in (window[:half], window[half:])
            )
            middle = np.median(second - first, axis=0) / 2
            g = window[0] + part.scale(len(window)) * len(window) * middle
            changed += 1
        expected.append(g)
    assert 5 < changed < len(expected) - 5
    np.testing.assert_allclose(estimates(part), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tails", ["clipped", "median"])
def test_where_nothing_is_long_nothing_changes(tails):
    """A remedy that also changed ordinary estimates would show in a constant gradient."""
    ordinary, remedied = (
        mf.MAG(np.zeros(2), levels=None, horizon=512, tails=each, seed=1)
        for each in ("plain", tails)
    )
    for _ in range(2000):
        assert remedied.tell([1.0, -2.0]) == ordinary.tell([1.0, -2.0])
        np.testing.assert_allclose(remedied.x, ordinary.x, rtol=1e-9)
    assert remedied.steps > 100 and not remedied.has_twin


@pytest.mark.parametrize("tails", ["clipped", "median"])
def test_saved_in_the_middle_of_a_window(tails):
    """A state without the blocks, or without the size of the gradients, would go on otherwise."""
    whole, saved = (mf.MAG(np.zeros(3), levels=6, tails=tails, seed=4) for _ in range(2))
    for count, gradient in enumerate(GRADIENTS[:300]):
        whole.tell(gradient)
        if count % 7 == 0:
            resumed = mf.MAG(np.zeros(3), levels=6, tails=tails, seed=4)
            resumed.load_state_dict(saved.state_dict())
            saved = resumed
        saved.tell(gradient)
    assert_same_bits(saved.state_dict(), whole.state_dict())


def test_lengths_far_beyond_squares():
    part = ClippedMLMC(levels=3, clip=2.0)
    opt = mf.Optimizer(np.zeros(1), part, AdaGradNorm(1.0))
    for sign in (1.0, -1.0) * 30:
        opt.tell([sign * 1e140])
    assert np.isfinite(opt.x).all() and opt.steps > 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClippedMLMC(clip=0.0), "clip must be"),
        (lambda: MedianMLMC(blocks=6), "blocks must be a power of 2, not 6"),
        (lambda: MedianMLMC(blocks=1), "blocks must be a whole number of at least 2"),
        (lambda: MedianMLMC(batch=4), "batch must be 1 with medians of means, not 4"),
        (lambda: mf.MAG([0.0], tails="short"), "tails must be one of 'plain', 'clipped', 'median'"),
        (lambda: mf.MLMC(max_steps=0), "max_steps must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_pending_window_of_blocks_goes_on_in_new_units():
    """Catches blocks that stay in old units, or one change for all blocks together."""
    old, new = Units(np.array([1.0, -2.0]), np.array([0.5, 4.0])), Units(np.ones(2), np.ones(2))
    change = Rescaling(1, 1, old, new)
    renewed = np.array([change.gradients(gradient) for gradient in GRADIENTS[:64]])
    part = MedianMLMC(levels=6, seed=4, blocks=4)
    changed = 0
    for cut in range(1, 64):
        one, other = part.start(np.zeros(3)), part.start(np.zeros(3))
        for gradient, same in zip(GRADIENTS[:cut], renewed[:cut], strict=True):
            found = part.add(one, gradient, 0), part.add(other, same, 0)
        one.change_units(change)
        if found[0] is None:  # a window is open
            np.testing.assert_allclose(one.blocks, other.blocks, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(one.sum, other.sum, rtol=1e-9)
            changed += one.blocks.any()
    assert changed > 5


def test_a_state_with_a_negative_size_is_refused():
    opt = mf.MAG(np.zeros(3), levels=6, tails="clipped", seed=4)
    for gradient in GRADIENTS[:20]:
        opt.tell(gradient)
    state, kept = opt.state_dict(), opt.state_dict()
    state["gradient"]["root"] = -1.0
    with pytest.raises(ValueError, match=r"does not fit: root is -1\.0"):
        opt.load_state_dict(state)
    assert_same_bits(opt.state_dict(), kept)
