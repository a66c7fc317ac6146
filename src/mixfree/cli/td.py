"""``mixfree td``: the values of a policy, from one trajectory of an environment."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mixfree.base.extras import require
from mixfree.cli.options import Json, print_json

if TYPE_CHECKING:
    from mixfree.td import Evaluation, RewardProcess

__all__ = ["td"]

typer = require("typer")

SHOWN = 64  # states in the printed table; JSON has all of them


def td(
    env: Annotated[str, typer.Argument(help="Gymnasium environment, such as FrozenLake-v1.")],
    policy: Annotated[
        str,
        typer.Option(
            help="uniform, or a CSV file with one line per state: its action, or the probability "
            "of each action."
        ),
    ] = "uniform",
    gamma: Annotated[float, typer.Option(help="Discount factor, at least 0 and below 1.")] = 0.9,
    samples: Annotated[int, typer.Option(help="Number of transitions to learn from.")] = 200_000,
    radius: Annotated[
        float | None, typer.Option(help="Keep the weights in a ball of this radius.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="mag (needs --radius), mag-dog, ladder, …; ladder is more accurate if the chain "
            "mixes quickly. Default: mag with a radius, mag-dog without."
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(help="Simultaneous confidence level of all intervals.")
    ] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
    as_json: Json = False,
) -> None:
    """Evaluate a policy in an environment with finitely many states.

    Prints the value of each state with a confidence interval, and the exact value if the
    environment publishes its transition probabilities.

    \b
    Example:
      mixfree td FrozenLake-v1 --policy uniform --method ladder
    """
    from mixfree.td import RewardProcess, evaluate_policy
    from mixfree.td.episodes import make_env
    from mixfree.td.tables import transition_table

    table = _read_policy(policy)
    with make_env(env) as opened:
        exact = None
        if transition_table(opened) is not None:
            exact = RewardProcess.from_gymnasium(opened, table, gamma)
        found = evaluate_policy(
            opened,
            table,
            gamma=gamma,
            samples=samples,
            radius=radius,
            method=method,
            seed=seed,
            progress=True,
        )
    answer = _answer(found, exact, level)
    if as_json:
        print_json(answer)
    else:
        _print(f"{env}, policy {policy}, γ = {gamma:g}, {answer['method']}", answer, level)


def _read_policy(policy: str) -> Any:
    if not Path(policy).is_file():
        if policy != "uniform":
            raise ValueError(f"policy must be uniform or a CSV file that exists, not {policy!r}")
        return policy
    import numpy as np

    try:
        table = np.loadtxt(policy, delimiter=",")
    except ValueError as error:
        raise ValueError(f"{policy} must hold numbers separated by commas: {error}") from error
    actions = table.ndim == 1 and bool((table == table.astype(int)).all())
    return table.astype(int) if actions else table


def _answer(found: "Evaluation", exact: "RewardProcess | None", level: float) -> dict[str, Any]:
    states = list(range(found.learner.features.size)) if exact is None else exact.visited.tolist()
    columns = (found.values(states), *found.interval(states, level), found.batches_met(states))
    lines: list[dict[str, Any]] = [
        {"state": state, "value": value, "low": low, "high": high, "batches_met": batches}
        for state, value, low, high, batches in zip(
            states, *(column.tolist() for column in columns), strict=True
        )
    ]
    answer: dict[str, Any] = {
        "method": found.learner.method,
        "samples": found.samples,
        "episodes": found.episodes,
        "autocorrelation_time": found.autocorrelation.value,
        "states": lines,
    }
    if exact is not None:
        for line in lines:
            line["exact"] = float(exact.values[line["state"]])
        answer["mixing_time"] = exact.chain.mixing_time() if exact.chain.period == 1 else None
        answer["all_within"] = all(x["low"] <= x["exact"] <= x["high"] for x in lines)
    return answer


def _print(title: str, answer: dict[str, Any], level: float) -> None:
    from mixfree.reproduce.engine.report import Table

    lines = answer["states"]
    known = "exact" in lines[0]
    Table(
        title,
        ["state", "value", f"{100 * level:g} % interval", *(["exact"] if known else [])],
        [
            (
                line["state"],
                f"{line['value']:.4f}",
                _interval(line),
                *([f"{line['exact']:.4f}"] if known else []),
            )
            for line in lines[:SHOWN]
        ],
    ).show()
    if len(lines) > SHOWN:
        print(f"{len(lines) - SHOWN} more states; --json prints all of them")
    correlated = answer["autocorrelation_time"]
    print(
        f"{answer['samples']:,} transitions, {answer['episodes']:,} complete episodes, "
        f"autocorrelation time {'unknown' if math.isnan(correlated) else f'{correlated:.3g}'}"
    )
    if known:
        time, unbounded = answer["mixing_time"], sum(math.isinf(x["high"]) for x in lines)
        mixing = "periodic chain" if time is None else f"mixing time {time:,}"
        verdict = "all" if answer["all_within"] else "not all"
        without = f"; {unbounded} unbounded intervals" if unbounded else ""
        print(f"{mixing}; {verdict} exact values are within their intervals{without}")


def _interval(line: dict[str, Any]) -> str:
    from mixfree.td.certificate import FEWEST

    if line["batches_met"] == 0:
        return "never visited"
    if math.isinf(line["high"]):
        return "too few visits" if line["batches_met"] < FEWEST else "n/a (zero variance)"
    return f"{line['low']:.4f} … {line['high']:.4f}"
