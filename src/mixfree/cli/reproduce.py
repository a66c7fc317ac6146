"""``mixfree reproduce``: the experiments."""

import sys
from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require
from mixfree.cli.options import names
from mixfree.reproduce import EXPERIMENTS, experiment

__all__ = ["reproduce"]

typer = require("typer")


def reproduce(
    name: Annotated[str, typer.Argument(help="One of the experiments above.")],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Run a small version in seconds, too small to judge the claims."
        ),
    ] = False,
    samples: Annotated[int | None, typer.Option(help="Samples per run.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds that everything is run with.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods to run, separated by commas, such as mag,adagrad.")
    ] = None,
    p: Annotated[
        str | None, typer.Option(help="Switching probabilities of the chain, such as 0.5,1e-4.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Number of processes. Default: one per core.")
    ] = None,
    backend: Annotated[
        str, typer.Option(help="loky (processes on this machine) or dask (a cluster).")
    ] = "loky",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write the results to. Default: results/NAME.")
    ] = None,
) -> None:
    """Run an experiment of the paper or of this project.

    Writes its rows, settings, tables and figures to a folder. After an interruption, the same
    command continues where the run stopped.
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
            "mixfree: interrupted; finished runs are kept, the same command continues from them",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None
    print("Written:", *map(str, written), sep="\n  ")


_LIST = "\n".join(f"      {name:10} {summary}" for name, summary in EXPERIMENTS.items())
reproduce.__doc__ = f"{reproduce.__doc__}\n    \b\n    Experiments:\n{_LIST}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"p must be numbers between 0 and 1 separated by commas, not {text!r}"
        ) from None
