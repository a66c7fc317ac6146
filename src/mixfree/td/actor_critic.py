"""Average-reward actor-critic with multi-level Monte Carlo (MAC): three optimisers, one window."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_positive, check_whole, shown
from mixfree.core.optimizer import Optimizer
from mixfree.domains import AllSpace, Ball, Domain
from mixfree.gradients import MLMC, Gradient, Window
from mixfree.outputs import Last
from mixfree.steps import AdaGradNorm, InverseSqrt
from mixfree.td.features.lookup import as_features


class ActorCritic:
    r"""Learns a policy of large average reward from one trajectory that the policy generates.

    The multi-level actor-critic (MAC) of Suttle et al. (2023). While a window of 2^J transitions is
    observed, the average reward η, the critic V(s) = φ(s)ᵀω and the softmax policy π_θ do not
    change. With :math:`\delta = r - \eta + (\phi(s') - \phi(s))^\top\omega` they then move along

    .. math:: f = \eta - r, \qquad g = -\delta\,\phi(s), \qquad
              h = \delta\,\nabla_\theta \log \pi_\theta(a \mid s),

    each averaged with the signs of :class:`mixfree.MLMC`, as in Eq. (6):

    .. math:: \eta \leftarrow \eta - \beta_t f^{MLMC}, \quad
              \omega \leftarrow \Pi_R(\omega - \beta_t g^{MLMC}), \quad
              \theta \leftarrow \theta + \frac{\alpha}{\sqrt{\sum_{k \le t} \|h_k^{MLMC}\|^2}}
              h_t^{MLMC}.

    MAC is therefore three optimisers of this library that draw the same levels. The exponents of
    the paper's step sizes could not be verified here: β_t = β/√t is used, and α is constant. The
    state is in ``tracker``, ``critic`` and ``actor``, which have a ``state_dict`` each.

    Parameters
    ----------
    features
        φ: a matrix with one row per state, or a function from an observation to a vector.
    actions
        Number of actions.
    alpha
        Scale α of the actor's AdaGrad steps.
    beta
        Scale β of the steps of the critic and of the average reward.
    radius
        R, the radius of the critic's ball; ``None`` does not project.
    gradient
        How transitions become directions. By default the multi-level law with at most
        T_max = 32 transitions, ``MLMC(None, horizon=32)``. With ``mixfree.gradients.Plain()`` or
        ``MiniBatch(batch)`` this is the same actor-critic without MLMC.
    policy_features
        ψ in π_θ(a|s) ∝ exp(ψ(s)ᵀθ_a); by default φ.
    size
        Number of features, for a function without an attribute ``size``.
    seed
        Seed of the levels.

    Examples
    --------
    Action 1 pays 1 in the only state, action 0 nothing:

    >>> agent = ActorCritic([[1.0]], actions=2)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(2000):
    ...     a = agent.act(0, rng)
    ...     moved = agent.update(0, a, float(a), 0)
    >>> bool(agent.probabilities(0)[1] > 0.9)
    True
    """

    def __init__(
        self,
        features: Any,
        actions: int,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        radius: float | None = None,
        gradient: Gradient | None = None,
        policy_features: Any = None,
        size: int | None = None,
        seed: int = 0,
    ) -> None:
        self.features = as_features(features, size)
        self.policy_features = (
            self.features if policy_features is None else as_features(policy_features, size)
        )
        self.actions = check_whole(actions, "actions", least=2)
        window = MLMC(None, horizon=32, seed=seed) if gradient is None else gradient
        if not isinstance(window, Window):
            raise ValueError(f"gradient must be one such as mixfree.MLMC(5), not {shown(gradient)}")
        domain: Domain = AllSpace() if radius is None else Ball(radius)
        scale, rate = check_positive(beta, "beta"), check_positive(alpha, "alpha")

        def begin(length: int, step: Any, domain: Domain | None = None) -> Optimizer:
            return Optimizer(np.zeros(length), window, step, domain, Last())

        self.tracker = begin(1, InverseSqrt(scale))
        self.critic = begin(self.features.size, InverseSqrt(scale), domain)
        self.actor = begin(self.policy_features.size * self.actions, AdaGradNorm(rate))

    @property
    def average_reward(self) -> float:
        """η, the estimate of the average reward."""
        return float(self.tracker.x[0])

    @property
    def samples(self) -> int:
        """Transitions seen."""
        return self.actor.samples

    def value(self, state: Any) -> float:
        """Return V(s) = φ(s)ᵀω, up to a constant common to all states."""
        return float(self.features.row(state).dot(self.critic.x))

    def probabilities(self, state: Any) -> Array:
        """Return the action probabilities in a state."""
        logits = self.actor.x.reshape(self.actions, -1) @ self.policy_features.row(state)
        weights = np.exp(logits - logits.max())
        found: Array = weights / weights.sum()
        return found

    def act(self, state: Any, generator: np.random.Generator) -> int:
        """Draw an action from the policy."""
        sums = np.cumsum(self.probabilities(state))
        return int(np.searchsorted(sums, generator.random() * sums[-1], side="right"))

    def update(self, s: Any, a: int, r: float, s_next: Any) -> bool:
        """Learn from one transition; return True if the policy changed.

        The average reward is that of one endless trajectory: after the end of an episode,
        ``s_next`` is the first state of the next episode.
        """
        check_whole(a, "a", least=0, most=self.actions - 1)
        row = self.features.row(s)
        excess = r - self.average_reward
        error = excess + float((self.features.row(s_next) - row).dot(self.critic.x))
        if not max(abs(error), abs(excess)) < self.critic.largest:
            raise ValueError(
                f"reward {r} and TD error {error:.3g} of transition {self.samples + 1} must be "
                "finite and small enough to be squared"
            )
        score = -self.probabilities(s)
        score[a] += 1.0
        ascent = np.multiply.outer(error * score, self.policy_features.row(s)).ravel()
        self.tracker.take(np.array([-excess]))
        self.critic.take(-error * row)
        return self.actor.take(-ascent)  # optimisers minimise

    def policy(self, states: npt.ArrayLike) -> Array:
        """Return the action probabilities, one row per state."""
        return np.array([self.probabilities(state) for state in np.asarray(states)])

    def __repr__(self) -> str:
        return (
            f"<ActorCritic: {self.features.size} features, {self.actions} actions, "
            f"{self.samples} transitions>"
        )
