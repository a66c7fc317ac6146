"""``mixfree reproduce``: the experiments."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from mixfree.base.terminal import complain, say
from mixfree.cli.options import names
from mixfree.reproduce import EXPERIMENTS, experiment


def reproduce(
    name: Annotated[str, Argument(help="One of the experiments above, or all.")],
    quick: Annotated[
        bool, Option("--quick", help="Run a small version, in seconds, that gives no verdicts.")
    ] = False,
    samples: Annotated[int | None, Option(help="Samples per run.")] = None,
    seeds: Annotated[int | None, Option(help="Number of seeds per setting.")] = None,
    methods: Annotated[str | None, Option(help="Methods to run, such as mag,adagrad.")] = None,
    p: Annotated[str | None, Option(help="Switching probabilities, such as 0.5,1e-4.")] = None,
    first_seed: Annotated[
        int | None, Option(help="First seed; below the default, there are no verdicts.")
    ] = None,
    jobs: Annotated[int | None, Option(help="Processes. Default: one per core.")] = None,
    backend: Annotated[str, Option(help="loky (this machine) or dask (a cluster).")] = "loky",
    out: Annotated[Path | None, Option(help="Folder. Default: results/NAME.")] = None,
) -> None:
    """Run an experiment of the paper or of the project.

    Writes its rows, settings, tables and figures to a folder. After an interruption, the same
    command continues where the run stopped.
    """
    from mixfree.reproduce.engine.run import run_experiment

    given = {
        "samples": samples,
        "seeds": seeds,
        "methods": None if methods is None else tuple(names(methods)),
        "p": None if p is None else tuple(map(_number, names(p))),
        "first_seed": first_seed,
    }
    if name == "all" and any(value is not None for value in given.values()):
        raise ValueError("sizes differ between experiments: name one experiment to change its size")
    for each in EXPERIMENTS if name == "all" else [name]:
        found = experiment(each)
        settings = (found.QUICK if quick else found.FULL).changed(**given)
        folder = out or Path("results")
        if out is None or name == "all":
            folder /= f"{each}-quick" if quick else each
        try:
            written = run_experiment(
                found, f"mixfree reproduce {each}", settings, folder, jobs, backend
            )
        except KeyboardInterrupt:
            complain("mixfree: interrupted; the same command continues from the finished runs")
            raise Exit(130) from None
        say("Written:", *(f"  {path}" for path in written))


_LIST = "\n".join(f"      {name:11} {summary}" for name, summary in EXPERIMENTS.items())
reproduce.__doc__ = f"{reproduce.__doc__}\n    \b\n    Experiments:\n{_LIST}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"p must be numbers between 0 and 1 separated by commas, not {text!r}"
        ) from None
