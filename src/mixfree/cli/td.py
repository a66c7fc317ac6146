"""``mixfree td``: the value function of a policy, from one trajectory of an environment."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from mixfree.base.terminal import Table, say
from mixfree.cli.options import Json, print_json

if TYPE_CHECKING:
    from mixfree.td import Evaluation, RewardProcess

SHOWN = 64  # most states in the printed table; the JSON output has all


def td(
    env: Annotated[str, Argument(help="Gymnasium environment, such as FrozenLake-v1.")],
    policy: Annotated[
        str,
        Option(help="uniform, or a CSV file: an action, or a probability per action, per line."),
    ] = "uniform",
    gamma: Annotated[float, Option(help="Discount factor, at least 0 and below 1.")] = 0.9,
    samples: Annotated[int, Option(help="Number of transitions to learn from.")] = 200_000,
    radius: Annotated[float | None, Option(help="Bound on the norm of the weights.")] = None,
    method: Annotated[
        str | None,
        Option(
            help="lstd (least squares, the most accurate) or an iterative method: ladder, "
            "mag (needs --radius), … Default: mag with --radius and lstd without."
        ),
    ] = None,
    lam: Annotated[float | None, Option(help="lstd: decay λ of traces, from 0 to 1.")] = None,
    l2: Annotated[float | None, Option(help="lstd: ridge penalty per transition.")] = None,
    half_life: Annotated[
        float | None, Option(help="lstd: transitions after which one counts half; no intervals.")
    ] = None,
    level: Annotated[float, Option(help="Simultaneous level of all intervals.")] = 0.99,
    seed: Annotated[int, Option(help="Seed of all random draws.")] = 0,
    as_json: Json = False,
) -> None:
    """Evaluate a policy in an environment with finitely many states.

    Prints the value of each state with a confidence interval, and the exact value if the
    environment publishes its transition probabilities.

    \b
    Example:
      mixfree td FrozenLake-v1 --policy uniform
    """
    from mixfree.td import RewardProcess, evaluate_policy
    from mixfree.td.episodes import make_env
    from mixfree.td.reward_process import transition_table

    table, exact = _read_policy(policy), None
    with make_env(env) as opened:
        if not hasattr(opened.observation_space, "n"):
            raise ValueError(
                f"{env} must have numbered states, but its observations are of "
                f"{opened.observation_space}; call mixfree.td.evaluate_policy with features in "
                "Python"
            )
        if transition_table(opened) is not None:
            exact = RewardProcess.from_gymnasium(opened, table, gamma)
        found = evaluate_policy(
            opened,
            table,
            gamma=gamma,
            samples=samples,
            radius=radius,
            method=method,
            lam=lam,
            l2=l2,
            half_life=half_life,
            seed=seed,
            progress=True,
        )
    answer = _answer(found, exact, None if half_life else level)
    if as_json:
        print_json("td", answer)
    else:
        _print(f"{env}, policy {policy}, γ = {gamma:g}, {answer['method']}", answer)


def _read_policy(policy: str) -> Any:
    if not Path(policy).is_file():
        if policy != "uniform":
            raise ValueError(f"policy must be uniform or a CSV file that exists, not {policy!r}")
        return policy
    import numpy as np

    try:
        table = np.loadtxt(policy, delimiter=",")
    except ValueError as error:
        raise ValueError(f"{policy} must contain numbers separated by commas: {error}") from error
    actions = table.ndim == 1 and bool((table == table.astype(int)).all())
    return table.astype(int) if actions else table


def _answer(
    found: "Evaluation", exact: "RewardProcess | None", level: float | None
) -> dict[str, Any]:
    """Collect the values, with intervals unless ``level`` is None."""
    first, size = getattr(found.learner.features, "first", 0), found.learner.features.size
    states = list(range(first, first + size)) if exact is None else exact.visited.tolist()
    columns = {"state": states, "value": found.values(states).tolist()}
    if level is not None:
        columns["low"], columns["high"] = (end.tolist() for end in found.interval(states, level))
        columns["batches_met"] = found.batches_met(states).tolist()
    if exact is not None:
        columns["exact"] = exact.values[states].tolist()
    lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    answer = {
        "method": found.learner.method,
        "samples": found.samples,
        "episodes": found.episodes,
        "autocorrelation_time": found.autocorrelation.value,
        "level": level,
        "remark": "no intervals with a half-life" if level is None else found.remark,
        "states": lines,
    }
    if exact is not None:
        answer["mixing_time"] = exact.chain.mixing_time() if exact.chain.period == 1 else None
        if level is not None:
            answer["all_within"] = all(x["low"] <= x["exact"] <= x["high"] for x in lines)
    return answer


def _print(title: str, answer: dict[str, Any]) -> None:
    lines, level = answer["states"], answer["level"]
    cells = {"state": "{state}", "value": "{value:.4f}"}
    if level is not None:
        cells[f"{100 * level:g} % interval"] = "{interval}"
    if "exact" in lines[0]:
        cells["exact"] = "{exact:.4f}"
    shown = [line | {"interval": level and _interval(line)} for line in lines[:SHOWN]]
    rows = [[cell.format(**line) for cell in cells.values()] for line in shown]
    Table(title, list(cells), rows).show()
    if len(lines) > SHOWN:
        say(f"{len(lines) - SHOWN} more states; --json prints all of them")
    correlated = answer["autocorrelation_time"]
    say(
        f"{answer['samples']:,} transitions, {answer['episodes']:,} complete episodes, "
        f"autocorrelation time {'unknown' if math.isnan(correlated) else f'{correlated:.3g}'}"
    )
    if answer["remark"]:
        say(answer["remark"])
    if "all_within" in answer:
        time, unbounded = answer["mixing_time"], sum(math.isinf(x["high"]) for x in lines)
        mixing = "periodic chain" if time is None else f"mixing time {time:,}"
        verdict = "all" if answer["all_within"] else "not all"
        without = f"; {unbounded} unbounded intervals" if unbounded else ""
        say(f"{mixing}; {verdict} exact values are within their intervals{without}")


def _interval(line: dict[str, Any]) -> str:
    from mixfree.td.lstd import MIN_BATCHES

    if line["batches_met"] == 0:
        return "never visited"
    if math.isinf(line["high"]):
        return "too few visits" if line["batches_met"] < MIN_BATCHES else "n/a (zero variance)"
    return f"{line['low']:.4f} … {line['high']:.4f}"
