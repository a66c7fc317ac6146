"""The paper's experiments and this project's own, each run by ``mixfree reproduce NAME``.

``engine/`` runs any experiment, ``paper/`` has the paper's problem with its figures and table. An
experiment is a module with the names below, and one line of the table here.

``FULL``, ``QUICK``
    Two :class:`~mixfree.reproduce.engine.report.Settings`: the real size, and one that takes
    a few seconds. ``methods`` or ``p`` are empty if they do not apply.
``cells(settings)``
    The work, as a list of dicts of JSON values. Each cell is measured independently, in any
    process and any order.
``measure(cell)``
    The rows of one cell, as a list of dicts of JSON values, which depend on the cell alone.
``report(rows, settings)``
    A :class:`~mixfree.reproduce.engine.report.Report`: tables, claims with verdicts, figures.

The engine does the rest: processes and clusters, progress, resuming after an interruption, and
the files of results.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from mixfree.reproduce.engine.report import Report, Settings
    from mixfree.reproduce.engine.rows import Row

__all__ = ["EXPERIMENTS", "Experiment", "experiment"]

_TABLE = {  # name: module, summary
    "fig1": ("paper.fig1", "Figure 1: suboptimality against samples observed, at p = 1e-4"),
    "fig2": ("paper.fig2", "Figure 2: final suboptimality against the mixing time"),
    "table1": ("paper.table1", "Table 1: measured exponents in the samples and the mixing time"),
    "theory": (
        "theory.experiment",
        "Lemma 3.1, Eq. (7) and Theorem 3.3: what is bounded, measured",
    ),
    "ablation": ("paper.ablation", "Not in the paper: is MAG's gain less bias or smaller steps?"),
    "limit": ("limit", "Every method's error over the least possible one, by mixing time"),
    "lower-bound": ("lower_bound", "A problem on which the rates of Table 1 separate"),
    "nonconvex": ("nonconvex", "Non-convex problems: gradient norms along runs of MAG"),
    "td": ("td", "TD learning on chains with known fixed points, against projected TD"),
}
EXPERIMENTS = {name: summary for name, (_, summary) in _TABLE.items()}


class Experiment(Protocol):
    """The interface of an experiment's module."""

    FULL: Settings
    QUICK: Settings

    def cells(self, settings: Settings) -> list[dict[str, Any]]:
        """Divide the work into independent cells."""

    def measure(self, cell: dict[str, Any]) -> list[Row]:
        """Measure one cell."""

    def report(self, rows: list[Row], settings: Settings) -> Report:
        """Summarise the rows of all cells."""


def experiment(name: str) -> Experiment:
    """Import the experiment of that name.

    Examples
    --------
    >>> experiment("fig1").FULL.seeds
    30
    """
    if name not in _TABLE:
        raise ValueError(f"experiment must be one of {', '.join(_TABLE)}, not {name!r}")
    return cast(Experiment, import_module(f"mixfree.reproduce.{_TABLE[name][0]}"))
