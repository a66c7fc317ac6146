"""The timeline of a stream, and the metrics computed from it."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, r2_score, roc_auc_score

from mixfree.linear.losses import Huber, Logistic, Robust, Softmax, Squared
from mixfree.streams.fit.timeline import (
    ALL_PREDICTED,
    CHUNK,
    MAX_BINS,
    WINDOW,
    Timeline,
    best_constant,
    compare,
)
from mixfree.streams.report.facts import Facts
from mixfree.streams.report.metrics import metrics
from tests.streams import data as streams

NEVER = np.zeros(0, "M8[us]")


def add(course, targets, times=NEVER):
    """Add rows that are not predicted."""
    course.add(Squared(), np.zeros((len(targets), 1)), targets, times)


def test_bins_are_merged_without_losing_a_row():
    """Catches bins that are thinned out instead of merged."""
    rng = np.random.default_rng(0)
    rows = 2 * MAX_BINS * CHUNK + 700
    y = rng.standard_normal(rows) + 50.0
    whole, parts = Timeline.start(1, None), Timeline.start(1, None)
    add(whole, y)
    for part in np.array_split(y, 37):
        add(parts, part)
    assert whole.sums.tobytes() == parts.sums.tobytes()
    assert whole.per_bin == 4 * CHUNK
    bins = whole.bins
    assert MAX_BINS // 2 <= len(bins.rows) <= MAX_BINS
    assert bins.rows[-1] == 4 * CHUNK + 700  # no bin of few rows at the end
    assert bins.rows.sum() == rows == bins.ends[-1]
    np.testing.assert_allclose(bins.target @ bins.rows, y.sum())
    first = y[: int(bins.ends[0])]
    assert (bins.least[0], bins.greatest[0]) == (first.min(), first.max())
    restored = Timeline.start(1, None).restored(whole.plain(), "timeline")
    assert restored.sums.tobytes() == whole.sums.tobytes()


def test_many_parts_give_the_sums_of_one_stream():
    """Catches parts of other bins that are merged wrongly, lost rows, and a second origin."""
    rng = np.random.default_rng(2)
    lengths = [0, 900, 700_000, 0, *rng.integers(1, 3000, 600).tolist(), 550_000]
    rows = sum(lengths)
    scores, y = rng.standard_normal(rows), 30.0 + rng.random(rows)
    times = np.datetime64("2024-01-01", "us") + np.arange(rows) * np.timedelta64(10, "m")
    merged, begin = Timeline.start(1, None), 0
    for number, length in enumerate(lengths):
        part = slice(begin, begin := begin + length)
        other = Timeline.start(1, None)
        if number % 2:
            other.renew(length, np.array([[1.0]]), np.zeros((1, 1)), 1)
        other.add(Squared(), scores[part, None], y[part], times[part])
        merged.merge(other)
        assert len(merged.sums) <= MAX_BINS
    add(merged, y[:5000] + 9.0, times[:5000])
    tested = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    every = np.concatenate([y, y[:5000] + 9.0])
    ends = merged.bins.ends.astype(int)
    starts = np.concatenate([[0], ends[:-1]])
    assert ends[-1] == len(every) == merged.rows
    np.testing.assert_allclose(merged.bins.target, np.add.reduceat(every, starts) / (ends - starts))
    np.testing.assert_array_equal(merged.bins.greatest, np.maximum.reduceat(every, starts))
    dated = starts < rows
    np.testing.assert_array_equal(merged.bins.times[dated], times[starts[dated]])
    assert merged.tested == tested.sum()
    assert merged.total("squares") == pytest.approx(((y - scores)[tested] ** 2).sum())
    assert merged.total("constant_squares") == pytest.approx((y[tested] ** 2).sum())
    assert merged.total("predicted") == pytest.approx((scores[tested] - merged.origin).sum())
    centred = y[tested] - merged.origin
    assert merged.total("tested_target") == pytest.approx(centred.sum())
    assert merged.total("tested_target_squares") == pytest.approx((centred**2).sum())
    merged.check("timeline")
    merged.rows += 1
    with pytest.raises(ValueError, match=r"state of the timeline is invalid: \d+ bins of"):
        merged.check("timeline")


def test_a_stream_goes_on_in_the_last_bin_of_merged_parts():
    """Catches a new bin beside one with room, which is one bin too many."""
    merged = Timeline.start(1, None)
    for length in [*[1] * (MAX_BINS - 1), CHUNK]:
        other = Timeline.start(1, None)
        add(other, np.full(length, 2.0))
        merged.merge(other)
    add(merged, np.full(3, 7.0))
    bins = merged.bins
    assert len(bins.rows) == MAX_BINS // 2
    assert bins.rows[-2:].tolist() == [2.0, 1.0 + CHUNK + 3.0]
    assert (bins.least[-1], bins.greatest[-1]) == (2.0, 7.0)
    assert bins.target[-1] == pytest.approx((2.0 * (1 + CHUNK) + 7.0 * 3) / (CHUNK + 4))


def test_the_rows_of_a_long_stream_that_are_predicted_stand_for_all_rows():
    """Catches an aliased or dependent choice, wrong weights, and a choice that batches change."""
    rows = 30 * ALL_PREDICTED
    course, found = Timeline.start(1, None), []
    for length in (ALL_PREDICTED, 1, 62, 70_001, rows):
        which, weights = course.predicted_rows(length)
        found.append((which + course.rows, weights))
        course.rows += length
    which, weights = map(np.concatenate, zip(*found, strict=True))
    again = Timeline.start(1, None).predicted_rows(course.rows)
    np.testing.assert_array_equal(which, again[0])
    np.testing.assert_array_equal(weights, again[1])
    assert (weights[:ALL_PREDICTED] == 1.0).all()
    assert len(which) < 4 * ALL_PREDICTED
    # Windows are drawn alone: the variance of their number is that of Bernoulli trials.
    error = np.sqrt(WINDOW * (weights * (weights - 1.0)).sum())
    assert abs(weights.sum() - course.rows) < 4.0 * error, (weights.sum(), course.rows, error)
    for period in (24, 128, 4096):
        phase = which % period < period // 2
        assert abs(weights[phase].sum() - course.rows / 2) < 4.0 * error


def test_a_run_that_diverged_can_be_saved():
    """Catches infinite sums, which the model file refuses."""
    course = Timeline.start(1, None)
    course.renew(10, np.array([[np.nan]]), np.zeros((1, 1)), 1)
    rows, targets = np.full((3, 1), 1e200), np.array([1.0, 2.0, 1e300])
    course.add(Squared(), rows, targets, NEVER)
    assert Timeline.start(1, None).restored(course.plain(), "timeline").tested == 3


@pytest.mark.parametrize("width", [1, 3, 17])
def test_a_prediction_does_not_depend_on_the_rows_beside_it(width):
    """A matrix product takes rows four at a time, and the rest in another order."""
    rng = np.random.default_rng(2)
    rows, targets = rng.standard_normal((103, width)), np.zeros(103)
    weights = rng.standard_normal((3, width + 1))
    together = compare(Softmax(3), weights, rows, targets).losses
    for at in range(0, 103, 7):
        alone = compare(Softmax(3), weights, rows[at : at + 1], targets[:1]).losses
        assert alone.tobytes() == together[at : at + 1].tobytes()


def fitted(tmp_path, data, **plan):
    return streams.fitted((pa.table(data), tmp_path / "d.parquet"), "y", **plan)


def replayed(fit, x, targets):
    """Return predictions of the rows from 1,000 on, by fits to thousands of rows before them."""
    found = []
    for start in range(CHUNK, len(x), CHUNK):
        learner = fit.plan.learner(x.shape[1], fit.encoder.classes)
        learner.advance(x[:start], targets[:start])
        found.append(learner.predict(x[start : start + CHUNK]))
    return np.concatenate(found)


def test_measures_of_a_regression_are_those_of_scikit_learn(tmp_path):
    """Catches errors of the final weights, and a mean over all rows."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(3500)
    y = 1e4 + x * np.linspace(1.0, 2.0, len(x)) + 0.5 * rng.standard_normal(len(x))
    fit = fitted(tmp_path, {"x": x, "y": y})
    ahead = replayed(fit, x[:, None], y)
    found = metrics(fit)["test_then_train"]
    assert found["r2"] == pytest.approx(r2_score(y[CHUNK:], ahead))
    assert found["mae"] == pytest.approx(mean_absolute_error(y[CHUNK:], ahead))
    assert found["rmse"] ** 2 == pytest.approx(np.mean((y[CHUNK:] - ahead) ** 2))
    found, kept = metrics(fit)["in_sample"], fit.reservoir
    assert found["r2"] == pytest.approx(r2_score(y, fit.learner.predict(x[:, None])))
    predicted = fit.learner.predict(kept.rows)
    assert found["mae"] == pytest.approx(mean_absolute_error(kept.targets, predicted))


@pytest.mark.parametrize("intercept", [True, False])
def test_squared_errors_are_those_of_all_rows(tmp_path, intercept):
    """Catches measures of a sample that lacks the one row with a large error."""
    rng = np.random.default_rng(5)
    x, z = 1e3 + rng.standard_normal(6000), 1e-70 * rng.standard_normal(6000)
    y = 1e4 + x + rng.standard_normal(6000)
    y[4321] += 1e4
    fit = fitted(tmp_path, {"x": x, "z": z, "y": y}, parameters={"fit_intercept": intercept})
    found, answers = metrics(fit), fit.learner.predict(np.column_stack([x, z]))
    assert found["in_sample"]["r2"] == pytest.approx(r2_score(y, answers), rel=1e-6)
    assert found["in_sample"]["rmse"] == pytest.approx(np.sqrt(np.mean((y - answers) ** 2)))
    assert found["constant"]["rmse"] == pytest.approx(y.std())


def test_the_model_and_the_constant_are_compared_on_the_same_rows(tmp_path):
    """Catches the constant of all rows beside the error of the last 268, in a table and in R²."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal(1268)
    y = np.where(np.arange(1268) < 1000, 100.0 * rng.standard_normal(1268), 5.0 + x)
    fit = fitted(tmp_path, {"x": x, "y": y})
    found = metrics(fit)["test_then_train_constant"]
    before, after = y[:1000].mean(), y[1000:]
    assert found["rmse"] ** 2 == pytest.approx(np.mean((after - before) ** 2))
    assert found["mae"] == pytest.approx(np.abs(after - before).mean())
    assert found["r2"] == pytest.approx(r2_score(after, np.full(268, before)))
    assert [rows.split(",")[0] for rows in Facts(fit).quality] == [
        "in-sample: all rows",
        "test-then-train: 268 rows",
    ]


@pytest.mark.parametrize("loss", [Huber(0.5), Robust(), Softmax(3), Logistic()])
def test_the_best_constant_has_the_least_loss(loss):
    """Catches the median, which is not the minimiser of Huber's loss."""
    rng = np.random.default_rng(9)
    targets = np.concatenate([rng.exponential(size=700), 40.0 + rng.standard_normal(300)])
    if not isinstance(loss, Huber | Robust):
        targets = (targets > 1.0) + (targets > 2.0) * 1.0
        targets = np.where(targets > 0.0, 1.0, -1.0) if isinstance(loss, Logistic) else targets
    best, no_rows = best_constant(loss, targets), np.zeros((len(targets), 0))
    least = compare(loss, best, no_rows, targets).losses.mean()
    steps = rng.standard_normal((200, *best.shape))
    for moved in steps * rng.choice([1e-4, 0.1, 20.0], (200, 1, 1)):
        assert compare(loss, best + moved, no_rows, targets).losses.mean() > least - 1e-12


def test_measures_of_two_classes_are_those_of_scikit_learn(tmp_path):
    """Catches exchanged classes, and ties of a coarse histogram."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(3500)
    y = rng.random(len(x)) < 1.0 / (1.0 + np.exp(3.0 - 2.0 * x))
    fit = fitted(tmp_path, {"x": x, "y": y})
    assert isinstance(fit.learner.loss, Logistic)
    ahead = replayed(fit, x[:, None], np.where(y, 1.0, -1.0))
    found = metrics(fit)["test_then_train"]
    assert found["auc"] == pytest.approx(roc_auc_score(y[CHUNK:], ahead), abs=1e-3)
    assert found["accuracy"] == pytest.approx(((ahead > 0) == y[CHUNK:]).mean())
    assert found["log_loss"] == pytest.approx(log_loss(y[CHUNK:], 1.0 / (1.0 + np.exp(-ahead))))
    kept = fit.reservoir
    scores = fit.learner.predict(kept.rows)
    assert metrics(fit)["in_sample"]["auc"] == pytest.approx(roc_auc_score(kept.targets, scores))


@pytest.mark.parametrize(
    ("loss", "rows"),
    [
        ("squared", [*range(0, 10_000, 1000), 11_000]),
        ("huber", [0, 1000, 2000, 3000, 5000, 8000, 12_000]),
    ],
)
def test_the_weights_that_predict_are_renewed_at_row_counts_that_batches_do_not_change(
    tmp_path, monkeypatch, loss, rows
):
    """Updating the weights every 1,000 rows of a long stream would cost more than learning."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal(13_000)
    at, renew = [], Timeline.renew
    seen = lambda self, *given: at.append(self.rows) or renew(self, *given)  # noqa: E731
    monkeypatch.setattr(Timeline, "renew", seen)
    fitted(tmp_path, {"x": x, "y": x + rng.standard_normal(len(x))}, loss=loss)
    assert at == rows
