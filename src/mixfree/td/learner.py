"""TD learning with linear value functions, by least squares or by an iterative method."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_one_of, shown
from mixfree.core.optimizer import Optimizer
from mixfree.td.features import Rows, as_features
from mixfree.td.iterative import SemiGradients
from mixfree.td.lstd import LSTD, MAX_DENSE_FEATURES
from mixfree.td.methods import start_method, td_methods
from mixfree.td.sparse_lstd import SparseLSTD

PIECE = 4096  # transitions whose features are held at a time, for sums
MAX_DENSE = 1 << 22  # numbers in the dense features of the states that are held at a time


def check_gamma(gamma: Any) -> float:
    """Check that the discount is in [0, 1)."""
    number = np.asarray(gamma)
    if number.ndim or number.dtype.kind not in "iuf" or not 0.0 <= number < 1.0:
        raise ValueError(f"gamma must be in [0, 1), not {shown(gamma)}")
    return float(gamma)


class TDLearner:
    r"""Learns V(s) = φ(s)ᵀθ from the transitions of one trajectory in order.

    With ``method="lstd"``, the default up to 1,000 features and above where they are sparse, θ is
    the fixed point of all transitions so far (least squares), without tuning. All other methods are
    iterative. With ``method="mag"`` and a radius this is the update of Eq. (15):

    .. math:: \theta_{t+1} = \Pi_R\big(\theta_t + \eta_t g_t\big), \qquad
              \eta_t = \frac{\sqrt2 R}{\sqrt{\sum_{k \le t} \|g_k\|^2}},

    where g_t is the MLMC estimate of the mean semi-gradient. The optimisers of this library
    minimise, so they are given −g(θ; z) = (φ(s)ᵀθ − r − γφ(s')ᵀθ) φ(s) as gradient.

    Parameters
    ----------
    features
        A matrix with one row per state, dense or a SciPy sparse one, or a function from an
        observation to a vector. All norms are at most 1. A function may have a method ``rows`` for
        many observations, and ``sparse_rows`` for their features as a CSR array, which ``lstd``
        uses above 1,000 features.
    gamma
        Discount in [0, 1).
    radius
        For iterative methods: R, with ‖θ*‖ ≤ R; θ is projected on the ball of that radius.
        ``None`` does not project. A safe R depends on the largest reward and on ω, which are
        rarely known, and with too small an R the values are wrong.
    method
        ``"lstd"``, or a name from :func:`mixfree.td.td_methods`. ``mag`` and ``adagrad`` derive
        their step size from the radius; ``ladder`` finds its own. The default is ``lstd`` up to
        1,000 features, and above if the features have sparse rows: memory grows with the pairs that
        occur together. Otherwise, and with any option of iterative methods, it is ``mag`` with a
        radius and ``ladder`` without.
    seed, alpha, output, **options
        As for :func:`mixfree.minimize`, for instance ``levels``; not for ``lstd``, which is not
        random.
    size
        Number of features, for a function without an attribute ``size``.
    lam
        For ``lstd``: decay λ of eligibility traces in [0, 1]; by default 0. A trace ends with its
        episode: where ``terminated``, and where the features of ``s`` differ from those of the
        previous ``s_next``.
    l2
        For ``lstd``: ridge per transition; by default 0.
    half_life
        For ``lstd`` up to 1,000 features: number of transitions after which a transition counts
        half; by default nothing is forgotten.

    Examples
    --------
    >>> learner = TDLearner(np.eye(2), gamma=0.5)
    >>> for t in range(400):
    ...     _ = learner.update(t % 2, 1.0, (t + 1) % 2, terminated=False)
    >>> round(learner.value(0), 6)
    2.0
    >>> learner
    TDLearner(<lstd: 2 features, 400 transitions>, gamma=0.5)
    """

    def __init__(
        self,
        features: Any,
        gamma: float,
        radius: float | None = None,
        method: str | None = None,
        *,
        seed: int = 0,
        alpha: float | None = None,
        output: str | None = None,
        size: int | None = None,
        lam: float | None = None,
        l2: float | None = None,
        half_life: float | None = None,
        **options: Any,
    ) -> None:
        self.gamma = check_gamma(gamma)
        self.features = as_features(features, size)
        of_lstd = _given(lam=lam, l2=l2, half_life=half_life)
        iterative = _given(radius=radius, alpha=alpha, output=output) | options
        self.engine = self._started(method, of_lstd, iterative, seed)
        self._row, engine = self.features.row, self.engine
        dense = max(MAX_DENSE // self.features.size, 1)
        self._updates: LSTD | SemiGradients
        if isinstance(engine, LSTD):
            self._updates, self._sparse = engine, engine.sparse and self.features.sparse
            self._piece = PIECE if self._sparse else min(PIECE, dense)
        else:
            self._updates, self._sparse = SemiGradients(engine, self.gamma), False
            self._piece = dense

    def _started(
        self, method: str | None, of_lstd: dict[str, Any], iterative: dict[str, Any], seed: int
    ) -> LSTD | Optimizer:
        """Start the engine for the given options of least squares or of iterative methods."""
        size = self.features.size
        if method is not None:
            check_one_of(method, "method", (LSTD.name, *td_methods()))
        fits = size <= MAX_DENSE_FEATURES or self.features.sparse
        if method == LSTD.name or (method is None and fits and not iterative):
            for name in iterative:
                raise ValueError(
                    f"`{name}` is not an option of lstd, which takes `lam`, `l2` and `half_life`"
                )
            kind = LSTD if size <= MAX_DENSE_FEATURES else SparseLSTD
            return kind(size, self.gamma, **of_lstd)
        for name in of_lstd:
            raise ValueError(
                f"`{name}` needs `method='lstd'`, which takes up to {MAX_DENSE_FEATURES:,} "
                "features, or more if most are 0 at a time, and no option of iterative methods"
            )
        settings = {"radius": None, "seed": seed, **iterative}
        return start_method(method, np.zeros(size), self.gamma, **settings)

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.engine.name

    @property
    def optimizer(self) -> Optimizer:
        """The optimiser of an iterative method."""
        if isinstance(self.engine, LSTD):
            raise AttributeError(
                f"{self.method} has no optimiser, since it solves for θ: use an iterative method"
            )
        return self.engine

    @property
    def theta(self) -> Array:
        """θ_t: where the next semi-gradient is taken, or the fixed point of ``lstd``.

        The fixed point is computed on access, at a cost of d³ for d features, and cached until
        the next transition.
        """
        return self.engine.x

    @property
    def average(self) -> Array:
        """θ̄_t, the average of Theorem 5.2, or the output named by ``output``; θ for ``lstd``."""
        return self.engine.average

    @property
    def samples(self) -> int:
        """Transitions seen."""
        return self.engine.samples

    @property
    def steps(self) -> int:
        """Number of changes of θ."""
        return self.engine.steps

    def value(self, state: Any) -> float:
        """Return V(s) = φ(s)ᵀθ̄."""
        return float(self._row(state).dot(self.average))

    def update(self, s: Any, r: float, s_next: Any, terminated: bool) -> bool:
        """Learn from one transition; return True if θ changed, as it always does with ``lstd``.

        ``terminated`` is True only if the episode ends in a terminal state; ``s_next`` is then
        ignored. An episode that is cut off (Gymnasium's ``truncated``) bootstraps from ``s_next``.

        Raises
        ------
        ValueError
            If the reward is not finite or a state has no features; the learner is unchanged.
        """
        row = self._row(s)
        return self._updates.take(row, r, None if terminated else self._row(s_next))

    def update_many(
        self, states: Any, rewards: npt.ArrayLike, next_states: Any, terminated: npt.ArrayLike
    ) -> None:
        """Learn from transitions given as parallel arrays: :meth:`update` in compiled code.

        If one transition is refused, none is used.
        """
        given, ended = self._checked(states, rewards, next_states, terminated)
        states, next_states = (
            part if hasattr(part, "shape") else list(part) for part in (states, next_states)
        )
        restore = self._updates.snapshot() if len(ended) > self._piece else lambda: None
        try:
            for start in range(0, max(len(ended), 1), self._piece):
                piece = slice(start, start + self._piece)
                parts = (part[piece] for part in (states, given, next_states, ended))
                self.advance(*self._found(*parts))
        except BaseException:
            restore()
            raise

    def advance(self, rows: Any, here: Array, there: Array, rewards: Array) -> None:
        """Learn from transitions in the form of :meth:`look_up`."""
        self._updates.advance(rows, here, there, rewards)

    def look_up(
        self, states: Any, rewards: npt.ArrayLike, next_states: Any, terminated: npt.ArrayLike
    ) -> tuple[Any, Array, Array, Array]:
        """Return feature rows, the row numbers of s and s' (−1 if terminal), and rewards."""
        given, ended = self._checked(states, rewards, next_states, terminated)
        return self._found(states, given, next_states, ended)

    def feature_rows(self, states: Any) -> Any:
        """Return φ of many states, one row each: a CSR array if the method and features allow."""
        return (self.features.sparse_rows if self._sparse else self.features.rows)(states)

    def _checked(
        self, states: Any, rewards: Any, next_states: Any, terminated: Any
    ) -> tuple[Array, Array]:
        """Return rewards, which must be finite, and where episodes end, of equal lengths."""
        ends, given = np.asarray(terminated), np.asarray(rewards, dtype=np.float64)
        ended = ends.astype(bool)
        if ends.dtype != bool and not np.isin(ends, (0, 1)).all():
            raise ValueError(f"terminated must be True or False, not {shown(terminated)}")
        lengths = len(states), *given.shape, len(next_states), *ended.shape
        if len(set(lengths)) > 1:
            raise ValueError(
                "states, rewards, next_states and terminated must have the same length, not "
                f"{', '.join(map(str, lengths))}"
            )
        if (wrong := np.flatnonzero(~np.isfinite(given))).size:
            number = self.samples + int(wrong[0]) + 1
            raise ValueError(f"reward of transition {number} must be finite, not {given[wrong[0]]}")
        return given, ended

    def _found(
        self, states: Any, rewards: Array, next_states: Any, ended: Array
    ) -> tuple[Any, Array, Array, Array]:
        there = np.full(ended.shape, -1)
        if isinstance(self.features, Rows) and self.features.sparse == self._sparse:
            there[~ended] = self.features.indices(np.asarray(next_states)[~ended])
            return self.features.matrix, self.features.indices(states), there, rewards
        ahead = [s for s, end in zip(next_states, ended, strict=True) if not end]
        stack = sparse.vstack if self._sparse else np.concatenate
        rows = stack([self.feature_rows(states), self.feature_rows(ahead)])
        there[~ended] = len(states) + np.arange(len(ahead))
        return rows, np.arange(len(states)), there, rewards

    def state_dict(self) -> dict[str, Any]:
        """Return everything that changes during learning."""
        return self.engine.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned, and continue from it exactly."""
        self.engine.load_state_dict(state)

    def __repr__(self) -> str:
        return f"TDLearner({self.engine!r}, gamma={self.gamma})"


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
