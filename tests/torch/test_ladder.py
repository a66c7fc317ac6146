"""The ladder for PyTorch: what its twin, tested in ``tests/dropins``, does not have."""

import sys
from functools import partial

import numpy as np
import pytest
import torch

import mixfree as mf
import mixfree.torch as mt
from tests.torch.helpers import flat, network, stream, train_with_late_head


def parameters(*shapes, dtype=torch.float64):
    return [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]


def approach(opt, params, goal, steps):
    for _ in range(steps):
        for p in params:
            p.grad = p.detach() - goal
        opt.step()


@pytest.mark.parametrize(("output", "numbers"), [("recent", 2), ("weighted", 3)])
def test_numbers_per_weight_beside_the_samples(output, numbers):
    """Another copy of the parameters; a sketch that grows with the model or with the run."""
    params = parameters((300, 910), (10,), dtype=torch.float32)
    opt = mt.Ladder(params, output=output, block=4)
    approach(opt, params, 1.0, 64)
    state = [t for p in params for t in opt.state[p].values()]
    shared = 29 * 1015 + 29 + 3 * 91_004  # every 269th coordinate, and every third
    assert sum(t.numel() for t in state) == numbers * 273_010 + shared


def test_profile_and_numbers_of_the_reference():
    rng = np.random.default_rng(0)
    targets = np.repeat(rng.standard_normal((8, 6)), 32, axis=0) + rng.standard_normal((256, 6))
    reference, params = mf.Ladder(np.zeros(6), block=4), parameters(6)
    opt = mt.Ladder(params, block=4)
    for target in targets:
        reference.tell(reference.x - target)
        params[0].grad = params[0].detach() - torch.tensor(target)
        opt.step()
    for mine, theirs in zip(opt.profile(), reference.profile(), strict=True):
        np.testing.assert_allclose(mine, theirs)
    assert opt.correlation_scale() == opt.profile().correlation_scale()
    assert opt.rate == pytest.approx(opt.distance / np.sqrt(256 * opt.inflation))


@pytest.mark.parametrize("lr", [0.0, 0.01])
def test_a_group_at_a_small_rate_does_not_hold_up_the_others(lr):
    """Gradients that never change, since their weights hardly move, in the denominator of r̄."""
    slow, fast = parameters(50, 50)
    (alone,) = parameters(50)
    opt, same = mt.Ladder([{"params": [slow], "lr": lr}, {"params": [fast]}]), mt.Ladder([alone])
    approach(opt, [slow, fast], 3.0, 300)
    approach(same, [alone], 3.0, 300)
    torch.testing.assert_close(fast, alone, rtol=0.1, atol=0.1)
    assert (alone - 3.0).abs().max() < 0.1
    if lr == 0.0:
        assert torch.equal(slow, torch.zeros_like(slow))
        torch.testing.assert_close(fast, alone, rtol=1e-10, atol=1e-10)


def test_a_group_added_later_had_zero_gradients_before():
    late, always = network(dtype=torch.float64), network(dtype=torch.float64)
    # The first distance is otherwise a fraction of what is there at the start.
    opt, same = (mt.Ladder(m.parameters(), block=4, first=0.01) for m in (late[0], always))
    train_with_late_head(late, opt, always, same, stream(40, dtype=torch.float64), joins=10)
    torch.testing.assert_close(flat(late), flat(always), rtol=1e-8, atol=1e-10)


def test_a_group_that_changes_the_sample_begins_the_search_anew(monkeypatch):
    """Catches a bound whose numerator is of other coordinates than its denominator."""
    monkeypatch.setattr(sys.modules["mixfree.torch.ladder"], "SAMPLE", 150)
    first, more = parameters(100, 200)
    opt = mt.Ladder([first])
    approach(opt, [first], 3.0, 68)  # while the distance still grows
    found = opt.distance
    opt.add_param_group({"params": [more]})
    approach(opt, [first, more], 3.0, 5)
    assert 1.0 < found < opt.distance < 1.5 * found


def test_gradients_with_other_strides_than_their_parameter():
    """Entries added in the order of the memory instead of that of the indices."""
    runs = []
    for transposed in (False, True):
        (p,) = parameters((3, 2))
        opt = mt.Ladder([p], block=4)
        for i in range(10):
            g = torch.arange(6.0, dtype=torch.float64).view(3, 2) - i
            p.grad = g.t().contiguous().t() if transposed else g
            opt.step()
        runs.append(p.detach().clone())
    assert torch.equal(*runs) and runs[0].abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loss_without_a_minimum_ends_in_a_sentence_at_a_finite_point(dtype):
    """Steps that grow until a sum overflows end in NaN."""
    (p,) = parameters(50, dtype=dtype)
    opt = mt.Ladder([p])
    with pytest.raises(ValueError, match="the loss falls without end"):
        for _ in range(20_000):
            p.grad = torch.ones_like(p)
            opt.step()
    assert bool(p.isfinite().all()) and float(p.detach().abs().amax()) > 1e10


@pytest.mark.parametrize("make", [partial(mt.Ladder, first=1e-6), partial(mt.MAG, alpha=0.5)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_parameters_of_few_digits_learn_as_others_do_and_go_on_after_saving(make, dtype):
    """The first steps are shorter than the spacing of the numbers: rounded, they were all lost."""
    goal = torch.linspace(1.0, 2.0, 50)
    errors = []
    for kind in (torch.float32, dtype):
        p = torch.nn.Parameter(torch.ones(50, dtype=kind))
        opt = make([p])
        for step in range(600):
            if step == 300:
                saved = opt.state_dict()
                opt = make([p])
                opt.load_state_dict(saved)
            p.grad = p.detach() - goal.to(kind)
            opt.step()
        errors.append(float((p.detach().float() - goal).abs().max()))
    # Numbers near 2 are 2⁻⁷ apart in bfloat16; gradients are rounded as well.
    assert errors[1] < errors[0] + 0.05
    assert float(opt.state[p]["lost"].abs().max()) > 0.0
