"""The paper's figures at full length: every claim about them must come out."""

import pytest

from mixfree.reproduce import experiment


@pytest.mark.parametrize(
    ("name", "change"),
    [("fig1", {}), ("fig2", {"seeds": 3, "p": (0.5, 1e-2, 1e-3, 1e-4)})],
)
def test_every_claim_holds(name, change):
    chosen = experiment(name)
    settings = chosen.FULL.changed(**change)
    rows = [row for cell in chosen.cells(settings) for row in chosen.measure(cell)]
    claims = chosen.report(rows, settings).claims
    assert len(claims) == 4
    for claim in claims:
        assert claim.holds, claim
