import numpy as np
import pytest
from scipy import sparse

from mixfree.chains import MarkovChain, cycle, random_chain, winning_streak

GOOD = [[0.9, 0.1], [0.4, 0.6]]


@pytest.mark.parametrize(
    ("P", "states", "message"),
    [
        ([[0.5, 0.5], [0.3, 0.6]], None, r"row 2 of P sums to 0\.9"),
        ([[1.2, -0.2], [0.5, 0.5]], None, r"row 1, column 2 of P is -0\.2: negative"),
        ([[np.nan, 1.0], [0.5, 0.5]], None, r"row 1, column 1 of P is nan: not a number"),
        ([[0.5, 0.5]], None, r"square matrix, but its shape is \(1, 2\)"),
        (sparse.coo_array([[0, 1.0], [-1.0, 2.0]]), None, r"row 2, column 1 of P is -1\.0: neg"),
        (sparse.csr_array(np.eye(2) * 1j), None, "real numbers"),
        (GOOD, ["a", "b", "c"], "3 names, but P has 2 states"),
        (GOOD, ["a", "a"], "contains 'a' twice"),
    ],
)
def test_wrong_matrices_name_the_culprit(P, states, message):
    with pytest.raises(ValueError, match=message):
        MarkovChain(P, states)


def test_the_callers_matrix_is_left_alone():
    dense = np.array(GOOD)
    thin = sparse.csr_array(dense)
    MarkovChain(dense).P[0, 0] = 7
    MarkovChain(thin).P.data[0] = 7
    assert dense[0, 0] == thin[0, 0] == 0.9


def test_single_precision_rows_are_accepted():
    P = random_chain(300, seed=0).P.astype(np.float32)
    assert np.allclose(MarkovChain(P).P.sum(axis=1), 1, rtol=1e-15)


def test_chains_without_a_mixing_time_name_their_classes():
    apart = MarkovChain([[1.0, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]], states=["x", "y", "z"])
    assert not apart.is_irreducible
    for question in (lambda: apart.stationary, apart.mixing_time, lambda: apart.period):
        with pytest.raises(ValueError, match=r"2 communicating classes: \{x\}, \{y, z\}"):
            question()
    periodic = cycle(6)
    for question in (periodic.mixing_time, periodic.mixing_bounds):
        with pytest.raises(ValueError, match=r"period 2 .* \{0, 2, 4\}, \{1, 3, 5\}"):
            question()
    assert np.allclose(periodic.stationary, 1 / 6)
    assert (periodic.spectral_gap, periodic.relaxation_time) == (0.0, np.inf)


@pytest.mark.parametrize("period", [1, 2, 3, 5])
def test_the_period_is_that_of_brute_force(period):
    rng = np.random.default_rng(period)
    block = 3
    P = np.zeros((period * block, period * block))
    for phase in range(period):
        after = (phase + 1) % period
        rows = slice(phase * block, (phase + 1) * block)
        P[rows, after * block : (after + 1) * block] = rng.dirichlet(np.ones(block), size=block)
    order = rng.permutation(len(P))
    chain = MarkovChain(P[np.ix_(order, order)])
    returns = [t for t in range(1, 40) if np.linalg.matrix_power(chain.P, t)[0, 0] > 0]
    assert chain.period == np.gcd.reduce(returns) == period


def test_the_reversal_keeps_the_law_and_undoes_itself():
    for chain in (random_chain(7, seed=3), winning_streak(6)):
        back = chain.reversal()
        assert np.allclose(back.stationary, chain.stationary, rtol=1e-12)
        assert np.allclose(back.reversal().P, chain.P, rtol=1e-12)
        assert not chain.is_reversible


def test_hitting_times_solve_their_equations():
    chain = random_chain(5, seed=11)
    expected = chain.hitting_times(0)
    assert expected[0] == 0
    assert np.allclose(1 + chain.P[1:] @ expected, expected[1:], rtol=1e-12)
    # Kac: the mean return time is one over the stationary probability.
    assert 1 + chain.P[0] @ expected == pytest.approx(1 / chain.stationary[0], rel=1e-12)
    assert np.allclose(chain.hitting_times([0, 3])[[0, 3]], 0)
    assert (chain.hitting_times([0, 3]) <= expected + 1e-12).all()


@pytest.mark.parametrize("target", [5, -1, [], 1.5, "a", [0, 7]])
def test_hitting_times_refuse_unknown_states(target):
    with pytest.raises(ValueError, match="target"):
        random_chain(5, seed=0).hitting_times(target)


def test_sparse_and_dense_agree():
    P = random_chain(30, seed=2).P
    P[P < 0.02] = 0
    P /= P.sum(axis=1, keepdims=True)
    dense, thin = MarkovChain(P), MarkovChain(sparse.csr_array(P))
    f = np.arange(30.0)
    assert np.allclose(dense.stationary, thin.stationary, rtol=1e-13)
    assert dense.mixing_time() == thin.mixing_time()
    assert np.allclose(dense.hitting_times(3), thin.hitting_times(3))
    assert dense.asymptotic_variance(f) == pytest.approx(thin.asymptotic_variance(f))
    assert np.allclose(dense.reversal().P, thin.reversal().P.toarray())


def test_expected_takes_functions_of_the_state_names():
    chain = MarkovChain(GOOD, states=["ab", "cde"])
    assert chain.expected(len) == pytest.approx(0.8 * 2 + 0.2 * 3)
    with pytest.raises(ValueError, match="2 values are needed"):
        chain.expected([1.0])
    with pytest.raises(ValueError, match="nan at state cde"):
        chain.expected([1.0, np.nan])
