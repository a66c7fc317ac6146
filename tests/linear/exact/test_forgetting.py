"""Forgetting: the equivalent weighted fit, the choice of the half-life, and bits."""

import numpy as np
import pytest

from mixfree.linear.exact import forgetting as forgetting_module
from mixfree.linear.exact.forgetting import (
    BLOCK,
    LOSS_HALF_LIFE,
    PRIOR_ROWS,
    ROWS_PER_ORIGIN,
    Forgetting,
    least_combination,
)
from tests.helpers import assert_same_bits


def stream(rows, seed=0, columns=3, offset=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) + offset
    walk = np.cumsum(rng.normal(size=(rows, columns)), axis=0) / 50.0
    return x, (x * walk).sum(axis=1) + rng.normal(size=rows)


def added(x, y, pieces=1, half_life="auto", weights=None, **options):
    forgetting = Forgetting(x.shape[1], half_life=half_life, **options)
    w = np.ones(len(y)) if weights is None else weights
    for part in zip(*(np.array_split(each, pieces) for each in (x, y, w)), strict=True):
        forgetting.add(*part)
    return forgetting


def direct(x, y, life, ridge, intercept):
    """Slopes of the weighted ridge, solved in units of the columns' sizes."""
    ends = np.minimum((np.arange(len(y)) // BLOCK + 1) * BLOCK, len(y))
    weights = 0.5 ** ((len(y) - ends) / life)
    z = x - intercept * np.average(x, axis=0, weights=weights)
    t = y - intercept * np.average(y, weights=weights)
    size = np.abs(x).max(axis=0)
    z /= size
    matrix = z.T @ (z * weights[:, None]) + np.diag(ridge(weights.sum()) / size**2)
    return np.linalg.solve(matrix, z.T @ (weights * t)) / size


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("rows", "offset", "units", "l2"),
    [
        (BLOCK, 0.0, 1.0, 0.0),
        (10_007, 1e4, 1.0, 0.0),
        (1007, 2.0, [1e-5, 1.0, 1e5], 0.01),
        (1007, 2.0, [1e-60, 1e60, 1.0], 3.0),
    ],
)
def test_a_half_life_is_the_weighted_ridge_in_the_units_of_the_rows(
    rows, offset, units, l2, intercept
):
    """Catches a penalty of weights in inner units, or one that does not grow with the weight."""
    x, y = stream(rows, offset=offset)
    x *= units
    forgetting = added(x, y, half_life=100.0, l2=l2, intercept=intercept)
    wanted = direct(x, y, 100.0, lambda weight: PRIOR_ROWS * x.var(axis=0) + l2 * weight, intercept)
    rtol = 1e-6 if offset == 1e4 and not intercept else 1e-9
    np.testing.assert_allclose(forgetting.weights()[0, :3], wanted, rtol=rtol)
    assert forgetting.samples == rows


def test_blocks_are_predicted_by_weights_with_the_penalty():
    """Catches weights for the mixture that lack the penalty, or have it in other units."""
    x, y = stream(256, offset=2.0)
    x *= [1e-3, 1.0, 1e3]
    lost = 0.0
    for start in range(BLOCK, 256, BLOCK):
        seen, now = slice(start), slice(start, start + BLOCK)
        prior = PRIOR_ROWS * x[seen].var(axis=0)
        w = direct(x[seen], y[seen], 50.0, lambda weight, p=prior: p + 0.5 * weight, True)
        weights = np.repeat(0.5 ** (np.arange(start, 0, -BLOCK) / 50.0), BLOCK)
        level = np.average(y[seen] - x[seen] @ w, weights=weights)
        errors = y[now] - x[now] @ w - level
        lost = lost * 0.5 ** (BLOCK / LOSS_HALF_LIFE) + 0.5 * errors @ errors
    total = np.sum(0.5 ** (np.arange(256 - BLOCK) / LOSS_HALF_LIFE))
    assert added(x, y, l2=0.5).mean_losses[50.0] == pytest.approx(lost / total, rel=1e-9)


@pytest.mark.parametrize("half_life", ["auto", 10.0])
@pytest.mark.parametrize("constant", [1.0, 1e3, -1e-7])
def test_a_constant_column_is_an_intercept(constant, half_life):
    """Catches a ridge of a column whose variance is 0, which draws the level towards 0."""
    x, y = stream(2000)
    y += 100.0
    wanted = added(x, y, half_life=half_life).weights()[0]
    rows = np.column_stack([x, np.full(2000, constant)])
    found = added(rows, y, half_life=half_life, intercept=False).weights()[0]
    np.testing.assert_allclose(found * [1.0, 1.0, 1.0, constant], wanted, rtol=1e-9)


@pytest.mark.parametrize("columns", [2, 4])
def test_equal_columns_far_from_zero_share_a_weight_that_follows_the_stream(columns):
    """Catches weights that are kept where the matrix is not positive definite by rounding."""
    rng = np.random.default_rng(0)
    column = 3e7 + rng.normal(size=4000)
    target = np.where(np.arange(4000) < 2000, 1.0, 2.0) * column
    single = added(column[:, None], target, intercept=False)
    several = added(np.tile(column[:, None], columns), target, intercept=False)
    np.testing.assert_allclose(several.weights().sum(), 2.0, rtol=1e-9)
    lost = [list(each.mean_losses.values()) for each in (several, single)]
    np.testing.assert_allclose(*lost, rtol=1e-6)


def test_the_half_life_in_force_follows_the_stream():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12_000, 2))
    steady = x @ [1.0, 2.0] + rng.normal(size=12_000)
    forgetting = added(x, steady)
    assert forgetting.half_life >= 800.0  # beyond, what is left to gain is less than the noise
    turning = x[:, 0] * np.sin(np.arange(12_000) / 60.0)
    forgetting.add(x, turning)
    assert forgetting.half_life == 50.0
    rows, lives = zip(*forgetting.history, strict=True)
    assert list(rows) == sorted(rows) and lives[-1] == 50.0
    mean_losses = forgetting.mean_losses
    assert min(mean_losses, key=mean_losses.get) == 50.0


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("half_life", ["auto", 7.0, 300.0])
def test_any_chunking_gives_the_same_bits(half_life, offset):
    x, y = stream(7000, offset=offset)
    weights = np.random.default_rng(2).integers(0, 3, 7000)
    whole = added(x, y, half_life=half_life, weights=weights)
    for pieces in (2, 701):
        assert_same_bits(added(x, y, pieces, half_life, weights).plain(), whole.plain())


def test_the_combination_is_the_least_of_all_not_only_of_pairs():
    rng = np.random.default_rng(5)
    grid = rng.dirichlet(np.full(4, 0.5), 20_000)
    several = 0
    for _ in range(30):
        errors = rng.normal(size=(40, 4)) + rng.normal(size=(40, 1))
        products = errors.T @ errors
        shares = least_combination(products)
        assert shares.sum() == pytest.approx(1.0) and shares.min() >= 0.0
        several += np.count_nonzero(shares) > 2
        tried = np.einsum("ni,ij,nj->n", grid, products, grid)
        assert shares @ products @ shares <= tried.min() * (1.0 + 1e-5)
    assert several > 5  # otherwise three at a time were not tested


def test_a_mixture_of_two_ages_predicts_better_than_either():
    """One slope wanders and the others stay: no single half-life is right for all."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8000, 12))
    slopes = np.tile(np.arange(12.0), (8000, 1))
    slopes[:, 0] = np.cumsum(rng.normal(size=8000)) / 8.0
    line = (x * slopes).sum(axis=1)
    y = line + 8.0 * rng.normal(size=8000)
    lost = dict.fromkeys([50.0, 200.0, 800.0, "auto"], 0.0)
    for life in lost:
        forgetting = Forgetting(12, half_life=life)
        for start in range(0, 8000, 4 * BLOCK):
            now = slice(start, start + 4 * BLOCK)
            w = forgetting.weights()[0]
            if start >= 2000:
                lost[life] += np.sum((line[now] - x[now] @ w[:-1] - w[-1]) ** 2)
            forgetting.add(x[now], y[now])
    assert sum(forgetting.shares.values()) == pytest.approx(1.0)
    assert lost.pop("auto") < 0.99 * min(lost.values())


@pytest.mark.parametrize("place", [3, 8999])
def test_what_is_not_finite_is_refused_and_nothing_has_changed(place):
    x, y = stream(9000)
    forgetting = added(x[:1000], y[:1000])
    before = forgetting.copy()
    x[place, 1] = np.nan
    with pytest.raises(ValueError, match="rows must be finite"):
        forgetting.successor().add(x, y)
    assert_same_bits(forgetting.plain(), before.plain())


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, "long", True])
def test_half_life_is_checked(wrong):
    with pytest.raises(ValueError, match="half_life must be"):
        Forgetting(2, half_life=wrong)


def test_a_new_origin_changes_no_prediction(monkeypatch):
    """Catches weights in force that are converted to the new origin with the wrong sign."""
    x, y = stream(3 * ROWS_PER_ORIGIN)
    y += np.arange(len(y)) / 1000.0
    moved = added(x, y).mean_losses
    monkeypatch.setattr(forgetting_module, "ROWS_PER_ORIGIN", len(y))
    assert moved == pytest.approx(added(x, y).mean_losses, rel=1e-5)  # the ridge is renewed with it
