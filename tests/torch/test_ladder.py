"""The ladder for PyTorch: exact for small models, sketched for large ones."""

import math

import numpy as np
import pytest
import torch

import mixfree as mf
import mixfree.torch as mt
from mixfree.steps import Distance
from tests.torch.helpers import LADDERS, flat, network, stream, train, train_with_late_head


def correlated(samples, size, seed=0):
    """Gradients that lean one way for a while, then another."""
    rng = np.random.default_rng(seed)
    lean = np.repeat(rng.standard_normal((-(-samples // 32), size)), 32, axis=0)[:samples]
    return lean + rng.standard_normal((samples, size))


def run(opt, params, targets):
    for target in targets:
        at = 0
        for p in params:
            p.grad = p.detach() - torch.tensor(target[at : at + p.numel()]).view_as(p)
            at += p.numel()
        opt.step()


def parameters(*shapes):
    return [torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for shape in shapes]


@pytest.mark.parametrize(("rates", "most"), [(None, 256 * 8), (False, 16 * 8)])
def test_small_models_are_exact_and_large_ones_sketched(rates, most):
    """Catches a single rate, with which deep networks may not learn, for all but tiny models."""
    small, large = parameters(most), parameters(most + 1)
    for params, sketched in ((small, False), (large, True)):
        opt = mt.Ladder(params, sketch=8, per_coordinate=rates)
        run(opt, params, np.ones((2, params[0].numel())))
        saved = opt.state_dict()["run"]
        assert bool(saved["sketched"]) == sketched
        single = sketched or rates is False
        assert saved["ladder"]["rate"].numel() == (1 if single else params[0].numel())


@pytest.mark.parametrize("options", [{"per_coordinate": True}, {"sketch": None}])
def test_exact_at_any_size_when_asked(options):
    params = parameters((40, 40))
    opt = mt.Ladder(params, **{"sketch": 8, **options})
    run(opt, params, np.ones((2, 1600)))
    assert not opt.state_dict()["run"]["sketched"]


@pytest.mark.parametrize(("alpha", "error"), [(20.0, 0.1), (None, 0.25)])
def test_sketched_run_is_near_the_exact_one(alpha, error):
    targets = correlated(512, 6400)
    ends, profiles = [], []
    for sketch in (None, 256):
        params = parameters((60, 100), (400,))
        opt = mt.Ladder(params, alpha=alpha, per_coordinate=False, block=8, sketch=sketch)
        run(opt, params, targets)
        ends.append(torch.cat([p.detach().ravel() for p in params]))
        profiles.append(opt.profile().ratios)
    # Totals have an error of √(2/256) = 9 %, each rate half of that; a distance that is found
    # on the way adds its own, which feeds back.
    assert (ends[1] - ends[0]).norm() < error * ends[0].norm()
    # A ratio is of two totals.
    rtol = 4.0 * math.sqrt(2.0) * math.sqrt(2.0 / 256)
    np.testing.assert_allclose(profiles[1], profiles[0], rtol=rtol)
    assert profiles[0].max() > 3.0 and profiles[1].max() > 3.0


def test_memory_is_one_average_and_one_sketch_per_level():
    params = parameters((300, 100), (100,))
    opt = mt.Ladder(params, block=4, sketch=64, per_coordinate=False)
    run(opt, params, np.ones((64, 30_100)))
    for p in params:
        assert opt.state[p].keys() == {"average"}
    ladder = opt.state_dict()["run"]["ladder"]
    values = [*ladder.values(), *ladder["distance"].values()]
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    levels = len(ladder["halves"])
    assert levels == 5
    # Vectors: sum, carry, origin, mean, before, weighted_sum. Numbers: rate, squares, total, rbar.
    assert sum(v.numel() for v in tensors) == (levels + 6) * 64 + 2 * levels + 4


def test_profile_of_the_reference():
    gradients = correlated(256, 6)
    reference = mf.Ladder(np.zeros(6), block=4)
    params = parameters(6)
    opt = mt.Ladder(params, block=4)
    for g in gradients:
        reference.tell(g)
        params[0].grad = torch.tensor(g)
        opt.step()
    for mine, theirs in zip(opt.profile(), reference.profile(), strict=True):
        np.testing.assert_allclose(mine, theirs)


def test_no_profile_before_the_first_step():
    with pytest.raises(ValueError, match="no profile before the first step"):
        mt.Ladder(parameters(3)).profile()


SKETCHED = {"per_coordinate": False, "sketch": 1}


@pytest.mark.parametrize(
    "form", [{}, {"per_coordinate": False}, SKETCHED], ids=["rates", "one rate", "sketched"]
)
def test_group_added_later_had_zero_gradients_before(form):
    late, always = network(dtype=torch.float64), network(dtype=torch.float64)
    # The first distance is otherwise a fraction of the norm of what is there at the start.
    form = {"block": 4, "distance": Distance(0.01), **form}
    opt, same = (mt.Ladder(m.parameters(), **form) for m in (late[0], always))
    train_with_late_head(late, opt, always, same, stream(40, dtype=torch.float64), joins=10)
    assert bool(opt.state_dict()["run"]["sketched"]) == ("sketch" in form)
    torch.testing.assert_close(flat(late), flat(always), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", LADDERS)
def test_maximize_climbs(name):
    up, down = network(dtype=torch.float64), network(dtype=torch.float64)
    start = flat(up)
    climbing, falling = LADDERS[name](up, maximize=True), LADDERS[name](down)
    rng = np.random.default_rng(0)
    for _ in range(20):
        for p, q in zip(up.parameters(), down.parameters(), strict=True):
            p.grad = q.grad = torch.tensor(rng.standard_normal(p.shape))
        climbing.step()
        falling.step()
    torch.testing.assert_close(flat(up) - start, start - flat(down))
    assert (flat(up) - start).norm() > 0


@pytest.mark.parametrize("name", LADDERS)
def test_other_settings_on_load(name):
    model = network()
    opt = LADDERS[name](model)
    train(model, opt, stream(5))
    other = LADDERS[name](model, block=5)
    with pytest.raises(ValueError, match="saved with block=4, this optimiser has block=5"):
        other.load_state_dict(opt.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("form", [{}, {"per_coordinate": False}, {"sketch": 2}])
@pytest.mark.parametrize("check_finite", ["late", "now"])
def test_a_loss_without_a_minimum_ends_in_a_sentence_at_a_finite_point(dtype, form, check_finite):
    """Steps that grow until a sum overflows end in NaN."""
    p = torch.nn.Parameter(torch.zeros(50, dtype=dtype))
    opt = mt.Ladder([p], block=8, check_finite=check_finite, **form)
    with pytest.raises(ValueError, match="the loss falls without end"):
        for _ in range(20_000):
            p.grad = torch.ones_like(p)
            opt.step()
    assert bool(p.isfinite().all()) and float(p.detach().abs().amax()) > 1e20
    assert opt.state_dict()["run"]["samples"] == opt.samples


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", [{}, {"per_coordinate": False}, {"sketch": 2}])
def test_parameters_of_few_digits_learn_as_others_do_and_go_on_after_saving(dtype, form):
    """The first steps are shorter than the spacing of the numbers: rounded, they were all lost."""
    goal = torch.linspace(1.0, 2.0, 50)
    errors = []
    for kind in (torch.float32, dtype):
        p = torch.nn.Parameter(torch.ones(50, dtype=kind))
        opt = mt.Ladder([p], block=8, **form)
        for step in range(600):
            if step == 300:
                saved = opt.state_dict()
                opt = mt.Ladder([p], block=8, **form)
                opt.load_state_dict(saved)
            p.grad = p.detach() - goal.to(kind)
            opt.step()
        errors.append(float((p.detach().float() - goal).abs().max()))
    # Numbers near 2 are 2⁻⁷ apart in bfloat16; gradients are rounded as well.
    assert errors[1] < errors[0] + 0.05
    assert float(opt.state[p]["lost"].abs().max()) > 0.0
