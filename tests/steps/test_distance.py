"""How the scale follows the run."""

import numpy as np
import pytest

from mixfree.steps import Distance


@pytest.mark.parametrize("of", ["average", "iterate"])
def test_the_greatest_distance_so_far(of):
    rng = np.random.default_rng(0)
    x0, points = rng.standard_normal(3), rng.standard_normal((50, 3)).cumsum(axis=0)
    per, single = Distance(first=1e-3, of=of), Distance(first=1e-3, of=of)
    one, all_ = per.start(x0, per_coordinate=True), single.start(x0, per_coordinate=False)
    weights = np.arange(1.0, 51.0)
    for point, weight in zip(points, weights, strict=True):
        per.update(one, point, weight)
        single.update(all_, point, weight)
    followed = points
    if of == "average":
        followed = np.cumsum(weights[:, None] * points, axis=0) / np.cumsum(weights)[:, None]
    np.testing.assert_allclose(one["reach"], np.abs(followed - x0).max(axis=0), rtol=1e-12)
    farthest = np.linalg.norm(followed - x0, axis=1).max()
    np.testing.assert_allclose(all_["reach"], [farthest], rtol=1e-12)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="first must be positive"):
        Distance(first=-1.0)
    with pytest.raises(ValueError, match="of must be one of"):
        Distance(of="median")
