"""What torch.optim promises of every optimiser."""

import copy
import io
import pickle

import pytest
import torch
import torch.distributed.checkpoint.state_dict as dcp

import mixfree.torch as mt
from tests.torch.helpers import (
    MAKERS,
    WINDOWS,
    flat,
    loss_of,
    network,
    stream,
    train,
    train_with_late_head,
)

GROUPED = {
    "mag": lambda groups: mt.MAG(groups, levels=3),
    "mlmc": lambda groups: mt.MLMC(torch.optim.SGD(groups, lr=0.1), levels=3),
    "ladder": lambda groups: mt.Ladder(groups, block=4, first=1e-3),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_memory_is_one_copy_besides_the_average():
    model = network()
    opt = WINDOWS["mag"](model)
    train(model, opt, stream(20))
    for p in model.parameters():
        assert opt.state[p].keys() == {"window", "average"}
        assert all(t.shape == p.shape and t.dtype == p.dtype for t in opt.state[p].values())


def test_closure_gives_the_loss_and_the_same_run(make):
    one, other = network(), network()
    opt = make(one)
    for sample in stream():

        def closure(sample=sample):
            opt.zero_grad()
            loss = loss_of(one, sample)
            loss.backward()
            return loss

        with torch.no_grad():
            expected = loss_of(one, sample)
        assert opt.step(closure) == expected
    train(other, make(other), stream())
    assert torch.equal(flat(one), flat(other))


def test_groups_have_their_own_scale_and_share_the_norm():
    model, twice = network(), network()
    parts = lambda m: [list(m[0].parameters()), list(m[2].parameters())]  # noqa: E731
    body, head = parts(model)
    opt = mt.MAG([{"params": body, "alpha": 0.4}, {"params": head, "lr": 0.5}], 3, alpha=0.2)
    same = mt.MAG(twice.parameters(), 3, alpha=0.2)
    while not opt.stepped:
        sample = stream(1, seed=opt.samples)
        train(model, opt, sample)
        train(twice, same, sample)
    start = network()
    for factor, mine, theirs, origin in zip(
        (2.0, 0.5), parts(model), parts(twice), parts(start), strict=True
    ):
        for p, q, o in zip(mine, theirs, origin, strict=True):
            torch.testing.assert_close(p - o, factor * (q - o), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", GROUPED)
def test_maximize_climbs(name):
    p, q = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    up, down = GROUPED[name]([{"params": [p], "maximize": True}]), GROUPED[name]([q])
    for i in range(20):
        p.grad = q.grad = torch.tensor([1.0, -2.0, 0.1 * i])
        up.step()
        down.step()
    torch.testing.assert_close(p + q, 2 * torch.ones(3))
    assert not torch.equal(p, q)


@pytest.mark.parametrize("name", ["mag", "mlmc"])
def test_group_added_in_the_middle_of_a_level_had_zero_gradients_before(name):
    def make(model):
        if name == "mag":
            return mt.MAG(model.parameters(), levels=3, alpha=0.2, output="average")
        return mt.MLMC(torch.optim.SGD(model.parameters(), lr=0.01), levels=3, output="average")

    late, always = network(), network()
    opt, same = make(late[0]), make(always)
    samples = stream()
    train_with_late_head(late, opt, always, same, samples[:19], joins=19)
    assert opt.pending > 0 and opt.steps > 0
    train_with_late_head(late, opt, always, same, samples[19:], joins=0)
    torch.testing.assert_close(flat(late), flat(always), rtol=1e-5, atol=1e-6)
    with opt.averaged(), same.averaged():
        torch.testing.assert_close(flat(late), flat(always), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("frozen", [[], [(2, 3)]], ids=["empty", "frozen"])
@pytest.mark.parametrize("name", GROUPED)
def test_a_group_without_gradients_changes_nothing(name, frozen):
    there = [torch.nn.Parameter(torch.zeros(shape)) for shape in frozen]
    p, q = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    opt, alone = GROUPED[name]([{"params": there}, {"params": [p]}]), GROUPED[name]([q])
    for i in range(40):
        # Nothing at all has a gradient in the whole first level.
        for each in (p, q):
            each.grad = None if i < 8 else each.detach() - torch.tensor([3.0, 0.1 * i])
        opt.step()
        alone.step()
    assert opt.samples == alone.samples == 40
    assert opt.steps == alone.steps > 3
    assert torch.equal(p, q) and not torch.equal(p, torch.ones(2))
    assert all(torch.equal(each, torch.zeros(each.shape)) for each in there)


def test_optimiser_inside_does_not_see_what_had_no_gradient():
    p, q = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    opt = mt.MLMC(torch.optim.SGD([p, q], lr=0.1, momentum=0.9), levels=1)
    p.grad, q.grad = torch.ones(1), torch.ones(1)
    opt.step()
    opt.step()
    assert opt.stepped
    at = q.clone()
    q.grad = None
    opt.step()
    opt.step()
    assert opt.stepped and torch.equal(q, at)  # momentum alone would have moved it


def test_own_gradients_are_left_as_they_were(make):
    model = network()
    opt = make(model)
    for sample in stream(20):
        opt.zero_grad()
        loss_of(model, sample).backward()
        before = [(p.grad, p.grad.clone()) for p in model.parameters()]
        opt.step()
        for p, (tensor, value) in zip(model.parameters(), before, strict=True):
            assert p.grad is tensor and torch.equal(tensor, value)


@pytest.mark.parametrize("copying", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_deepcopy_and_pickle_go_on_alike(make, copying):
    """Also after two loads: each adds an option to torch's defaults that saved groups lack."""
    model, samples = network(), stream()
    opt = make(model, output="average")
    train(model, opt, samples[:31])
    other, again = copying((model, opt))
    for _ in range(2):
        again.load_state_dict(copy.deepcopy(opt.state_dict()))
    train(model, opt, samples[31:])
    train(other, again, samples[31:])
    assert again.samples == 60
    assert torch.equal(flat(other), flat(model))


def test_sums_keep_their_digits_under_bfloat16(make):
    model = network(dtype=torch.bfloat16)
    opt = make(model, output="average")
    train(model, opt, stream(31, dtype=torch.bfloat16))
    other = network(dtype=torch.bfloat16)
    again = make(other, output="average")
    again.load_state_dict(opt.state_dict())
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert "average" in opt.state[p]
        for name in {"window", "average"} & opt.state[p].keys():
            value, loaded = opt.state[p][name], again.state[q][name]
            assert value.dtype == loaded.dtype == torch.float32 and torch.equal(value, loaded)
            assert value.data_ptr() != loaded.data_ptr()


@pytest.mark.parametrize("flatten", [False, True])
def test_distributed_checkpoints_go_on_alike(make, flatten):
    """A state that they cannot name, a lost one, or numbers that a step to prepare them changes."""
    model, other, samples = network(), network(seed=9), stream()
    opt, again = make(model), make(other)
    options = dcp.StateDictOptions(flatten_optimizer_state_dict=flatten)
    train(model, opt, samples[:31])
    file = io.BytesIO()
    torch.save(dcp.get_optimizer_state_dict(model, opt, options=options), file)
    file.seek(0)
    if flatten:  # then they are read into the entries that there are
        train(other, again, samples[:8])
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    dcp.set_optimizer_state_dict(other, again, torch.load(file), options=options)
    for each, optimiser in ((model, opt), (other, again)):
        train(each, optimiser, samples[31:])
    assert again.samples == 60 and torch.equal(flat(model), flat(other))


@pytest.mark.parametrize("gone", ["exp_avg", "param_groups"])
def test_a_state_that_lacks_something_changes_nothing(gone):
    model, other = network(), network()
    opt, again = MAKERS["mlmc"](model), MAKERS["mlmc"](other)
    train(model, opt, stream(20))
    saved = copy.deepcopy(opt.state_dict())
    for part in (saved, *saved["state"].values()):
        part.pop(gone, None)
    with pytest.raises(ValueError, match=f"has no '{gone}'"):
        again.load_state_dict(saved)
    assert again.samples == 0 and again.param_groups is again.optimizer.param_groups


def test_gradients_whose_norm_a_narrow_type_cannot_hold(make):
    model = network(dtype=torch.float16)
    opt = make(model)
    for step in range(40):
        for p in model.parameters():
            p.grad = torch.full_like(p, 3e4 if step % 2 else -3e4)
        opt.step()
    assert (opt.samples, opt.skipped) == (40, 0) and bool(flat(model).isfinite().all())


@pytest.mark.parametrize("name", GROUPED)
def test_parameters_without_entries_alone(name):
    p = torch.nn.Parameter(torch.zeros(0))
    opt = GROUPED[name]([{"params": [p]}])
    for _ in range(20):
        p.grad = torch.zeros(0)
        opt.step()
    assert opt.samples == 20


@pytest.mark.parametrize("name", ["mag", "ladder"])
def test_mixed_dtypes_are_summed_each_in_its_own(name):
    dtypes = torch.bfloat16, torch.float32
    mixed = [torch.nn.Parameter(torch.ones(3, dtype=d)) for d in dtypes]
    plain = [torch.nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in dtypes]
    opts = [GROUPED[name](params) for params in (mixed, plain)]
    for i in range(12):
        gradient = torch.tensor([0.5, -1.0, 0.25 * (i % 3)])
        for opt, params in zip(opts, (mixed, plain), strict=True):
            for p in params:
                p.grad = gradient.to(p.dtype)
            opt.step()
    for p, q, d in zip(mixed, plain, dtypes, strict=True):
        assert p.dtype == d
        tolerance = 0.05 if d == torch.bfloat16 else 1e-6
        torch.testing.assert_close(p.double(), q, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("inside", [False, True])
def test_scheduler_counts_real_steps(inside):
    model = network()
    if inside:
        opt = MAKERS["mlmc"](model)
        target, start = opt.optimizer, 0.01
    else:
        opt = MAKERS["mag"](model)
        target, start = opt, 1.0
    scheduler = torch.optim.lr_scheduler.ExponentialLR(target, gamma=0.9)
    train(model, opt, stream(), lambda: scheduler.step() if opt.stepped else None)
    assert opt.param_groups[0]["lr"] == pytest.approx(start * 0.9**opt.steps)
    assert scheduler.last_epoch == opt.steps < 60


def test_compiled_loop_is_the_same_and_compiles_once(make):
    one, other = network(), network()
    opt, plain = make(one), make(other)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()

    @torch.compile(backend="eager")
    def training_step(x, y):
        opt.zero_grad()
        loss_of(one, (x, y)).backward()
        opt.step()

    samples = stream()
    training_step(*samples[0])
    training_step(*samples[1])
    frames = dict(torch._dynamo.utils.counters["stats"])
    for sample in samples[2:]:
        training_step(*sample)
    assert dict(torch._dynamo.utils.counters["stats"]) == frames
    train(other, plain, samples)
    torch.testing.assert_close(flat(one), flat(other))


def test_grad_scaler_unscales_and_skips_without_a_trace(make):
    model, plain = network(), network()
    opt, same = make(model), make(plain)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for i, sample in enumerate(stream()):
        opt.zero_grad()
        scaler.scale(loss_of(model, sample)).backward()
        if i % 7 == 3:
            model[0].weight.grad[0, 0] = torch.inf
        else:
            train(plain, same, [sample])
        scaler.step(opt)
        scaler.update()
    assert opt.samples == same.samples < 60
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", WINDOWS)
def test_parameters_without_entries(name):
    """Catches a norm of no numbers."""
    model = torch.nn.Module()
    model.empty = torch.nn.Parameter(torch.zeros(0, 3))
    opt = WINDOWS[name](model)
    for _ in range(20):
        model.empty.grad = torch.zeros(0, 3)
        opt.step()
    assert model.empty.shape == (0, 3)
