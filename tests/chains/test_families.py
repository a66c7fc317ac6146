import networkx
import numpy as np
import pytest

from mixfree.chains import birth_death, random_walk, two_state, winning_streak


def test_walks_follow_degrees_or_are_uniform():
    graph = networkx.lollipop_graph(5, 4)
    degrees = np.array([degree for _, degree in graph.degree])
    walk, metropolis = random_walk(graph), random_walk(graph, "metropolis")
    assert np.allclose(walk.stationary, degrees / degrees.sum())
    assert np.allclose(metropolis.stationary, 1 / len(graph))
    assert walk.is_reversible and metropolis.is_reversible
    assert metropolis.P[0, 1] == pytest.approx(1 / (1 + max(degrees[0], degrees[1])))


def test_states_are_the_nodes_and_weights_count():
    graph = networkx.Graph()
    graph.add_edge("b", "a", weight=3.0)
    graph.add_edge("b", "c", weight=1.0)
    walk = random_walk(graph, lazy=True)
    assert list(walk.states) == ["b", "a", "c"]
    assert np.allclose(walk.P[0], [0.5, 0.375, 0.125])
    with pytest.raises(ValueError, match=r"\{b\}, \{a, c\}"):
        random_walk(graph).mixing_time()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: two_state(1.5), r"p = 1\.5"),
        (lambda: winning_streak(1), "n must be a whole number of at least 2, not 1"),
        (lambda: birth_death([0.5], [0.0]), r"up\[0\] = 0\.5 leads out"),
        (lambda: birth_death([0.9, 0.9, 0], [0, 0.9, 0.9]), r"up\[1\] \+ down\[1\] is above 1"),
        (lambda: birth_death([0.9, 0.0], [0.0]), "one length"),
        (lambda: random_walk(networkx.Graph({0: [1], 2: []})), "node 2 has no outgoing edge"),
        (lambda: random_walk(networkx.Graph({0: {1: {"weight": -1}}})), "from 0 to 1 has a neg"),
        (lambda: random_walk(networkx.DiGraph([(0, 1)]), "metropolis"), "edges that go both ways"),
    ],
)
def test_wrong_parameters(build, message):
    with pytest.raises(ValueError, match=message):
        build()
