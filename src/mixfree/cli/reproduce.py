"""``mixfree reproduce``."""

import sys
from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require
from mixfree.cli.options import names
from mixfree.reproduce import EXPERIMENTS, experiment

typer = require("typer")

QUICK = "A small version, in seconds; too small to judge the claims."
LIST = "\n\n".join(f"* **{name}**: {summary}" for name, summary in EXPERIMENTS.items())


def reproduce(
    name: Annotated[str, typer.Argument(help="Which experiment; see the list above.")],
    quick: Annotated[bool, typer.Option("--quick", help=QUICK)] = False,
    samples: Annotated[int | None, typer.Option(help="Samples a run.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of everything.")] = None,
    methods: Annotated[str | None, typer.Option(help="Such as mag,adagrad.")] = None,
    p: Annotated[
        str | None, typer.Option(help="Switching probabilities, such as 0.5,1e-4.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; one a core unless given.")] = None,
    backend: Annotated[
        str, typer.Option(help="loky (processes on this machine) or dask (a cluster).")
    ] = "loky",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; results/NAME unless given.")
    ] = None,
) -> None:
    """Run an experiment and write its rows, settings, tables and figures.

    A run that was interrupted goes on where it stopped when the same command is given again.
    """
    from mixfree.reproduce.engine.run import run_experiment

    chosen = experiment(name)
    settings = (chosen.QUICK if quick else chosen.FULL).changed(
        samples=samples,
        seeds=seeds,
        methods=None if methods is None else tuple(names(methods)),
        p=None if p is None else tuple(map(_number, names(p))),
    )
    folder = out or Path("results") / (f"{name}-quick" if quick else name)
    try:
        written = run_experiment(name, settings, folder, jobs, backend)
    except KeyboardInterrupt:
        print(
            "mixfree: stopped; what is finished is kept, and the same command goes on from there",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
    print("Written:", *map(str, written), sep="\n  ")


reproduce.__doc__ = f"{reproduce.__doc__}\n\n{LIST}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"p must be numbers between 0 and 1 with commas, not {text!r}") from None
