"""Table 1, measured: exponents of suboptimality in the samples and in the mixing time."""

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.base.terminal import Table
from mixfree.core.methods import find_method
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, curves, gather, grid
from mixfree.reproduce.engine.statistics import Interval, exponent
from mixfree.reproduce.paper.problem import measure_run, mixing_time, regression_cells

# Exponents of T and of the mixing time in the paper's Table 1.
STATED = {"sgd": (-0.5, 1.0), "emd": (-0.5, 0.5), "sgd-dd": (-0.5, 0.5), "mag": (-0.5, 0.5)}
METHODS = ("sgd", "adagrad", "sgd-mlmc", "mag", "emd", "sgd-dd", "sgd-er", "sgd-rer", "minibatch")
SWITCHING = (1e-1, 1e-2, 1e-3, 1e-4)
FULL = Settings(samples=5_000_000, seeds=30, methods=METHODS, p=SWITCHING, first_seed=6000)
QUICK = FULL.changed(samples=200_000, seeds=2, p=SWITCHING[:-1], first_seed=0)
MIXED = 100  # number of mixing times after which the exponent in T is fitted
SLOW = 10  # least mixing time of a slow chain
IN_TIME, IN_SLOW = "in τ", f"in τ ≥ {SLOW}"

cells = regression_cells
measure = measure_run


def report(rows: list[Row], settings: Settings) -> Report:
    """Tabulate, per method, what it was given and its exponents beside the stated ones."""
    rows = [{**row, "mixing_time": mixing_time(row["p"])} for row in rows]
    by_method = {name: [r for r in rows if r["method"] == name] for name in settings.methods}
    fits = {name: _fits(of_method, settings) for name, of_method in by_method.items()}
    given = Table(
        f"{settings.samples:,} samples, {settings.seeds} seeds; τ: mixing time",
        ["method", "given τ", f"samples per step, p={max(settings.p):g}", "stated in T",
         "stated in τ"],
        [
            (name, "yes" if find_method(name).needs_mixing_time() else "no",
             f"{_samples_per_step(of_method):.2f}",
             *([f"{stated:+.1f}" for stated in STATED.get(name, [])] or ["", ""]))
            for name, of_method in by_method.items()
        ],
    )  # fmt: skip
    fitted = grid(
        "Fitted exponents of the mean suboptimality, 95 % by bootstrap",
        ["method"],
        {(name,): found for name, found in fits.items()},
        lambda found: found.text("+.2f"),
    )
    return Report(
        [given, fitted],
        {"table1": _figure(rows, settings)},
        [claim for name in STATED if name in fits for claim in _claims(name, fits[name])],
        [
            f"In T: fitted from {MIXED} mixing times on. In τ: at the last sample, over all mixing "
            f"times and over those of at least {SLOW}.",
            "The stated rates are upper bounds up to a constant, over all convex problems. An "
            "exponent fitted over a range of T on one quadratic can be better, and it can be "
            "worse where the bound is still far above the measurement.",
        ],
    )


def _fits(of_method: list[Row], settings: Settings) -> dict[str, Interval]:
    """Fit a method's exponents in T for each p, and in the mixing time at the end of its runs."""
    mixed = [row for row in of_method if row["samples"] >= MIXED * row["mixing_time"]]
    slow = [row for row in _last(of_method) if row["mixing_time"] >= SLOW]
    return {
        **{
            f"T, p={p:g}": exponent(
                [row for row in mixed if row["p"] == p], "samples", "suboptimality"
            )
            for p in settings.p
        },
        IN_TIME: exponent(_last(of_method), "mixing_time", "suboptimality"),
        IN_SLOW: exponent(slow, "mixing_time", "suboptimality"),
    }


def _last(rows: list[Row]) -> list[Row]:
    """Return the last row of every run."""
    return [
        max(run, key=lambda row: row["samples"])
        for runs in gather(rows, ("method", "p"), "seed").values()
        for run in runs.values()
    ]


def _samples_per_step(of_method: list[Row]) -> float:
    """Return the samples per step at the largest p, where methods given τ wait least."""
    last = max(of_method, key=lambda row: (row["p"], row["samples"]))
    return float(last["samples"] / last["steps"])


def _claims(name: str, fits: dict[str, Interval]) -> list[Claim]:
    """Claim the stated exponents: in T at every p, and twice in the mixing time."""
    in_samples = {at: fit for at, fit in fits.items() if at.startswith("T")}
    stated = STATED[name]
    return [
        Claim.below(f"{name}: fitted exponent {text} at most {limit:+g}", found, limit)
        for text, found, limit in (
            ("in T, at every p,", in_samples, stated[0]),
            (IN_TIME, fits[IN_TIME], stated[1]),
            (IN_SLOW, fits[IN_SLOW], stated[1]),
        )
    ]


def _figure(rows: list[Row], settings: Settings) -> Figure:
    figure, axes = new_figure(1, 2, width=10.0, sharey=True)
    slowest = min(settings.p)
    slow = [row for row in rows if row["p"] == slowest and row["samples"] >= 1000]
    curves(axes[0], slow, "method", "samples", "suboptimality", shade=False)
    log_log(axes[0], "samples observed", "suboptimality")
    curves(axes[1], _last(rows), "method", "mixing_time", "suboptimality", shade=False, **DOTS)
    log_log(axes[1], "exact mixing time")
    titles = (
        f"Error after n samples, p = {slowest:g}, lower is better",
        f"Error after {settings.samples:,} samples by mixing time",
    )
    for place, title in zip(axes, titles, strict=True):
        place.set_title(title, loc="left", fontsize="medium")
    label_ends(axes[1])
    return figure
