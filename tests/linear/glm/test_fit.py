"""One-pass fits of logistic, softmax, Huber and robust losses."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mixfree.linear.exact.coded import Coded
from mixfree.linear.glm.fit import GlmFit
from mixfree.linear.glm.newton import Objective, Point
from mixfree.linear.glm.problem import SHARE_OF_RIDGE
from mixfree.linear.glm.rows import rows_of
from mixfree.linear.losses import Huber, Logistic, Poisson, Robust, Softmax, Squared, predictions

ORDERS = ("random", "margin", "class", "feature")


def logistic(rows=20_000, columns=5, order="random", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    margin = x @ rng.normal(size=columns) * 1.5 / np.sqrt(columns) - 0.5
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    keys = {"random": np.arange(rows), "margin": margin, "class": y, "feature": x[:, 0]}
    places = np.argsort(keys[order], kind="stable")
    return x[places], y[places]


def classes(rows=6_000, columns=4, outputs=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    scores = x @ rng.normal(size=(columns, outputs)) + rng.gumbel(size=(rows, outputs))
    return x, scores.argmax(axis=1).astype(float)


def regression(rows=6_000, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    noise = rng.standard_t(1.5, size=rows)
    return x, x @ np.arange(1.0, columns + 1.0) + 3.0 + noise


DATA = {
    Logistic(): logistic(6_000),
    Softmax(3): classes(),
    Huber(0.7): regression(),
    Robust(-2.0, 1.5): regression(),
}


def objective(loss, weights, x, y, l2=0.0):
    values = loss.value(predictions(weights.ravel(), x, loss.outputs), y)
    return np.mean(values) + 0.5 * l2 * np.sum(weights[:, : x.shape[1]] ** 2)


def fitted(loss, x, y, chunk=None, **options):
    fit = GlmFit(loss, x.shape[1], **options)
    chunk = chunk or max(len(x), 1)
    for start in range(0, len(x), chunk):
        fit.add(x[start : start + chunk], y[start : start + chunk])
    return fit


def lost(loss, fit, x, y):
    """The loss of a fit above that of the fit to all rows in memory."""
    best = fitted(loss, x, y, memory=len(y), intercept=fit.settings.intercept).weights()
    return objective(loss, fit.weights(), x, y) - objective(loss, best, x, y)


@pytest.mark.parametrize("l2", [1e-4, 0.3])
@pytest.mark.parametrize("loss", [Logistic(), Poisson()], ids=str)
@pytest.mark.parametrize("intercept", [True, False])
def test_all_rows_kept_is_scikit_learns_fit_to_rounding(loss, l2, intercept):
    """Catches a penalised intercept, and a search that ends a step too early: 1e-6 off."""
    for seed in range(6):
        x, y = logistic(2_000, seed=seed)
        x = x * [1.0, 10.0, 0.1, 1.0, 3.0] + [0.0, 5.0, 0.0, -2.0, 0.0]
        exact = {"solver": "newton-cholesky", "tol": 1e-12, "fit_intercept": intercept}
        theirs = LogisticRegression(C=1 / (len(y) * l2), **exact)
        if loss == Poisson():
            theirs = PoissonRegressor(alpha=l2, **exact)
            y = np.random.default_rng(seed).poisson(np.exp(0.3 * x[:, 0] + 0.1 * y)).astype(float)
        theirs.fit(x, y)
        ours = fitted(loss, x, y, chunk=300, l2=l2, intercept=intercept).weights()[0]
        size = np.append(x.std(axis=0), 1.0)[: len(ours)]  # so that weights are standardised
        wanted = np.append(theirs.coef_, theirs.intercept_)[: len(ours)] * size
        np.testing.assert_allclose(ours * size, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize("loss", [Huber(0.7), Huber(30.0), Robust(1.0, 0.5), Robust(-2.0, 1.5)])
def test_regression_of_all_rows_is_a_minimum_that_no_descent_improves(loss):
    x, y = regression(1_500)
    ours = fitted(loss, x, y, l2=1e-3).weights()

    def value(w):
        return objective(loss, w[None], x, y, 1e-3)

    found = optimize.minimize(value, ours[0], method="BFGS", options={"gtol": 1e-9})
    assert value(ours[0]) <= found.fun + 1e-10
    if not isinstance(loss, Robust) or loss.shape >= 1.0:  # convex: from anywhere
        found = optimize.minimize(value, np.zeros(5), method="BFGS", options={"gtol": 1e-8})
        assert value(ours[0]) <= found.fun + 1e-9


@pytest.mark.parametrize(
    ("order", "most"), [("random", 2e-6), ("margin", 2e-6), ("class", 3e-4), ("feature", 2e-6)]
)
def test_beyond_the_memory_sums_of_all_rows_make_up_for_the_rows_left_out(order, most):
    """No control variate loses about 0.001; the first or last rows alone much more."""
    x, y = logistic(order=order)
    fits = (fitted(Logistic(), x, y, memory=1024, seed=seed) for seed in range(3))
    found = [lost(Logistic(), fit, x, y) for fit in fits]
    assert np.mean(found) < most
    assert min(found) > -1e-9


@pytest.mark.parametrize("loss", DATA, ids=str)
def test_every_loss_is_close_to_its_fit_of_all_rows(loss):
    x, y = DATA[loss]
    places = np.argsort(x[:, 0])
    x, y = x[places], y[places]
    fit = fitted(loss, x, y, memory=600)
    assert -1e-12 < lost(loss, fit, x, y) < 3 * fit.inference.gap.upper
    assert fit.inference.gap.upper < 2e-3 * objective(loss, fit.weights(), x, y)


@pytest.mark.parametrize("loss", DATA, ids=str)
@pytest.mark.parametrize("rows", [500, 700, 3_000])
@pytest.mark.parametrize("layout", ["C", "F", ""])
def test_same_bits_however_the_rows_are_cut_and_after_saving(loss, rows, layout):
    x, y = (each[:rows] for each in DATA[loss])
    width = x.shape[1]
    x = x.copy(layout) if layout else Coded([*x.T.copy()], np.arange(width), [], [], width)
    whole = fitted(loss, x, y, memory=640)
    expected = whole.weights()
    for chunk in (1, 17, 641) if rows < 1_000 else (97, 640):
        found = fitted(loss, x, y, chunk=chunk, memory=640).weights()
        np.testing.assert_array_equal(found, expected)
    first = fitted(loss, x[: rows - 333], y[: rows - 333], memory=640)
    first.weights()  # asking changes nothing
    plain = first.plain()
    plain["blocks"]["rows"] = np.ascontiguousarray(plain["blocks"]["rows"])  # as files have them
    second = GlmFit(loss, width, memory=640).restored(plain, "fit")
    np.testing.assert_array_equal(second.weights(), first.weights())
    second.add(x[rows - 333 :], y[rows - 333 :])
    np.testing.assert_array_equal(second.weights(), expected)
    assert second.samples == rows
    assert second.inference.gap == whole.inference.gap


@pytest.mark.parametrize(("memory", "most"), [(640, 2e-5), (4_000, 1e-12)])
def test_weights_of_rows_are_repetitions_and_those_of_weight_0_are_not_there(memory, most):
    x, y = (each[:3_000] for each in DATA[Logistic()])
    counts = np.random.default_rng(1).integers(0, 3, size=len(y))
    used, (fit, other) = counts > 0, (GlmFit(Logistic(), 5, memory=memory) for _ in range(2))
    fit.add(x, y, counts)
    assert fit.samples == 3_000
    other.add(x[used], y[used], counts[used].astype(float))
    np.testing.assert_array_equal(fit.weights(), other.weights())
    assert lost(Logistic(), fit, np.repeat(x, counts, axis=0), np.repeat(y, counts)) < most


@pytest.mark.parametrize("loss", DATA, ids=str)
@pytest.mark.parametrize("constants", [(), (3.0, 4.0)])
def test_constant_columns_leave_the_best_constant_prediction(constants, loss):
    """Catches an equation for β that rounding makes singular, and a bound that is not a number."""
    y = DATA[loss][1]
    x = np.tile(constants, (6_000, 1))
    fit = fitted(loss, x, y, memory=500)
    estimate, upper = fit.inference.gap
    assert 0.0 <= estimate <= upper < 0.01
    assert lost(loss, fit, x, y) <= upper + 1e-12


@pytest.mark.parametrize("loss", DATA, ids=str)
def test_a_rare_indicator_alone_is_fitted(loss):
    """Catches an error, a singular matrix, where the kept rows do not have it."""
    y = DATA[loss][1]
    x = (np.arange(6_000) % 2_000 == 1_999).astype(float)[:, None]
    found = fitted(loss, x, y, memory=500).weights()
    assert objective(loss, found, x, y) < objective(loss, 0.0 * found, x, y)


@pytest.mark.parametrize("loss", [Huber(1e9), Robust(2.0, 1.0)], ids=str)
def test_sums_are_all_that_a_quadratic_loss_needs(loss):
    """Catches control variates that lack one of target, prediction and constant."""
    x, y = DATA[Huber(0.7)]
    fit = fitted(loss, x, y, memory=500)
    best = np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y)[0]
    np.testing.assert_allclose(fit.weights()[0], best, atol=1e-6)
    assert 0.0 <= fit.inference.gap.estimate <= fit.inference.gap.upper < 1e-12


@pytest.mark.parametrize("shape", [-np.inf, -2.0])
def test_a_robust_fit_between_two_groups_goes_to_the_larger_one(shape):
    """Catches a search that stops where the curvature of all rows is negative."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4_000, 2))
    level = np.where(rng.random(4_000) < 0.55, 3.0, -3.0)
    y = x @ [1.0, -1.0] + level + 0.05 * rng.normal(size=4_000)
    for memory in (500, 4_000):
        found = fitted(Robust(shape, 0.05), x, y, memory=memory).weights()
        np.testing.assert_allclose(found, [[1.0, -1.0, 3.0]], atol=0.02)


@pytest.mark.parametrize("loss", DATA, ids=str)
@pytest.mark.parametrize(("early", "late"), [(1.0, 1e36), (1e-10, 1e74)])
def test_a_column_that_becomes_huge_does_not_lead_astray(early, late, loss):
    """Catches a search from old weights, or functions of old predictions, that are absurd."""
    x, y = DATA[loss]
    rows = np.random.default_rng(1).normal(size=(6_000, 1)) * np.repeat([[early], [late]], 3_000, 0)
    rows = np.column_stack([rows, x])
    fit = fitted(loss, rows, y, chunk=700, memory=500)
    assert lost(loss, fit, rows, y) < 3 * fit.inference.gap.upper < 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", DATA, ids=str)
def test_one_value_that_stands_for_a_missing_one_costs_its_column_alone(loss, seed):
    """Catches a fit that the mean of a column with a 1e36 in it throws off, with a gap of 0."""
    x, y = DATA[loss]
    rows = x.copy()
    rows[3_000, 0] = 1e36
    settings = {"chunk": 700, "memory": 500, "seed": seed}
    fit, others = (fitted(loss, each, y, **settings) for each in (rows, x[:, 1:]))
    assert fit.weights()[:, 0] == pytest.approx(0.0, abs=1e-30)
    lost = [objective(loss, f.weights()[:, -x.shape[1] :], x[:, 1:], y) for f in (fit, others)]
    assert lost[0] < lost[1] + 3 * max(fit.inference.gap.upper, others.inference.gap.upper)


@pytest.mark.parametrize("memory", [300, 4_000])
@pytest.mark.parametrize("other", [-1.0, 1.0])
def test_perfectly_separable_classes_do_not_run_away(memory, other):
    """Also where a class comes after the other, or never."""
    x = np.random.default_rng(0).normal(size=(3_000, 3))
    x = x[np.argsort(x[:, 0])]
    y = np.where(x[:, 0] > 0, 1.0, other)
    x[:, 0] += y
    margins = y * predictions(fitted(Logistic(), x, y, memory=memory).weights().ravel(), x)
    assert 0.0 < margins.min() <= np.median(margins) < 100.0


def test_separable_classes_predict_rows_that_were_not_seen():
    """Catches a fit without a ridge, whose log loss on other rows is 1.2 to scikit-learn's 0.08."""
    x, y = load_breast_cancer(return_X_y=True)
    y, out = 2.0 * y - 1.0, np.arange(len(y)) % 3 == 0
    fit = fitted(Logistic(), x[~out], y[~out])
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=1.0 / fit.ridge, tol=1e-9))
    wanted = theirs.fit(x[~out], y[~out]).decision_function(x[out])
    found = predictions(fit.weights().ravel(), x[out])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    assert Logistic().value(found, y[out]).mean() < 0.1
    shuffled = np.random.default_rng(0).permutation(np.flatnonzero(~out))
    again = fitted(Logistic(), x[shuffled], y[shuffled]).weights()
    np.testing.assert_allclose(again, fit.weights(), rtol=1e-4, atol=1e-6)
    free = fitted(Logistic(), x[~out], y[~out], l2=0.0)  # whoever gives a penalty gets no other
    assert free.ridge == 0.0
    assert (y[~out] * predictions(free.weights().ravel(), x[~out]) > 0.0).all()


def texts(kinds, rows, shares):
    """Return indicators of texts and a number, none of which tells the class."""
    rng = np.random.default_rng(0)
    text = rng.integers(kinds, size=rows)
    x = np.c_[text[:, None] == np.arange(kinds), rng.normal(size=rows)].astype(float)
    return x, rng.choice(len(shares), size=rows, p=shares).astype(float)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        load_iris(return_X_y=True),
        texts(100, 1500, [0.8, 0.2]),
        texts(12, 600, [0.35, 0.3, 0.2, 0.1, 0.05]),
    ],
    ids=["one class apart", "a rare text of one class", "a text that one class lacks"],
)
def test_classes_that_can_be_separated_in_part_get_a_ridge(x, y):
    """Catches a criterion over all weights or all classes together: some log-odds run away."""
    out = np.arange(len(y)) % 3 == 0
    fit = fitted(Softmax(int(y.max()) + 1), x[~out], y[~out].astype(float))
    scaled = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8, max_iter=10_000))
    theirs = log_loss(y[out], scaled.fit(x[~out], y[~out]).predict_proba(x[out]))
    z = predictions(fit.weights().ravel(), x[out], fit.settings.loss.outputs)
    assert fit.settings.loss.value(z, y[out]).mean() < theirs
    assert fit.ridge > 0.0
    usual = fitted(Softmax(2), x[:, -1:], (y > 0).astype(float))
    assert (usual.ridge > 0.0) == (x.shape[1] == 4)


def test_the_ridge_has_the_largest_evidence():
    """Catches intercepts among the weights that rows determine, and classes counted twice."""
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    fit = fitted(Logistic(), x, 2.0 * y - 1.0)
    tau = fit.ridge / SHARE_OF_RIDGE
    full, weights = np.c_[x, np.ones(len(x))], fitted(Logistic(), x, 2.0 * y - 1.0, l2=tau / len(x))
    weights = weights.weights()[0]
    p = 1.0 / (1.0 + np.exp(-full @ weights))
    hessian = (full.T * (p * (1.0 - p))) @ full + np.diag([tau] * 30 + [0.0])
    determined = 30 - tau * np.trace(np.linalg.inv(hessian)[:30, :30])
    assert tau * np.sum(weights[:30] ** 2) == pytest.approx(determined, rel=0.05)
    # The weights of two outputs are ±w/2, so that the same penalty has twice the factor.
    assert fitted(Softmax(2), x, y).ridge == pytest.approx(2.0 * fit.ridge, rel=0.1)


def test_conjugate_gradients_find_the_minimum_of_the_factored_hessian(monkeypatch):
    x, y = DATA[Softmax(3)]
    direct = fitted(Softmax(3), x, y)
    errors = direct.inference.bse
    for name in ("MAX_DIRECT", "MAX_DIRECT_STEP"):
        monkeypatch.setattr(f"mixfree.linear.glm.newton.{name}", 0)
    fit = fitted(Softmax(3), x, y)
    values = [objective(Softmax(3), each.weights(), x, y) for each in (direct, fit)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    np.testing.assert_allclose(fit.inference.bse, errors, rtol=2e-3)


def test_many_classes_take_few_products_to_scikit_learns_minimum(monkeypatch):
    """Catches one preconditioner for all classes: ten times as many products."""
    x, y = classes(6_000, 9, 60)
    products, product = [], Point._product
    monkeypatch.setattr(Point, "_product", lambda *given: products.append(1) or product(*given))
    fit = fitted(Softmax(60), x, y)
    ours = objective(Softmax(60), fit.weights(), x, y)
    assert fit.ridge == 0.0 and 0 < len(products) < 150, len(products)
    theirs = LogisticRegression(C=np.inf, tol=1e-7, max_iter=10_000).fit(x, y)
    other = np.column_stack([theirs.coef_, theirs.intercept_])
    assert ours <= objective(Softmax(60), other, x, y) * (1.0 + 1e-9)


def test_sums_beyond_the_memory_without_an_intercept():
    x, y = logistic(3_000)
    x = x + 2.0
    some = fitted(Logistic(), x, y, memory=600, intercept=False)
    assert lost(Logistic(), some, x, y) < 5e-5


def test_a_fit_is_not_merged_with_another_kind():
    x, y = DATA[Logistic()]
    one = fitted(Logistic(), x, y, memory=600)
    with pytest.raises(ValueError, match="cannot merge"):
        one.merge(fitted(Logistic(), x[::2], y[::2], memory=600, l2=1.0))
    with pytest.raises(ValueError, match="keeps 700 rows"):
        one.merge(fitted(Logistic(), x[::2], y[::2], memory=700))


@pytest.mark.parametrize("rows", [0, 500, 2_000])
def test_a_refused_call_changes_nothing(rows):
    x, y = DATA[Logistic()]
    fit = GlmFit(Logistic(), 5, memory=640)
    fit.add(x[:rows], y[:rows])
    before, bad = fit.plain(), x[2_000:5_000].copy()
    bad[-1, 2] = np.nan
    with pytest.raises(ValueError, match="rows must be finite"):
        fit.successor().add(bad, y[2_000:5_000])
    for targets in (np.zeros(3_000), np.full(3_000, np.nan), np.ones(2_999)):
        with pytest.raises(ValueError, match="targets"):
            fit.successor().add(x[2_000:5_000], targets)
    np.testing.assert_equal(fit.plain(), before)


def test_a_state_that_does_not_fit_is_refused_whole():
    x, y = DATA[Logistic()]
    fit = fitted(Logistic(), x, y, memory=640)
    state = fit.plain()
    rows, targets, *others = state["sample"]["columns"]
    broken = [
        {**state, "sample": {**state["sample"], "columns": [rows, 0.0 * targets, *others]}},
        {**state, "sample": {**state["sample"], "keys": state["sample"]["keys"].astype(float)}},
    ]
    for each in broken:
        with pytest.raises(ValueError, match=r"state|targets"):
            fit.restored(each, "fit")


@pytest.mark.parametrize("options", [{"l2": -1.0}, {"seed": -1}, {"loss": Squared()}], ids=str)
def test_wrong_arguments_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        GlmFit(**{"loss": Logistic(), "columns": 3} | options)


def test_memory_in_rows_and_bytes():
    assert rows_of("1 mb", 10, 1) == int(1e6 / (8 * 14 * 1.125))
    with pytest.raises(ValueError, match=r"give memory='54MB'"):
        rows_of("32MB", 1_400, 1)
    assert rows_of("54MB", 1_400, 1) >= 4_203
    for wrong in (0, 3, 2.5, "12", "MB", "-1MB", "1KB", None):
        with pytest.raises(ValueError, match="memory"):
            rows_of(wrong, 10, 1)


def test_the_bound_of_the_gap_holds_in_most_runs():
    """A bound without the finite sample's error in β, or of the wrong tail, holds less often."""
    held, ratio = [], []
    for seed in range(60):
        x, y = logistic(4_000, 4, ORDERS[seed % 4], seed)
        fit = fitted(Logistic(), x, y, memory=512, seed=seed)
        held.append(lost(Logistic(), fit, x, y) <= fit.inference.gap.upper)
        ratio.append(lost(Logistic(), fit, x, y) / fit.inference.gap.estimate)
    # Of 60 runs with 95 % each, 52 or fewer hold with probability 0.01.
    assert sum(held) >= 52
    assert 0.6 < np.mean(ratio) < 1.6


def test_few_rows_that_a_plane_separates_are_known_to_say_little():
    """A fit that trusts the kept rows' own losses has a bound of 0.000 and loses 0.1 to 1."""
    held = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(6_000, 30))
        y = np.sign(x @ rng.normal(size=30) + rng.logistic(size=6_000))
        whole, fit = (fitted(Logistic(), x, y, memory=rows, seed=seed) for rows in (6_000, 200))
        best = objective(Logistic(), whole.weights(), x, y)
        lost = objective(Logistic(), fit.weights(), x, y) - best
        assert fit.inference.gap.estimate < fit.inference.gap.upper
        held.append(lost < fit.inference.gap.upper)
    # Of 20 runs with 95 % each, 16 or fewer hold with probability 0.016.
    assert sum(held) >= 17


@pytest.mark.parametrize("memory", [700, 8_000])
def test_standard_errors_of_independent_rows_are_the_usual_ones(memory):
    """Scores of the last batch only, or at weights of their time, would be far off."""
    x, y = classes(6_000, 3)
    fit = fitted(Softmax(3), x, y, memory=memory)
    assert 32 <= len(fit.inference._scores) < 64
    z = predictions(fit.weights().ravel(), x, 3)
    full = np.column_stack([x, np.ones(len(x))])
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    blocks = [
        [(full.T * (p[:, j] * ((j == k) - p[:, k]))) @ full for k in range(3)] for j in range(3)
    ]
    # All outputs moved alike change nothing: eigenvalues of 0, but for rounding.
    inverse = np.linalg.pinv(np.block(blocks), rcond=1e-10, hermitian=True)
    ratio = fit.inference.bse / np.sqrt(np.diag(inverse)).reshape(3, -1)
    # 40 batches: each error is known to about 1/√80 = 11 %.
    np.testing.assert_allclose(ratio, 1.0, rtol=0.4)
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.12)


def test_a_class_of_one_row_does_not_take_long(monkeypatch):
    """Catches two kinds of curvature that pass a failed step to each other: 6,034 evaluations."""
    evaluations, at = [], Objective.at
    monkeypatch.setattr(Objective, "at", lambda *given: evaluations.append(1) or at(*given))
    x, y = np.arange(12_001.0)[:, None], np.append(np.tile([0.0, 1.0], 6_000), 2.0)
    slopes, levels = fitted(Softmax(3), x, y).weights().T
    assert 0 < len(evaluations) < 1_000
    shares = np.exp(levels + slopes * x.mean())
    np.testing.assert_allclose(shares / shares.sum(), [0.5, 0.5, 1 / 12_001], atol=1e-3)
