"""Every feature map: norms at most 1, single rows and many, and the values."""

import numpy as np
import pytest
from scipy import sparse

from mixfree.td import FourierBasis, RadialBasis, TDLearner, TileCoding
from mixfree.td.features import as_features

LOW, HIGH = [-1.0, 0.0, 5.0], [1.0, 0.5, 9.0]
MAPS = [
    FourierBasis(LOW, HIGH, order=2),
    FourierBasis([0.0], [1.0], order=7),
    TileCoding(LOW, HIGH, tiles=3, tilings=5),
    TileCoding(LOW, HIGH, tiles=(1, 4, 2), tilings=8),
    RadialBasis(LOW, HIGH, centers=3, width=0.7),
]


def observations(features, spread=3.0, count=500):
    """Inside the box and well outside it."""
    rng = np.random.default_rng(2)
    points = rng.uniform(-spread, spread, size=(count, features.dimension))
    middle = (np.asarray(features.low) + np.asarray(features.high)) / 2.0
    return middle + points * (np.asarray(features.high) - middle)


@pytest.mark.parametrize("features", MAPS, ids=repr)
def test_norms_are_at_most_one_and_rows_agree(features):
    points = observations(features)
    rows = features.rows(points)
    assert rows.shape == (len(points), features.size)
    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() <= 1.0 + 1e-12
    if isinstance(features, TileCoding):
        np.testing.assert_allclose(norms, 1.0)
        found = as_features(features).sparse_rows(points)
        assert found.nnz == len(points) * features.tilings
        np.testing.assert_array_equal(found.toarray(), rows)
        assert as_features(features).sparse_rows([]).shape == (0, features.size)
    for point, row in zip(points[:20], rows, strict=False):
        np.testing.assert_array_equal(features(point), row)


def test_radial_features_survive_far_from_every_centre():
    row = RadialBasis([0.0], [1.0], centers=3, width=0.1)([1e6])
    np.testing.assert_array_equal(row, [0.0, 0.0, 1.0])


def test_neighbouring_points_share_tiles_and_distant_ones_do_not():
    features = TileCoding([0.0, 0.0], [1.0, 1.0], tiles=4, tilings=8)

    def shared(a, b):
        return round(8 * float(features(a) @ features(b)))

    assert shared([0.31, 0.31], [0.31, 0.31]) == 8
    assert 0 < shared([0.31, 0.31], [0.41, 0.35]) < 8
    assert shared([0.31, 0.31], [0.81, 0.31]) == 0
    assert set(np.unique(features.active([[0.0, 0.0], [1.0, 1.0]]) // 25)) == set(range(8))


def test_a_coordinate_with_one_tile_is_left_out():
    features = TileCoding([0.0, 0.0], [1.0, 1.0], tiles=(4, 1), tilings=3)
    assert features.size == 3 * 5
    np.testing.assert_array_equal(features([0.3, 0.0]), features([0.3, 77.0]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1.0, 0.0, 0.0], "features must be 2 numbers per observation"),
        ([1.0, 1.0], "have norm 1.41421, above 1"),
        ([np.nan, 0.0], "no finite norm"),
    ],
)
def test_a_function_is_checked_at_every_state(row, message):
    def function(state):
        return row

    function.size = 2
    function.sparse_rows = lambda states: sparse.csr_array([row] * len(states))
    for ask in (lambda f: f.row(0), lambda f: f.rows([0, 1]), lambda f: f.sparse_rows([0, 1])):
        with pytest.raises(ValueError, match=message):
            ask(as_features(function))


def test_a_matrix_dense_or_sparse_is_read_by_state():
    dense = np.array([[0.6, 0.0, 0.8], [0.0, 0.0, 0.0], [0.0, -0.5, 0.0]])
    # Two entries at one place, in the wrong order, are their sum.
    entries = [0.8, 0.3, 0.3, -0.5], ([0, 0, 0, 2], [2, 0, 0, 1])
    given = sparse.coo_array(entries, shape=(3, 3))
    states = np.array([2, 0, 1, 2])
    np.testing.assert_array_equal(as_features(given).sparse_rows(states).toarray(), dense[states])
    for found in map(as_features, (dense, given)):
        np.testing.assert_array_equal(found.rows(states), dense[states])
        np.testing.assert_array_equal(found.row(np.int64(2)), dense[2])
        message = "must be a row number of the features, from 0 to 2"
        for wrong in (-1, 3, 0.5, "a", [0], None):
            with pytest.raises(ValueError, match=message):
                found.row(wrong)
        for wrong in ([-1, 0], [0, 3], [0.5], [[0]]):
            with pytest.raises(ValueError, match="must be a row number"):
                found.rows(np.array(wrong))
    for wrong, message in (
        (2.0 * given, "features of state 0 have norm 2, above 1"),
        (sparse.csr_array([[0.0, 0.0], [0.0, np.inf]]), "those of state 1 are not"),
        (sparse.csr_array((0, 3)), "one row per state"),
        (1j * given, "real numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            as_features(wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FourierBasis([0.0], [0.0]), "low must be below high"),
        (lambda: TileCoding([0.0], [np.inf]), "high must be finite"),
        (lambda: TileCoding([0.0], [1.0], tiles=(2, 2)), "tiles must be one number, or 1"),
        (lambda: RadialBasis([0.0], [1.0], width=-1.0), "width must be positive"),
        (lambda: MAPS[0]([0.0, 0.0]), "each observation must be 3 numbers"),
        (lambda: MAPS[0].rows([[0.0], [1.0, 2.0]]), r"3 numbers, not \[\[0.0\]"),
        (lambda: MAPS[0]([0.0, 0.0, np.nan]), "an observation must be finite"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_function_may_write_its_features_over_the_last_ones():
    """As functions do with an array that they fill; the package copies observations as well."""
    row, states = np.zeros(2), np.arange(400) % 2

    def features(state):
        row[:] = np.arange(2) == state
        return row

    one, many = (TDLearner(features, 0.5, size=2) for _ in range(2))
    for state in states:
        one.update(state, float(state), 1 - state, False)
    many.update_many(states, states.astype(float), 1 - states, np.zeros(400, bool))
    np.testing.assert_allclose([one.theta, many.theta], [[2 / 3, 4 / 3]] * 2)
