"""The TD experiment: its processes, and a report from rows made up to have a known answer."""

import numpy as np
import pytest

from mixfree.experiments import td
from mixfree.experiments.settings import Settings
from mixfree.experiments.td_processes import boyan, reversed_streak, sticky


def test_reversed_streak_mixes_in_its_length():
    for n in (4, 16, 64):
        process = reversed_streak(n)
        assert process.chain.mixing_time() == n - 1
        np.testing.assert_allclose(process.stationary[:3], [0.5, 0.25, 0.125])


def test_sticky_has_one_answer_for_every_p():
    for p in (0.5, 1e-3):
        process = sticky(p)
        np.testing.assert_allclose(process.theta_star, [0.8, -0.6], rtol=1e-9)
        assert process.value_error(process.theta_star) == pytest.approx(0.0, abs=1e-18)


def test_boyan_undiscounted_values_are_minus_twice_the_state():
    process = boyan()
    V = np.linalg.solve(np.eye(12) - process.P, process.r)
    np.testing.assert_allclose(V, -2.0 * np.arange(12, 0, -1))
    np.testing.assert_allclose(process.features @ [-24.0, -16.0, -8.0, 0.0], V)


def test_measured_rows_are_those_of_a_learner():
    cell = {"chain": "sticky", "parameter": 0.05, "seed": 4, "samples": 10_000}
    rows = td.measure(cell)
    assert {row["samples"] for row in rows} == {1000, 3162, 10_000}
    process = sticky(0.05)
    path = process.simulate(10_000, seed=4)
    scale = process.error(np.zeros(2))
    for method, settings in (
        ("MAG", {"method": "mag", "levels": td.LEVELS}),
        (td.BASELINE, {"method": "projected-td", "horizon": 3162}),
    ):
        learner = td.TDLearner(process.features, 0.9, 2.0, seed=4, **settings)
        learner.update_many(*(part[:3162] for part in path))
        row = next(r for r in rows if r["method"] == method and r["samples"] == 3162)
        assert row["error"] == pytest.approx(process.error(learner.average) / scale)


def made_up(in_samples, in_mixing):
    return [
        {
            "chain": chain,
            "parameter": parameter,
            "mixing_time": time,
            "method": method,
            "seed": seed,
            "samples": samples,
            "error": (1 + seed / 10) * samples**in_samples * time ** in_mixing[method],
        }
        for chain, parameter, time in (
            ("reversed streak", 16, 15),
            ("reversed streak", 64, 63),
            ("sticky", 0.05, 7),
            ("sticky", 5e-4, 693),
            ("Boyan", 0, 30),
        )
        for method in in_mixing
        for seed in range(3)
        for samples in (10**4, 10**5, 10**6)
    ]


@pytest.mark.parametrize(
    ("in_samples", "mag", "holds"),
    [(-0.5, 0.2, [True, True, True, True]), (-0.3, 0.6, [False, False, False, False])],
)
def test_report_recovers_exponents_and_judges_them(in_samples, mag, holds):
    rows = made_up(in_samples, {"MAG": mag, td.BASELINE: 0.4})
    found = td.report(rows, Settings(10**6, 3, p=(0.05, 5e-4)))
    assert [claim.holds for claim in found.claims] == holds
    slopes, growth = found.tables[1], found.tables[2]
    assert slopes.lines[0][1] == f"{in_samples:.2f} ± 0.00"
    assert growth.lines[1][1:] == (f"{mag:.2f} ± 0.00", "0.40 ± 0.00")
    assert set(found.figures) == {"td-samples", "td-mixing-time"}


def test_one_p_and_few_samples_will_do():
    settings = Settings(400, 2, p=(0.1,))
    rows = [row for cell in td.cells(settings) for row in td.measure(cell)]
    found = td.report(rows, settings)
    assert [line[0] for line in found.tables[2].lines] == ["reversed streak"]
    assert {row["samples"] for row in rows} == {40, 126, 400}
