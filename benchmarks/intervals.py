"""Coverage of 95 % intervals from batch means and of their rivals, on correlated streams.

Features and noise are stationary processes of variance 1, with the correlation ρ of neighbours:
AR(1); in *arma* ARMA(1, 1) with GARCH(1, 1) innovations, in the manner of Lazarus, Lewis, Stock and
Watson (2018); in *panel* effects of units of 50 rows, one unit after the other. The best weights
are those that minimise the expected loss. *watched* is the linear model, whose intervals are looked
at after every 100 rows from 1,000 to 50,000. *new rows* are streams that change, whose rows are
predicted with 90 % intervals, 50 at a time.
"""

import math
from functools import cache

import numpy as np
from scipy import fft, optimize, signal, special

from mixfree.base.figures import new_figure
from mixfree.base.terminal import Table
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Logistic, Poisson, Squared
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, curves, gather
from mixfree.reproduce.engine.statistics import bootstrap, ratio

# Seeds below 1,000 were used to develop the intervals.
FULL = Settings(samples=20_000, seeds=300, first_seed=9000)
QUICK = FULL.changed(seeds=5, first_seed=0)
RHOS = (0.0, 0.5, 0.9, 0.98)
SHARES = {0.03: 10, 0.1: 10, 1.0: 2}  # streams per seed, at most 10, by their relative length
KEPT = 2048  # rows of the memory that holds only a part of the long streams
NORMAL = 1.959963984540054  # 97.5 % quantile
OURS, OURS_WITH_FEW = "batch means", "batch means, 2,048 rows kept"
HAC, INDEPENDENT = "Newey–West, textbook", "rows as independent"
FIXED_B, EWC = "Newey–West, fixed b", "EWC"
KINDS = (INDEPENDENT, HAC, FIXED_B, EWC, OURS, OURS_WITH_FEW)
SLOW = 0.9  # largest ρ for which coverage must be close to nominal
SLOPES, LEVEL = np.array([1.0, -0.5, 0.0]), 0.5
BENT = 0.5  # coefficient of the square of the first feature in the quadratic model
UNIT = 50  # rows of a unit of the panel
MODELS = ("linear", "quadratic", "arma", "panel", "logit", "probit", "poisson")
LEAST_SQUARES = MODELS[:4]
POISSON = 0.4  # slopes and noise of the Poisson model, relative to the others
WATCHED, EVERY, FROM, TO = "watched", 100, 1000, 50_000
NEW, NEW_ROWS, CHUNK, LEVEL_OF_NEW = "new rows", 10_000, 50, 0.9
CHANGES = ("independent", "AR(1), 0.98", "regimes", "shifts", "drift", "none at first")
ALTERNATIVE = 3.0  # deviations of the estimate, by which the tested value is wrong


def autoregressive(rng, rows, rho, columns=1):
    """Draw stationary AR(1) processes of variance 1, one per column."""
    noise = rng.standard_normal((rows, columns))
    noise[1:] *= math.sqrt(1.0 - rho * rho)
    return signal.lfilter([1.0], [1.0, -rho], noise, axis=0)


def mixed(rng, rows, rho, columns=1):
    """Draw ARMA(1, 1) processes with GARCH(1, 1) innovations, about of variance 1."""
    normal = rng.standard_normal((rows, columns))
    for column in normal.T:
        variance = 1.0
        for place, value in enumerate(column.tolist()):
            column[place] = value * math.sqrt(variance)
            variance *= 0.85 + 0.1 * value * value
            variance += 0.05
    moved = signal.lfilter([1.0, 0.5], [1.0, -rho], normal, axis=0)
    return moved * math.sqrt((1.0 - rho * rho) / (1.25 + rho))


def by_unit(rng, rows, rho, columns=1):
    """Draw effects of units, a share ρ of the variance, and independent rest."""
    effects = rng.standard_normal((-(-rows // UNIT), columns)).repeat(UNIT, axis=0)[:rows]
    return math.sqrt(rho) * effects + math.sqrt(1.0 - rho) * rng.standard_normal((rows, columns))


def loss_of(model):
    if model in LEAST_SQUARES:
        return Squared()
    return Poisson() if model == "poisson" else Logistic()


def stream(model, rows, rho, seed):
    """Draw rows and targets: a linear function plus noise, with a square of the first feature in
    ``quadratic``; its sign with logistic or normal noise in ``logit`` and ``probit``; counts whose
    mean is the exponential of both in ``poisson``."""
    rng = np.random.default_rng((seed, MODELS.index(model), rows, round(1000 * rho)))
    draw = {"arma": mixed, "panel": by_unit}.get(model, autoregressive)
    x = draw(rng, rows, rho, len(SLOPES))
    noise = draw(rng, rows, rho)[:, 0]
    line = x @ SLOPES + LEVEL
    if model == "poisson":
        mean = np.exp(POISSON * (line + noise) - 0.5 * POISSON**2)
        return x, rng.poisson(mean).astype(float)
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
    if model == "poisson":
        return (*(POISSON * SLOPES).tolist(), POISSON * LEVEL)
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


def scores_of(loss, weights, x, y):
    """Compute the scores of rows, and the inverse of the Hessian."""
    z = np.column_stack([x, np.ones(len(x))])
    line = z @ weights
    curvature = 1.0 if isinstance(loss, Squared) else loss.at(line[:, None], y)[2]
    inverse = np.linalg.inv((z * curvature).T @ z)
    return loss.derivative(line, y)[:, None] * z, inverse


def sandwich_errors(loss, weights, x, y, lags=0):
    """Compute Newey and West's standard errors; without lags, White's."""
    score, inverse = scores_of(loss, weights, x, y)
    middle = score.T @ score
    for lag in range(1, lags + 1):
        product = score[lag:].T @ score[:-lag]
        middle += (1.0 - lag / (lags + 1.0)) * (product + product.T)
    return np.sqrt(np.diag(inverse @ middle @ inverse))


def fixed_b_half_widths(loss, weights, x, y):
    """Compute half-widths by Newey and West with 1.3 √T lags.

    The quantile is that of the fixed-b law for Bartlett's kernel (Kiefer and Vogelsang 2005).
    """
    lags = math.ceil(1.3 * math.sqrt(len(y)))
    b = lags / len(y)
    quantile = 1.96 + b * (2.9694 + b * (0.4160 - 0.5324 * b))
    return quantile * sandwich_errors(loss, weights, x, y, lags - 1)


def cosine_half_widths(loss, weights, x, y):
    """Compute half-widths by equally weighted cosines, 0.4 T^(2/3) of them, and Student's t."""
    score, inverse = scores_of(loss, weights, x, y)
    count = int(0.4 * len(y) ** (2.0 / 3.0))
    cosines = fft.dct(score, type=2, norm="ortho", axis=0)[1 : count + 1]
    middle = len(y) / count * cosines.T @ cosines
    errors = np.sqrt(np.diag(inverse @ middle @ inverse))
    return float(special.stdtrit(count, 0.975)) * errors


def cells(settings):
    """Return one cell per model, ρ, length and seed, and those of watched streams."""
    lengths = [(round(share * settings.samples), streams) for share, streams in SHARES.items()]
    plain = [(model, *length, rho) for model in MODELS for length in lengths for rho in RHOS]
    watched = [(WATCHED, TO, 1, rho) for rho in RHOS[:3]]
    return [
        {"model": model, "rho": rho, "rows": rows, "seed": seed, "streams": streams}
        for model, rows, streams, rho in plain + watched
        for seed in settings.seed_numbers
    ] + [
        {"model": NEW, "stream": name, "seed": seed}
        for name in CHANGES
        for seed in settings.seed_numbers[:50]
    ]


def measure(cell):
    """Return one row per kind of interval: means over streams, and the first slope of each."""
    if cell["model"] == WATCHED:
        return [{**cell, "method": kind, "left": left} for kind, left in watch(cell).items()]
    if cell["model"] == NEW:
        return [{**cell, **predicted(*changing(cell["stream"], cell["seed"]))}]
    model, rows, rho, seed = (cell[name] for name in ("model", "rows", "rho", "seed"))
    truth, kinds = np.array(best_weights(model)), {}
    for number in range(cell["streams"]):
        for kind, *found in intervals(model, *stream(model, rows, rho, 10 * seed + number)):
            kinds.setdefault(kind, []).append(found)
    measured = []
    for kind, found in kinds.items():
        weights, half, warned = map(np.array, zip(*found, strict=True))
        errors = weights - truth
        measured.append(
            {
                **cell,
                "method": kind,
                "covered": float(np.mean(np.abs(errors) <= half)),
                "half": float(half.mean()),
                "errors of first": errors[:, 0].tolist(),
                "halves of first": half[:, 0].tolist(),
                "warned": float(warned.mean()),
            }
        )
    return measured


def watch(cell):
    """Return the share of weights that have ever left their interval, of either kind."""
    rho, rows = cell["rho"], cell["rows"]
    rng = np.random.default_rng((cell["seed"], 99, round(1000 * rho)))
    x = autoregressive(rng, rows, rho, len(SLOPES))
    y = x @ SLOPES + LEVEL + autoregressive(rng, rows, rho)[:, 0]
    learner, truth = ExactLearner(Squared(), len(SLOPES)), np.array(best_weights("linear"))
    left = {kind: np.zeros(len(truth), dtype=bool) for kind in ("ordinary", "anytime")}
    for start in range(0, rows, EVERY):
        here = slice(start, start + EVERY)
        learner.advance(x[here], y[here])
        for kind in left if start + EVERY >= FROM else ():
            low, high = learner.inference.conf_int(anytime=kind == "anytime")[0].T
            left[kind] |= (truth < low) | (high < truth)
    return {kind: float(out.mean()) for kind, out in left.items()}


def changing(name, seed):
    """Draw rows and targets of a stream whose errors, or one weight in ``drift``, change."""
    number, rows = CHANGES.index(name), NEW_ROWS
    rng, time = np.random.default_rng((seed, 77, number)), np.arange(rows)
    x, errors = rng.standard_normal((rows, len(SLOPES))), rng.standard_normal(rows)
    if number == 1:
        errors = autoregressive(rng, rows, 0.98)[:, 0]
    if number == 2:
        errors *= np.where(time // 1000 % 2, 3.0, 0.3)
    if number == 3:
        errors += 3.0 * rng.standard_normal(8).repeat(rows // 8)
    if number == 4:
        errors += x[:, 0] * (np.cos(5.0 * time / rows) - 1.0)
    if number == 5:
        errors[: 3 * rows // 10] = 0.0
    return x, x @ SLOPES + LEVEL + errors


def predicted(x, y):
    """Return coverage and mean width of intervals of new rows, and of one with a fixed width.

    The latter covers 90 % of the errors in the first fifth of the rows.
    """
    learner, found = ExactLearner(Squared(), x.shape[1], looks_ahead=True), []
    for start in range(0, len(y), CHUNK):
        here = slice(start, start + CHUNK)
        if start >= 10 * CHUNK:
            mean = learner.predict(x[here])
            ends = learner.ahead.ends(Squared(), mean, LEVEL_OF_NEW)
            found.append(np.array([mean, *ends]) - y[here])
        learner.advance(x[here], y[here])
    error, low, high = np.hstack(found)
    inside, fifth = (low <= 0.0) & (high >= 0.0), len(error) // 5
    half = float(np.quantile(np.abs(error[:fifth]), LEVEL_OF_NEW))
    return {
        "coverage": float(inside.mean()),
        "worst 1,000 rows": float(np.convolve(inside, np.full(1000, 1e-3), "valid").min()),
        "width": float(np.mean(high - low)),
        "fixed: coverage": float(np.mean(np.abs(error[fifth:]) <= half)),
        "fixed: width": 2.0 * half,
    }


def intervals(model, x, y):
    """Return kinds of intervals: name, weights, half-widths, and whether a remark warns of them."""
    loss = loss_of(model)

    def fit(**options):
        learner = ExactLearner(loss, x.shape[1], l2=None, **options)
        learner.advance(x, y)
        weights = learner.weights[0]
        return (
            weights,
            learner.inference.conf_int()[0, :, 1] - weights,
            bool(learner.inference.remark),
        )

    ours = fit()
    data, usual = (loss, ours[0], x, y), int(4.0 * (len(y) / 100.0) ** (2.0 / 9.0))
    found = [
        (OURS, *ours),
        (FIXED_B, ours[0], fixed_b_half_widths(*data), False),
        (EWC, ours[0], cosine_half_widths(*data), False),
        (HAC, ours[0], NORMAL * sandwich_errors(*data, usual), False),
        (INDEPENDENT, ours[0], NORMAL * sandwich_errors(*data), False),
    ]
    if not isinstance(loss, Squared) and len(y) > 2 * KEPT:
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
    watched, new = ([row for row in rows if row["model"] == kind] for kind in (WATCHED, NEW))
    rows = [row for row in rows if row["model"] not in (WATCHED, NEW)]
    covered, flagged, halves = (
        gather(rows, ("model", "rho", "rows"), "method", value)
        for value in ("covered", "warned", "half")
    )
    found, warned = (
        {
            cell: {method: bootstrap(values) for method, values in group.items()}
            for cell, group in each.items()
        }
        for each in (covered, flagged)
    )
    below = {
        (cell, kind): bootstrap(np.subtract(group[kind], group[OURS]))
        for cell, group in covered.items()
        for kind in (FIXED_B, EWC)
    }
    lengths = sorted({row["rows"] for row in rows})
    errors = [(v.high - v.low) / 4.0 for group in found.values() for v in group.values()]
    left = {
        (f"{rho:g}", kind): bootstrap(values)
        for rho, group in gather(watched, "rho", "method", "left").items()
        for kind, values in group.items()
    }
    return Report(
        [table(found, warned, halves), power_table(rows), watched_table(left), new_table(new)],
        {"intervals": draw(rows, lengths)},
        [
            *claims(found, below, warned, halves, left, settings.samples),
            Claim.below(
                "intervals of new rows: coverage within 1.5 points of 90 % on streams that change",
                {
                    name: bootstrap(np.array(own[NEW]) - LEVEL_OF_NEW, np.abs)
                    for name, own in gather(new, "stream", "model", "coverage").items()
                },
                0.015,
                ".3f",
            ),
        ],
        [
            "Coverage is the share of weights whose interval holds the weight of the least "
            f"expected loss, intercept included; standard errors are {100.0 * min(errors):.1f} to "
            f"{100.0 * max(errors):.1f} points. In brackets the mean width over that of EWC.",
            f"Per seed {max(SHARES.values())} short streams, and {SHARES[1.0]} of the longest.",
            "quadratic and probit are fitted by a linear and a logistic model, which are not right "
            "about them.",
            f"{INDEPENDENT}: White's sandwich. {HAC}: 4(T/100)^(2/9) lags. {FIXED_B}: 1.3 √T lags. "
            f"{EWC}: 0.4 T^(2/3) cosines. All kinds but '{OURS_WITH_FEW}' are around the same "
            "weights.",
            f"Power is that against a first slope wrong by {ALTERNATIVE:g} of its standard "
            "deviations, with the quantile that makes the size 5 %.",
        ],
    )


def table(found, warned, halves):
    def shown(cell, name):
        if name not in found[cell]:
            return ""
        width = np.mean(halves[cell][name]) / np.mean(halves[cell][EWC])
        return f"{100.0 * found[cell][name].value:.1f} [{width:.2f}]"

    lines = [
        (
            cell[0],
            f"{cell[1]:g}",
            f"{cell[2]:,}",
            *(shown(cell, name) for name in KINDS),
            f"{100.0 * warned[cell][OURS].value:.0f}",
        )
        for cell in found
    ]
    heads = ["model", "ρ", "rows", *KINDS, "streams with a warning"]
    return Table("Coverage of 95 % intervals in per cent", heads, lines)


def power_table(rows):
    """Tabulate size and size-adjusted power of tests of the first slope."""
    kinds, lines = (FIXED_B, EWC, OURS), []
    chosen = [row for row in rows if row["model"] in ("linear", "arma")]
    for cell, group in gather(chosen, ("model", "rho", "rows"), "method").items():
        line = [cell[0], f"{cell[1]:g}", f"{cell[2]:,}"]
        for kind in kinds:
            error = np.concatenate([row["errors of first"] for row in group[kind]])
            half = np.concatenate([row["halves of first"] for row in group[kind]])
            size = np.mean(np.abs(error) > half)
            limit = np.quantile(np.abs(error) / half, 0.95)
            moved = np.abs(error + ALTERNATIVE * error.std()) / half
            line += [f"{100.0 * size:.1f}", f"{100.0 * np.mean(moved > limit):.0f}"]
        lines.append(line)
    heads = [f"{kind}: {what}" for kind in kinds for what in ("size", "power")]
    title = "Size and size-adjusted power of 5 % tests of a slope, in per cent"
    return Table(title, ["model", "ρ", "rows", *heads], lines)


def watched_table(left):
    lines = [
        (rho, *(percent(left[rho, kind]) for kind in ("ordinary", "anytime")))
        for rho in dict.fromkeys(rho for rho, _ in left)
    ]
    title = f"Weights that ever left their 95 % interval, watched every {EVERY} rows, in per cent"
    return Table(title, ["ρ", "ordinary", "anytime"], lines)


def new_table(new):
    names = ("coverage", "worst 1,000 rows", "width", "fixed: coverage", "fixed: width")
    lines = [
        (
            name,
            *(
                f"{mean:.3g}" if "width" in each else f"{100.0 * mean:.1f}"
                for each in names
                for mean in [np.mean([row[each] for row in own[NEW]])]
            ),
        )
        for name, own in gather(new, "stream", "model").items()
    ]
    title = f"90 % intervals of new rows, {CHUNK} at a time, by the errors of the stream: means"
    return Table(title, ["errors", *names], lines)


def claims(found, below, warned, halves, left, longest):
    """Judge coverage on the longest streams, the rivals on all, and warnings on shorter ones."""

    def ours(slow):
        return {
            f"{model}, ρ = {rho:g}" + (", few rows kept" if name == OURS_WITH_FEW else ""): value
            for (model, rho, rows), group in found.items()
            for name, value in group.items()
            if rows == longest and (rho > SLOW) == slow and name in (OURS, OURS_WITH_FEW)
        }

    def named(cell):
        return f"{cell[0]}, ρ = {cell[1]:g}, {cell[2]:,} rows"

    short = {
        f"{named(cell)}, coverage {percent(group[OURS])} %": warned[cell][OURS]
        for cell, group in found.items()
        if cell[2] < longest and group[OURS].value < 0.9
    }
    text = f"coverage of {OURS} is at least that of {EWC} and of {FIXED_B}, in every cell"
    worst = max(below, key=lambda pair: below[pair].value)
    rivals = Claim.below(
        text,
        below,
        0.0,
        measured=f"less in {sum(value.value > 0.0 for value in below.values())} of {len(below)} "
        f"comparisons, worst by {percent(below[worst])} points ({named(worst[0])}, {worst[1]})",
    )
    wide = {
        named(cell): ratio(group[OURS], group[EWC])
        for cell, group in halves.items()
        if found[cell][EWC].value >= 0.94
    }
    text = "shorter streams: where coverage is below 90 %, 80 % of the streams have a warning"
    fast = ours(slow=False)
    most = max(fast, key=lambda name: fast[name].value)
    anytime = {f"ρ = {rho}": value for (rho, kind), value in left.items() if kind == "anytime"}
    ever = max(anytime, key=lambda name: anytime[name].value)
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
        rivals,
        Claim.below(
            f"where {EWC} covers at least 94 %, {OURS} are at most 1.1 times as wide",
            wide,
            1.1,
            ".2f",
        ),
        Claim.below(
            "anytime intervals: at most 5 % of the weights ever leave them",
            anytime,
            0.05,
            measured=f"at most {percent(anytime[ever])} % ({ever})",
        ),
    ]


def draw(rows, lengths):
    models, rhos = ("linear", "logit"), sorted({row["rho"] for row in rows})
    figure, axes = new_figure(
        len(models), len(lengths), width=9.0, height=5.4, sharex=True, sharey=True
    )
    for line, model in zip(axes, models, strict=True):
        for place, length in zip(line, lengths, strict=True):
            mine = [
                {**row, "place": rhos.index(row["rho"]), "coverage": 100.0 * row["covered"]}
                for row in rows
                if (row["model"], row["rows"]) == (model, length) and row["method"] != OURS_WITH_FEW
            ]
            curves(place, mine, "method", "place", "coverage", **DOTS)
            place.axhline(95.0, color="black", linewidth=0.8, zorder=0)
            place.set_ylim(0.0, 102.0)
            place.set_title(f"{model}, {length:,} rows", fontsize="medium")
            place.set_xticks(range(len(rhos)), [f"{rho:g}" for rho in rhos])
        line[0].set_ylabel("coverage, %")
    for place in axes[-1]:
        place.set_xlabel("correlation ρ of neighbouring rows")
    legend = axes[0, 0].get_legend_handles_labels()
    figure.legend(*legend, frameon=False, loc="outside upper center", ncols=len(legend[0]))
    return figure
