"""What does the order of rows cost, depending on what may be kept?

The problem is a linear regression whose features are AR(1) processes. The slower they mix, the less
a method learns that uses one row at a time. Sums over the whole stream do not depend on the order,
and a uniform sample of it hardly does.
"""

import time

import numpy as np
from curves import keep
from scipy.signal import lfilter

from mixfree.base.figures import label_ends, log_log, new_figure, save, styles_of
from mixfree.sklearn import StreamRegressor

COLUMNS = 20
TIMES = (1, 10, 100, 1_000, 10_000)  # 1/(1 − ρ)
WAYS = {
    "exact": {},
    "memory: ladder, 4,096 rows kept": {"method": "ladder", "memory": 4096},
    "ladder, memory='auto'": {"method": "ladder", "memory": "auto"},
    "nothing kept: ladder": {"method": "ladder", "memory": 0},
    "nothing kept: MAG": {"method": "mag", "step_scale": np.sqrt(COLUMNS)},
    "ladder, rows shuffled": {"method": "ladder", "memory": 0},
}


def stream(seed, mixing_time, rows):
    """Return rows, targets and the true weights."""
    rng = np.random.default_rng(seed)
    correlation = 1.0 - 1.0 / mixing_time
    noise = rng.standard_normal((rows, COLUMNS))
    noise[0] /= np.sqrt(1.0 - correlation**2)  # starts in the stationary distribution
    features = lfilter([np.sqrt(1.0 - correlation**2)], [1.0, -correlation], noise, axis=0)
    truth = rng.standard_normal(COLUMNS)
    return features, features @ truth + rng.standard_normal(rows), truth


def excess(way, seed, mixing_time, rows):
    """Return the excess of ½E(prediction − target)² over that of the true weights."""
    features, targets, truth = stream(seed, mixing_time, rows)
    if "shuffled" in way:
        order = np.random.default_rng([seed, 1]).permutation(rows)
        features, targets = features[order], targets[order]
    model = StreamRegressor(**WAYS[way], scale=None, fit_intercept=False, seed=seed)
    return 0.5 * ((model.fit(features, targets).coef_ - truth) ** 2).sum()


def main(times=TIMES, rows=50_000, seeds=5, figure=None):
    """Measure every method at every mixing time, draw the curves, and return the means."""
    begun = time.process_time()
    drawing, axes = new_figure(width=8.4, height=4.6)
    print(f"{'':34}" + "".join(f"{mixing:>10,}" for mixing in times))
    means, styles = {}, styles_of(WAYS)
    for way in WAYS:
        # Development did not use seeds from 1,000 on.
        runs = [[excess(way, 1000 + s, t, rows) for s in range(seeds)] for t in times]
        means[way] = [float(np.mean(each)) for each in runs]
        print(f"{way:34}" + "".join(f"{mean:10.2g}" for mean in means[way]), flush=True)
        width = 4.0 if way == "exact" else 1.6  # another curve lies on it
        axes.plot(
            times, means[way], label=way, marker="o", markersize=3.5, linewidth=width, **styles[way]
        )
    xlabel = "mixing time 1/(1 − ρ) of the features, in rows"
    log_log(axes, xlabel, f"excess risk after {rows:,} rows")
    axes.margins(x=0.0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("What the order of the rows costs, lower is better", loc="left")
    label_ends(axes)
    if figure:
        print(f"figure: {save(drawing, figure)[0]}")
    print(f"{time.process_time() - begun:.0f} s")
    return means


if __name__ == "__main__":
    found = main(figure="results/three-ways/three-ways")
    shown = {way: [f"{mean:.2g}" for mean in means] for way, means in found.items()}
    title, head = "Excess risk by mixing time 1/(1 − ρ)", [f"{mixing:,}" for mixing in TIMES]
    keep(__file__, title, shown, head, range(1000, 1005))
