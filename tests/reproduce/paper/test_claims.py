"""The paper's figures at a fifth of their length: every claim about them must come out.

At the full length, on all seeds, the claims are judged by ``mixfree reproduce``.
"""

import pytest

from mixfree.reproduce import experiment


@pytest.mark.parametrize(
    ("name", "change"),
    [("fig1", {"seeds": 5}), ("fig2", {"seeds": 5, "p": (0.5, 1e-2, 1e-4)})],
)
def test_every_claim_holds(name, change):
    chosen = experiment(name)
    settings = chosen.FULL.changed(samples=1_000_000, first_seed=0, **change)
    rows = [row for cell in chosen.cells(settings) for row in chosen.measure(cell)]
    claims = chosen.report(rows, settings).claims
    assert len(claims) == 4
    for claim in claims:
        assert claim.holds, claim
