"""``mixfree demo``: the main result in a minute."""

from pathlib import Path
from typing import Annotated

from mixfree.base.extras import require

__all__ = ["demo"]

typer = require("typer")


def demo(
    out: Annotated[Path, typer.Option(help="File to save the figure to, as .png and .svg.")] = Path(
        "mixfree-demo.png"
    ),
    samples: Annotated[int, typer.Option(help="Samples per run.", min=32)] = 2_000_000,
    seeds: Annotated[int, typer.Option(help="Seeds per method.", min=1)] = 5,
) -> None:
    """Compare MAG with its baselines on a slowly mixing stream.

    The baselines are SGD, AdaGrad and SGD-MLMC; all learn from the same samples.
    """
    from mixfree.base.figures import save, save_paths
    from mixfree.reproduce.engine.report import Table
    from mixfree.reproduce.engine.store import check_writable_folder
    from mixfree.reproduce.paper.demo import SWITCHING, run_demo
    from mixfree.reproduce.paper.fig1 import draw, final
    from mixfree.reproduce.paper.problem import mixing_time
    from mixfree.reproduce.paper.runs import CAVEAT

    check_writable_folder(save_paths(out)[0].parent)
    rows, speed = run_demo(samples, seeds)
    last = final(rows)
    title = f"{samples:,} samples, p = {SWITCHING:g}, mixing time {mixing_time(SWITCHING):,}"
    Table(
        title,
        ["method", "suboptimality, 95 %", "relative to sgd", "samples/s"],
        [
            (method, found, f"{found.mean / last['sgd'].mean:.3f}", f"{speed[method] / 1e6:.1f} M")
            for method, found in last.items()
        ],
    ).show()
    print(CAVEAT)
    print(f"Figure: {save(draw(rows, title), out)[0]}")
