"""``MarkovChain``: a transition matrix, its stationary distribution, mixing time and paths."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.chains import powers, spectral
from mixfree.chains.bounds import MixingBounds, small_bounds
from mixfree.chains.large import large_bounds
from mixfree.chains.stationary import (
    BALANCE,
    RESIDUAL,
    Function,
    asymptotic_variance,
    by_detailed_balance,
    by_krylov,
    check_function,
    gth,
    hitting_times,
)
from mixfree.chains.structure import (
    check_states,
    check_transition_matrix,
    communicating_classes,
    cyclic_classes,
    name_classes,
)

MAX_DENSE_STATES = 4096  # most states for a matrix of all pairs, which takes 130 MB
MIN_EPS = 1e-12  # smallest distance that the rounding of P^t, about 1e-15, leaves exact


class MarkovChain:
    """A finite Markov chain with a known transition matrix.

    Parameters
    ----------
    P
        Transition matrix: ``P[i, j]`` is the probability of going from state i to state j. A dense
        array or a SciPy sparse matrix; rows sum to one up to rounding.
    states
        Names of the states, used in messages; 0, 1, 2, … by default.

    Examples
    --------
    >>> chain = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> chain.stationary
    array([0.66666667, 0.33333333])
    >>> chain.mixing_time()
    3
    """

    def __init__(self, P: Any, states: Sequence[Hashable] | None = None) -> None:
        self.P = check_transition_matrix(P)
        self.states = check_states(states, self.P.shape[0])

    def __len__(self) -> int:
        return int(self.P.shape[0])

    def __repr__(self) -> str:
        return f"MarkovChain({len(self)} states{', sparse' if self.is_sparse else ''})"

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is stored sparse."""
        return bool(sparse.issparse(self.P))

    @property
    def is_large(self) -> bool:
        """Whether the chain has too many states for a matrix of all pairs."""
        return len(self) > MAX_DENSE_STATES

    def dense(self, purpose: str) -> Array:
        """Return the transition matrix as an array; raise ValueError for a large chain."""
        if self.is_large:
            raise ValueError(
                f"{purpose} needs a matrix of all pairs of states: {len(self)} states are more "
                f"than {MAX_DENSE_STATES}; mixing_bounds() works on chains of any size"
            )
        return np.asarray(self.P.toarray() if self.is_sparse else self.P)

    @cached_property
    def communicating_classes(self) -> list[Array]:
        """Sets of states that reach one another."""
        return communicating_classes(self.P)

    @property
    def is_irreducible(self) -> bool:
        """Whether every state reaches every other."""
        return len(self.communicating_classes) == 1

    @cached_property
    def cyclic_classes(self) -> list[Array]:
        """Sets visited in turn: as many as the period, one when the chain is aperiodic."""
        self._need_irreducible("the period")
        return cyclic_classes(self.P)

    @property
    def period(self) -> int:
        """Greatest common divisor of the lengths of the closed walks."""
        return len(self.cyclic_classes)

    @cached_property
    def stationary(self) -> Array:
        """Stationary distribution μ, with μP = μ.

        Up to 4,096 states by elimination without subtraction (GTH), which is accurate to all
        digits on ill-conditioned chains; beyond, by detailed balance where it holds and by
        ARPACK with a checked residual where it does not.
        """
        self._need_irreducible("the stationary distribution")
        if not self.is_large:
            return gth(self.dense("the stationary distribution"))
        mu = self._balanced_stationary
        return by_krylov(self.P) if mu is None else mu

    @cached_property
    def _balanced_stationary(self) -> Array | None:
        return by_detailed_balance(self.P)

    def positive_stationary(self, purpose: str) -> Array:
        """Return the stationary distribution; raise ValueError if it is too small to divide by."""
        mu = self.stationary
        # Entries of ARPACK's vector below its residual have no correct digit.
        least = RESIDUAL if self.is_large and not self.is_reversible else 0.0
        if mu.min() <= least:
            state = self.states[int(np.argmin(mu))]
            raise ValueError(
                f"{purpose} divides by the stationary distribution, which is below "
                f"{least or 1e-308:.0e} at state {state}"
            )
        return mu

    @cached_property
    def is_reversible(self) -> bool:
        """Whether μ(i) P(i, j) = μ(j) P(j, i) for every pair, to nine digits."""
        if self.is_large:
            self._need_irreducible("reversibility")
            return self._balanced_stationary is not None
        flow = self.stationary[:, None] * self.dense("reversibility")
        return bool(np.allclose(flow, flow.T, rtol=BALANCE, atol=0))

    def reversal(self) -> MarkovChain:
        """Return the time reversal of the chain: P*(i, j) = μ(j) P(j, i) / μ(i).

        Examples
        --------
        >>> from mixfree.chains import winning_streak
        >>> winning_streak(4).reversal().P
        array([[0.5  , 0.25 , 0.125, 0.125],
               [1.   , 0.   , 0.   , 0.   ],
               [0.   , 1.   , 0.   , 0.   ],
               [0.   , 0.   , 0.5  , 0.5  ]])
        """
        mu = self.positive_stationary("the reversal")
        if self.is_sparse:
            scale = sparse.diags_array
            back = sparse.csr_array(scale(1 / mu) @ self.P.T @ scale(mu))
        else:
            back = self.P.T * mu / mu[:, None]
        return MarkovChain(back, self.states)

    def distance(self, t: int) -> float:
        """Compute the distance from stationarity d_mix(t), Eq. (2) of the paper.

        The largest total variation distance, over the starts, between the distribution after ``t``
        steps and the stationary one.
        """
        time = check_whole(t, "t", least=0, most=math.inf)
        mu = self.stationary
        if time == 0:
            return float(1 - mu.min())
        return powers.distance_to(mu, powers.power(self.dense("distance"), time).matrix)

    def mixing_time(self, eps: float = 0.25) -> int:
        """Compute the smallest t with ``distance(t) <= eps``, Eq. (3), by squaring and bisection.

        Examples
        --------
        >>> from mixfree.chains import two_state
        >>> two_state(1e-4).mixing_time()
        3466
        """
        check_eps(eps)
        P = self.dense("the mixing time")
        self._need_aperiodic("the mixing time")
        mu = self.stationary
        enough = eps * (1 + powers.TIE)
        if 1 - mu.min() <= enough:
            return 0
        time = powers.first_time(
            powers.doublings(P),
            lambda power: powers.distance_to(mu, power.matrix) <= enough,
        )
        if time is None:
            raise ValueError(f"the chain has not mixed to eps = {eps} after 2^62 steps")
        return time

    @cached_property
    def _changes(self) -> Array:
        return spectral.eigenvalues_of_change(
            self.dense("eigenvalues"),
            self.positive_stationary("eigenvalues") if self.is_reversible else None,
        )

    @property
    def eigenvalues(self) -> Array:
        """All eigenvalues, from 1 to the farthest from it; real when the chain is reversible.

        For a chain far from reversible they are ill-conditioned, and may have one correct digit:
        the reversed winning streak has n − 1 eigenvalues zero, and rounding moves them. No bound
        here depends on them.
        """
        return 1 - self._changes[np.argsort(np.abs(self._changes))]

    @property
    def spectral_gap(self) -> float:
        """Absolute spectral gap: one minus the second largest modulus of an eigenvalue."""
        periodic = self.is_irreducible and self.period > 1
        return 0.0 if periodic else spectral.spectral_gap(self._changes)

    @property
    def relaxation_time(self) -> float:
        """One over the spectral gap; infinite for a periodic chain."""
        gap = self.spectral_gap
        return 1 / gap if gap > 0 else float("inf")

    @cached_property
    def pseudo_spectral_gap(self) -> float:
        """Largest γ((P*)^k P^k)/k over k: the spectral gap of a chain that need not be reversible.

        Exact when the maximum is at a k of up to 1,024, and otherwise below the true value by
        less than 0.1 % (up to 25 % for a thousand states).
        """
        mu = self.positive_stationary("pseudo_spectral_gap")
        if self.is_reversible:
            # The second singular value of P^k is |λ|^k, so the maximum is at k = 1.
            return self.spectral_gap * (2 - self.spectral_gap)
        return spectral.pseudo_spectral_gap(self.dense("pseudo_spectral_gap"), mu).value

    @cached_property
    def contraction_rate(self) -> float:
        """Largest (1 − κ(P^s))/s over s, κ being Dobrushin's coefficient (Wolfer's κ_gen).

        Its accuracy is that of :attr:`pseudo_spectral_gap`.
        """
        return spectral.contraction_rate(self.dense("contraction_rate")).value

    def mixing_bounds(self, eps: float = 0.25) -> MixingBounds:
        """Compute lower and upper bounds on the mixing time, each with its theorem.

        For chains of more than 4,096 states the bounds come from the leading eigenvalues and from
        walks from chosen starts; see :mod:`mixfree.chains.large`.

        Examples
        --------
        >>> from mixfree.chains import cycle
        >>> bounds = cycle(20, lazy=True).mixing_bounds()
        >>> bounds.lower <= cycle(20, lazy=True).mixing_time() <= bounds.upper
        True
        """
        check_eps(eps)
        self._need_aperiodic("the mixing time")
        if self.is_large:
            mu = (
                self.positive_stationary("mixing_bounds") if self.is_reversible else self.stationary
            )
            return large_bounds(self.P, mu, self.is_reversible, eps)
        mu = self.positive_stationary("mixing_bounds")
        changes = self._changes if self.is_reversible else None
        return small_bounds(self.dense("mixing_bounds"), mu, changes, eps)

    def simulate(
        self,
        steps: int,
        start: int | None = None,
        seed: int | np.random.Generator = 0,
    ) -> Array:
        """Draw a path of ``steps`` states, the start included.

        Parameters
        ----------
        start
            Index of the first state; drawn from the stationary distribution when None.
        seed
            A seed or a generator: the same seed gives the same path.

        Examples
        --------
        >>> from mixfree.chains import two_state
        >>> two_state(0.5).simulate(8, start=0, seed=1).shape
        (8,)
        """
        from mixfree.chains.simulate import simulate

        check_whole(steps, "steps")
        generator = np.random.default_rng(seed)
        if start is None:
            state = int(generator.choice(len(self), p=self.stationary))
        else:
            state = check_whole(start, "start", least=0, most=len(self) - 1)
        return simulate(self._cumulated_rows, steps, state, generator)

    @cached_property
    def _cumulated_rows(self) -> tuple[Array, Array, Array]:
        from mixfree.chains.simulate import cumulated_rows

        return cumulated_rows(self.P)

    def hitting_times(self, target: int | Iterable[int]) -> Array:
        """Compute the expected number of steps from each state to ``target``, a state or several.

        Examples
        --------
        >>> from mixfree.chains import cycle
        >>> cycle(4).hitting_times(0)
        array([0., 3., 4., 3.])
        """
        self._need_irreducible("hitting times")
        return hitting_times(self.P, target)

    def expected(self, f: Function) -> float:
        """Compute the stationary mean of ``f``, one value per state or a function."""
        return float(self.stationary @ check_function(f, self.states))

    def asymptotic_variance(self, f: Function) -> float:
        """Compute the limit of n · Var of the mean of ``f`` along a path of n states.

        Examples
        --------
        >>> from mixfree.chains import two_state
        >>> round(two_state(0.1).asymptotic_variance([0.0, 1.0]), 12)  # ¼ · (1 + 0.8)/(1 − 0.8)
        2.25
        """
        values = check_function(f, self.states)
        return asymptotic_variance(self.P, self.stationary, values)

    def _need_irreducible(self, purpose: str) -> None:
        if not self.is_irreducible:
            classes = self.communicating_classes
            raise ValueError(
                f"{purpose} needs an irreducible chain; this one has {len(classes)} communicating "
                f"classes: {name_classes(classes, self.states)}"
            )

    def _need_aperiodic(self, purpose: str) -> None:
        self._need_irreducible(purpose)
        if self.period > 1:
            raise ValueError(
                f"{purpose} needs an aperiodic chain; this one has period {self.period} and "
                f"visits these sets in turn: {name_classes(self.cyclic_classes, self.states)}"
            )


def check_eps(eps: float) -> None:
    """Raise ValueError unless ``eps`` is below 1 and well above the rounding of a distance."""
    if not MIN_EPS <= eps < 1:
        raise ValueError(f"eps = {eps} must be at least {MIN_EPS:g} and below 1")
