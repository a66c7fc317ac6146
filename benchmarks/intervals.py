"""Coverage of 95 % intervals from batch means and two standard kinds, on AR(1) streams.

Features and noise are AR(1) processes of variance 1, with the same correlation ρ of neighbours.
The best weights are those that minimise the expected loss.
"""

import math
from functools import cache

import numpy as np
from scipy import optimize, signal, special

from mixfree.base.figures import new_figure
from mixfree.base.table import Table
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Logistic, Squared
from mixfree.reproduce.engine.report import DOTS, Claim, Report, curves, gather
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.engine.statistics import bootstrap

# Seeds below 1,000 were used to develop the intervals.
FULL = Settings(samples=20_000, seeds=300, first_seed=2000)
QUICK = FULL.changed(seeds=5, first_seed=0)
RHOS = (0.0, 0.5, 0.9, 0.98)
SHORTER = 10  # factor by which the short streams are shorter
KEPT = 2048  # rows of the memory that holds only a part of the long streams
NORMAL = 1.959963984540054  # 97.5 % quantile
OURS, OURS_WITH_FEW = "batch means", "batch means, 2,048 rows kept"
HAC, INDEPENDENT = "Newey–West", "rows as independent"
KINDS = (INDEPENDENT, HAC, OURS, OURS_WITH_FEW)
SLOW = 0.9  # largest ρ for which coverage must be close to nominal
SLOPES, LEVEL = np.array([1.0, -0.5, 0.0]), 0.5
BENT = 0.5  # coefficient of the square of the first feature in the quadratic model
MODELS = ("linear", "quadratic", "logit", "probit")


def autoregressive(rng, rows, rho, columns=1):
    """Draw stationary AR(1) processes of variance 1, one per column."""
    noise = rng.standard_normal((rows, columns))
    noise[1:] *= math.sqrt(1.0 - rho * rho)
    return signal.lfilter([1.0], [1.0, -rho], noise, axis=0)


def loss_of(model):
    return Squared() if model in ("linear", "quadratic") else Logistic()


def stream(model, rows, rho, seed):
    """Draw rows and targets: a linear function plus noise, with a square of the first feature in
    ``quadratic``, and its sign with logistic or normal noise in ``logit`` and ``probit``."""
    rng = np.random.default_rng((seed, MODELS.index(model), rows, round(1000 * rho)))
    x = autoregressive(rng, rows, rho, len(SLOPES))
    noise = autoregressive(rng, rows, rho)[:, 0]
    line = x @ SLOPES + LEVEL
    if loss_of(model) == Squared():
        return x, line + (model == "quadratic") * BENT * x[:, 0] ** 2 + noise
    if model == "logit":
        noise = special.log_ndtr(noise) - special.log_ndtr(-noise)
    return x, np.where(line + noise > 0.0, 1.0, -1.0)


@cache
def best_weights(model):
    """Compute the weights of least expected loss, the intercept last.

    For normal features the slopes are proportional to those of the truth, whatever the link; two
    numbers are left for ``probit``, where the expected gradient is 0 by quadrature.
    """
    if model != "probit":
        return (*SLOPES.tolist(), LEVEL + BENT * (model == "quadratic"))
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    along = float(np.linalg.norm(SLOPES)) * nodes
    chance = special.ndtr(along + LEVEL)

    def gradient(found):
        rest = weights * (special.expit(found[0] * along + found[1]) - chance)
        return [float(rest @ along), float(rest.sum())]

    factor, level = optimize.root(gradient, [1.6, 1.6 * LEVEL], tol=1e-12).x
    return (*(factor * SLOPES).tolist(), float(level))


def sandwich_errors(loss, weights, x, y, lags=0):
    """Compute Newey and West's standard errors; without lags, White's."""
    z = np.column_stack([x, np.ones(len(x))])
    line = z @ weights
    bend = np.ones(len(y)) if isinstance(loss, Squared) else 0.25 / np.cosh(0.5 * line) ** 2
    score = loss.derivative(line, y)[:, None] * z
    middle = score.T @ score
    for lag in range(1, lags + 1):
        product = score[lag:].T @ score[:-lag]
        middle += (1.0 - lag / (lags + 1.0)) * (product + product.T)
    inverse = np.linalg.inv((z * bend[:, None]).T @ z)
    return np.sqrt(np.diag(inverse @ middle @ inverse))


def cells(settings):
    """Return one cell per model, ρ, length and seed."""
    return [
        {"model": model, "rho": rho, "rows": rows, "seed": seed}
        for model in MODELS
        for rho in RHOS
        for rows in (settings.samples // SHORTER, settings.samples)
        for seed in settings.seed_numbers
    ]


def measure(cell):
    """Return one row per kind of interval: the share of weights covered."""
    truth = np.array(best_weights(cell["model"]))
    found = intervals(cell["model"], *stream(*(cell[k] for k in ("model", "rows", "rho", "seed"))))
    return [
        {
            **cell,
            "method": method,
            "covered": float(np.mean(np.abs(weights - truth) <= half)),
            "half": float(np.mean(half)),
            "warned": warned,
        }
        for method, weights, half, warned in found
    ]


def intervals(model, x, y):
    """Return kinds of intervals: name, weights, half-widths, and whether a remark warns of them."""
    loss = loss_of(model)

    def fit(**options):
        learner = ExactLearner(loss, x.shape[1], l2=None, **options)
        learner.advance(x, y)
        weights = learner.weights[0]
        return weights, learner.conf_int()[0, :, 1] - weights, bool(learner.remark)

    ours = fit()
    usual = int(4.0 * (len(y) / 100.0) ** (2.0 / 9.0))
    found = [
        (OURS, *ours),
        (HAC, ours[0], NORMAL * sandwich_errors(loss, ours[0], x, y, usual), False),
        (INDEPENDENT, ours[0], NORMAL * sandwich_errors(loss, ours[0], x, y), False),
    ]
    if isinstance(loss, Logistic) and len(y) > 2 * KEPT:
        found.append((OURS_WITH_FEW, *fit(memory=KEPT)))
    return found


def percent(share):
    """Format a share with its interval, in per cent."""
    ends = f" ({100.0 * share.low:.1f} to {100.0 * share.high:.1f})"
    return f"{100.0 * share.value:.1f}" + (ends if share.high < math.inf else "")


def at_least(text, shares, limit):
    """Claim that shares are above a limit: as for a value below one, with the signs changed."""
    worst = min(shares, key=lambda name: shares[name].value)
    measured = f"at least {percent(shares[worst])} % ({worst})"
    return Claim.below(text, {name: -v for name, v in shares.items()}, -limit, measured=measured)


def report(rows, settings):
    """Make tables, figure and claims; the longest streams are judged."""
    found, warned = (
        {
            cell: {method: bootstrap(values) for method, values in group.items()}
            for cell, group in gather(rows, ("model", "rho", "rows"), "method", value).items()
        }
        for value in ("covered", "warned")
    )
    lengths = sorted({row["rows"] for row in rows})
    tables = [table(found, warned, length, settings.seeds) for length in lengths]
    return Report(
        tables,
        {"intervals": draw(rows, lengths)},
        claims(found, warned, settings.samples),
        [
            "Coverage is the share of weights whose interval holds the weight of the least "
            "expected loss, intercept included, with its 95 % interval over streams.",
            "Features and noise are AR(1) with ρ. quadratic and probit are fitted by a linear and "
            "a logistic model, which are not right about them.",
            f"{INDEPENDENT}: White's sandwich. {HAC}: 4(T/100)^(2/9) lags. All kinds but "
            f"'{OURS_WITH_FEW}' are around the same weights.",
        ],
    )


def table(found, warned, length, seeds):
    here = {cell: group for cell, group in found.items() if cell[2] == length}
    names = [name for name in KINDS if any(name in group for group in here.values())]
    lines = [
        (
            cell[0],
            f"{cell[1]:g}",
            *(percent(group[name]) if name in group else "" for name in names),
            f"{100.0 * warned[cell][OURS].value:.0f}",
        )
        for cell, group in here.items()
    ]
    title = f"Coverage of 95 % intervals in per cent, {length:,} rows, {seeds} streams"
    return Table(title, ["model", "ρ", *names, "streams with a warning"], lines)


def claims(found, warned, longest):
    """Judge coverage on the longest streams, and the warnings on shorter ones."""

    def ours(slow):
        return {
            f"{model}, ρ = {rho:g}" + (", few rows kept" if name == OURS_WITH_FEW else ""): value
            for (model, rho, rows), group in found.items()
            for name, value in group.items()
            if rows == longest and (rho > SLOW) == slow and name in (OURS, OURS_WITH_FEW)
        }

    short = {
        f"{model}, ρ = {rho:g}, coverage {percent(group[OURS])} %": warned[model, rho, rows][OURS]
        for (model, rho, rows), group in found.items()
        if rows < longest and group[OURS].value < 0.9
    }
    text = "shorter streams: where coverage is below 90 %, 80 % of the streams have a warning"
    fast = ours(slow=False)
    most = max(fast, key=lambda name: fast[name].value)
    return [
        at_least(f"{longest:,} rows, ρ ≤ {SLOW}: coverage of {OURS} is at least 92 %", fast, 0.92),
        Claim.below(
            f"{longest:,} rows, ρ ≤ {SLOW}: at most 97 %",
            fast,
            0.97,
            measured=f"at most {percent(fast[most])} % ({most})",
        ),
        at_least(f"{longest:,} rows, ρ above: at least 90 %", ours(slow=True), 0.9),
        at_least(text, short, 0.8) if short else Claim(text, "never below 90 %", True),
    ]


def draw(rows, lengths):
    models, rhos = MODELS, sorted({row["rho"] for row in rows})
    size = {"width": 2.6 * len(models) + 2.0, "height": 2.5 * len(lengths)}
    figure, axes = new_figure(len(lengths), len(models), **size, sharex=True, sharey=True)
    for line, length in zip(axes, lengths, strict=True):
        for place, model in zip(line, models, strict=True):
            mine = [
                {**row, "place": rhos.index(row["rho"]), "coverage": 100.0 * row["covered"]}
                for row in rows
                if (row["model"], row["rows"]) == (model, length)
            ]
            curves(place, mine, "method", "place", "coverage", **DOTS)
            place.axhline(95.0, color="black", linewidth=0.8, zorder=0)
            place.set_ylim(0.0, 102.0)
            place.set_title(f"{model}, {length:,} rows", fontsize="medium")
            place.set_xticks(range(len(rhos)), [f"{rho:g}" for rho in rhos])
        line[0].set_ylabel("coverage, %")
    for place in axes[-1]:
        place.set_xlabel("ρ")
    legend = max(axes.flat, key=lambda each: len(each.lines))
    figure.legend(*legend.get_legend_handles_labels(), frameon=False, loc="outside right upper")
    return figure
