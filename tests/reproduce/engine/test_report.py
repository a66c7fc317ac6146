"""Verdicts: an interval decides, on full runs and fresh seeds only."""

import json
from pathlib import Path

import pytest

from benchmarks import gap, intervals, ladder, sensitivity
from mixfree.reproduce import EXPERIMENTS, experiment
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.statistics import Interval

BENCHMARKS = {"gap": gap, "intervals": intervals, "ladder": ladder, "sensitivity": sensitivity}
DATA = Path(__file__).parents[3] / "docs" / "data"
FULL = Settings(100, 5, ("mag", "sgd"), (0.5, 0.1), first_seed=1000)
CLAIMS = [Claim("it works", "0.5 of it", True), Claim("it flies", "2.0 of it", False)]
YES, NO, OPEN = Interval(-2.0, -3.0, -1.5), Interval(0.0, -0.5, 0.5), Interval(-1.0, -2.0, 0.0)


@pytest.mark.parametrize(
    ("found", "holds", "measured"),
    [
        (YES, True, "-2.00 (-3.00 to -1.50)"),
        ({"a": YES, "b": OPEN}, None, "-1.00 (-2.00 to +0.00) (b)"),
        ({"a": OPEN, "b": NO}, False, "+0.00 (-0.50 to +0.50) (b)"),
        ({"a": YES, "b": Interval(*[float("nan")] * 3)}, None, "-2.00 (-3.00 to -1.50) (a)"),
        ({}, None, "not measured"),
    ],
)
def test_a_claim_about_several_holds_if_all_intervals_are_below(found, holds, measured):
    assert Claim.below("t", found, -1.0) == Claim("t", measured, holds)


@pytest.mark.parametrize(
    "less", [{"samples": 99}, {"seeds": 2}, {"p": (0.1,)}, {"first_seed": 999}]
)
def test_small_runs_and_seeds_of_development_have_no_verdicts(less):
    larger = FULL.changed(samples=101, seeds=6, p=(0.5, 0.2, 0.1), methods=("mag",))
    judged = Report([], {}, CLAIMS).qualified(larger, FULL)
    assert judged.claims == CLAIMS
    assert "| it works | 0.5 of it | holds |\n| it flies | 2.0 of it | fails |" in judged.markdown()
    settings = FULL.changed(**less)
    found = Report([], {}, CLAIMS, ["Hm."]).qualified(settings, FULL)
    assert [line[-1] for line in found.all_tables()[0].lines] == ["not decided"] * 2
    seeds = settings.seed_numbers
    why, *others = found.notes
    assert others == [f"Seeds {seeds[0]} to {seeds[-1]}.", "Hm."]
    assert why.startswith(f"No verdicts: they need {FULL.options()}, or more")


@pytest.mark.parametrize("name", [*EXPERIMENTS, *BENCHMARKS])
def test_every_experiment_is_judged_on_fresh_seeds_and_published_as_it_runs(name):
    """Catches tables of other seeds or sizes than those that the documented command runs."""
    chosen = BENCHMARKS.get(name) or experiment(name)
    record = json.loads((DATA / name / "measured.json").read_bytes())
    assert record["command"].endswith(f" {name} {chosen.FULL.options()}")
    assert record["seeds"] == [*chosen.FULL.seed_numbers][:: chosen.FULL.seeds - 1]
    assert record["versions"] and record["commit"] and "+" not in record["commit"]
    assert chosen.FULL.first_seed >= 1000
    assert chosen.QUICK.first_seed + chosen.QUICK.seeds <= 1000
    for settings in (chosen.QUICK, chosen.FULL):
        cells = [str(cell) for cell in chosen.cells(settings)]
        assert len(set(cells)) == len(cells)


def test_what_is_not_given_stays_and_what_does_not_apply_is_named():
    assert FULL.changed(samples=None, seeds=5) == FULL
    with pytest.raises(ValueError, match="samples must be a whole number of at least 32, not 31"):
        FULL.changed(samples=31)
    with pytest.raises(ValueError, match="`p` does not apply to this experiment"):
        Settings(1000, 2).changed(p=(0.5,))
