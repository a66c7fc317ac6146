"""The optimality gap of exact fits that keep 256 of 4,000 rows: true value and bound."""

from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import line_style, log_log, new_figure
from mixfree.linear.exact.learner import ExactLearner
from mixfree.linear.losses import Huber, Logistic, Loss, Robust, Softmax
from mixfree.reproduce.engine.report import Claim, Figure, Report, Row, Table, gather, where
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import estimate
from mixfree.reproduce.intervals.streams import autoregressive

__all__ = ["FULL", "QUICK", "cells", "measure", "report", "stream"]

# Seeds below 1,000 were used to develop the bound.
FULL = Settings(samples=4_000, seeds=300, first_seed=1000)
QUICK = FULL.changed(seeds=6, first_seed=0)

LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "softmax": Softmax(3),
    "huber": Huber(),
    "robust": Robust(),
    # The kept rows are separable, so their losses say nothing about those of the other rows.
    "logistic, wide": Logistic(),
    "softmax, wide": Softmax(3),
}
ORDERS = ("random", "sorted by target", "AR(1), 0.95")
COLUMNS, WIDE, KEPT = 5, 30, 256
STEEP = 3.0  # factor on the log-odds of wide rows
TOGETHER = 10  # seeds per cell
LEAST = 0.93  # least share of runs in which the bound must hold


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per loss and ten seeds; the seed determines the order of the rows."""
    end = settings.first_seed + settings.seeds
    return [
        {
            "loss": loss,
            "rows": settings.samples,
            "seeds": list(range(seed, min(seed + TOGETHER, end))),
        }
        for loss in LOSSES
        for seed in range(settings.first_seed, end, TOGETHER)
    ]


def columns_of(name: str) -> int:
    """Return the number of features of the streams for a loss."""
    return WIDE if name.endswith("wide") else COLUMNS


def stream(name: str, order: str, rows: int, seed: int) -> tuple[Array, Array]:
    """Draw rows and targets of a linear model, with Student's t noise (2 degrees) for numbers."""
    rng = np.random.default_rng((seed, list(LOSSES).index(name), ORDERS.index(order), rows))
    columns = columns_of(name)
    x = autoregressive(rng, rows, 0.95 if order.startswith("AR") else 0.0, columns)
    z = x @ rng.normal(size=(columns, LOSSES[name].outputs))
    z *= STEEP * np.sqrt(COLUMNS / columns) if columns > COLUMNS else 1.0
    if name.startswith("softmax"):
        y = np.argmax(z + rng.gumbel(size=z.shape), axis=1).astype(np.float64)
    elif name.startswith("logistic"):
        y = np.where(z[:, 0] + rng.logistic(size=rows) > 0.0, 1.0, -1.0)
    else:
        y = z[:, 0] + rng.standard_t(2, size=rows)
    if order.startswith("sorted"):
        places = np.argsort(y, kind="stable")
        return x[places], y[places]
    return x, y


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row per stream: the loss above the fit of all rows, its estimate and its bound."""
    found = []
    for seed in cell["seeds"]:
        order = ORDERS[seed % len(ORDERS)]
        x, y = stream(cell["loss"], order, cell["rows"], seed)
        few, whole = (
            ExactLearner(LOSSES[cell["loss"]], x.shape[1], l2=None, memory=memory, seed=seed)
            for memory in (KEPT, cell["rows"])
        )
        few.advance(x, y)
        whole.advance(x, y)
        lost = float(np.mean(few.losses(x, y)) - np.mean(whole.losses(x, y)))
        gap = few.gap
        found.append(
            {
                "loss": cell["loss"],
                "order": order,
                "seed": seed,
                "lost": lost,
                "estimate": gap.estimate,
                "upper": gap.upper,
                "held": float(lost <= gap.upper),
            }
        )
    return found


def report(rows: list[Row], settings: Settings) -> Report:
    """Report how often the bound held, by loss and by order."""
    orders = gather(rows, "loss", "order", "held")
    by_loss = {loss: where(rows, loss=loss) for loss in orders}
    held = {loss: [row["held"] for row in found] for loss, found in by_loss.items()}
    lines = [
        (
            loss,
            *(f"{100.0 * np.mean(orders[loss].get(order, [np.nan])):.0f}" for order in ORDERS),
            estimate(held[loss]).percent(),
            f"{np.mean([row['lost'] / row['estimate'] for row in found]):.2f}",
        )
        for loss, found in by_loss.items()
    ]
    worst = min(held, key=lambda loss: float(np.mean(held[loss])))
    title = (
        f"Runs in per cent in which the bound of the optimality gap held: {settings.seeds} streams "
        f"of {settings.samples:,} rows per loss, {KEPT} rows kept, {COLUMNS} columns ({WIDE}: wide)"
    )
    head = ["loss", *ORDERS, "all", "lost over estimate"]
    return Report(
        [Table(title, head, lines)],
        {"gap": _figure(rows)},
        [
            Claim(
                f"the 95 % bound holds in at least {100.0 * LEAST:.0f} % of the runs",
                f"at least {100.0 * np.mean(held[worst]):.1f} % ({worst})",
                all(np.mean(values) >= LEAST for values in held.values()),
            )
        ],
    )


def _figure(rows: list[Row]) -> Figure:
    """Plot the bound against the true gap, one dot per stream; below the line the bound fails."""
    drawn, axes = new_figure()
    least = 1e-3 * max(row["upper"] for row in rows)
    for index, loss in enumerate(dict.fromkeys(row["loss"] for row in rows)):
        dots = [(row["lost"], row["upper"]) for row in where(rows, loss=loss)]
        lost, upper = np.maximum(np.array(dots).T, least)
        color = line_style(index)["color"]
        axes.plot(lost, upper, linestyle="none", marker="o", markersize=3, color=color, label=loss)
    most = max(max(axes.get_xlim()), max(axes.get_ylim()))
    axes.plot([least, most], [least, most], color="black", linewidth=0.8)
    log_log(axes, "lost to the fit of all rows", "95 % bound of it, above the line where it holds")
    axes.legend(frameon=False)
    return drawn
