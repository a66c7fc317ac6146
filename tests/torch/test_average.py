"""The averaged parameters: swapped in, and always swapped back."""

import pytest
import torch

import mixfree.torch as mt
from tests.torch.helpers import flat, network, stream, train


def run(output="average", dtype=torch.float64, samples=60):
    """A model, its optimiser and the points at which its steps were taken."""
    model = network(dtype=dtype)
    opt = mt.MAG(model.parameters(), levels=3, alpha=0.2, output=output)
    points, at = [], flat(model)
    for sample in stream(samples, dtype=dtype):
        train(model, opt, [sample])
        if opt.stepped:
            points.append(at)
            at = flat(model)
    return model, opt, torch.stack(points)


def test_recent_average_of_the_points():
    """Weights are t(t + 1)(t + 2): catches t³, of which the newest is not 4/(t + 3)."""
    model, opt, points = run("recent")
    t = torch.arange(1.0, len(points) + 1, dtype=torch.float64)
    weights = t * (t + 1.0) * (t + 2.0)
    with opt.averaged():
        torch.testing.assert_close(flat(model), weights @ points / weights.sum())


def test_last_keeps_nothing_and_says_so():
    model, opt, _ = run("last")
    now = flat(model)
    with pytest.raises(ValueError, match=r"averaged\(\) needs .* output='last'"), opt.averaged():
        pass
    assert torch.equal(flat(model), now)
    assert all("average" not in opt.state[p] for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_own_parameters_come_back_also_after_an_error(dtype):
    model, opt, _ = run(dtype=dtype)
    now = flat(model)
    with pytest.raises(ZeroDivisionError), opt.averaged():
        assert not torch.equal(flat(model), now)
        raise ZeroDivisionError
    assert torch.equal(flat(model), now)


def test_no_average_of_the_average():
    _, opt, _ = run()
    with (
        opt.averaged(),
        pytest.raises(RuntimeError, match=r"call train\(\) first"),
        opt.averaged(),
    ):
        pass
