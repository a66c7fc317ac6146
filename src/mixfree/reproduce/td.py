"""TD learning: the error against samples and mixing time, compared with Bhandari's TD.

MAG draws its levels as Algorithm 1 does, capped by the samples seen so far. MAG and TD with the
step 1/√T run ten times as long as the others, because the effect of the start vanishes slowly on
the reversed streak. Exponents are those of the mean over the seeds, which Theorem 5.2 bounds.
"""

from typing import Any

import numpy as np

from mixfree.base.figures import label_ends, log_log, new_figure
from mixfree.chains import two_state, winning_streak
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, curves, gather, grid, where
from mixfree.reproduce.engine.statistics import bootstrap, exponent, ratio
from mixfree.td import RewardProcess, TDLearner, tabular

FULL = Settings(samples=10_000_000, seeds=30, p=(0.5, 5e-2, 5e-3, 5e-4, 5e-5), first_seed=6000)
QUICK = FULL.changed(samples=100_000, seeds=3, first_seed=0)

FIRST = 1000  # transitions at which curves begin
PIECE = 1_000_000  # transitions held in memory at a time
SHORTER = 10  # factor by which all runs but those of the two methods compared are shorter
MIXED = 10  # mixing times after which the exponent in the samples is fitted
OURS, BASELINE = "MAG", "TD 1/√T"
GAMMA = 0.9
FAMILIES = ("reversed streak", "sticky", "Boyan")
STREAKS = (4, 8, 16, 32, 64)
NOTES = [
    "The error is ‖V_θ* − V_θ̄‖²_M divided by that of θ = 0; the radius is 2‖θ*‖ for every method.",
    f"{OURS} draws its levels as Algorithm 1 does, capped by the samples seen so far. {BASELINE} "
    "knows T, and TD 1/(ω(1−γ)t) knows ω.",
    "On the reversed streak the states that make the mixing time long are visited with probability "
    "2^(1−n), so that no method's error can grow much with it.",
]
STICKY_THETA = np.array([0.8, -0.6])


def reversed_streak(states: int) -> RewardProcess:
    """Return the appendix's chain of mixing time n − 1: reward 1 in its first state, tabular."""
    chain = winning_streak(states).reversal()
    return RewardProcess(chain.P, np.eye(states)[0], GAMMA, tabular(states))


def sticky(p: float) -> RewardProcess:
    """Return the two-state chain with correlated features, whose θ* is the same for every p."""
    P = two_state(p).P
    features = np.array([[0.9, 0.3], [0.1, 0.3]])
    rewards = (np.eye(2) - GAMMA * P) @ features @ STICKY_THETA
    return RewardProcess(P, rewards, GAMMA, features)


def boyan() -> RewardProcess:
    """Return Boyan's chain (1999): from state 12 down to 0 by one or two, where the episode ends.

    The four features interpolate between the states 12, 8, 4 and 0. Rows stand for the states
    12, 11, …, 1.
    """
    states = 12
    P = 0.5 * (np.eye(states, k=1) + np.eye(states, k=2))
    P[-2, -1] = 0.5
    rewards = np.full(states, -3.0)
    rewards[-1] = -2.0
    places = np.arange(states, 0, -1)
    features = np.maximum(0.0, 1.0 - np.abs(places[:, None] - [12, 8, 4, 0]) / 4.0)
    return RewardProcess(P, rewards, GAMMA, features, start=np.eye(states)[0])


def process_of(family: str, parameter: float) -> RewardProcess:
    """Return the process of a family with a parameter."""
    if family == "reversed streak":
        return reversed_streak(int(parameter))
    return sticky(parameter) if family == "sticky" else boyan()


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return two cells per process and seed: the two methods compared, and all others."""
    parameters = {"reversed streak": STREAKS, "sticky": settings.p, "Boyan": (0,)}
    return [
        {
            "chain": family,
            "parameter": parameter,
            "seed": seed,
            "compared": compared,
            "samples": settings.samples if compared else settings.samples // SHORTER,
        }
        for family in FAMILIES
        for parameter in parameters[family]
        for seed in settings.seed_numbers
        for compared in (True, False)
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Measure errors of the cell's methods on one trajectory, at two horizons per decade."""
    process, marks = process_of(cell["chain"], cell["parameter"]), horizons(cell["samples"])
    radius = 2.0 * float(np.linalg.norm(process.theta_star))
    runs: list[tuple[str, list[int], TDLearner]] = []
    for name, given in methods(process).items():
        if (name in (OURS, BASELINE)) == cell["compared"]:
            # A step size that depends on T needs a separate run for every T.
            each = [[mark] for mark in marks] if "horizon" in given else [marks]
            for looks in each:
                options = {**given, "horizon": looks[0]} if "horizon" in given else given
                learner = TDLearner(process.features, GAMMA, radius, seed=cell["seed"], **options)
                runs.append((name, looks, learner))
    scale = process.error(np.zeros_like(process.theta_star))
    stops = sorted({*marks, *range(PIECE, cell["samples"], PIECE)})
    pieces = process.pieces(np.diff([0, *stops]).tolist(), cell["seed"])
    about = {name: cell[name] for name in ("chain", "parameter")}
    about |= {"mixing_time": process.chain.mixing_time()}
    rows = []
    for done, piece in zip(stops, pieces, strict=True):
        transitions = runs[0][2].look_up(*piece)
        for name, looks, learner in runs:
            if done <= looks[-1]:
                learner.advance(*transitions)
            if done in looks:
                found = {"method": name, "seed": cell["seed"], "samples": done}
                error = process.error(learner.average) / scale
                rows.append({**about, **found, "steps": learner.optimizer.steps, "error": error})
    return rows


def methods(process: RewardProcess) -> dict[str, dict[str, Any]]:
    """Return the settings of each learner; all are given the radius, and MAG nothing else."""
    return {
        OURS: {"method": "mag", "levels": None},
        BASELINE: {"method": "projected-td", "horizon": None},
        "MAG, 10 levels": {"method": "mag", "levels": 10},
        "MAG, 5 levels": {"method": "mag", "levels": 5},
        "ladder": {"method": "ladder"},
        "TD 0.1": {"method": "projected-td", "step_size": 0.1},
        "TD 1/(ω(1−γ)t)": {"method": "projected-td", "omega": process.omega},
    }


def horizons(samples: int) -> list[int]:
    """Return two horizons per decade, up to all samples; at least the last decade."""
    first = max(1, min(FIRST, samples // 10))
    grid = [round(first * 10 ** (k / 2)) for k in range(20)]
    return [each for each in grid if each < samples] + [samples]


def report(rows: list[Row], settings: Settings) -> Report:
    """Make tables, figures and claims.

    All runs reach the shorter horizon, where they are compared. The growth with the mixing time is
    measured at the longer one, which two methods reach.
    """
    longest, shared = settings.samples, settings.samples // SHORTER
    rows = [{**row, "process": _title(row["chain"], row["parameter"])} for row in rows]
    ends = {method: max(found) for method, found in gather(rows, "method", "samples").items()}
    # From ten mixing times on, and at least each method's last decade.
    mixed = [r for r in rows
             if r["samples"] >= min(MIXED * r["mixing_time"], ends[r["method"]] // 10)]  # fmt: skip
    times = gather(rows, "chain", "mixing_time")
    decades = [{**row, "n": f"{row['samples']:,}"} for row in rows
               if len(times[row["chain"]]) > 1 and longest % row["samples"] == 0]  # fmt: skip
    decades.sort(key=lambda row: (row["chain"], row["samples"]))
    falling = gather(mixed, "process", "method")
    growing = gather(decades, ("chain", "n"), "method")
    last = gather(where(rows, samples=longest), "process", "method", "error")
    compared = gather(
        [{**row, "τ": f"{row['mixing_time']:,}"} for row in where(rows, samples=shared)],
        ("process", "τ"), "method", "error",
    )  # fmt: skip
    ratios = {process: ratio(found[OURS], found[BASELINE]) for process, found in last.items()}
    at_end = {
        process: {**{name: bootstrap(found[name]) for name in (OURS, BASELINE)},
                  f"{OURS} / {BASELINE}": ratios[process].text(".2f")}
        for process, found in last.items()
    }  # fmt: skip
    seeds = f"{settings.seeds} seeds, 95 %"
    in_samples = f"number of transitions, from {MIXED} mixing times on, 95 %"
    tables = [
        grid(f"Mean relative error after {shared:,} transitions, {seeds}",
             ["process", "mixing time"], compared, bootstrap),
        grid(f"Mean relative error after {longest:,} transitions, {seeds}", ["process"], at_end),
        grid(f"Exponent of the mean error in the {in_samples}", ["process"], falling,
             lambda found: exponent(found, "samples", "error").text("+.2f")),
        grid("Exponent of the mean error in the exact mixing time, decade by decade, 95 %",
             ["family", "transitions"], growing,
             lambda found: exponent(found, "mixing_time", "error").text("+.2f")),
    ]  # fmt: skip
    claims = [
        Claim.below(
            f"Theorem 5.2: {OURS}'s mean error falls at least like T^−½ on every process",
            {name: exponent(g[OURS], "samples", "error") for name, g in falling.items()},
            -0.5,
        ),
        *(
            claim
            for family in FAMILIES
            if (family, f"{longest:,}") in growing
            for claim in _growth_claims(family, growing[family, f"{longest:,}"])
        ),
        Claim.below(
            f"{OURS}'s mean error is below that of {BASELINE} on every process", ratios, 1.0, ".2f"
        ),
    ]
    figures = {
        "td-samples": _against_samples(rows),
        "td-mixing-time": _against_mixing_time(rows, shared),
    }
    return Report(tables, figures, claims, NOTES)


def _title(family: str, parameter: float) -> str:
    names = {"sticky": f"sticky, p = {parameter:g}", "Boyan": "Boyan"}
    return names.get(family, f"reversed streak, n = {parameter:g}")


def _growth_claims(family: str, found: dict[str, list[Row]]) -> list[Claim]:
    ours, other = (exponent(found[n], "mixing_time", "error") for n in (OURS, BASELINE))
    less = exponent(found[OURS], "mixing_time", "error", less=found[BASELINE])
    both = f"{ours.text('+.2f')} against {other.text('+.2f')}"
    growth = f"Theorem 5.2: {family}: {OURS}'s mean error grows at most like τ^½"
    slower = f"{family}: {OURS}'s exponent in the mixing time is below that of {BASELINE}"
    return [Claim.below(growth, ours, 0.5), Claim.below(slower, less, 0.0, measured=both)]


def _against_samples(rows: list[Row]) -> Figure:
    slow = min((row["parameter"] for row in where(rows, chain="sticky")),
               key=lambda p: abs(p - 5e-4))  # fmt: skip
    shown = [("reversed streak", 16), ("sticky", slow), ("Boyan", 0)]
    figure, axes = new_figure(1, len(shown), width=10.5, height=3.6, sharey=True)
    for place, key in zip(axes, shown, strict=True):
        curves(place, where(rows, process=_title(*key)), "method", "samples", "error")
        log_log(place, "transitions", "relative error" if place is axes[0] else "")
        place.set_title(_title(*key), fontsize="medium")
    axes[0].legend(frameon=False, fontsize="small")
    figure.suptitle("Error after n transitions, lower is better", fontsize="medium")
    return figure


def _against_mixing_time(rows: list[Row], samples: int) -> Figure:
    figure, axes = new_figure(1, 2, width=10.2, height=3.6, sharey=True)
    for place, family in zip(axes, FAMILIES, strict=False):
        mine = where(rows, chain=family, samples=samples)
        curves(place, mine, "method", "mixing_time", "error", **DOTS)
        log_log(place, "exact mixing time", "relative error" if place is axes[0] else "")
        place.set_title(f"{family}, {samples:,} transitions", fontsize="medium")
        times = sorted({r["mixing_time"] for r in mine})
        place.set_xticks(times, [f"{time:,}" for time in times])
        place.set_xticks([], minor=True)
    figure.suptitle("Error against the mixing time, lower is better", fontsize="medium")
    label_ends(axes[1])
    return figure
