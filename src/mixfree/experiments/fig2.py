"""Figure 2: suboptimality of the last average iterate against the mixing time."""

from mixfree.experiments.fig1 import final
from mixfree.experiments.problem import mixing_time
from mixfree.experiments.report import CAVEAT, Claim, Report, Row, Table, curves
from mixfree.experiments.runs import PAPER_METHODS, measure_run, regression_cells
from mixfree.experiments.settings import Settings
from mixfree.figures import log_log, new_figure

FULL = Settings(
    samples=5_000_000, seeds=5, methods=PAPER_METHODS, p=(0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-5)
)
QUICK = FULL.changed(samples=500_000, seeds=3)

cells = regression_cells


def measure(cell: dict) -> list[Row]:
    """The last row of the run."""
    return measure_run(cell)[-1:]


def report(rows: list[Row], settings: Settings) -> Report:
    """One figure, and a table with a line a mixing time."""
    rows = [{**row, "mixing_time": mixing_time(row["p"])} for row in rows]
    figure, axes = new_figure()
    curves(axes, rows, "method", "mixing_time", "suboptimality", marker="o", markersize=4)
    log_log(axes, "exact mixing time", f"suboptimality after {settings.samples:,} samples")
    axes.legend(frameon=False)
    found = {p: final([row for row in rows if row["p"] == p]) for p in settings.p}
    table = Table(
        f"Suboptimality after {settings.samples:,} samples, {settings.seeds} seeds, 95 %",
        ["p", "mixing time", *settings.methods],
        [
            (f"{p:g}", f"{mixing_time(p):,}", *(found[p][name] for name in settings.methods))
            for p in settings.p
        ],
    )
    complete = set(PAPER_METHODS) <= set(settings.methods)
    mean = {p: {name: each.mean for name, each in at.items()} for p, at in found.items()}
    return Report([table], {"fig2": figure}, paper_claims(mean) if complete else [], [CAVEAT])


def paper_claims(mean: dict[float, dict[str, float]]) -> list[Claim]:
    """What the paper says of its Figure 2."""
    slow = [p for p in mean if p <= 1e-3]
    quick = [p for p in mean if p >= 1e-2]
    margin = {p: mean[p]["mag"] / min(v for k, v in mean[p].items() if k != "mag") for p in slow}
    over = {p: mean[p]["mag"] / mean[p]["adagrad"] for p in quick}
    mlmc = {p: mean[p]["mag"] / mean[p]["sgd-mlmc"] for p in mean}
    claims = [
        _ratios("MAG outperforms the others at large mixing times (p ≤ 1e-3)", margin, below=True),
        _ratios("MAG is worse than AdaGrad at small ones (p ≥ 0.01)", over, below=False),
        _ratios("MAG is better than SGD-MLMC at every one", mlmc, below=True),
    ]
    if {0.5, 1e-4} <= mean.keys():
        growth = {name: mean[1e-4][name] / mean[0.5][name] for name in ("mag", "adagrad", "sgd")}
        claims.append(
            Claim(
                "MAG degrades more gracefully (growth from p = 0.5 to 1e-4)",
                ", ".join(f"{name} ×{ratio:,.0f}" for name, ratio in growth.items()),
                growth["mag"] < min(growth["adagrad"], growth["sgd"]),
            )
        )
    return [claim for claim in claims if claim.measured]


def _ratios(text: str, ratios: dict[float, float], below: bool) -> Claim:
    measured = ", ".join(f"{ratio:.2f} at {p:g}" for p, ratio in ratios.items())
    return Claim(text, measured, all((ratio < 1.0) == below for ratio in ratios.values()))
