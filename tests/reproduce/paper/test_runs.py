import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.losses import Squared, linear_gradient
from mixfree.reproduce.paper.problem import Regression, start, trace


@pytest.mark.parametrize("method", list(mf.methods()))
def test_the_trace_is_that_of_the_reference_loop(method):
    problem = Regression.draw(seed=1, per_state=15, dimension=4)
    order = problem.order(1, 0.1, 700)
    options = {"horizon": 1000} if method == "algorithm-1" else {}
    samples, steps, gaps = trace(start(problem, method, 0.1, seed=5, **options), problem, order)
    opt = start(problem, method, 0.1, seed=5, **options)
    expected = {}
    for row in order:
        for due in opt.offer((problem.rows[row], problem.targets[row])):
            opt.tell(linear_gradient(Squared(), opt.x, *due))
        expected[opt.samples] = problem.suboptimality(opt.average[None])[0]
    assert len(samples) > 10 and samples[-1] > 650
    assert steps[-1] == opt.steps
    np.testing.assert_allclose(gaps, [expected[count] for count in samples.tolist()], rtol=1e-9)


def test_methods_that_need_the_mixing_time_are_told_it():
    problem = Regression.draw(seed=1, per_state=15, dimension=4)
    assert start(problem, "sgd-dd", 0.01).gradient.mixing_time == 35
    assert start(problem, "mag", 0.01).step.alpha == 1.0
