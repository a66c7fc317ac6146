"""How much of MAG's gain on the paper's problem is less bias, and how much is smaller steps?

Three studies, each changing one thing; ``benchmarks/sensitivity.py`` has all others.

``levels``
    MAG with 1 to 19 levels.
``alpha``
    The scale of the steps over four decades, for MAG and AdaGrad.
``steps``
    AdaGrad with MAG's steps: its α is set so that both have the same step size per sample at the
    end of the same stream, within 1 %. The rest of MAG's gain is not due to the step size.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.figures import log_log, new_figure
from mixfree.base.terminal import Table
from mixfree.core.optimizer import Optimizer
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import DOTS, Figure, Row, curves, gather, where
from mixfree.reproduce.engine.statistics import Interval, bootstrap, ratio
from mixfree.reproduce.paper.problem import mixing_time, problem_of, start, stream_of, trace

FULL = Settings(samples=1_000_000, seeds=30, p=(1e-2, 1e-4), first_seed=6000)
QUICK = Settings(samples=50_000, seeds=2, p=(1e-2,))

LEVELS = (1, 2, 3, 5, 7, 10, 13, 16, 19)
ALPHAS = tuple(float(f"{10.0 ** (k / 2):.3g}") for k in range(-4, 5))
SLOWED = "adagrad with MAG's steps"


def cells(settings: Settings) -> list[dict[str, Any]]:
    """Return one cell per study, setting, p and seed."""
    studies: list[tuple[str, str, Any]] = [
        *(("levels", "mag", k) for k in LEVELS),
        *(("alpha", method, a) for a in ALPHAS for method in ("adagrad", "mag")),
        *(("steps", method, None) for method in ("mag", "adagrad", SLOWED)),
    ]
    names = ("study", "method", "setting")
    return [
        {**dict(zip(names, study, strict=True)), "p": p, "seed": seed, "samples": settings.samples}
        for p in settings.p
        for seed in settings.seed_numbers
        for study in studies
    ]


def measure(cell: dict[str, Any]) -> list[Row]:
    """Return one row: the suboptimality and the step size per sample at the end."""
    options = {cell["study"]: cell["setting"]} if cell["setting"] is not None else {}
    opt, gap = _slowed(cell) if cell["method"] == SLOWED else _run(cell, cell["method"], **options)
    return [{**cell, "suboptimality": gap, "step": _step(opt)}]


def _step(opt: Optimizer) -> float:
    """Return the step size per sample: η of the last step, divided by the samples per step."""
    step = opt.step.alpha / opt.export_run().step.root  # type: ignore[attr-defined]
    return float(step * opt.steps / opt.samples)


def _run(cell: dict[str, Any], method: str, **options: Any) -> tuple[Optimizer, float]:
    problem = problem_of(cell["seed"])
    opt = start(problem, method, cell["p"], seed=cell["seed"], **options)
    order = stream_of(cell["seed"], cell["p"], cell["samples"])
    return opt, float(trace(opt, problem, order).suboptimality[-1])


def _slowed(cell: dict[str, Any]) -> tuple[Optimizer, float]:
    wanted = _step(_run(cell, "mag")[0])
    # The gradients, and with them the steps, depend on α: iterate a few times.
    alpha = 1.0
    for _ in range(3):
        alpha *= wanted / _step(_run(cell, "adagrad", alpha=alpha)[0])
    return _run(cell, "adagrad", alpha=alpha)


def report(rows: list[Row], settings: Settings) -> Report:
    """Make one figure per p, and the tables and claims behind it."""
    figures, tables, claims = {}, list[Table](), list[Claim]()
    for p in settings.p:
        at_p = where(rows, p=p)
        label = f"p = {p:g}, mixing time {mixing_time(p):,}"
        figures[f"ablation-{mixing_time(p)}"] = _draw(at_p, label)
        tables += [_steps_table(at_p, label), _best_table(at_p, label)]
        claims += [replace(each, text=f"p = {p:g}: {each.text}") for each in _claims(at_p)]
    return Report(tables, figures, claims)


def _values(rows: list[Row], study: str, y: str = "suboptimality") -> dict[str, Any]:
    """Return the values per seed in one study, by method and setting."""
    return gather(where(rows, study=study), "method", "setting", y)


def _steps_table(rows: list[Row], label: str) -> Table:
    sizes = _values(rows, "steps", "step")
    return Table(
        f"Study of steps, {label}, {rows[0]['samples']:,} samples",
        ["method", "mean suboptimality, 95 %", "step per sample"],
        [
            (method, bootstrap(at[None]), f"{np.mean(sizes[method][None]):.1e}")
            for method, at in _values(rows, "steps").items()
        ],
    )


def _best_table(rows: list[Row], label: str) -> Table:
    """Tabulate the default and the best α and number of levels, by the mean over the seeds."""
    lines = []
    for study, default in (("alpha", 1.0), ("levels", 5)):
        for method, at in _values(rows, study).items():
            best = min(at, key=lambda setting: np.mean(at[setting]))
            kinds = (f"{method}, {study}", default, bootstrap(at[default]))
            lines.append((*kinds, best, bootstrap(at[best])))
    head = ["study", "default", "with it, 95 %", "best", "with the best, 95 %"]
    return Table(f"Best settings in hindsight, {label}", head, lines)


def _claims(rows: list[Row]) -> list[Claim]:
    steps, alphas = _values(rows, "steps"), _values(rows, "alpha")
    best = {name: min(at.values(), key=np.mean) for name, at in alphas.items()}
    mag, adagrad, slowed = (steps[method][None] for method in ("mag", "adagrad", SLOWED))
    tuned = "MAG with its best α is better than AdaGrad with its best α"
    claims = [
        Claim.below("MAG is better than AdaGrad with MAG's steps", ratio(mag, slowed), 1.0, ".2f"),
        Claim.below(tuned, ratio(best["mag"], best["adagrad"]), 1.0, ".2f"),
    ]
    if ratio(adagrad, mag).low > 1.0:

        def rest(means: Array) -> Array:
            """Return the share of the logarithm of the gain that is left with MAG's steps."""
            logs = np.log(means)
            share: Array = (logs[:, 2] - logs[:, 0]) / (logs[:, 1] - logs[:, 0])
            return share

        left = bootstrap(np.transpose([mag, adagrad, slowed]), rest)
        text = "most of MAG's gain over AdaGrad is its smaller steps"
        share = Interval(*(100.0 * (1.0 - end) for end in (left.value, left.high, left.low)))
        measured = f"{share.text('.0f')} % of its logarithm"
        claims.insert(0, Claim.below(text, left, 0.5, measured=measured))
    return claims


def _draw(rows: list[Row], label: str) -> Figure:
    figure, panels = new_figure(1, 3, width=13.0, height=4.0)
    curves(panels[0], where(rows, study="levels"), "method", "setting", "suboptimality", **DOTS)
    panels[0].set(yscale="log", xlabel="levels of MAG", ylabel="suboptimality", xticks=LEVELS)
    scaled = where(rows, study="alpha")
    curves(panels[1], scaled, "method", "setting", "suboptimality", **DOTS)
    log_log(panels[1], "α")
    sizes = _values(rows, "alpha", "step")
    by_step = [{**row, "mean": np.mean(sizes[row["method"]][row["setting"]])} for row in scaled]
    curves(panels[2], by_step, "method", "mean", "suboptimality", **DOTS)
    log_log(panels[2], "step per sample at the end")
    figure.suptitle(label, fontsize="medium")
    panels[1].legend(frameon=False, fontsize="small")
    return figure
