import re

import numpy as np
import pytest

from mixfree.reproduce.paper.demo import DEMO_METHODS, NAMES, run_demo
from mixfree.reproduce.paper.fig1 import at_end
from mixfree.reproduce.paper.problem import (
    PAPER_METHODS,
    ball_minimizer,
    exact_trace,
    problem_of,
    stream_of,
)
from tests.helpers import run_command as run


def test_mag_wins_on_the_slow_stream():
    rows, _ = run_demo(2_000_000, 3, PAPER_METHODS, first_seed=0)
    gap = {method: np.mean(values) for method, values in at_end(rows).items()}
    assert gap["mag"] < 0.3 * min(gap["adagrad"], gap["sgd-mlmc"], gap["sgd"])
    assert gap["sgd-mlmc"] < gap["sgd"]


def test_the_table_and_the_figure_show_every_method(tmp_path, capsys):
    """Catches a method that was run but left out of the report."""
    assert run("demo", "--out", str(tmp_path / "demo.png"), "--samples", "3000") == 0
    out = capsys.readouterr().out
    picture = (tmp_path / "demo.svg").read_text(encoding="utf-8")
    for method in DEMO_METHODS:
        assert re.search(rf"(?<![\w-]){method}(?![\w-])", out)
        assert f">{NAMES[method]}<" in picture
    assert str(tmp_path / "demo.png") in out.replace("\n", "")


def test_the_exact_fit_is_that_of_the_samples_so_far():
    """Catches rows weighted by the whole stream, and an unconstrained fit."""
    problem, order = problem_of(0), stream_of(0, 0.01, 700)
    counts, gaps = exact_trace(problem, order)
    rows, targets = problem.rows[order], problem.targets[order]
    fit = ball_minimizer(rows.T @ rows, targets @ rows, problem.radius)
    assert counts[-1] == 700
    assert gaps[-1] == pytest.approx(problem.suboptimality(fit[None])[0], rel=1e-6)
