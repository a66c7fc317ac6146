"""Reports against rows made up to have a known answer."""

import numpy as np
import pytest

from mixfree.reproduce.engine.report import Settings
from mixfree.reproduce.engine.statistics import bootstrap
from mixfree.reproduce.paper import ablation, fig1, fig2, table1
from mixfree.reproduce.paper.problem import mixing_time, problem_of
from tests.reproduce.helpers import cross, lines_of


def power_laws(exponents, settings):
    """Errors with the exponents in the samples and in the mixing time of each method."""
    lengths = [10**k for k in (5, 6, 7) if 10**k <= settings.samples]
    rows = cross(method=exponents, p=settings.p, seed=range(settings.seeds), samples=[9, *lengths])
    for row in rows:
        in_samples, in_mixing = exponents[row["method"]]
        noise = np.random.default_rng([row["seed"], len(row["method"])]).lognormal(0, 0.02)
        error = row["samples"] ** in_samples * mixing_time(row["p"]) ** in_mixing * noise
        # Before the chain has mixed, all errors are alike.
        row |= {"steps": row["samples"] // 4, "suboptimality": error if row["samples"] > 9 else 1.0}
    return rows


def test_table1_recovers_exponents_and_judges_them():
    truth = {"sgd": (-0.5, 1.4), "mag": (-0.8, 0.3), "adagrad": (-1.0, 1.0)}
    settings = Settings(10**7, 5, tuple(truth), (1e-1, 1e-2, 1e-3))
    found = table1.report(power_laws(truth, settings), settings)
    given, fitted = ({line["method"]: line for line in lines_of(each)} for each in found.tables)
    for method, stated in (("mag", ("-0.5", "+0.5")), ("adagrad", ("", ""))):
        assert (given[method]["stated in T"], given[method]["stated in τ"]) == stated
        assert given[method]["given τ"] == "no"
        assert given[method]["samples per step, p=0.1"] == "4.00"
    same = "-0.80 (-0.80 to -0.80)"
    assert {fitted["mag"][f"T, p={p:g}"] for p in settings.p} == {same}
    assert fitted["mag"]["in τ"].startswith("+0.3")
    assert fitted["mag"]["in τ ≥ 10"].startswith("+0.3")
    verdicts = {claim.text: claim.holds for claim in found.claims}
    assert verdicts["mag: fitted exponent in T, at every p, at most -0.5"] is True
    assert verdicts["mag: fitted exponent in τ at most +0.5"] is True
    assert verdicts["sgd: fitted exponent in τ at most +1"] is False


def test_table1_is_fitted_from_100_mixing_times_on():
    """Flat before, T^−½ after: a fit that begins earlier, or later, has another exponent."""
    p, seeds, grid = 1e-2, 3, 10.0 ** np.arange(2, 7.01, 0.25)
    begin = 100 * mixing_time(p)
    settings = Settings(10**7, seeds, ("mag",), (p,))

    def exponent(kink):
        rows = cross(method=["mag"], p=[p], seed=range(seeds), samples=grid)
        rows = [{**r, "steps": 1, "suboptimality": max(r["samples"], kink) ** -0.6} for r in rows]
        return table1.report(rows, settings).tables[1].lines[0][1].split()[0]

    assert exponent(begin) == "-0.60"
    # A kink inside the range of the fit shows, and by as much as it does over that range.
    kept = grid[grid >= begin]
    expected = np.polyfit(np.log(kept), -0.6 * np.log(np.maximum(kept, 30 * begin)), 1)[0]
    assert exponent(30 * begin) == f"{expected:+.2f}" != "-0.60"


def final_rows(gaps, p=1e-4, factors=(0.9, 1.0, 1.1)):
    return [
        {"method": method, "seed": seed, "p": p, "samples": samples, "suboptimality": error}
        for method, gap in gaps.items()
        for seed, factor in enumerate(factors)
        for samples, error in ((10, 1.0), (100, gap * factor))
    ]


@pytest.mark.parametrize(
    ("mag", "noise", "holds"),
    [
        (1e-3, (0.9, 1.0, 1.1), [True] * 4),
        (1.5e-2, (0.9, 1.0, 1.1), [False, False, True, True]),
        (9e-3, (0.45, 1.0, 1.65), [None, None, True, True]),
        (1e-3, (1.0,), [None] * 4),
    ],
)
def test_fig1_judges_the_papers_claims_by_intervals(mag, noise, holds):
    others = {"sgd": 3e-2, "adagrad": 1e-2, "sgd-mlmc": 2e-2}
    rows = final_rows(others, factors=(0.9, 1.0, 1.1)[: len(noise)])
    rows += final_rows({"mag": mag}, factors=noise)
    settings = Settings(100, len(noise), (*others, "mag"), (1e-4,))
    found = fig1.report(rows, settings)
    assert [claim.holds for claim in found.claims] == holds
    assert "inf" not in found.markdown()
    assert list(found.figures) == ["fig1"]


def test_fig2_judges_the_papers_claims():
    quick = {"sgd": 1e-5, "adagrad": 1e-5, "sgd-mlmc": 1e-3, "mag": 1e-4}
    slow = {"sgd": 3e-2, "adagrad": 1e-2, "sgd-mlmc": 2e-2, "mag": 1e-3}
    settings = Settings(100, 3, tuple(quick), (0.5, 1e-4))
    rows = final_rows(quick, 0.5) + final_rows(slow)
    found = fig2.report(rows, settings)
    assert all(claim.holds for claim in found.claims)
    for line in lines_of(found.tables[0]):
        limits = [problem_of(seed).limit(float(line["p"])) / 100 for seed in range(3)]
        assert str(line["limit"]) == str(bootstrap(limits))
    worse = final_rows(quick, 0.5) + final_rows({**slow, "mag": 5e-2})
    failed = [claim.text for claim in fig2.report(worse, settings).claims if not claim.holds]
    assert len(failed) == 2  # the first, and against SGD-MLMC


def test_adagrad_is_brought_to_mags_steps():
    cell = {"seed": 0, "p": 0.01, "samples": 20_000, "study": "steps", "setting": None}
    mag, slowed = (
        ablation.measure({**cell, "method": method})[0]
        for method in ("mag", "adagrad with MAG's steps")
    )
    assert slowed["step"] == pytest.approx(mag["step"], rel=0.01)


@pytest.mark.parametrize(("slowed", "holds"), [(1.2e-3, True), (8e-3, False), (3.2e-3, None)])
def test_the_share_of_the_steps_is_decided_by_its_interval(slowed, holds):
    """MAG is ten times better than AdaGrad: half of the logarithm is a factor of √10."""
    gaps = {"mag": 1e-3, "adagrad": 1e-2, ablation.SLOWED: slowed}
    rows = cross(study=["alpha"], method=gaps, setting=[1.0], suboptimality=[1.0] * 10)
    rows += [
        {"study": "steps", "method": method, "setting": None, "suboptimality": gap * noise}
        for method, gap in gaps.items()
        for noise in np.random.default_rng(len(method)).lognormal(0.0, 0.1, 10)
    ]
    claim = ablation._claims(rows)[0]
    assert claim.text.startswith("most of MAG's gain") and claim.holds is holds, claim
