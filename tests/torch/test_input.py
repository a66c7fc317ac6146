"""Wrong input is refused with a reason, and changes nothing."""

import pytest
import torch

import mixfree.torch as mt
from tests.torch.helpers import MAKERS, network, stream, train


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_complex_parameters():
    with pytest.raises(ValueError, match="real floating-point tensors, not "):
        mt.MAG([torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))])


def test_refused_group_is_not_added():
    opt = mt.MAG([torch.nn.Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="params must be on one device, not on cpu and meta"):
        opt.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2, device="meta"))]})
    assert len(opt.param_groups) == 1


def test_not_an_optimiser():
    with pytest.raises(ValueError, match="optimizer must be a torch optimiser, not 3"):
        mt.MLMC(3)
    for make in (mt.MAG, mt.Ladder):  # both would count in the same places
        with pytest.raises(ValueError, match="optimizer must be one of torch's"):
            mt.MLMC(make([torch.nn.Parameter(torch.zeros(2))]))


def test_an_optimiser_that_evaluates_the_loss():
    """LBFGS, whose step would fail in the middle of a run for want of a closure."""
    inner = torch.optim.LBFGS([torch.nn.Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="optimizer must step without evaluating the loss"):
        mt.MLMC(inner)


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


def test_the_state_of_another_optimiser_on_load(make):
    """A KeyError at the next step."""
    model = network()
    opt, others = make(model), [torch.optim.Adam, mt.MAG, mt.Ladder]
    for other in others:
        if not isinstance(opt, other):
            saved = other(network().parameters()).state_dict()
            with pytest.raises(ValueError, match=r"state has no .* it is of another optimiser"):
                opt.load_state_dict(saved)
    saved = make(network()).state_dict()
    saved["param_groups"][0]["format"] = 1
    with pytest.raises(ValueError, match="state has format 1, not"):
        opt.load_state_dict(saved)
    train(model, opt, stream(5))
    assert opt.samples == 5
