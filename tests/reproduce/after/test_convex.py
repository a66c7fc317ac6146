"""The experiment on acceleration without strong convexity: a short run, and made-up rows."""

from dataclasses import replace

import numpy as np
import pytest

from mixfree.reproduce.after import convex


def gaps(method, noise, most, p=0.1, seed=3):
    cell = {"part": "", "noise": noise, "method": method, "p": p, "seed": seed, "most": most}
    return [row["gap"] for row in sorted(convex.measure(cell), key=lambda row: row["steps"])]


def test_acceleration_beats_descent_and_noise_needs_shorter_steps():
    """Catches steps without momentum, K ignored, and a start or a minimum elsewhere."""
    fast, slow = (gaps(method, convex.FAINT, 400) for method in (convex.EXACT, convex.DESCENT))
    assert fast[-1] < 0.1 * slow[-1] < slow[0] < 0.5 * convex.CURVATURE.sum()
    noisy, growing = (gaps(method, convex.LOUD, 400) for method in (convex.KNOWN, convex.GROWING))
    assert 10 * noisy[-1] < growing[-1]


@pytest.mark.parametrize(
    ("method", "batch"), [(convex.KNOWN, 70), (convex.FIXED, 2), (convex.GROWING, 70)]
)
def test_batches(method, batch):
    """B is 2τ, where τ = 35 at p = 0.01; catches one τ for all p."""
    assert convex.make(method, 0.01, seed=0).gradient.batch == batch


@pytest.mark.parametrize(
    ("powers", "failing"),
    [
        ((-2.0, -0.5, 0.0), []),
        ((-1.0, -0.5, 0.0), [0]),
        ((-2.0, -0.2, 0.0), [2]),
        ((-2.0, -0.5, 0.5), [4]),
    ],
)
def test_verdicts(powers, failing):
    in_steps, with_noise, in_time = powers
    wrong = {convex.DESCENT: -1.0, convex.GROWING: 1.0, convex.FIXED: 0.6}
    right = {"little noise": in_steps, "noise": with_noise, "mixing time": in_time}
    settings = replace(convex.FULL, seeds=5)
    rows = []
    for cell in convex.cells(settings):
        power = wrong.get(cell["method"], right[cell["part"]])
        time, wobble = convex.mixing_time(cell["p"]), 1.0 + 0.01 * (cell["seed"] % 5)
        ends = (cell["most"] // 8, cell["most"])
        for steps in ends if cell["part"] != "mixing time" else ends[1:]:
            x = time if cell["part"] == "mixing time" else steps
            rows.append({**cell, "mixing_time": time, "steps": steps, "gap": x**power * wobble})
    found = [claim.verdict for claim in convex.report(rows, settings).claims]
    assert list(np.flatnonzero(np.array(found) != "holds")) == failing
