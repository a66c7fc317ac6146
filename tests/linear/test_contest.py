"""The learner that chooses its settings: bits, saving, units, classes, weights."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from mixfree.linear.contest import ChoosingLearner
from mixfree.linear.learner import Learner
from mixfree.linear.losses import Softmax, Squared
from tests.helpers import assert_same_bits

ROWS, COLUMNS = 3000, 3


def data(shift=50.0, length=300):
    """Rows that stay around one place for a long time, of unequal size and far from zero."""
    rng = np.random.default_rng(8)
    places = np.repeat(rng.standard_normal((ROWS // length, COLUMNS)), length, axis=0)
    rows = (places + 0.3 * rng.standard_normal(places.shape)) * [1.0, 100.0, 0.01] + shift
    targets = (rows - shift) @ [1.0, -0.02, 300.0] + 2.0 + rng.standard_normal(ROWS)
    return rows, targets


def learner(**settings):
    return ChoosingLearner(Squared(), COLUMNS, **settings)


def test_the_same_bits_however_cut_and_after_saving():
    """Caught: judges, draws or choices that depend on the chunks, or on units at their ends."""
    rows, targets = data()
    whole, cut = learner(), learner()
    whole.advance(rows, targets)
    for piece in np.split(np.arange(ROWS), [1, 2, 65, 1000, 1024, 2500]):
        cut.weights  # noqa: B018  # asking on the way must not change anything
        saved = cut.state_dict()
        cut = learner()
        cut.load_state_dict(saved)
        cut.advance(rows[piece], targets[piece])
    assert cut.weights.tobytes() == whole.weights.tobytes()
    assert cut.choice == whole.choice
    runs = [
        {str(name): run.state_dict() for name, run in each._contest.runs.items()}
        for each in (cut, whole)
    ]
    assert_same_bits(*runs)


def test_memory_is_chosen_and_better():
    rows, targets = data()
    chosen, plain = learner(), Learner(Squared(), COLUMNS)
    for each in (chosen, plain):
        each.advance(rows, targets)
    assert chosen.choice.chosen.memory > 0
    losses = [each.losses(rows, targets).mean() for each in (chosen, plain)]
    assert losses[0] < 0.8 * losses[1]
    assert chosen.samples == ROWS
    assert chosen.profile() is not None


def test_kept_rows_follow_the_running_scale():
    """Caught: rows kept in the units that were in force when they came."""
    rows, targets = data()
    kept = Learner(Squared(), COLUMNS, memory=200)
    kept.advance(rows, targets)
    sample, units = kept.optimizer._run.gradient.sample, kept._scale.units
    expected = (rows[sample.numbers - 1] - units.shift) / units.scale
    np.testing.assert_allclose(sample.column(0), expected, atol=1e-9)


def test_a_bad_row_changes_nothing():
    rows, targets = data()
    one = learner()
    one.advance(rows[:1500], targets[:1500])
    before, weights = one.state_dict(), one.weights
    spoilt = targets[1500:].copy()
    spoilt[-1] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        one.advance(rows[1500:], spoilt)
    assert one.weights.tobytes() == weights.tobytes()
    assert one.choice.samples == 1500
    assert one.state_dict()["contest"]["choice"] == before["contest"]["choice"]
    assert_same_bits(one.state_dict()["contest"]["judges"], before["contest"]["judges"])
    other = learner()
    other.load_state_dict(before)
    for each in (one, other):
        each.advance(rows[1500:], targets[1500:])
    assert one.weights.tobytes() == other.weights.tobytes()


def test_a_bad_first_call_leaves_a_learner_that_can_begin():
    rows, targets = data()
    one, other = learner(), learner()
    with pytest.raises(ValueError, match="not finite"):
        one.advance(rows, np.full(ROWS, np.nan))
    assert one.choice is None
    for each in (one, other):
        each.advance(rows, targets)
    assert one.weights.tobytes() == other.weights.tobytes()


def test_classes_and_weights():
    """Caught: judging by rows that weigh nothing, or by one margin of several classes."""
    rows, targets = data(shift=0.0)
    classes = np.digitize(targets, [-1.0, 3.0]).astype(float)
    found = ChoosingLearner(Softmax(3), COLUMNS)
    weights = np.where(np.arange(ROWS) < 1500, 1.0, 0.0)
    found.advance(rows, classes, weights)
    assert found.weights.shape == (3, COLUMNS + 1)
    assert found.losses(rows[:1500], classes[:1500]).mean() < np.log(3.0)
    judged = found._judged_losses([np.zeros(12)] * 2, found._contest._judges)
    assert np.isclose(judged[1].mean(), np.log(3.0))
    assert (judged[1] == 0.0).any()


def test_sparse_rows_are_learnt_without_memory():
    rows, targets = data(shift=0.0)
    one, other = learner(), Learner(Squared(), COLUMNS)
    for each in (one, other):
        each.advance(csr_array(rows), targets)
    assert one.choice is None
    assert one.weights.tobytes() == other.weights.tobytes()
    fresh = learner()
    fresh.load_state_dict(one.state_dict())
    assert fresh.weights.tobytes() == one.weights.tobytes()


def test_a_state_of_another_learner_is_refused():
    plain = Learner(Squared(), COLUMNS)
    with pytest.raises(ValueError, match="memory='auto'"):
        learner().load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match="must be of a learner"):
        plain.load_state_dict(learner().state_dict())


def test_ridge_is_part_of_what_is_judged():
    """Caught: large weights that are chosen since nobody asks what they cost."""
    rows, targets = data(shift=0.0)
    ridge = learner(l2=2.0, fit_intercept=False)
    ridge.advance(rows, targets)
    points = [np.zeros(COLUMNS), np.array([1.0, 2.0, 2.0])]
    plain, with_ridge = (
        ChoosingLearner._judged_losses(each, points, ridge._contest._judges)
        for each in (learner(fit_intercept=False), ridge)
    )
    np.testing.assert_allclose(with_ridge[1] - plain[1], 9.0)
    np.testing.assert_array_equal(with_ridge[0], plain[0])


def test_too_many_sparse_rows_to_keep():
    wide = Learner(Squared(), 1_000_000, memory=1000, fit_intercept=False)
    with pytest.raises(ValueError, match="give `memory=134` at most, or `memory=0`"):
        wide.advance(csr_array((1, 1_000_000)), np.ones(1))
