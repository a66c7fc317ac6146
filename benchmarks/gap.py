"""The optimality gap of exact fits that keep 256 of 4,000 rows: true value and bound."""

import numpy as np

from benchmarks.intervals import at_least, autoregressive, percent
from mixfree.base.figures import log_log, new_figure
from mixfree.base.terminal import Table
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Huber, Logistic, Robust, Softmax
from mixfree.reproduce.engine.report import Report, Settings
from mixfree.reproduce.engine.rows import gather, where
from mixfree.reproduce.engine.statistics import bootstrap

# Seeds below 1,000 were used to develop the bound.
FULL = Settings(samples=4_000, seeds=600, first_seed=9000)
QUICK = FULL.changed(seeds=6, first_seed=0)
LOSSES = {
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
LEAST = 0.93  # least share of runs in which the bound must hold


def cells(settings):
    """Return one cell per loss and seed; the seed determines the order of the rows."""
    return [
        {"loss": loss, "rows": settings.samples, "seed": seed}
        for loss in LOSSES
        for seed in settings.seed_numbers
    ]


def stream(name, order, rows, seed):
    """Draw rows and targets of a linear model, with Student's t noise (2 degrees) for numbers."""
    rng = np.random.default_rng((seed, list(LOSSES).index(name), ORDERS.index(order), rows))
    columns = WIDE if name.endswith("wide") else COLUMNS
    x = autoregressive(rng, rows, 0.95 if order.startswith("AR") else 0.0, columns)
    z = x @ rng.normal(size=(columns, LOSSES[name].outputs))
    z *= STEEP * np.sqrt(COLUMNS / columns) if columns > COLUMNS else 1.0
    if name.startswith("softmax"):
        y = np.argmax(z + rng.gumbel(size=z.shape), axis=1).astype(np.float64)
    elif name.startswith("logistic"):
        y = np.where(z[:, 0] + rng.logistic(size=rows) > 0.0, 1.0, -1.0)
    else:
        y = z[:, 0] + rng.standard_t(2, size=rows)
    places = np.argsort(y, kind="stable") if order.startswith("sorted") else np.arange(rows)
    return x[places], y[places]


def measure(cell):
    """Return one row: the loss above the fit of all rows, its estimate and its bound."""
    seed = cell["seed"]
    order = ORDERS[seed % len(ORDERS)]
    x, y = stream(cell["loss"], order, cell["rows"], seed)
    few, whole = (
        ExactLearner(LOSSES[cell["loss"]], x.shape[1], l2=None, memory=memory, seed=seed)
        for memory in (KEPT, cell["rows"])
    )
    few.advance(x, y)
    whole.advance(x, y)
    lost = float(np.mean(few.losses(x, y)) - np.mean(whole.losses(x, y)))
    found = {"lost": lost, "estimate": few.gap.estimate, "upper": few.gap.upper}
    held = float(lost <= few.gap.upper)
    return [{"loss": cell["loss"], "order": order, "seed": seed, **found, "held": held}]


def report(rows, settings):
    """Report how often the bound held, by loss and by order."""
    orders = gather(rows, "loss", "order", "held")
    by_loss = {loss: where(rows, loss=loss) for loss in orders}
    held = {loss: bootstrap([row["held"] for row in own]) for loss, own in by_loss.items()}
    lines = [
        (
            loss,
            *(f"{100.0 * np.mean(orders[loss].get(order, [np.nan])):.0f}" for order in ORDERS),
            percent(held[loss]),
            f"{np.mean([row['lost'] / row['estimate'] for row in own]):.2f}",
        )
        for loss, own in by_loss.items()
    ]
    title = (
        f"Runs in per cent in which the bound of the optimality gap held: {settings.seeds} streams "
        f"of {settings.samples:,} rows per loss, {KEPT} rows kept, {COLUMNS} columns ({WIDE}: wide)"
    )
    table = Table(title, ["loss", *ORDERS, "all", "lost over estimate"], lines)
    text = f"the 95 % bound holds in at least {100.0 * LEAST:.0f} % of the runs"
    return Report([table], {"gap": draw(rows)}, [at_least(text, held, LEAST)])


def draw(rows):
    """Plot the bound against the true gap, one dot per stream; below the line the bound fails."""
    drawn, axes = new_figure()
    least = 1e-3 * max(row["upper"] for row in rows)
    for loss in dict.fromkeys(row["loss"] for row in rows):
        dots = np.array([(row["lost"], row["upper"]) for row in where(rows, loss=loss)])
        style = {"marker": "o", "linestyle": "none", "markersize": 3}
        axes.plot(*np.maximum(dots.T, least), label=loss, **style)
    most = max(max(axes.get_xlim()), max(axes.get_ylim()))
    axes.plot([least, most], [least, most], color="black", linewidth=0.8)
    log_log(axes, "lost to the fit of all rows", "95 % bound of it, above the line where it holds")
    axes.legend(frameon=False)
    return drawn
