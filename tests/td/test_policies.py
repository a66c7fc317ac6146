"""Policies: tables, words and functions."""

import gymnasium
import numpy as np
import pytest

from mixfree.td.episodes import as_function, policy_matrix

STATES, ACTIONS = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(4, start=2)


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


def test_uniform_uses_every_action():
    act, generator = as_function("uniform", STATES, ACTIONS), np.random.default_rng(0)
    assert {act(0, generator) for _ in range(200)} == {2, 3, 4, 5}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("greedy", "policy must be 'uniform', a table or a function, not 'greedy'"),
        ([0, 1], r"an action for each of the 3 states"),
        ([0, 1, 4], "actions from 0 to 3"),
        (np.full((3, 4), 0.3), "rows of probabilities, which are not negative and sum to 1"),
        (lambda observation, generator: 0, "must be a table of action probabilities here"),
    ],
)
def test_wrong_policies_are_named(policy, message):
    with pytest.raises(ValueError, match=message):
        policy_matrix(policy, 3, 4)


def test_spaces_must_be_finite_for_tables_and_words():
    box = gymnasium.spaces.Box(0.0, 1.0)
    with pytest.raises(ValueError, match="uniform policy needs a finite number of actions"):
        as_function("uniform", STATES, box)
    with pytest.raises(ValueError, match="needs a finite observation space"):
        as_function([0], box, ACTIONS)


def test_a_function_of_the_observation_alone_is_told_what_it_lacks():
    with pytest.raises(ValueError, match="an observation and a random generator, not"):
        as_function(lambda observation: 0, STATES, ACTIONS)
    assert as_function(max, STATES, ACTIONS) is max
