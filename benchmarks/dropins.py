"""Overhead of the drop-ins beyond the gradient, on small and large networks, as ratios.

CPU time of one thread, the best of several repetitions.
"""

import jax
import jax.numpy as jnp
import optax
import torch

import mixfree.optax as mo
import mixfree.torch as mt
from benchmarks.core import cpu_seconds_in_turns
from benchmarks.table import show

LARGE = [(512, 784), (512,), (512, 512), (512,), (512, 512), (512,), (128, 512), (128,), (10, 128)]
SMALL = [(80, 64), (80,), (10, 80), (10,)]
SHAPES = {"one million parameters": LARGE, "6,000 parameters": SMALL}
SAMPLES = 128  # samples per repetition, enough for a typical mean length of levels
SIGNS = (1.0, -1.0)  # alternating, since constant gradients would make a ladder diverge


def least(works):
    """Return the least CPU time of each function per sample."""
    times = cpu_seconds_in_turns(works, warm_ups=1)
    return [seconds / SAMPLES for seconds in times]


def torch_work(make, shapes):
    generator = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(0.05 * torch.randn(s, generator=generator)) for s in shapes]
    base = [torch.randn(p.shape, generator=generator) for p in params]
    gradients = [[sign * g for g in base] for sign in SIGNS]
    opt = make(params)

    def work():
        for i in range(SAMPLES):
            for p, g in zip(params, gradients[i % 2], strict=True):
                p.grad = g
            opt.step()

    return work, params, opt


def buffers(params, opt):
    """Return the number of copies of the parameters kept, also by a wrapped optimiser."""
    states = [
        each.state[p] for each in (opt, getattr(opt, "optimizer", None)) if each for p in params
    ]
    kept = [t for state in states for t in state.values() if isinstance(t, torch.Tensor)]
    return sum(t.numel() for t in kept) / sum(p.numel() for p in params)


def optax_work(opt, shapes):
    keys = jax.random.split(jax.random.key(0), len(shapes))
    base = [jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]
    start = [0.05 * g for g in base]
    factors = jnp.linspace(0.5, 1.0, SAMPLES) * jnp.tile(jnp.array(SIGNS), SAMPLES // 2)

    @jax.jit
    def run(params, state):
        def body(carry, factor):
            params, state = carry
            gradients = jax.tree.map(lambda g, p: factor * g + 1e-3 * p, base, params)
            updates, state = opt.update(gradients, state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(body, (params, state), factors)[0]

    at = [(start, opt.init(start))]

    def work():
        at[0] = jax.block_until_ready(run(*at[0]))

    return work


def torch_table(size, shapes):
    makers = {
        "torch.optim.SGD, momentum, foreach": lambda ps: torch.optim.SGD(
            ps, lr=1e-6, momentum=0.9, foreach=True
        ),
        "torch.optim.Adam, foreach": lambda ps: torch.optim.Adam(ps, lr=1e-6, foreach=True),
        "mixfree.torch.MAG": lambda ps: mt.MAG(ps, alpha=1e-6),
        "mixfree.torch.MLMC(SGD, momentum, foreach)": lambda ps: mt.MLMC(
            torch.optim.SGD(ps, lr=1e-6, momentum=0.9, foreach=True)
        ),
        "mixfree.torch.Ladder": mt.Ladder,
    }
    made = [torch_work(make, shapes) for make in makers.values()]
    times = least([work for work, _, _ in made])
    show(
        f"PyTorch: one call of step(), {size}",
        ["optimiser", "μs per sample", "ratio to Adam", "extra copies"],
        [
            (name, 1e6 * t, t / times[1], buffers(params, opt))
            for name, t, (_, params, opt) in zip(makers, times, made, strict=True)
        ],
    )


def training_step(batch):
    """Return a step of Adam on a network of one million parameters, and rows for it."""
    sizes = ((784, 512), (512, 512), (512, 512), (512, 10))
    layers = [part for size in sizes for part in (torch.nn.Linear(*size), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    opt = torch.optim.Adam(model.parameters())

    def step(rows):
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(rows[0]), rows[1]).backward()
        opt.step()

    return step, (torch.randn(batch, 784), torch.randint(10, (batch,)))


def memory_row(batch):
    """Return the time of mixing, relative to a step on the fresh rows and on the mixed rows."""
    (step, fresh), memory = training_step(batch), mt.Memory(1000, draws=4)
    mixed = memory.mix(fresh)
    works = [lambda: step(fresh), lambda: step(mixed), lambda: memory.mix(fresh)]
    alone, with_draws, mix = (SAMPLES * t for t in least(works))
    return batch, 1e6 * mix, mix / alone, mix / with_draws


def memory_table():
    show(
        "PyTorch: Memory.mix with 4 draws per row, beside a step of Adam on one million parameters",
        ["fresh rows", "μs", "to a step on them", "to a step on all rows"],
        [memory_row(batch) for batch in (8, 64)],
    )


def optax_table(size, shapes):
    makers = {
        "optax.adagrad": optax.adagrad(1e-6),
        "optax.adam": optax.adam(1e-6),
        "mixfree.optax.mag": mo.mag(alpha=1e-6),
        "mixfree.optax.mlmc(adam)": mo.mlmc(optax.adam(1e-6)),
        "mixfree.optax.ladder": mo.ladder(),
    }
    times = least([optax_work(opt, shapes) for opt in makers.values()])
    show(
        f"Optax: one sample in a jitted scan, {size}",
        ["transformation", "μs per sample", "ratio to adam"],
        [(name, 1e6 * t, t / times[1]) for name, t in zip(makers, times, strict=True)],
    )


def main():
    torch.set_num_threads(1)
    for size, shapes in SHAPES.items():
        torch_table(size, shapes)
    memory_table()
    for size, shapes in SHAPES.items():
        optax_table(size, shapes)
