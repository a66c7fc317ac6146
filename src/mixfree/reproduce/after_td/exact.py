"""The processes, and the limit and the variance of constant-step TD on them, in closed form.

Both are about transitions z = (s, s') in stationarity, with :math:`A_z = \\phi(s)(\\phi(s) -
\\gamma\\phi(s'))^\\top` and :math:`b_z = r(s)\\phi(s)`.
"""

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains import two_state
from mixfree.reproduce.td.processes import reversed_streak, sticky
from mixfree.td import RewardProcess

__all__ = ["best_variance", "limit", "process_of", "universal_step"]


def process_of(name: str, p: float = 0.05) -> RewardProcess:
    """Return a process by name; without discount, TD is SGD for least squares."""
    if name == "least squares":
        return RewardProcess(two_state(p).P, [1.0, 0.0], 0.0, [[1.0], [0.5]])
    return reversed_streak(8) if name == "reversed streak" else sticky(p)


def universal_step(process: RewardProcess) -> float:
    """Return the step of averaged TD that depends on γ alone."""
    return (1.0 - process.gamma) / (1.0 + process.gamma) ** 2


def limit(process: RewardProcess, alpha: float) -> Array:
    r"""Compute the limit of the mean of θ for TD with the constant step α, without projection.

    In stationarity :math:`m_s = E[\theta_t 1\{s_t = s\}]` does not change by a step:

    .. math:: m_{s'} = \sum_s P(s, s')\,\big((I - \alpha A_{ss'})\,m_s + \alpha \mu_s b_s\big),

    and the limit is :math:`\sum_s m_s`. It is θ* only if α is 0, or the transitions independent.

    Examples
    --------
    >>> process = RewardProcess([[0.9, 0.1], [0.1, 0.9]], [1.0, 0.0], 0.0, [[1.0], [0.5]])
    >>> process.theta_star, limit(process, 0.1).round(3), limit(process, 0.05).round(3)
    (array([0.8]), array([0.759]), array([0.778]))
    """
    rows, P, law = process.features, process.P, process.stationary
    states, size = rows.shape
    change = rows[:, None, :] - process.gamma * rows[None, :, :]  # φ(s) − γφ(s')
    moved = np.eye(size) - alpha * np.einsum("si,stj->stij", rows, change)
    system = np.einsum("st,stij->tisj", P, moved).reshape(states * size, states * size)
    gained = alpha * (P.T @ (law[:, None] * process.r[:, None] * rows)).ravel()
    means = np.linalg.solve(np.eye(states * size) - system, gained)
    total: Array = means.reshape(states, size).sum(axis=0)
    return total


def best_variance(process: RewardProcess) -> float:
    r"""Compute n·E‖V_θ* − V_θ̄‖²_M of the best estimator from n transitions, as n grows.

    The trace of :math:`\Phi^\top M \Phi\,A^{-1} \Sigma A^{-\top}`, where Σ is the long-run
    covariance of :math:`\varepsilon_z = b_z - A_z\theta^*` along the chain, which is what averaged
    TD has in the limit of small steps, and LSTD.

    Examples
    --------
    The mean of independent draws with variance 1/4:

    >>> process = RewardProcess(np.full((2, 2), 0.5), [1.0, 0.0], 0.0, np.ones((2, 1)))
    >>> best_variance(process)
    0.25
    """
    rows, P, law = process.features, process.P, process.stationary
    values = rows @ process.theta_star
    errors = process.r[:, None] + process.gamma * values[None, :] - values[:, None]
    noise = errors[:, :, None] * rows[:, None, :]  # ε of (s, s')
    ahead = np.einsum("st,sti->si", P, noise)  # its mean given s
    later = np.linalg.solve(np.eye(len(P)) - P + law, ahead)  # Σ_k P^k of it
    together = np.einsum("s,st,sti,stj->ij", law, P, noise, noise)
    lagged = np.einsum("s,st,sti,tj->ij", law, P, noise, later)
    weighted = law[:, None] * rows
    inverse = np.linalg.inv(weighted.T @ (rows - process.gamma * P @ rows))
    covariance = inverse @ (together + lagged + lagged.T) @ inverse.T
    return float(np.trace(rows.T @ weighted @ covariance))
