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
    with pytest.raises(ValueError, match=r"average_into\(\) needs .* output='last'"):
        opt.average_into(network())
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


def test_into_another_model_by_order_and_by_name():
    _, opt, points = run()
    other = network(seed=4, dtype=torch.float64)
    opt.average_into(other)
    torch.testing.assert_close(flat(other), points.mean(0))

    named = network(dtype=torch.float64)
    groups = [
        dict(part.named_parameters(prefix=str(i))) for i, part in ((2, named[2]), (0, named[0]))
    ]
    opt = mt.MAG([{"params": list(group.items())} for group in groups], levels=3, alpha=0.2)
    train(named, opt, stream(dtype=torch.float64))
    opt.average_into(other)
    with opt.averaged():
        torch.testing.assert_close(flat(other), flat(named))


def test_what_does_not_match_is_refused_and_nothing_has_changed():
    """Catches an average of the average, and values copied into parameters of other names."""
    model, other = network(), network(seed=4)
    opt = mt.MAG(model.named_parameters(), levels=3)
    train(model, opt, stream())
    with (
        opt.averaged(),
        pytest.raises(RuntimeError, match=r"call train\(\) first"),
        opt.averaged(),
    ):
        pass
    now = flat(other)
    with pytest.raises(ValueError, match=r"no parameter named '0.weight'"):
        opt.average_into(torch.nn.Sequential(torch.nn.Flatten(), *other))
    assert torch.equal(flat(other), now)
