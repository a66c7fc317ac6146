"""The TD experiment: its processes, and a report from rows made up to have a known answer."""

import numpy as np
import pytest

from mixfree.gradients import MLMC
from mixfree.reproduce import td
from mixfree.reproduce.engine.report import Settings
from mixfree.reproduce.td import BASELINE, OURS, boyan, reversed_streak, sticky
from mixfree.reproduce.theory import bounds
from mixfree.steps import AdaGradNorm
from tests.reproduce.helpers import cross, directions, lines_of


def test_the_processes_are_those_of_their_papers():
    for n in (4, 64):
        process = reversed_streak(n)
        assert process.chain.mixing_time() == n - 1
        np.testing.assert_allclose(process.stationary[:3], [0.5, 0.25, 0.125])
    for p in (0.5, 1e-3):  # with one answer, which the features can represent
        process = sticky(p)
        np.testing.assert_allclose(process.theta_star, [0.8, -0.6], rtol=1e-9)
        assert process.value_error(process.theta_star) == pytest.approx(0.0, abs=1e-18)
    process = boyan()  # undiscounted values are minus twice the state
    V = np.linalg.solve(np.eye(12) - process.P, process.r)
    np.testing.assert_allclose(V, -2.0 * np.arange(12, 0, -1))
    np.testing.assert_allclose(process.features @ [-24.0, -16.0, -8.0, 0.0], V)


@pytest.mark.parametrize("compared", [True, False])
def test_measured_rows_are_those_of_learners_on_one_trajectory(compared, monkeypatch):
    """However the trajectory is cut: here into pieces much shorter than the horizons."""
    monkeypatch.setattr(td, "PIECE", 700)
    cell = {"chain": "Boyan", "parameter": 0, "seed": 4, "samples": 10_000, "compared": compared}
    rows = td.measure(cell)
    process = boyan()
    assert {row["samples"] for row in rows} == {1000, 3162, 10_000}
    monkeypatch.undo()
    stops = sorted({1000, 3162, 10_000, *range(700, 10_000, 700)})
    pieces = [*process.pieces(np.diff([0, *stops]).tolist(), seed=4)]
    path = [np.concatenate(parts)[:3162] for parts in zip(*pieces, strict=True)]
    scale = process.error(np.zeros(4))
    radius = 2.0 * float(np.linalg.norm(process.theta_star))
    for method, settings in td.methods(process).items():
        mine = [r["error"] for r in rows if (r["method"], r["samples"]) == (method, 3162)]
        assert bool(mine) == ((method in (OURS, BASELINE)) == compared)
        if mine:
            given = {**settings, "horizon": 3162} if "horizon" in settings else settings
            learner = td.TDLearner(process.features, 0.9, radius, seed=4, **given)
            learner.update_many(*path)
            assert mine == [pytest.approx(process.error(learner.average) / scale)]


def test_mag_is_the_papers_and_has_all_levels():
    """Catches five levels, and a step size other than that of Eq. (15)."""
    process = boyan()
    opt = td.TDLearner(process.features, 0.9, 3.0, **td.methods(process)[OURS]).optimizer
    assert (opt.gradient, type(opt.step)) == (MLMC(levels=None), AdaGradNorm)
    assert opt.step.alpha == pytest.approx(2.0**0.5 * 3.0)


def test_theorem_5_2_rests_on_a_regret_that_steps_too_short_have_not():
    """Σ g_t·(θ* − θ_t) ≤ 2√2·R√Σ‖g_t‖² in a run of MAG, and not in one that hardly moves."""
    process = sticky(0.05)
    radius = float(np.linalg.norm(process.theta_star))
    path = process.simulate(16_000, seed=2)
    for alpha, holds in (({}, True), ({"alpha": 1e-9}, False)):
        options = td.methods(process)[OURS] | alpha
        opt = td.TDLearner(process.features, process.gamma, radius, seed=2, **options).optimizer
        run = directions(
            opt, lambda theta, z: -process.semi_gradient(theta, *z), zip(*path, strict=True)
        )
        regret = squares = largest = 0.0
        for theta, g in run:
            regret += float(g @ (theta - process.theta_star))
            squares += float(g @ g)
            largest = max(largest, regret / bounds.regret(2.0 * radius, squares))
        assert (largest <= 1.0) == holds, largest


PROCESSES = {("reversed streak", 16): 15, ("reversed streak", 64): 63, ("sticky", 0.05): 7,
             ("sticky", 5e-4): 693, ("Boyan", 0): 30}  # fmt: skip


def made_up(in_samples, in_mixing):
    return [
        {**row, "chain": chain, "parameter": parameter, "mixing_time": time,
         "error": (1 + row["seed"] / 10) * row["samples"] ** in_samples * time ** exponent}
        for (chain, parameter), time in PROCESSES.items()
        for row in cross(method=in_mixing, seed=range(3), samples=(10**4, 10**5, 10**6))
        for exponent in [in_mixing[row["method"]]]
        if row["samples"] < 10**6 or row["method"] in (OURS, BASELINE)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("in_samples", "mag", "holds"),
    [(-0.6, 0.2, [True] * 6), (-0.3, 0.6, [False] * 6)],
)
def test_report_recovers_exponents_and_judges_them(in_samples, mag, holds):
    rows = made_up(in_samples, {OURS: mag, BASELINE: 0.4, "other": 0.1})
    found = td.report(rows, Settings(10**6, 3, p=(0.05, 5e-4)))
    assert [claim.holds for claim in found.claims] == holds
    errors, last, slopes, growth = found.tables
    assert "after 100,000 transitions" in errors.title
    assert "after 1,000,000 transitions" in last.title
    first = lines_of(slopes)[0]
    exact = lambda value: f"{value:+.2f} ({value:+.2f} to {value:+.2f})"  # noqa: E731
    assert first[OURS] == first["other"] == exact(in_samples)
    for samples, other in (("100,000", exact(0.1)), ("1,000,000", "")):
        (row,) = (
            line
            for line in lines_of(growth)
            if (line["family"], line["transitions"]) == ("sticky", samples)
        )
        assert row[OURS] == exact(mag)
        assert (row[BASELINE], row["other"]) == (exact(0.4), other)
    assert set(found.figures) == {"td-samples", "td-mixing-time"}


def test_the_growth_is_judged_at_the_longest_horizon():
    """An exponent that is above the baseline's only there fails."""
    rows = made_up(-0.5, {OURS: 0.2, BASELINE: 0.4})
    for row in rows:
        if row["method"] == OURS and row["samples"] == 10**6:
            row["error"] *= row["mixing_time"] ** 0.4
    claims = td.report(rows, Settings(10**6, 3, p=(0.05, 5e-4))).claims
    assert [claim.holds for claim in claims[1:5]] == [False] * 4
