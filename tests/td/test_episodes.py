"""Transitions of environments: policies, terminations, truncations and automatic resets."""

from itertools import islice

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mixfree.td.episodes import as_function, make_env, policy_matrix, transitions

STATES, ACTIONS = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(4, start=2)


class Corridor(gymnasium.Env):
    """States 0, 1, 2, …; ends after ``length`` steps, by itself or by being cut off."""

    def __init__(self, length, cut=False):
        self.observation_space = gymnasium.spaces.Discrete(100)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length, self.cut, self.episode, self.at = length, cut, -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.at = 10 * self.episode
        return self.at, {}

    def step(self, action):
        self.at += 1
        over = self.at % 10 == self.length
        return self.at, float(self.at), over and not self.cut, over and self.cut, {}


def expected(length, cut, count):
    found = []
    for episode in range(count):
        for i in range(length):
            at = 10 * episode + i
            found.append((at, float(at + 1), at + 1, i + 1 == length and not cut))
    return found[:count]


@pytest.mark.parametrize("cut", [False, True])
def test_one_environment(cut):
    found = list(islice(transitions(Corridor(3, cut)), 8))
    assert found == expected(3, cut, 8)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_environments_in_every_mode(mode):
    """Each environment's own transitions are those of the single one, no row more or less."""
    kinds = [(3, False), (4, True), (2, True), (1, False)]
    env = SyncVectorEnv([lambda kind=kind: Corridor(*kind) for kind in kinds], autoreset_mode=mode)
    found = list(islice(transitions(env), 80))
    env.close()
    queues = [expected(length, cut, 100) for length, cut in kinds]
    for transition in found:
        candidates = [queue for queue in queues if queue[0] == transition]
        assert candidates, transition
        # Environments may show the same transition; any of them will do, the first is taken.
        candidates[0].pop(0)
    taken = [100 - len(queue) for queue in queues]
    assert min(taken) >= 80 // len(kinds) // 2


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_observations_are_not_overwritten(mode):
    env = gymnasium.make_vec(
        "CartPole-v1",
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode, "copy": False},
    )
    found = list(islice(transitions(env, seed=1), 300))
    env.close()
    seen = {transition.state.tobytes() for transition in found}
    for transition in found[:-6]:  # the last of each environment have no successor yet
        goes_on = transition.next_state.tobytes() in seen
        assert goes_on != transition.terminated
    assert sum(transition.terminated for transition in found) > 5


def test_a_table_is_drawn_from_as_it_says():
    table = [[0.1, 0.0, 0.6, 0.3], [0.0, 1.0, 0.0, 0.0], [0.25] * 4]
    act, generator = as_function(table, STATES, ACTIONS), np.random.default_rng(0)
    draws = 20_000
    for state, law in enumerate(table):
        found = np.bincount([act(state, generator) - 2 for _ in range(draws)], minlength=4) / draws
        error = np.sqrt(np.array(law) * (1.0 - np.array(law)) / draws)
        assert (np.abs(found - law) <= 4.0 * error).all(), (found, law)


def test_the_first_row_of_a_table_is_of_the_first_state():
    """Catches rows looked up by the observation, which need not begin at 0."""
    states = gymnasium.spaces.Discrete(3, start=1)
    act, generator = as_function([0, 1, 3], states, ACTIONS), np.random.default_rng(0)
    assert [act(state, generator) for state in (1, 2, 3)] == [2, 3, 5]
    act = as_function("uniform", STATES, ACTIONS)
    assert {act(0, generator) for _ in range(200)} == {2, 3, 4, 5}
    assert as_function(max, STATES, ACTIONS) is max


BOX = gymnasium.spaces.Box(0.0, 1.0)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: policy_matrix("greedy", 3, 4), "'uniform', a table or a function, not 'greedy'"),
        (lambda: policy_matrix([0, 1, 4], 3, 4), "actions from 0 to 3"),
        (lambda: policy_matrix(np.full((3, 4), 0.3), 3, 4), "not negative and sum to 1"),
        (lambda: policy_matrix(max, 3, 4), "or a table here: .* not <built-in function max>"),
        (make_env("NoSuch-v0").__enter__, "environment 'NoSuch-v0' cannot be made"),
        (lambda: as_function("uniform", STATES, BOX), "uniform policy needs a finite number"),
        (lambda: as_function([0], BOX, ACTIONS), "needs a finite observation space"),
        (lambda: as_function(lambda s: 0, STATES, ACTIONS), "an observation and a random generat"),
    ],
)
def test_policies_and_environments_that_do_not_fit_are_named(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
