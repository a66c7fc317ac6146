import pytest

from mixfree.reproduce import EXPERIMENTS, experiment
from mixfree.reproduce.engine.report import Claim, Report, Table
from mixfree.reproduce.engine.settings import Settings


def test_a_report_in_markdown():
    report = Report(
        [Table("Gaps", ["method", "gap"], [("mag", 1)])],
        {},
        [Claim("it works", "yes", None)],
        ["Hm."],
    )
    text = report.markdown()
    assert "| mag | 1 |" in text and "| it works | yes | not decided |" in text
    assert text.endswith("Hm.\n")


def test_a_small_report_has_no_verdicts():
    claims = [Claim("it works", "0.5 of it", True), Claim("it flies", "2.0 of it", False)]
    full = Settings(5_000_000, 5, p=(0.5,), first_seed=1000)
    text = Report([], {}, claims, ["Hm."]).judged(full.changed(seeds=4), full).markdown()
    assert "| it works | 0.5 of it | not decided |" in text
    assert "| it flies | 2.0 of it | not decided |" in text
    size = "--samples 5000000 --seeds 5 --p 0.5 --first-seed 1000"
    said = f"Too small to judge the claims: the full size is {size}.\n\nSeeds 1000 to 1003.\n\nHm."
    assert said in text
    assert Report([], {}).judged(full.changed(seeds=4), full).notes == ["Seeds 1000 to 1003."]


@pytest.mark.parametrize("first", [0, 999])
def test_a_report_on_development_seeds_has_no_verdicts(first):
    """However large it is, and also where an experiment names such seeds as its full size."""
    claims = [Claim("it works", "0.5 of it", True)]
    fresh = Settings(100, 3, first_seed=1000)
    seen = fresh.changed(first_seed=first)
    assert Report([], {}, claims).judged(fresh, fresh).claims == claims
    for full in (fresh, seen):
        found = Report([], {}, claims).judged(seen, full)
        assert [claim.holds for claim in found.claims] == [None]
        assert "No verdicts on seeds below 1000" in found.notes[0]
        assert found.notes[1] == f"Seeds {first} to {first + 2}."


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_judged_on_fresh_seeds_and_tried_on_others(name):
    assert experiment(name).FULL.first_seed >= 1000
    assert experiment(name).QUICK.first_seed + experiment(name).QUICK.seeds <= 1000


@pytest.mark.parametrize("less", [{"samples": 99}, {"seeds": 2}, {"p": (0.1,)}])
def test_fewer_samples_seeds_or_p_are_too_small(less):
    full = Settings(100, 3, ("mag", "sgd"), (0.5, 0.1))
    assert not full.changed(**less).covers(full)
    assert full.changed(samples=101, seeds=4, p=(0.5, 0.2, 0.1), methods=("mag",)).covers(full)
