"""The exact learner: one result for any order, chunking, dtype and storage of the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Squared

SIZES, OFFSETS = np.array([1.0, 1e3, 1e-3, 1.0]), np.array([0.0, 1e4, 0.0, -2.0])


def stream(rows, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) * SIZES + OFFSETS
    return x, x @ [1.0, 1e-3, 1e3, 0.5] + rng.normal(size=rows)


def learnt(x, y, *args, **options):
    learner = ExactLearner(Squared(), x.shape[1], **options)
    learner.advance(x, y, *args)
    return learner


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 20_000),
    st.lists(st.integers(0, 20_000), max_size=6),
    st.integers(0, 2**32 - 1),
)
def test_any_cut_permutation_and_order_of_merging_gives_the_same_fit(rows, cuts, seed):
    rng = np.random.default_rng(seed)
    x, y = stream(rows)
    whole = learnt(x, y)
    assert whole.gap == (0.0, 0.0)
    cuts = sorted(cut % (rows + 1) for cut in cuts)
    parts = list(zip(np.split(x, cuts), np.split(y, cuts), strict=True))
    in_pieces = ExactLearner(Squared(), 4)
    for part in parts:
        in_pieces.advance(*part)
    np.testing.assert_array_equal(in_pieces.weights, whole.weights)
    np.testing.assert_array_equal(in_pieces.inference.bse, whole.inference.bse)
    merged = ExactLearner(Squared(), 4)
    for place in rng.permutation(len(parts)):
        merged.merge(learnt(*parts[place]))
    permuted = rng.permutation(rows)
    size = np.abs(y).max()
    for other in (merged, learnt(x[permuted], y[permuted])):
        np.testing.assert_allclose(other.predict(x) / size, whole.predict(x) / size, atol=1e-9)
        assert other.samples == rows


def test_a_half_life_is_reported_and_refuses_what_it_cannot_do():
    x, y = stream(3000)
    learner = learnt(x, y, half_life="auto")
    assert learner.forgetting.half_life in (50.0, 200.0, 800.0, 3200.0, 12800.0, np.inf)
    assert learnt(x, y).forgetting is None
    with pytest.raises(ValueError, match="intervals need half_life=None"):
        learner.inference.conf_int()
    with pytest.raises(ValueError, match="merge needs half_life=None"):
        learner.merge(learnt(x, y, half_life="auto"))


def test_a_change_is_found_and_noise_is_not():
    """Catches a test without regard to correlation, which finds changes in most such streams.

    At 0.1 % per stream, more than 2 of 200 are found with a probability of 0.001.
    """
    found = dict.fromkeys(("noise", "correlated", "slope", "level"), 0)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x, noise = rng.standard_normal((2000, 3)), rng.standard_normal(2000)
        smooth = lfilter([1.0], [1.0, -0.95], np.column_stack([x, noise]), axis=0)
        later = np.arange(2000) >= 1400
        for name, rows, y in (
            ("noise", x, noise),
            ("correlated", smooth[:, :3], smooth[:, 3]),
            ("slope", x, noise + np.where(later, -0.5, 0.5) * x[:, 0]),
            ("level", x, noise + 0.7 * later),
        ):
            found[name] += learnt(rows, y).inference.changed
    assert max(found["noise"], found["correlated"]) <= 2, found
    assert min(found["slope"], found["level"]) >= 195, found
