"""Methods published after the paper that the four parts can express."""

import math
from functools import partial

import numpy.typing as npt

from mixfree.base.checks import check_whole, shown
from mixfree.core.method import MIRRORS, Common, Method
from mixfree.domains import Domain
from mixfree.gradients import MLMC, Halves
from mixfree.steps import Accelerated, AcceleratedConvex, Extragradient

LONGEST = 2**30  # largest horizon, for very large condition numbers


class RASGD(Method):
    """Nesterov acceleration with random batches of 2^J·B samples (Beznosikov et al. 2023).

    For strongly convex functions, from any start and without a domain. The step and its symbols
    are those of :class:`mixfree.steps.Accelerated`; ``output="last"`` is x_g.

    Parameters
    ----------
    condition
        κ = L/μ: the Lipschitz constant of the gradient over the strong convexity.
    batch
        B. The paper has B = b log₂ M, and b = τ where the mixing time is known.
    horizon
        M: a level with 2^J > M uses B samples and no correction. ``None`` is
        max(2, √((1 + p/β)/p)), which was not compared with the paper's text.
    damping
        p, at most 1, and less where the noise of a gradient grows with the gradient itself.
    alpha
        1/L; 1 unless given.
    x0, domain, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> import numpy as np
    >>> curvature, opt = np.array([1.0, 0.01]), RASGD([1e6, 1e6], alpha=1.0, condition=100.0)
    >>> for _ in range(2000):
    ...     stepped = opt.tell(curvature * opt.x)
    >>> bool(np.abs(opt.average).max() < 1e-6)
    True
    """

    name = "rasgd"
    default_output = "last"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        condition: float = 100.0,
        batch: int = 1,
        horizon: int | None = None,
        damping: float = 1.0,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = _euclidean(self.name, domain, alpha, output, mirror, seed)
        rule = partial(Accelerated, condition=condition, damping=damping)
        if horizon is None:
            p, beta = damping, rule(1.0).beta
            horizon = max(2, math.ceil(min(math.sqrt((1.0 + p / beta) / p), LONGEST)))
        law = MLMC(None, "exact", horizon, seed, batch)
        super().__init__(x0, law, rule, **common)


class ACSA(Method):
    """Acceleration without strong convexity (Lan 2012), with random batches of 2^J·B samples.

    For convex functions, without a domain. AC-SA: the step and its symbols are those of
    :class:`mixfree.steps.AcceleratedConvex`; the gradient is that of :class:`RASGD`, and
    ``output="last"`` is x_g.

    Parameters
    ----------
    growing
        K: the number of steps over which the step size grows; it falls like 1/√t afterwards.
        Larger values suit smaller noise; ``None``, without an end, suits exact gradients only.
    batch
        B samples at the lowest level.
    horizon
        M: a level with 2^J > M uses B samples and no correction.
    alpha
        1/L; 1 unless given.
    x0, domain, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> opt = ACSA([1.0, 1.0], growing=None)
    >>> for _ in range(2000):
    ...     stepped = opt.tell([opt.x[0], opt.x[1] ** 3])    # no strong convexity: x²/2 + y⁴/4
    >>> bool(opt.average[0] ** 2 / 2 + opt.average[1] ** 4 / 4 < 1e-6)
    True
    """

    name = "ac-sa"
    default_output = "last"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        growing: int | None = 10,
        batch: int = 1,
        horizon: int = 16,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        common = _euclidean(self.name, domain, alpha, output, mirror, seed)
        law = MLMC(None, "exact", check_whole(horizon, "horizon"), seed, batch)
        super().__init__(x0, law, partial(AcceleratedConvex, growing=growing), **common)


class REG(Method):
    """Extragradient with random batches of 2^J·B samples (Beznosikov et al. 2023), for games.

    Accepts the values of any monotone operator, not only gradients. With
    ``mirror="entropic"`` it is mirror-prox, as in Solodkin et al. (2024). Averages are of the
    half points; on a strongly monotone operator ``output="last"`` converges, too.

    Parameters
    ----------
    batch
        B samples at each half step, and 2^J·B at each whole one.
    horizon
        M: a level with 2^J > M uses B samples and no correction. The paper's own choice was not
        at hand.
    alpha
        The step γ, below 1/L for an operator with Lipschitz constant L; ½ unless given.
    x0, domain, output, mirror, seed
        As for every :class:`Method`.

    Examples
    --------
    >>> import numpy as np
    >>> opt = REG([1.0, 0.0])                          # min over x, max over y of xy
    >>> for _ in range(2000):
    ...     stepped = opt.tell([opt.x[1], -opt.x[0]])
    >>> bool(np.abs(opt.x).max() < 1e-6)
    True
    """

    name = "reg"

    def __init__(
        self,
        x0: npt.ArrayLike,
        *,
        batch: int = 1,
        horizon: int = 16,
        domain: Domain | None = None,
        alpha: float | None = None,
        output: str | None = None,
        mirror: str | None = None,
        seed: int = 0,
    ) -> None:
        alpha = 0.5 if alpha is None else alpha
        common = Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
        geometry = None if mirror in (None, "euclidean") else MIRRORS.get(mirror)
        law = Halves(None, "exact", check_whole(horizon, "horizon"), seed, batch)
        super().__init__(x0, law, partial(Extragradient, mirror=geometry), **common)


def _euclidean(
    name: str,
    domain: Domain | None,
    alpha: float | None,
    output: str | None,
    mirror: str | None,
    seed: int,
) -> Common:
    """The arguments of a method with α = 1/L, by default 1, and the Euclidean mirror map only."""
    if mirror not in (None, "euclidean"):
        raise ValueError(f"mirror must be 'euclidean' for {name}, not {shown(mirror)}")
    alpha = 1.0 if alpha is None else alpha
    return Common(domain=domain, alpha=alpha, output=output, mirror=mirror, seed=seed)
