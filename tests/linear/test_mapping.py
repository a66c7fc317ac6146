"""Columns that grow, are placed among others or are mapped: as if it had always been so."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Huber, Logistic, Robust, Softmax, Squared
from tests.helpers import assert_same_bits

OTHERS = [Logistic(), Softmax(3), Huber(), Robust()]
T = np.array([[1, 0, 0], [0, 0, 2], [0, 0, 1], [0, 1, 0], [0, 0, -1]], dtype=float)


def stream(loss, rows, columns=5, seed=0):
    """Rows of which the last two columns are 0 in the first half, sorted by a third."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) + np.arange(columns)
    x[: rows // 2, -2:] = 0.0
    x = x[np.lexsort((x[:, 0], np.arange(rows) >= rows // 2))]
    z = x @ np.linspace(-1.0, 1.0, columns)
    if isinstance(loss, Logistic):
        y = np.where(rng.logistic(size=rows) < z, 1.0, -1.0)
    elif isinstance(loss, Softmax):
        y = np.searchsorted([-1.0, 1.0], z + rng.logistic(size=rows)).astype(float)
    else:
        y = z + rng.normal(size=rows)
    return x, y, rng.uniform(0.5, 2.0, size=rows)


def learnt(loss, *parts, **options):
    """Learn from parts with more and more columns; saved and loaded after each."""
    learner = ExactLearner(loss, parts[0][0].shape[1], **options)
    for x, *rest in parts:
        learner.grow(x.shape[1])
        learner.advance(x, *rest)
        state = learner.state_dict()
        learner = ExactLearner(loss, x.shape[1], **options)
        learner.load_state_dict(state)
    return learner


def halves(x, y, w):
    half = len(y) // 2
    return (x[:half, :-2], y[:half], w[:half]), (x[half:], y[half:], w[half:])


def close(one, other, rtol=1e-8):
    scale = np.abs(np.asarray(other)).max()
    np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("rows", [20, 1000, 50_000])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_column_that_appears_later_was_zero_before(rows, intercept):
    """Catches sums, batches, windows or pending rows that miss the new columns."""
    data = stream(Squared(), rows)
    grown = learnt(Squared(), *halves(*data), intercept=intercept)
    whole = learnt(Squared(), data, intercept=intercept)
    close(grown.weights, whole.weights)
    assert grown.samples == rows and grown.columns == 5
    if rows > 100:
        close(grown.inference.bse, whole.inference.bse)
        close(grown.profile().ratios, whole.profile().ratios, 1e-6)


@pytest.mark.parametrize("half_life", ["auto", 30.0, 40_000.0])
def test_what_is_forgotten_grows_too(half_life):
    """Catches a block length that follows the columns, which a saved state would not share."""
    data = stream(Squared(), 9001, columns=130)
    grown = learnt(Squared(), *halves(*data), half_life=half_life)
    whole = learnt(Squared(), data, half_life=half_life)
    close(grown.weights, whole.weights)
    assert grown.forgetting.history == whole.forgetting.history
    close(list(grown.forgetting.mean_losses.values()), list(whole.forgetting.mean_losses.values()))


def test_bytes_hold_fewer_rows_of_more_columns():
    """Catches a sample that outgrows its memory, or is cut to its first rows."""
    x, y, _ = stream(Logistic(), 3000)
    learner = ExactLearner(Logistic(), 5, memory="300kB", l2=1e-3)
    learner.advance(x, y)
    assert learner._fit.complete
    whole = learner.weights
    learner.grow(20)
    assert not learner._fit.complete and learner._fit._sample.filled < 1500
    assert learner._fit._sums.rows + learner._fit._filled == 3000
    assert learner.gap.upper < 0.01
    close(learner.weights[:, :5], whole[:, :5], 0.1)


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=str)
def test_predictions_of_new_rows_survive_growth_and_maps(loss):
    """Catches a saved state without them, which no learner that looks ahead could load."""
    data = stream(loss, 4000)
    grown = learnt(loss, *halves(*data), looks_ahead=True)
    assert grown.ahead.rows == 4000 and grown.ahead.weights.shape == (1, 6)
    mapped = grown.mapped(T)
    close(mapped.ahead.tests, grown.ahead.tests)
    mapped.advance(data[0] @ T, data[1])
    assert mapped.ahead.rows == 8000


@pytest.mark.parametrize("before, after", [(3, 150), (150, 3), (10, 400)])
def test_batches_stay_equally_long_when_blocks_change(before, after):
    """Catches blocks of the new length that overrun a batch begun with the old one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60_001, max(before, after)))
    y = x[:, 0] + rng.normal(size=len(x))
    learner = ExactLearner(Squared(), before)
    learner.advance(x[:29_900, :before], y[:29_900])
    learner = learner.mapped(np.eye(before, after))
    for chunk in np.split(np.arange(29_900, 60_001), [700, 9000]):
        learner.advance(x[chunk, :after], y[chunk])
    fit = learner._fit
    batches, windows = fit._sums.batches, fit._windows
    assert all(batch.weight == batch.rows == batches.length for batch in batches.items)
    assert batches.length * len(batches) > 50_000
    assert learner.samples == fit.total.rows == 60_001
    assert max(map(len, windows.all[:-1])) == windows.length
    assert learner.inference.conf_int()[0, 0, 0] < 1.0 < learner.inference.conf_int()[0, 0, 1]


def test_fits_of_different_columns_merge_in_any_order():
    """Catches columns that are added to those of another category."""
    data = stream(Squared(), 6000)
    x, y, w = data
    whole = learnt(Squared(), data)
    parts = []
    for part in np.split(np.arange(6000), [2000, 3500]):
        own = np.flatnonzero(np.any(x[part] != 0.0, axis=0))[::-1]
        parts.append((own, learnt(Squared(), (x[np.ix_(part, own)], y[part], w[part]))))
    for order in itertools.permutations(parts):
        merged = ExactLearner(Squared(), 0)
        merged.grow(5)
        for own, part in order:
            merged.merge(part.placed(own, 5))
        close(merged.weights, whole.weights)
        close(merged.predict(x), whole.predict(x))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_a_mapped_fit_is_the_fit_to_mapped_rows(kind):
    """Weights, intervals, correlation, errors; and it can be continued, saved and merged."""
    x, y, w = stream(Squared(), 20_000)
    raw = learnt(Squared(), (x, y, w))
    before = raw.state_dict()
    mapped, direct = raw.mapped(kind(T)), learnt(Squared(), (x @ T, y, w))
    for _ in range(2):
        close(mapped.weights, direct.weights)
        close(mapped.inference.conf_int(), direct.inference.conf_int())
        close(mapped.inference.effective_rows, direct.inference.effective_rows)
        close(mapped.mean_squares(mapped.weights), direct.mean_squares(direct.weights))
        for learner in (mapped, direct):
            learner.advance(x[:5000] @ T, -y[:5000], w[:5000])
    close(mapped.weights, direct.weights)
    assert_same_bits(raw.state_dict(), before)


def test_a_mapped_fit_with_a_half_life():
    x, y, _ = stream(Squared(), 9000)
    for half_life in ("auto", 500.0):
        raw = learnt(Squared(), (x, y), half_life=half_life)
        mapped, direct = raw.mapped(T), learnt(Squared(), (x @ T, y), half_life=half_life)
        assert mapped.forgetting.half_life == raw.forgetting.half_life
        if half_life == 500.0:
            close(mapped.weights, direct.weights)
        mapped.advance(x[-2000:] @ T, y[-2000:])
        close(mapped.predict(x[-500:] @ T), direct.predict(x[-500:] @ T), 0.05)


@pytest.mark.parametrize("loss", OTHERS, ids=str)
def test_mapped_fits_of_other_losses(loss):
    """Beyond the memory, catches sums or kept rows of other columns: the loss would be far off."""
    x, y, _ = stream(loss, 4000)
    direct = learnt(loss, (x @ T, y), l2=1e-4)
    close(learnt(loss, (x, y), l2=1e-4).mapped(T).weights, direct.weights, 1e-5)
    mapped = learnt(loss, (x, y), l2=1e-4, memory=400).mapped(T)
    lost = np.mean(mapped.losses(x @ T, y) - direct.losses(x @ T, y))
    gained = np.mean(loss.value(np.zeros_like(direct.predict(x @ T)), y) - direct.losses(x @ T, y))
    assert lost < 0.05 * gained, (lost, gained, mapped.gap)
    assert np.isfinite(mapped.inference.conf_int()).all()
    mapped.advance(x @ T, y)
    assert mapped.samples == 8000


def test_a_combination_that_is_constant_has_no_weight():
    """All categories together are 1 in every row: their sum varies by rounding alone."""
    rng = np.random.default_rng(0)
    category = rng.integers(0, 40, 30_000)
    x = np.column_stack([category[:, None] == np.arange(40), rng.normal(size=30_000)]) * 1.0
    learner = learnt(Squared(), (x, 2.0 * x[:, -1] + category + rng.normal(size=30_000)))
    matrix = np.zeros((41, 2))
    matrix[:40, 0], matrix[40, 1] = 1.0, 1.0
    assert learner.mapped(matrix).weights[0, 0] == 0.0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda learner: learner.grow(2), "columns must be"),
        (lambda learner: learner.placed([0, 1], 5), "a map of 3 columns is needed, not of 2"),
        (lambda learner: learner.mapped(np.full((3, 1), np.nan)), "finite numbers"),
        (lambda learner: learner.mapped(np.eye(2)), "a map of 3 columns is needed"),
    ],
)
def test_impossible_maps_are_refused(call, message):
    learner = learnt(Squared(), (np.eye(3), np.arange(3.0)))
    before = learner.state_dict()
    with pytest.raises(ValueError, match=message):
        call(learner)
    assert_same_bits(learner.state_dict(), before)
