import pytest

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
    full = Settings(5_000_000, 5, p=(0.5,))
    text = Report([], {}, claims, ["Hm."]).too_small(full).markdown()
    assert "| it works | 0.5 of it | not decided |" in text
    assert "| it flies | 2.0 of it | not decided |" in text
    size = "--samples 5000000 --seeds 5 --p 0.5"
    assert f"Too small to judge the claims: the full size is {size}.\n\nHm." in text
    assert Report([], {}).too_small(full).notes == ()


@pytest.mark.parametrize("less", [{"samples": 99}, {"seeds": 2}, {"p": (0.1,)}])
def test_fewer_samples_seeds_or_p_are_too_small(less):
    full = Settings(100, 3, ("mag", "sgd"), (0.5, 0.1))
    assert not full.changed(**less).covers(full)
    assert full.changed(samples=101, seeds=4, p=(0.5, 0.2, 0.1), methods=("mag",)).covers(full)
