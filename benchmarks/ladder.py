"""The ladder against the best constant step in hindsight, on streams drawn at random.

Every method runs without prior knowledge: no domain, no scale, no mixing time. The oracle takes the
best of a grid of constant steps with the best of three averages, one choice for all streams of a
case: it knows everything but the random draws of each stream. Suboptimality is measured on the
samples of the stream itself. On the paper's problem, where it is measured under the
stationary distribution, the best choice per seed is also shown.

A seed draws the loss, the dimension, the condition and the scale of the features, their own
correlation, the noise, the distance of the solution, the chain, its mixing time and the length, so
that no method can be tuned to the streams it is judged on.
"""

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter

import mixfree as mf
from mixfree.base.figures import log_log, new_figure, styles_of
from mixfree.base.terminal import Table
from mixfree.chains import MarkovChain, cycle, two_state
from mixfree.core.optimizer import GradientRefused
from mixfree.kernels.jit import uncached
from mixfree.kernels.linear import slope
from mixfree.linear.advance import advance_linear
from mixfree.linear.learner_for import learner_for
from mixfree.linear.losses import Huber, Logistic, Loss, Squared, compiled_loss
from mixfree.reproduce.engine.report import Claim, Report, Settings
from mixfree.reproduce.engine.rows import gather, where
from mixfree.reproduce.engine.statistics import bootstrap, ratio
from mixfree.steps.profile import MIN_BLOCKS

FULL = Settings(samples=200_000, seeds=200, first_seed=8600)
QUICK = Settings(samples=4_000, seeds=2)
FAMILIES = ("two states", "ring", "cliques", "autoregressive")
LOSSES = {"squared": Squared(), "logistic": Logistic(), "huber": Huber(1.0)}
STREAMS = 4  # streams per case, so that the best step does not overfit one of them
JUDGED = 20_000  # independent rows that represent the law of an autoregressive stream
POWERS = np.arange(-6.0, 1.1, 0.25)  # powers of 10 of the step, in units of 1/mean ‖row‖²
PAPER = (0.5, 1e-2, 1e-3, 1e-4, 1e-5)  # switching probabilities
PAPER_LENGTH = 25  # length of the paper's streams, in lengths of the longest random stream
PAPER_SEEDS = 5
ALPHAS = tuple(10.0 ** (k / 4) for k in range(-12, 5))
WITHOUT, MEMORY = "ladder, estimator", "ladder, memory"
ORACLE, EACH = "best constant step", "best constant step for each seed"
SHUFFLED, FITTED = "ladder, samples shuffled", "least squares of the samples"
TUNED = "adagrad, best α for each seed"
OFF_SCALE, LEFT = 1e4, 0.02  # ratios beyond which a method is off the figure's scale
WORST = 10  # worst cases listed
# Stationary streams: two regimes by their switching probability, and AR(1) rows by ρ.
STREAMS_OF = [("regimes", p) for p in (0.3, 0.03, 0.003, 3e-4)]
STREAMS_OF += [("autoregressive", rho) for rho in (0.0, 0.9, 0.99, 0.999)]
LENGTHS = (0.005, 0.05, 0.5, 1.5)  # of such a stream, in lengths of the longest random stream
STREAM_SEEDS = 60  # with 12, the mean ratio of the streams has a standard deviation of 0.07
PIECE = 1 << 16  # rows given to a learner at a time, to bound the memory


@dataclass(frozen=True)
class Problem:
    """Numbered samples, ``order(seed, samples)`` of a stream, and the suboptimality of points."""

    rows: np.ndarray = field(repr=False)
    targets: np.ndarray = field(repr=False)
    loss: Loss
    order: object = field(repr=False)
    excess: object = field(repr=False)

    @np.errstate(over="ignore")
    def gap(self, points):
        """Return the suboptimality of each point, infinite where it overflows."""
        return self.excess(points)

    def over(self, order):
        """Return the same problem with the suboptimality over the samples of one stream."""
        counts = np.bincount(order, minlength=len(self.rows))
        there = np.flatnonzero(counts)
        rows, targets = self.rows[there], self.targets[there]
        excess = excess_under(counts[there] / len(order), rows, targets, self.loss)
        return replace(self, excess=excess)

    def advance(self, opt, order):
        advance_linear(opt, self.loss, self.rows, self.targets, order=order)


def on_chain(chain, rows, targets, loss):
    """Return a problem whose states have rows of their own, drawn uniformly at each visit."""
    _, per_state, dimension = rows.shape
    flat, labels = np.ascontiguousarray(rows.reshape(-1, dimension)), targets.ravel()

    def order(seed, samples):
        shown = np.random.default_rng([seed, 1]).integers(per_state, size=samples)
        return np.asarray(chain.simulate(samples, seed=seed)) * per_state + shown

    law = np.repeat(chain.stationary / per_state, per_state)
    return Problem(flat, labels, loss, order, excess_under(law, flat, labels, loss))


def excess_under(law, rows, targets, loss):
    """Return the mean loss of points under a law on the rows, above its minimum, as a function."""
    best = minimizer(rows, targets, loss, law)
    if isinstance(loss, Squared):
        # A difference of two large losses would cancel.
        root = np.linalg.cholesky(rows.T @ (rows * law[:, None]))
        return lambda points: 0.5 * (((points - best) @ root) ** 2).sum(axis=1)
    least = law @ loss.value(rows @ best, targets)
    return lambda points: law @ loss.value(rows @ points.T, targets[:, None]) - least


def minimizer(rows, targets, loss, law):
    """Compute the minimiser of the mean loss."""
    if isinstance(loss, Squared):
        weighted = rows * law[:, None]
        return np.linalg.solve(rows.T @ weighted, weighted.T @ targets)
    # In whitened coordinates the condition number is that of the loss alone.
    root = np.linalg.cholesky(rows.T @ (rows * law[:, None]))
    white = np.linalg.solve(root, rows.T).T

    def objective(u):
        at = white @ u
        return float(law @ loss.value(at, targets)), white.T @ (law * loss.derivative(at, targets))

    options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-9, "maxls": 60}
    start = np.zeros(rows.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return np.linalg.solve(root.T, found.x)


def between_two(seed, p, dimension=100):
    """Draw linear data on the paper's chain: two states, each with its own w† ~ N(0, I/d)."""
    rng = np.random.default_rng([seed, 0])
    truth = rng.standard_normal((2, dimension)) / math.sqrt(dimension)
    rng.standard_normal(dimension)  # not used, but the draws below are those after it
    rows = rng.standard_normal((2, 250, dimension))
    noise = rng.standard_normal((2, 250))
    targets = np.einsum("snd,sd->sn", rows, truth) + math.sqrt(1e-3) * noise
    return on_chain(two_state(p), rows, targets, Squared())


def stationary_stream(kind, value, samples, seed):
    """Draw rows, targets, the law's second moments of the rows, and the best weights."""
    rng = np.random.default_rng([seed, int(1e5 * value), kind == "regimes"])
    if kind == "regimes":
        truth = rng.standard_normal((2, 5))
        regime = (np.cumsum(rng.random(samples) < value) + rng.integers(2)) % 2
        rows = rng.standard_normal((samples, 5)) * np.where(regime, 1.0, 0.6)[:, None]
        targets = (rows * truth[regime]).sum(axis=1) + 0.03 * rng.standard_normal(samples)
        return rows, targets, 0.68 * np.eye(5), (0.36 * truth[0] + truth[1]) / 1.36
    drawn = rng.standard_normal((samples, 11))  # ten columns of condition 30, rotated, and errors
    drawn[1:] *= math.sqrt(1.0 - value**2)
    path = lfilter([1.0], [1.0, -value], drawn, axis=0)
    turn, _ = np.linalg.qr(rng.standard_normal((10, 10)))
    root, truth = turn * np.logspace(0.0, -0.5 * math.log10(30.0), 10), rng.standard_normal(10)
    rows = path[:, :10] @ root.T
    return rows, rows @ truth + path[:, 10], root @ root.T, truth


def stationary_gaps(kind, value, samples, seeds):
    """Suboptimality of the ladder and of the fit of all samples, per seed."""
    found = {"ladder": [], FITTED: []}
    for seed in seeds:
        rows, targets, moments, best = stationary_stream(kind, value, samples, seed)
        opt = mf.Ladder(np.zeros(len(best)))
        advance_linear(opt, Squared(), rows, targets)
        fit = np.linalg.solve(rows.T @ rows, rows.T @ targets)
        for name, weights in (("ladder", opt.average), (FITTED, fit)):
            found[name].append(float(0.5 * (weights - best) @ moments @ (weights - best)))
    return found


@dataclass(frozen=True)
class Draw:
    """A random case, drawn before any data are generated.

    ``mixing`` is the number of samples over which the stream forgets its state, ``condition`` the
    largest variance of the features over the smallest, along axes that are those of the
    coordinates or, when ``rotated``, random ones. ``scale``, ``distance`` and ``noise`` are the
    sizes of the features, of the solution in those units, and of the noise.
    """

    seed: int
    samples: int
    family: str
    loss: str
    dimension: int
    mixing: float
    condition: float
    rotated: bool
    scale: float
    distance: float
    noise: float

    def __str__(self):
        axes = "rotated" if self.rotated else "along the axes"
        return (
            f"{self.family}, {self.loss}, {self.samples:,} samples, d = {self.dimension}, "
            f"mixing {self.mixing:,.0f}, condition {self.condition:,.0f} {axes}, "
            f"features {self.scale:.2g}, distance {self.distance:.2g}, noise {self.noise:.2g}"
        )

    def problem(self):
        """Generate the data; the orders are those of the streams 0, 1, 2 and 3."""
        rng = np.random.default_rng([self.seed, 1])
        sizes = np.logspace(0.0, -0.5 * math.log10(self.condition), self.dimension)
        if self.rotated:
            turn, _ = np.linalg.qr(rng.standard_normal((self.dimension, self.dimension)))
            roots = turn * sizes
        else:
            roots = np.diag(rng.permutation(sizes))
        truth = rng.standard_normal(self.dimension)
        truth *= self.distance / np.linalg.norm(truth)
        make = self._autoregressive if self.family == "autoregressive" else self._on_chain
        return make(rng, roots, truth)

    def _targets(self, rng, margins, noise):
        """Return targets of standardised margins: classes, or numbers with noise."""
        if self.loss == "logistic":
            # One label in ten is random, so that the classes are not separable.
            odds = np.exp(-np.clip(margins / max(self.noise, 0.1), -30.0, 30.0))
            return np.where(rng.random(margins.shape) < 0.05 + 0.9 / (1.0 + odds), 1.0, -1.0)
        if self.loss == "huber":
            noise = noise * 30.0 ** (rng.random(noise.shape) < 0.05)  # outliers
        return margins + self.noise * noise

    def _on_chain(self, rng, roots, truth):
        """Generate data with rows and a truth per state, around a common truth."""
        chain = chain_of(self.family, self.mixing)
        per_state = 2000 // len(chain)
        apart = rng.standard_normal((len(chain), self.dimension)) / math.sqrt(self.dimension)
        spread = 10.0 ** rng.uniform(-1.0, 0.5)
        rows = rng.standard_normal((len(chain), per_state, self.dimension)) @ roots.T
        margins = np.einsum("snd,sd->sn", rows, truth + spread * apart)
        targets = self._targets(rng, margins, rng.standard_normal(margins.shape))
        return on_chain(chain, rows * self.scale, targets, LOSSES[self.loss])

    def _autoregressive(self, rng, roots, truth):
        """Generate AR(1) features, half of the time also AR(1) noise; each row occurs once."""
        kept = math.exp(-1.0 / self.mixing)
        correlated_noise = rng.random() < 0.5
        drawn = rng.standard_normal((STREAMS * self.samples, self.dimension + 1))
        fresh, start = math.sqrt(1.0 - kept**2), rng.standard_normal(self.dimension + 1)
        path = lfilter([1.0], [1.0, -kept], fresh * drawn, axis=0, zi=kept * start[None])[0]
        rows = path[:, :-1] @ roots.T
        noise = path[:, -1] if correlated_noise else drawn[:, -1]
        targets = self._targets(rng, rows @ truth, noise)
        other = self.scale * rng.standard_normal((JUDGED, self.dimension)) @ roots.T
        labels = self._targets(rng, other @ truth / self.scale, rng.standard_normal(JUDGED))
        loss = LOSSES[self.loss]
        excess = excess_under(np.full(JUDGED, 1.0 / JUDGED), other, labels, loss)

        def order(stream, samples):
            return stream * self.samples + np.arange(samples)

        return Problem(np.ascontiguousarray(self.scale * rows), targets, loss, order, excess)


def draw(seed, longest=200_000):
    """Draw the case of a seed; its stream has at least a twentieth of ``longest`` samples."""
    rng = np.random.default_rng([seed, 0])

    def between(least, most):
        return float(math.exp(rng.uniform(math.log(least), math.log(most))))

    samples = int(between(longest / 20, longest))
    return Draw(
        seed=seed,
        samples=samples,
        family=str(rng.choice(FAMILIES)),
        loss=str(rng.choice(list(LOSSES), p=[0.5, 0.25, 0.25])),
        dimension=int(between(3, 100)),
        mixing=between(1.0, samples / 20),
        condition=between(1.0, 1e4),
        rotated=bool(rng.random() < 0.5),
        scale=between(0.01, 100.0),
        distance=between(0.1, 100.0),
        noise=between(0.01, 3.0),
    )


def chain_of(family, mixing):
    """Return a chain of this kind that forgets its state in about ``mixing`` steps."""
    if family == "two states":
        return two_state(min(0.5, 0.5 / mixing))
    if family == "ring":
        # The lazy walk on ten nodes has a spectral gap of (1 − cos(2π/10))/2.
        slow = min(1.0, 2.0 / (mixing * (1.0 - math.cos(2.0 * math.pi / 10))))
        lazy = 0.5 * (np.eye(10) + np.asarray(cycle(10).P))
        return MarkovChain((1.0 - slow) * np.eye(10) + slow * lazy)
    # Three cliques of four nodes, left for one of the others with a small probability.
    within, leave = np.kron(np.eye(3), np.full((4, 4), 0.25)), min(2.0 / 3.0, 2.0 / (3.0 * mixing))
    others = np.kron(np.ones((3, 3)) - np.eye(3), np.full((4, 4), 0.125))
    return MarkovChain((1.0 - leave) * within + leave * others)


def run_of(make):
    """Return a contender: the output of an optimiser started at the origin."""

    def run(problem, order):
        opt = make(np.zeros(problem.rows.shape[1]))
        problem.advance(opt, order)
        return opt.average

    return run


def learner_of(memory):
    """Return a contender: the weights of the estimators' ladder."""

    def run(problem, order):
        options = {"method": "ladder", "memory": memory, "scale": None, "fit_intercept": False}
        learner = learner_for(problem.loss, problem.rows.shape[1], **options)
        for start in range(0, len(order), PIECE):
            piece = order[start : start + PIECE]
            learner.advance(problem.rows[piece], problem.targets[piece])
        return learner.weights.ravel()

    return run


CONTENDERS = {
    "ladder": run_of(mf.Ladder),
    WITHOUT: learner_of(0),
    MEMORY: learner_of("auto"),
    "mag": run_of(mf.MAG),
    "adagrad": run_of(mf.AdaGrad),
}


def gap_of(problem, order, run):
    """Return the suboptimality of a method's output, infinite if the run diverged."""
    try:
        gap = float(problem.gap(run(problem, order)[None])[0])
    except GradientRefused:
        return math.inf
    return gap if math.isfinite(gap) else math.inf


def gaps_in_hindsight(problem, order):
    """Compute the suboptimality of SGD by step, and by the average of its path: uniform, weighted
    by t, of its second half; infinite where a run diverged."""
    unit = 1.0 / float(np.mean(np.einsum("ij,ij->i", problem.rows, problem.rows)))
    points = (
        constant_step(problem.loss, unit * 10.0**power, problem.rows, problem.targets, order)
        for power in POWERS
    )
    return np.array([problem.gap(p) if np.isfinite(p).all() else [np.inf] * 3 for p in points])


def constant_step(loss, step, rows, targets, order):
    """Compute the three averages of SGD's path from the origin; infinite if it diverges."""
    averages = np.zeros((3, rows.shape[1]))
    start = np.zeros(rows.shape[1])
    stays = add_path(compiled_loss(loss), step, rows, targets, order, start, averages)
    return averages if stays else np.full_like(averages, np.inf)


@uncached
def add_path(loss, step, rows, targets, order, x, averages):
    """Write the averages; False if the path goes away without end."""
    half = order.size // 2
    for i in range(order.size):
        r = order[i]
        row = rows[r]
        sum_, weighted = averages[0 if i < half else 2], averages[1]
        margin = 0.0
        for k in range(x.size):
            margin += row[k] * x[k]
        if not abs(margin) < 1e150:
            return False
        move = step * slope(loss, margin, targets[r])
        weight = i + 1.0
        for k in range(x.size):
            sum_[k] += x[k]
            weighted[k] += weight * x[k]
            x[k] -= move * row[k]
    for k in range(x.size):
        averages[0, k] = (averages[0, k] + averages[2, k]) / order.size
        averages[1, k] /= 0.5 * order.size * (order.size + 1.0)
        averages[2, k] /= order.size - half
    return True


def cells(settings):
    """Return the cells: random cases, then the paper's problem, with memory, and profiles."""
    numbers, samples = list(settings.seed_numbers), PAPER_LENGTH * settings.samples
    seeds, fifth, many = numbers[:PAPER_SEEDS], samples // 5, numbers[:STREAM_SEEDS]
    return [
        *({"study": "drawn", "longest": settings.samples, "seed": seed} for seed in numbers),
        *({"study": "paper", "p": p, "samples": samples, "seeds": seeds} for p in PAPER),
        *({"study": "memory", "p": p, "samples": fifth, "seeds": seeds[:3]} for p in PAPER),
        *(
            {"study": "stationary", "kind": kind, "value": value, "samples": int(n), "seeds": many}
            for kind, value in STREAMS_OF
            for n in settings.samples * np.array(LENGTHS)
        ),
        *({"study": "profile", "p": p, "samples": fifth, "seeds": seeds[:1]} for p in PAPER[:-1]),
    ]


def measure(cell):
    """Return one row per method and for the oracle, or one per level of a profile."""
    about = {"study": cell["study"]}
    if cell["study"] == "drawn":
        case = draw(cell["seed"], cell["longest"])
        about |= {"seed": cell["seed"], "family": case.family, "case": str(case)}
        found = {name: [value] for name, value in drawn_gaps(case).items()}
        return [{**about, "method": n, "suboptimality": v} for n, (v,) in found.items()]
    if cell["study"] == "stationary":
        found = stationary_gaps(cell["kind"], cell["value"], cell["samples"], cell["seeds"])
        about |= {"stream": f"{cell['kind']} {cell['value']:g}", "samples": cell["samples"]}
        return [
            {**about, "seed": seed, "method": name, "suboptimality": gap}
            for name, gaps in found.items()
            for seed, gap in zip(cell["seeds"], gaps, strict=True)
        ]
    streams = []
    for seed in cell["seeds"]:
        problem = between_two(seed, p=cell["p"])
        streams.append((problem, problem.order(seed, cell["samples"]), seed))
    about |= {"p": cell["p"]}
    if cell["study"] == "profile":
        (problem, order, _), opt = streams[0], mf.Ladder(np.zeros(100))
        problem.advance(opt, order)
        levels = zip(*(column.tolist() for column in opt.profile()), strict=True)
        return [{**about, "length": n, "ratio": ratio, "blocks": many} for n, ratio, many in levels]
    found = (paper_gaps if cell["study"] == "paper" else memory_gaps)(streams)
    return [
        {**about, "seed": seed, "method": name, "suboptimality": value}
        for name, values in found.items()
        for seed, value in zip(cell["seeds"], values, strict=True)
    ]


def drawn_gaps(case):
    """Measure the mean suboptimality over the streams of a case, each over its own samples."""
    problem = case.problem()
    orders = [problem.order(stream, case.samples) for stream in range(STREAMS)]
    streams = [(problem.over(order), order) for order in orders]
    hindsight = np.mean([gaps_in_hindsight(*stream) for stream in streams], axis=0)
    means = {
        name: float(np.mean([gap_of(*stream, run) for stream in streams]))
        for name, run in CONTENDERS.items()
    }
    return {ORACLE: float(hindsight.min()), **means}


def paper_gaps(streams):
    """Measure all methods on the paper's problem; the oracle's step is the best for all seeds."""
    hindsight = [gaps_in_hindsight(problem, order).ravel() for problem, order, _ in streams]
    best = int(np.argmin(np.mean(hindsight, axis=0)))
    tuned = [run_of(partial(mf.AdaGrad, alpha=alpha)) for alpha in ALPHAS]
    return {
        ORACLE: [float(gaps[best]) for gaps in hindsight],
        EACH: [float(gaps.min()) for gaps in hindsight],
        **{n: [gap_of(*each[:2], run) for each in streams] for n, run in CONTENDERS.items()},
        TUNED: [min(gap_of(*each[:2], run) for run in tuned) for each in streams],
    }


def memory_gaps(streams):
    """Measure the ladder without and with memory, on the same samples shuffled, and their fit."""
    found = {"ladder": [], MEMORY: [], SHUFFLED: [], FITTED: []}
    for problem, order, seed in streams:
        shuffled = np.random.default_rng(seed).permutation(order)
        for name, samples in (("ladder", order), (MEMORY, order), (SHUFFLED, shuffled)):
            run = CONTENDERS["ladder" if name == SHUFFLED else name]
            found[name].append(gap_of(problem, samples, run))
        law = np.bincount(order, minlength=len(problem.rows)) / len(order)
        fit = minimizer(problem.rows, problem.targets, problem.loss, law)
        found[FITTED].append(float(problem.gap(fit[None])[0]))
    return found


def report(rows, settings):
    """Make the tables and figures, and compare the targets with what was measured."""
    drawn = where(rows, study="drawn")
    cases = where(drawn, method=ORACLE)
    ratios = over_oracle(drawn)
    paper, memory = (
        gather(where(rows, study=study), "p", "method", "suboptimality")
        for study in ("paper", "memory")
    )
    figures = {
        "ladder": draw_distribution(cases, ratios),
        "profile": draw_profile(where(rows, study="profile")),
    }
    tables = [
        *drawn_tables(cases, ratios),
        by_p("Suboptimality on the paper's problem, no domain", paper),
        by_p("The same after a fifth of the samples", memory),
    ]
    fitted, claims = stationary_table(where(rows, study="stationary"))
    claims = [*drawn_claims(ratios), *claims, *paper_claims(paper, memory)]
    return Report([*tables, fitted], figures, claims)


def stationary_table(rows):
    """Tabulate the ladder's suboptimality over that of the fit of all samples, and the targets."""
    streams, lines = {}, []
    for stream in dict.fromkeys(row["stream"] for row in rows):
        # Seeds × lengths of the stream × the two methods.
        lengths = gather(where(rows, stream=stream), "samples", "method", "suboptimality")
        gaps = np.array([[each["ladder"], each[FITTED]] for each in lengths.values()])
        streams[stream] = gaps = gaps.transpose(2, 0, 1)
        means = gaps.mean(axis=0)
        ratios = means[:, 0] / means[:, 1]
        lines.append((stream, *map(number, ratios), number(geometric_mean(ratios))))
    head = ["", *(f"{n:,} samples" for n in lengths), "geometric mean"]
    title = "Suboptimality under the stationary distribution over that of the fit of all samples"

    def mean_ratios(means):
        return np.exp(np.log(means[..., 0] / means[..., 1]).mean(axis=-1))

    together = np.stack([*streams.values()], axis=1)
    mean = bootstrap(together, lambda means: mean_ratios(means).mean(axis=-1))
    each = {stream: bootstrap(gaps, mean_ratios) for stream, gaps in streams.items()}
    return Table(title, head, lines), [
        Claim.below("Stationary streams: mean ratio at most 1.45", mean, 1.45, ".2f"),
        Claim.below("Stationary streams: no stream above 1.7", each, 1.7, ".2f"),
    ]


def over_oracle(drawn):
    """Return each method's suboptimality over that of the best constant step, per case."""
    found = gather(drawn, "method", "seed", "suboptimality")
    best = np.array([gap for (gap,) in found[ORACLE].values()])
    # Diverged runs have a large but finite ratio.
    return {
        name: np.minimum(np.array([gap for (gap,) in found[name].values()]) / best, 1e300)
        for name in CONTENDERS
    }


def geometric_mean(values):
    return float(np.exp(np.mean(np.log(values))))


def drawn_tables(cases, ratios):
    """Tabulate quantiles of the ratios, geometric means by family, and the ladder's worst cases."""
    quantiles = {
        name: [geometric_mean(v), *np.quantile(v, [0.5, 0.9, 0.95]), v.max()]
        for name, v in ratios.items()
    }
    families = np.array([row["family"] for row in cases])
    places = np.argsort(-ratios["ladder"])[:WORST]
    first, last = cases[0]["seed"], cases[-1]["seed"]
    return [
        Table(
            "Suboptimality on the stream over that of the best constant step, "
            f"cases {first} to {last}",
            ["", "geometric mean", "median", "90 %", "95 %", "worst"],
            [(name, *map(number, shown)) for name, shown in quantiles.items()],
        ),
        Table(
            "The same as geometric means by family",
            ["", "cases", *ratios],
            [
                (name, int(here.sum()), *(number(geometric_mean(v[here])) for v in ratios.values()))
                for name in FAMILIES
                if (here := families == name).any()
            ],
        ),
        Table(
            f"The ladder's worst {len(places)} cases",
            ["", "seed", *ratios],
            [
                (cases[i]["case"], cases[i]["seed"], *(number(v[i]) for v in ratios.values()))
                for i in places
            ],
        ),
    ]


def by_p(title, found):
    names = next(iter(found.values()))
    lines = [(name, *(f"{np.mean(each[name]):.2e}" for each in found.values())) for name in names]
    return Table(title, ["", *(f"p = {p:g}" for p in found)], lines)


def drawn_claims(ratios):
    """Return the targets on random streams."""
    ladder, memory = ratios["ladder"], ratios[MEMORY]
    harmed = memory > 1.1 * ratios[WITHOUT]
    large = f"{np.quantile(ladder, 0.95):.2f}"
    return [
        mean_claim("Geometric mean of the ladder's ratio at most 1.55", ladder, 1.55),
        Claim.below("95 % of its ratios at most 4", bootstrap(ladder > 4.0), 0.05, measured=large),
        # A largest value has no interval.
        Claim("Its worst ratio at most 20", number(ladder.max()), bool(ladder.max() <= 20.0)),
        mean_claim("Geometric mean with memory at most 0.3", memory, 0.3),
        Claim.below(
            "With memory more than 1.1 times the estimator without in at most 5 % of the cases",
            bootstrap(harmed),
            0.05,
            ".1%",
        ),
    ]


def mean_claim(text, ratios, limit):
    found = bootstrap(np.log(ratios))
    return Claim.below(text, found, math.log(limit), measured=number(math.exp(found.value)))


def paper_claims(paper, memory):
    """Return the targets on the paper's problem, with and without memory."""

    def at_most(text, limit, found, name, others):
        ratios = {
            p: ratio(each[name], min((each[other] for other in others), key=np.mean))
            for p, each in found.items()
        }
        measured = ", ".join(f"{ratio.value:.2f} (p = {p:g})" for p, ratio in ratios.items())
        return Claim.below(text, ratios, limit, measured=measured)

    beside = "Paper's problem with memory: at most 1.3 times the better of the ladder and shuffled"
    independent = {p: each for p, each in paper.items() if p == 0.5}
    step = "Paper's problem: at most 1.5 times the best constant step"
    tuned = "Independent data: at most 1.5 times AdaGrad, best α"
    return [
        at_most(step, 1.5, paper, "ladder", [ORACLE]),
        at_most("Paper's problem: at most half of MAG", 0.5, paper, "ladder", ["mag"]),
        at_most(tuned, 1.5, independent, "ladder", [TUNED]),
        at_most(beside, 1.3, memory, MEMORY, ["ladder", SHUFFLED]),
    ]


def draw_distribution(cases, ratios):
    """Plot for each family the share of cases below a ratio, one line per method."""
    families = np.array([row["family"] for row in cases])
    there = [name for name in FAMILIES if (families == name).any()]
    drawing, axes = new_figure(1, len(there), width=2.6 * len(there), height=3.6, sharey=True)
    styles = styles_of(ratios)
    for place, name in zip(np.atleast_1d(axes), there, strict=True):
        for method, values in ratios.items():
            inside = np.sort(values[families == name])
            share = np.arange(1, inside.size + 1) / inside.size
            shown = np.clip(inside, LEFT, OFF_SCALE)
            place.step(shown, share, where="post", label=method, **styles[method])
        place.axvline(1.0, color="black", linewidth=0.6)
        place.set_xscale("log")
        place.set_xlim(LEFT / 2.0, OFF_SCALE)
        place.set_title(f"{name}, {inside.size} cases", fontsize=9)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("share of the cases at or below")
    drawing.supxlabel("suboptimality over that of the best constant step", size=9)
    above = {"frameon": False, "loc": "outside upper center", "ncols": len(ratios)}
    title = "Error beside the best constant step, further left is better"
    drawing.legend(*first.get_legend_handles_labels(), title=title, **above)
    return drawing


def draw_profile(rows):
    """Plot the ladder's profile: the variance inflation of its levels on the paper's problem."""
    drawn, axes = new_figure(width=7.0, height=3.6)
    reliable = (row for row in rows if row["blocks"] >= MIN_BLOCKS)
    for p, levels in gather(reliable, "p", "length", "ratio").items():
        ratios = [ratio for (ratio,) in levels.values()]
        (line,) = axes.plot(list(levels), ratios, label=f"p = {p:g}")
        if p < 0.5:
            axes.axvline(0.5 / p, color=line.get_color(), linewidth=0.8, linestyle="dotted")
    log_log(axes)
    axes.set_xlabel("block length in samples (dotted: 1/(2p), the correlation scale)")
    axes.set_ylabel("variance inflation over\nindependent gradients")
    axes.set_title("How correlated gradients are, by the ladder's own levels", loc="left")
    if axes.lines:  # a short run has no level with enough blocks
        axes.legend(frameon=False)
    return drawn


def number(value):
    if value >= OFF_SCALE:
        return f"over {OFF_SCALE:.0e}"
    if 0.0 < value < 0.01:
        return f"{value:.0e}"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"
