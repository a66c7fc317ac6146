"""Wrong input is refused with a reason, and changes nothing."""

import copy
import re

import pytest
import torch

import mixfree.torch as mt
from tests.torch.helpers import LADDERS, MAKERS, WINDOWS, flat, network, stream, train


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_no_parameters():
    with pytest.raises(ValueError, match="empty parameter list"):
        mt.MAG([])


def test_several_devices():
    there = torch.nn.Parameter(torch.zeros(2, device="meta"))
    with pytest.raises(ValueError, match="params must be on one device, not on cpu and meta"):
        mt.MAG([torch.nn.Parameter(torch.zeros(2)), there])


def test_complex_parameters():
    with pytest.raises(ValueError, match="real floating-point tensors, not "):
        mt.MAG([torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))])


def test_refused_group_is_not_added():
    opt = mt.MAG([torch.nn.Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="one device"):
        opt.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2, device="meta"))]})
    assert len(opt.param_groups) == 1


def test_not_an_optimiser():
    with pytest.raises(ValueError, match="optimizer must be a torch optimiser, not 3"):
        mt.MLMC(3)


def test_wrong_scale_of_a_group():
    with pytest.raises(ValueError, match="alpha must be positive and finite, not -1"):
        mt.MAG([{"params": [torch.nn.Parameter(torch.zeros(2))], "alpha": -1.0}])


def test_an_optimiser_that_evaluates_the_loss():
    """LBFGS, whose step would fail in the middle of a run for want of a closure."""
    inner = torch.optim.LBFGS([torch.nn.Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="optimizer must step without evaluating the loss"):
        mt.MLMC(inner)


def test_a_learning_rate_is_not_the_scale_of_a_ladder():
    """``Ladder(params, 1e-3)`` in place of ``Adam(params, 1e-3)``, which would hardly move."""
    with pytest.raises(TypeError, match="positional"):
        mt.Ladder([torch.nn.Parameter(torch.zeros(2))], 1e-3)


@pytest.mark.parametrize("make", [mt.MAG, mt.Ladder])
def test_wrong_learning_rate(make):
    with pytest.raises(ValueError, match="lr must be a real number, not None"):
        make([torch.nn.Parameter(torch.zeros(2))], lr=None)
    with pytest.raises(ValueError, match=r"lr must be at least 0 and finite, not -0\.5"):
        make([torch.nn.Parameter(torch.zeros(2))], lr=-0.5)
    with pytest.raises(ValueError, match=r"lr must be at least 0 and finite, not inf"):
        make([torch.nn.Parameter(torch.zeros(2))], lr=float("inf"))


def test_sparse_gradients():
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    opt = mt.MAG(embedding.parameters())
    embedding(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(ValueError, match="gradient of sample 1 is sparse"):
        opt.step()
    assert opt.samples == 0


def test_gradient_that_is_not_finite_is_named(make):
    model = network()
    opt = make(model)
    train(model, opt, stream(3))
    model[0].bias.grad[1] = torch.nan
    with pytest.raises(ValueError, match="gradient of sample 4 is not finite"):
        opt.step()
    assert opt.samples == 3


@pytest.mark.parametrize("bad", [torch.nan, -torch.inf, 2.0**61])
def test_a_first_gradient_that_is_refused_leaves_no_trace(make, bad):
    model, clean = network(), network()
    opt, same = make(model), make(clean)
    train(model, torch.optim.SGD(model.parameters(), lr=0.0), stream(1))
    before = opt.state_dict()
    model[0].bias.grad[1] = bad
    with pytest.raises(ValueError, match=rf"sample 1 .* is {re.escape(str(abs(bad)))}$"):
        opt.step()
    assert opt.state_dict() == before
    train(model, opt, stream())
    train(clean, same, stream())
    assert torch.equal(flat(model), flat(clean))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": 4}, "state was saved with levels=3, this optimiser has levels=4"),
        ({"levels": None, "horizon": 50}, "levels=3, this optimiser has levels=None"),
        ({"seed": 1}, "state was saved with seed=0, this optimiser has seed=1"),
        ({"weights": "paper"}, "weights='exact', this optimiser has weights='paper'"),
        ({"output": "weighted"}, "output='average', this optimiser has output='weighted'"),
    ],
)
def test_other_settings_on_load(options, message):
    model = network()
    opt = mt.MAG(model.parameters(), levels=3)
    train(model, opt, stream(5))
    other = mt.MAG(model.parameters(), **{"levels": 3, **options})
    with pytest.raises(ValueError, match=message):
        other.load_state_dict(opt.state_dict())
    assert other.samples == 0


def test_other_horizon_on_load():
    p = torch.nn.Parameter(torch.zeros(2))
    one, other = (mt.MAG([p], None, horizon=h) for h in (10, 20))
    with pytest.raises(ValueError, match="horizon=10, this optimiser has horizon=20"):
        other.load_state_dict(one.state_dict())


def test_other_parameters_on_load(make):
    model = network()
    opt = make(model)
    train(model, opt, stream(5))
    fewer = make(model[0])
    with pytest.raises(ValueError, match=r"groups with \[4\] parameters, .* have \[2\]"):
        fewer.load_state_dict(opt.state_dict())
    last = make(model, output="last")
    shaped = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    for saved, other in ((opt, make(shaped)), (last, make(shaped, output="last"))):
        with pytest.raises(ValueError, match=r"parameter 0 of shape \(6, 4\), .* has \(5, 4\)"):
            other.load_state_dict(saved.state_dict())
        assert other.samples == 0


def test_state_of_another_optimiser_on_load():
    model = network()
    adam, opt = torch.optim.Adam(model.parameters()), mt.MAG(model.parameters())
    with pytest.raises(ValueError, match="saved with method=None, this optimiser has method='MAG'"):
        opt.load_state_dict(adam.state_dict())
    with pytest.raises(ValueError, match="with method='MLMC', this optimiser has method='MAG'"):
        opt.load_state_dict(mt.MLMC(adam, output="average").state_dict())
    opt.step()


def set_in(*path, value):
    """A change of a saved state: one value, found by its names, becomes another."""

    def change(saved):
        for name in path[:-1]:
            saved = saved[name]
        saved[path[-1]] = value

    return change


def remove(*path):
    def change(saved):
        for name in path[:-1]:
            saved = saved[name]
        del saved[path[-1]]

    return change


BROKEN = {  # by the optimisers that it is for: what has gone wrong, and a word of the message
    tuple(MAKERS): [
        (remove("settings", "format"), "saved with format=None, this optimiser has format=4"),
        (remove("run"), "no entry 'run'"),
        (remove("run", "steps"), "has entries"),
        (set_in("run", "samples", value="many"), "samples is 'many'"),
        (set_in("run", "samples", value=-1), "steps from -1 samples"),
        (set_in("run", "steps", value=10**6), "1000000 steps from"),
        (set_in("state", 1, "average", value=torch.zeros(7)), "'average' of parameter 1 is not"),
        (set_in("state", 1, "average", value=torch.full((6,), torch.nan)), "is not a finite"),
        (set_in("state", 1, "momentum", value=torch.zeros(6)), "'momentum' of parameter 1"),
        (set_in("state", 4, value={}), "buffers of parameter 4, but there are 4"),
        (set_in("flags", value=torch.ones(2)), r"flags are of shape \(2,\)"),
    ],
    tuple(WINDOWS): [
        (set_in("run", "seen", value=64), "64 of . samples in the level"),
        (set_in("state", 0, "sum", value=torch.zeros(6)), "'sum' of parameter 0 is not"),
    ],
    ("mag",): [
        (set_in("run", "root", value=-1.0), r"root is -1\.0"),
        (set_in("param_groups", 0, "alpha", value=-1.0), "alpha must be positive"),
        (remove("param_groups", 0, "maximize"), "it has no 'maximize'"),
    ],
    ("mlmc",): [
        (remove("optimizer"), "no entry 'optimizer'"),
        (set_in("optimizer", "param_groups", value=[]), "parameter groups"),
        (set_in("optimizer", "state", value={0: {"step": None}}), "must be .* real number"),
    ],
    tuple(LADDERS): [
        (remove("param_groups", 0, "lr"), "it has no 'lr'"),
        (set_in("run", "ladder", value=None), "7 steps with 4 tensors"),
        (set_in("run", "tensors", value=5), "7 steps with 5 tensors"),
        (set_in("run", "sketched", value=-1), "a count is negative"),
        (set_in("run", "ladder", "rate", value=torch.ones(99)), "state of the ladder .* rate is"),
        (set_in("run", "ladder", "distance", "lam", value=0.0), "scale is not positive"),
    ],
}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        pytest.param(name, *case, id=f"{name}-{case[1]}")
        for names, cases in BROKEN.items()
        for name in names
        for case in cases
    ],
)
def test_refused_state_changes_nothing_by_halves(name, change, message):
    """Groups, buffers, counts and an optimiser inside: a load that sets one before it fails."""
    first, model = network(), network(seed=1)
    saving, opt = (MAKERS[name](m, output="average") for m in (first, model))
    train(first, saving, stream(7))
    train(model, opt, stream(11, seed=2))
    saved = copy.deepcopy(saving.state_dict())
    saving.load_state_dict(saved)
    change(saved)
    before, groups, twin = copy.deepcopy(opt.state_dict()), opt.param_groups, copy.deepcopy(model)
    with pytest.raises(ValueError, match=message):
        opt.load_state_dict(saved)
    assert opt.param_groups is groups
    again = MAKERS[name](twin, output="average")
    again.load_state_dict(before)
    assert opt.samples == again.samples == 11
    for each, optimiser in ((model, opt), (twin, again)):
        train(each, optimiser, stream(20, seed=3))
    assert torch.equal(flat(model), flat(twin))
    with opt.averaged(), again.averaged():
        assert torch.equal(flat(model), flat(twin))


def test_step_inside_averaged(make):
    model = network()
    opt = make(model, output="average")
    with pytest.raises(RuntimeError, match=r"step\(\) inside averaged\(\)"), opt.averaged():
        opt.step()
    opt.step()


def test_model_of_another_make(make):
    opt = make(network(), output="average")
    before = flat(network(seed=3)[0])
    other = network(seed=3)[0]
    with pytest.raises(ValueError, match="model must have parameters of shapes"):
        opt.average_into(other)
    assert torch.equal(flat(other), before)
