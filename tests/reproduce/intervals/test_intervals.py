"""The experiment on intervals: its streams, the usual errors, and verdicts from made-up rows."""

import math

import numpy as np
import pytest

from mixfree.linear.losses import Logistic, Squared
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.intervals import experiment
from mixfree.reproduce.intervals.report import HAC, INDEPENDENT, OURS, OURS_WITH_FEW
from mixfree.reproduce.intervals.streams import (
    MODELS,
    autoregressive,
    best_weights,
    loss_of,
    stream,
)


@pytest.mark.parametrize("model", MODELS)
def test_the_expected_gradient_is_0_at_the_best_weights(model):
    """Weights of the truth itself are not the best of models that are not right about it."""
    x, y = stream(model, 400_000, 0.5, seed=0)
    z = np.c_[x, np.ones(len(x))]
    slope = loss_of(model).derivative(z @ best_weights(model), y)
    gradient = (slope[:, None] * z).reshape(400, 1000, 4).mean(axis=1)
    error = gradient.std(axis=0, ddof=1) / math.sqrt(400)
    assert (np.abs(gradient.mean(axis=0)) < 4.0 * error).all()
    if model in ("quadratic", "probit"):
        truth = np.array([1.0, -0.5, 0.0, 0.5])
        slope = loss_of(model).derivative(z @ truth, y)
        assert np.abs((slope[:, None] * z).mean(axis=0) / error).max() > 20.0


def test_processes_are_stationary_from_their_first_row():
    rng = np.random.default_rng(1)
    x = np.array([autoregressive(rng, 3, 0.9)[:, 0] for _ in range(20_000)])
    wanted = 0.9 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    np.testing.assert_allclose(x.T @ x / len(x), wanted, atol=4.0 * math.sqrt(2.0 / 20_000))


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_errors_of_newey_and_west_by_their_definition(loss):
    """Lags counted from one off, or weights of another kernel, give other sums."""
    x, y = stream("linear" if loss == Squared() else "logit", 300, 0.5, seed=2)
    weights = np.array([0.9, -0.4, 0.1, 0.3])
    z = np.c_[x, np.ones(300)]
    score = loss.derivative(z @ weights, y)[:, None] * z
    step = 1e-5
    bend = (loss.derivative(z @ weights + step, y) - loss.derivative(z @ weights - step, y)) / (
        2 * step
    )
    apart = np.abs(np.subtract.outer(np.arange(300), np.arange(300)))
    inverse = np.linalg.inv(z.T @ (z * bend[:, None]))
    for lags in (0, 5):
        kernel = np.maximum(1.0 - apart / (lags + 1.0), 0.0)
        wanted = np.sqrt(np.diag(inverse @ score.T @ kernel @ score @ inverse))
        found = experiment.sandwich_errors(loss, weights, x, y, lags)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_cells_cover_the_published_seeds_and_are_measured_alike():
    cells = experiment.cells(experiment.FULL)
    seeds = {seed for cell in cells for seed in cell["seeds"]}
    assert seeds == set(range(1000, 1300))
    assert len(cells) == 4 * 4 * 2 * 30
    cell = {"model": "logit", "rho": 0.9, "rows": 5000, "seeds": [3, 4]}
    rows = experiment.measure(cell)
    assert rows[4:] == experiment.measure({**cell, "seeds": [4]})
    assert [row["method"] for row in rows[:4]] == [OURS, HAC, INDEPENDENT, OURS_WITH_FEW]
    halves = {row["method"]: row["half"] for row in rows[:4]}
    assert halves[INDEPENDENT] < halves[HAC] < halves[OURS]


def made_up(coverage, warned):
    """``coverage`` by ρ; rows as independent always hold half."""
    return [
        {
            "model": model,
            "rho": rho,
            "rows": rows,
            "seed": seed,
            "method": method,
            "covered": (covered if method == OURS else 0.5) + 0.01 * (-1) ** seed,
            "half": 1.0,
            "warned": method == OURS and rows == 2000 and warned,
        }
        for model in ("linear", "logit")
        for rho, covered in coverage.items()
        for rows in (2000, 20_000)
        for seed in range(4)
        for method in (OURS, HAC, INDEPENDENT)
    ]


@pytest.mark.parametrize(
    ("coverage", "warned", "holds"),
    [
        ({0.0: 0.95, 0.9: 0.93, 0.98: 0.91}, False, [True, True, True]),
        ({0.0: 0.98, 0.9: 0.93, 0.98: 0.89}, True, [False, False, True]),
        ({0.0: 0.95, 0.9: 0.91, 0.98: 0.85}, False, [False, False, False]),
    ],
)
def test_report_judges_the_coverage(coverage, warned, holds):
    found = experiment.report(made_up(coverage, warned), Settings(20_000, 4))
    assert [claim.holds for claim in found.claims] == holds
    short, long = found.tables
    assert "2,000 rows" in short.title and "20,000 rows" in long.title
    first = dict(zip(short.head, short.lines[0], strict=True))
    assert first[OURS].startswith(f"{100 * coverage[0.0]:.1f} ± 1.8")
    assert first["streams with a warning"] == ("100" if warned else "0")
    assert set(found.figures) == {"intervals"}


def test_a_small_run_has_a_report():
    settings = Settings(400, 1)
    rows = [row for cell in experiment.cells(settings) for row in experiment.measure(cell)]
    assert len(experiment.report(rows, settings).tables) == 2
