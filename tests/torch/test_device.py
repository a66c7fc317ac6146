"""Ordinary steps read nothing from the device, and late reports of bad gradients are harmless."""

import copy

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import mixfree as mf
import mixfree.torch as mt
from mixfree.torch import device_ladder
from tests.torch.helpers import LADDERS, MAKERS, NOW, flat, loss_of, network, stream, train
from tests.torch.test_ladder import correlated

LATE = {"check_finite": "late"}


class Transfers(TorchDispatchMode):
    """Counts what waits for the device: numbers read from it, and copies between devices.

    Of what runs on the host, reading a number is all that can be seen: on an accelerator the same
    call waits.
    """

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        reads = ("_local_scalar_dense", "item", "equal", "is_nonzero", "nonzero", "masked_select")
        if name in (*reads, "_to_cpu", "unique", "unique_dim"):
            self.found.append(name)
        given = (kwargs or {}).get("device")
        if name in ("_to_copy", "to") and given is not None and given.type == "cpu":
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def makers(model):
    """Each optimiser; SGD inside, since Adam reads its own count of steps."""
    inner = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return {
        "mag": lambda: mt.MAG(model.parameters(), levels=3, weight_decay=0.1),
        "mlmc": lambda: mt.MLMC(inner, levels=3, output="average"),
        "ladder": lambda: mt.Ladder(model.parameters(), block=4, weight_decay=0.1),
        "one rate": lambda: mt.Ladder(model.parameters(), block=4, per_coordinate=False),
        "sketched": lambda: mt.Ladder(model.parameters(), block=4, sketch=2, per_coordinate=False),
        "fixed scale": lambda: mt.Ladder(model.parameters(), alpha=0.1, block=4),
    }


@pytest.mark.parametrize("name", makers(network()))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_ordinary_step_reads_nothing_from_the_device(name, dtype, monkeypatch):
    """A norm, a flag or a sketch brought to the host; all steps but the first and every 64th."""
    model = network(dtype=dtype)
    opt, transfers = makers(model)[name](), Transfers()
    for i, sample in enumerate(stream(90, dtype=dtype)):
        opt.zero_grad()
        loss_of(model, sample).backward()
        if i == 0 or i % 64 in (63, 0):  # begins, reads the flag, compares the unit
            opt.step()
            continue
        # Nothing can leave for the host behind the dispatcher's back, either.
        monkeypatch.setattr(torch.Tensor, "numpy", None)
        monkeypatch.setattr(torch.Tensor, "tolist", None)
        with transfers:
            opt.step()
        monkeypatch.undo()
    assert transfers.found == []
    assert opt.steps > 10


@pytest.mark.parametrize("name", MAKERS)
def test_the_mode_sees_the_reads_of_a_check_at_once(name):
    """A mode that sees nothing would pass every step."""
    model, transfers = network(), Transfers()
    opt = MAKERS[name](model)
    train(model, opt, stream(5))
    with transfers:
        opt.step()
    assert "_local_scalar_dense" in transfers.found


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_bad_gradient_found_late_counted_as_zero(name, bad):
    """NaN in a sum, the average or the parameters; or a clean run that differs from then on."""
    model, clean = network(), network()
    opt, same = MAKERS[name](model, **LATE), MAKERS[name](clean)
    for i, sample in enumerate(stream(63)):
        for each in (model, clean):
            each.zero_grad()
            loss_of(each, sample).backward()
        if i in (20, 21, 40):
            model[0].bias.grad[1] = bad
            for p in clean.parameters():
                p.grad.zero_()
        opt.step()
        same.step()
        assert bool(flat(model).isfinite().all())
    assert torch.equal(flat(model), flat(clean))
    with pytest.raises(ValueError, match=r"gradient of sample 21 is not .* counted as zero"):
        train(model, opt, stream(1, seed=3))
    train(clean, same, stream(1, seed=3))
    train(model, opt, stream(64, seed=4))  # said once
    train(clean, same, stream(64, seed=4))
    assert torch.equal(flat(model), flat(clean)) and opt.samples == same.samples == 128


@pytest.mark.parametrize("name", MAKERS)
def test_what_was_left_out_before_saving_is_reported_after_loading(name):
    """A checkpoint that is lost to the report, or a report that is lost by the checkpoint."""
    model = network()
    opt = MAKERS[name](model, **LATE)
    train(model, opt, stream(9))
    model[0].bias.grad[1] = torch.nan
    opt.step()
    other = network()
    again = MAKERS[name](other, **LATE)
    other.load_state_dict(model.state_dict())
    again.load_state_dict(copy.deepcopy(opt.state_dict()))
    for each, optimiser in ((model, opt), (other, again)):
        train(each, optimiser, stream(53, seed=5))
        with pytest.raises(ValueError, match="gradient of sample 10 is not finite"):
            train(each, optimiser, stream(1, seed=6))
    assert torch.equal(flat(model), flat(other))


@pytest.mark.parametrize("name", MAKERS)
def test_late_and_now_are_the_same_run(name):
    one, other = network(), network()
    train(one, MAKERS[name](one, **LATE), stream(100))
    train(other, MAKERS[name](other, **NOW), stream(100))
    assert torch.equal(flat(one), flat(other))


@pytest.mark.parametrize("name", LADDERS)
def test_late_copies_go_on_alike(name):
    """A flag or a state on the device that a copy shares with the original or loses."""
    model = network()
    opt = LADDERS[name](model, **LATE)
    train(model, opt, stream(30))
    twin, same = copy.deepcopy((model, opt))
    train(model, opt, stream(30, seed=7))
    train(twin, same, stream(30, seed=7))
    assert torch.equal(flat(model), flat(twin))


def test_gradients_with_other_strides_than_their_parameter():
    """Entries added in the order of the memory instead of that of the indices."""
    runs = []
    for transposed in (False, True):
        p = torch.nn.Parameter(torch.zeros(3, 2))
        opt = mt.Ladder([p], block=4, per_coordinate=False)
        for i in range(10):
            g = torch.arange(6.0).view(3, 2) - i
            p.grad = g.t().contiguous().t() if transposed else g
            opt.step()
        runs.append(p.detach().clone())
    assert torch.equal(*runs) and runs[0].abs().sum() > 0


def test_float32_sums_stay_near_the_reference(monkeypatch):
    """Rounding that adds up: over 10⁵ steps the rates are within 1e-5 of those in float64."""
    monkeypatch.setattr(device_ladder, "sums_dtype", lambda device: torch.float32)
    rule = mf.steps.Ladder(alpha=0.5)
    reference = rule.start(np.zeros(3))
    ladder = device_ladder.on_device(rule.start(np.zeros(3)), torch.device("cpu"))
    gradients = (correlated(100_000, 3) + 0.3).astype(np.float32)
    wide, rows, x = gradients.astype(float), torch.from_numpy(gradients), np.zeros(3)
    for t in range(100_000):
        rule.move(reference, wide[t], t + 1, x)
        ladder.step(rule, rows[t], rows[t, 0], t + 1, rows[0] if rule.refreshes(t + 1) else None)
    found = device_ladder.on_host(ladder)
    assert ladder.rate.dtype == torch.float32
    for name in ("rate", "total", "excess"):
        np.testing.assert_allclose(getattr(found, name), getattr(reference, name), rtol=1e-5)
