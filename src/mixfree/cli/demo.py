"""``mixfree demo``: the main result in a minute."""

from pathlib import Path
from typing import Annotated

from typer import Option

from mixfree.base.terminal import Table, say
from mixfree.cli.options import Force


def demo(
    out: Annotated[Path, Option(help="File to save the figure to, as .png and .svg.")] = Path(
        "mixfree-demo.png"
    ),
    samples: Annotated[int, Option(help="Samples per run.", min=32)] = 2_000_000,
    seeds: Annotated[int, Option(help="Seeds per method.", min=1)] = 10,
    force: Force = False,
) -> None:
    """Compare mixfree with SGD and AdaGrad on one slow stream.

    All learn the same linear model from the same samples in the same order. MAG and the ladder
    keep no samples; the exact fit, the default of linear models, keeps sums over them.
    """
    from mixfree.base.figures import check_figures, save
    from mixfree.reproduce.engine.statistics import bootstrap
    from mixfree.reproduce.paper.demo import SWITCHING, draw_demo, limit_of, run_demo
    from mixfree.reproduce.paper.fig1 import at_end
    from mixfree.reproduce.paper.problem import CAVEAT, mixing_time

    check_figures(out, "out", force)
    rows, speed = run_demo(samples, seeds)
    last = {method: bootstrap(values) for method, values in at_end(rows).items()}
    limit = limit_of(rows) / samples
    Table(
        f"{samples:,} samples, p = {SWITCHING:g}, mixing time {mixing_time(SWITCHING):,}",
        ["method", "suboptimality, 95 %", "over the limit", "samples/s"],
        [
            (
                method,
                str(found),
                f"{found.value / limit:.2g}",
                f"{speed[method] / 1e6:.1f} M" if method in speed else "",
            )
            for method, found in last.items()
        ],
    ).show()
    say("Limit: the mean error of a fit to all samples, as their number grows; the least possible.")
    say(CAVEAT, f"Figure: {save(draw_demo(rows), out)[0]}")
