"""Control with a known best average reward: Gymnasium's grids as one trajectory without end."""

from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from scipy.optimize import linprog

from mixfree.base.arithmetic import Array
from mixfree.chains import MarkovChain
from mixfree.gradients import MiniBatch, Window
from mixfree.reproduce.after_td.steer_kernel import steer

__all__ = ["CONTROLS", "Control", "control_of", "coordinates", "learning"]

LAKE, SEASONS, OPEN = CONTROLS = ("frozen lake", "lake with seasons", "open grid")
LAKE_MAP = ("SFFF", "FHFH", "FFFH", "HFFG")
OPEN_MAP = ("SFFFFFF", *["FFFFFFF"] * 5, "FFFFFFG")
TURN = 1e-3  # probability per transition that the season changes

Outcomes = list[list[list[tuple[float, int, float]]]]  # by state and action: chance, next, reward


class Control:
    """A finite MDP without end.

    Parameters
    ----------
    outcomes
        By state and action, a list of (probability, next state, reward). The trajectory begins in
        state 0.

    Examples
    --------
    >>> control = Control([[[(1.0, 0, 0.0)], [(0.5, 0, 1.0), (0.5, 0, 0.0)]]])
    >>> control.best, control.average_reward(np.array([[0.5, 0.5]]))
    (0.5, 0.25)
    """

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.states, self.actions = len(outcomes), len(outcomes[0])
        most = max(len(listed) for choices in outcomes for listed in choices)
        shape = (self.states, self.actions, most)
        # Sums of probabilities, next states and rewards; an outcome beyond the last is never drawn.
        self.tables = np.ones(shape), np.zeros(shape, dtype=np.int64), np.zeros(shape)
        self.P = np.zeros((self.states, self.actions, self.states))
        self.R = np.zeros((self.states, self.actions))
        for s, choices in enumerate(outcomes):
            for a, listed in enumerate(choices):
                total = 0.0
                for k, (chance, after, reward) in enumerate(listed):
                    total += chance
                    for table, value in zip(self.tables, (total, after, reward), strict=True):
                        table[s, a, k] = value
                    self.P[s, a, after] += chance
                    self.R[s, a] += chance * reward

    @cached_property
    def reached(self) -> Array:
        """States that some policy reaches."""
        found = np.arange(self.states) == 0
        while (more := found | (self.P[found] > 0.0).any(axis=(0, 1))).sum() > found.sum():
            found = more
        return np.flatnonzero(found)

    @cached_property
    def best(self) -> float:
        """The largest average reward, by linear programming over long-run frequencies x(s, a)."""
        seen = self.reached
        P, R = self.P[seen][:, :, seen], self.R[seen]
        leaving = np.repeat(np.eye(len(seen)), self.actions, axis=1)
        balance = leaving - P.reshape(-1, len(seen)).T  # what leaves a state is what enters it
        total = np.ones((1, leaving.shape[1]))
        right = np.append(np.zeros(len(seen)), 1.0)
        return -float(linprog(-R.ravel(), A_eq=np.vstack([balance, total]), b_eq=right).fun)

    def chain(self, policy: Array) -> MarkovChain:
        """Return the chain of a policy, one row of action probabilities per state."""
        seen = self.reached
        return MarkovChain(np.einsum("sa,sat->st", policy[seen], self.P[seen][:, :, seen]))

    def average_reward(self, policy: Array) -> float:
        """Return the exact average reward of a policy with positive probabilities."""
        mean = (policy * self.R).sum(axis=1)
        return float(self.chain(policy).stationary @ mean[self.reached])


def grid(fields: Sequence[str], slippery: bool) -> Outcomes:
    """Return FrozenLake on a map of holes (H) and a goal (G), with the start after an end.

    A slippery step goes in the direction of its action or of one of the two beside it.
    """
    height, width = len(fields), len(fields[0])
    directions = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up

    def moved(row: int, column: int, action: int) -> tuple[int, float]:
        down, right = directions[action % 4]
        row, column = (min(max(row + down, 0), height - 1), min(max(column + right, 0), width - 1))
        field = fields[row][column]
        return 0 if field in "HG" else row * width + column, float(field == "G")

    def outcomes(row: int, column: int, action: int) -> list[tuple[float, int, float]]:
        if fields[row][column] in "HG":
            return [(1.0, 0, 0.0)]
        tried = (action - 1, action, action + 1) if slippery else (action,)
        return [(1.0 / len(tried), *moved(row, column, each)) for each in tried]

    places = [(row, column) for row in range(height) for column in range(width)]
    return [[outcomes(*place, action) for action in range(4)] for place in places]


def alternating(one: Outcomes, other: Outcomes, chance: float) -> Outcomes:
    """Combine two MDPs that take turns, the states of the second after those of the first."""
    states = len(one)
    return [
        [
            [
                (p * share, after + states * now, reward)
                for p, after, reward in listed
                for now, share in ((season, 1.0 - chance), (1 - season, chance))
            ]
            for listed in choices
        ]
        for season, outcomes in enumerate((one, other))
        for choices in outcomes
    ]


@cache
def control_of(name: str) -> Control:
    """Return the MDP of a name.

    ``frozen lake`` is Gymnasium's, of four by four fields; ``lake with seasons`` is slippery or
    not, and changes slowly; ``open grid`` has seven by seven fields and no holes.

    Examples
    --------
    >>> round(1.0 / control_of("open grid").best, 6)
    12.0
    """
    if name == OPEN:
        return Control(grid(OPEN_MAP, slippery=False))
    slippery = grid(LAKE_MAP, slippery=True)
    if name == LAKE:
        return Control(slippery)
    return Control(alternating(slippery, grid(LAKE_MAP, slippery=False), TURN))


def coordinates(control: Control) -> Array:
    """Return the features 1, row and column of the fields, of norm at most 1."""
    side = 7 if control.states == 49 else 4
    row, column = np.divmod(np.arange(control.states) % side**2, side)
    ones = np.ones(control.states)
    found: Array = np.stack([ones, row / (side - 1), column / (side - 1)], axis=1) / 3.0**0.5
    return found


def learning(
    control: Control,
    features: Array,
    gradient: Window,
    looks: list[int],
    seed: int,
    alpha: float,
    beta: float,
) -> list[float]:
    """Return the exact average rewards of the policies of an actor-critic at the evaluation times.

    This is :class:`mixfree.td.ActorCritic` with a tabular policy, compiled.
    """
    draws = np.random.default_rng(seed).random((looks[-1], 2))
    batch = gradient.batch if isinstance(gradient, MiniBatch) else 0
    lengths = [batch] * (looks[-1] // batch + 1) if batch else []
    total = sum(lengths)
    while total < looks[-1]:
        lengths.append(gradient.length(len(lengths), total))
        total += lengths[-1]
    policies = steer(
        control.tables, features, draws, np.array(lengths), batch, alpha, beta, np.array(looks)
    )
    return [control.average_reward(policy) for policy in policies]
