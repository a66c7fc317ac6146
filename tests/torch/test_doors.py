"""What users of other optimisers expect: schedulers, weight decay, train and eval, loggers."""

import math
from types import SimpleNamespace

import pytest
import torch

import mixfree.torch as mt
from tests.torch.helpers import MAKERS, flat, network, stream, train


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.mark.parametrize("make", [mt.Ladder, mt.MAG])
@pytest.mark.parametrize("lr", [1e-3, 0.0, 0.099])
def test_a_learning_rate_of_adam_is_refused(make, lr):
    """A run that hardly moves, and says nothing."""
    with pytest.raises(ValueError, match=f"lr={lr} multiplies a step .* leave it out"):
        make(network().parameters(), lr=lr)


def test_one_cycle_of_the_learning_rate():
    """Refused by the scheduler, or at its last, tiny rate by a load."""
    model = network()
    opt = mt.Ladder(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=1.0, total_steps=300, cycle_momentum=False
    )
    data = stream(300)
    before = sum(float((model(x) - y).square().mean().detach()) for x, y in data)
    train(model, opt, data, scheduler.step)
    after = sum(float((model(x) - y).square().mean().detach()) for x, y in data)
    assert after < 0.5 * before
    assert opt.param_groups[0]["lr"] < 1e-4
    mt.Ladder(network().parameters()).load_state_dict(opt.state_dict())


def test_the_distance_is_found_with_shorter_steps_too():
    """Steps taken for longer than they were, or for an arrival since they lead nowhere fast."""
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    opt = mt.Ladder([p], lr=0.1)
    for _ in range(250):
        p.grad = (p - 5.0).detach()
        opt.step()
    assert opt.distance > 4.0
    torch.testing.assert_close(p.detach(), torch.full_like(p, 5.0), rtol=0, atol=0.01)


@pytest.mark.parametrize("name", ["mag", "ladder"])
def test_weight_decay_adds_its_own_step(name):
    """Decay in the accumulator, at another rate than the step's, or not of the group."""
    plain, decayed = network(dtype=torch.float64), network(dtype=torch.float64)
    start = flat(plain)
    one, other = MAKERS[name](plain), MAKERS[name](decayed, weight_decay=0.5)
    assert other.param_groups[0]["weight_decay"] == 0.5
    other.param_groups[0]["weight_decay"] = 0.25
    samples = stream(1, dtype=torch.float64)
    while not one.stepped:  # the first step: from then on the points differ
        train(plain, one, samples)
        train(decayed, other, samples)
    rate = 0.2 / other.param_groups[0]["root"] if name == "mag" else other.rate
    torch.testing.assert_close(flat(plain) - flat(decayed), 0.25 * rate * start)


def test_the_usual_weight_decay_shrinks_weights_and_kills_none():
    """Decay at the rates of single coordinates, which drove a third of the weights to 0."""
    ends = []
    for decay in (0.0, 0.1):
        model = network()
        opt = mt.Ladder(model.parameters(), weight_decay=decay)
        for seed in range(20):
            train(model, opt, stream(60, seed=seed))
        ends.append(flat(model).abs())
    assert 0.5 * ends[0].norm() < ends[1].norm() < ends[0].norm()
    assert (ends[1] < 1e-3).sum() <= (ends[0] < 1e-3).sum() + 1


def test_a_decay_beyond_one_does_not_turn_the_sign():
    p = torch.nn.Parameter(torch.ones(1))
    opt = mt.MAG([p], levels=1, weight_decay=0.1)
    while not opt.stepped:
        p.grad = torch.full((1,), 1e-3)
        opt.step()
    assert float(p.detach()) == pytest.approx(-1.0, abs=1e-3)


@pytest.mark.parametrize("decay", [-0.1, math.inf, math.nan])
def test_wrong_weight_decay(decay):
    with pytest.raises(ValueError, match="weight_decay must be at least 0"):
        mt.Ladder(network().parameters(), weight_decay=decay)


def test_eval_puts_the_average_in_and_train_the_parameters_back(make):
    model = network()
    opt = make(model, output="average")
    train(model, opt, stream(30))
    own = flat(model)
    with opt.averaged():
        average = flat(model)
    opt.eval()
    opt.eval()  # a second call changes nothing
    assert torch.equal(flat(model), average) and not torch.equal(own, average)
    with pytest.raises(RuntimeError, match=r"after eval\(\).* call train\(\) first"):
        opt.step()
    opt.train()
    opt.train()
    assert torch.equal(flat(model), own)


def test_last_keeps_nothing_and_says_so():
    opt = mt.MAG(network().parameters(), output="last")
    with pytest.raises(ValueError, match=r"averaged\(\) needs .* output='last'"), opt.averaged():
        pass
    assert not opt.run["swapped"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_own_parameters_come_back_after_an_error_and_no_average_is_averaged(dtype):
    model = network(dtype=dtype)
    opt = MAKERS["mag"](model)
    train(model, opt, stream(dtype=dtype))
    now = flat(model)
    with pytest.raises(RuntimeError, match=r"call train\(\) first"), opt.averaged():
        assert not torch.equal(flat(model), now)
        with opt.averaged():
            pass
    assert torch.equal(flat(model), now)


def test_no_average_in_another_optimiser():
    adam = torch.optim.Adam(network().parameters())
    with pytest.raises(ValueError, match=r"be, or wrap, one of mixfree\.torch, not Adam"):
        mt.averaged(SimpleNamespace(optimizer=adam))
