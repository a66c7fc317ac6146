"""The paper's experiments and this project's own, each from one command.

``mixfree reproduce NAME`` runs the experiment NAME. An experiment is one file here,
``NAME.py``, and one line in :data:`EXPERIMENTS`. The file has

``FULL``, ``QUICK``
    Two :class:`~mixfree.reproduce.settings.Settings`: the real size, and one of a few seconds.
    An empty ``methods`` or ``p`` says that the experiment has no such choice.
``cells(settings)``
    The work, as a list of dicts of plain values (what JSON can hold). Each is done on its own,
    in any process and order.
``measure(cell)``
    The rows of one cell, as a list of dicts of plain values. They depend on the cell alone;
    the rows of all cells have the same keys, which become the columns of the results.
``report(rows, settings)``
    A :class:`~mixfree.reproduce.report.Report`: tables, claims with their verdicts, figures.

The frame does the rest: options of the command, processes and clusters, progress, resuming
after an interruption, and the files of results.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from mixfree.reproduce.report import Report, Row
    from mixfree.reproduce.settings import Settings

EXPERIMENTS = {
    "fig1": "Figure 1: suboptimality against samples observed, at p = 1e-4",
    "fig2": "Figure 2: final suboptimality against the mixing time",
    "table1": "Table 1, measured: exponents in the samples and in the mixing time",
    "theory": "Every lemma and Theorem 3.3, measured beside its bound",
    "ablation": "Beyond the paper: less bias or smaller steps?",
    "nonconvex": "Non-convex problems: the gradient at the iterates of MAG",
    "td": "TD learning on chains with known fixed points, beside projected TD",
    "ladder": "The ladder against the best step in hindsight, on many streams",
}


class Experiment(Protocol):
    """What a file of this folder that is listed above has."""

    FULL: Settings
    QUICK: Settings

    def cells(self, settings: Settings) -> list[dict[str, Any]]:
        """The work."""

    def measure(self, cell: dict[str, Any]) -> list[Row]:
        """The rows of one cell."""

    def report(self, rows: list[Row], settings: Settings) -> Report:
        """What the rows say."""


def experiment(name: str) -> Experiment:
    """The experiment of that name.

    Examples
    --------
    >>> experiment("fig1").FULL.seeds
    5
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}, not {name!r}")
    return cast(Experiment, import_module(f"mixfree.reproduce.{name}"))
