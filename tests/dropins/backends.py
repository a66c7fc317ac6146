"""The reference, PyTorch and Optax behind one interface: a vector in two parts, told gradients."""

import copy
from functools import cache

import jax
import jax.experimental
import numpy as np
import optax
import torch

import mixfree as mf
import mixfree.optax
import mixfree.torch
from mixfree.steps import Constant

SIZE = 7
enable_x64 = (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64
RATE = 0.05  # of the optimiser that is given MLMC gradients


def split(vector):
    """The two parameters that make the point: three entries, and two rows of the others."""
    return vector[:3], vector[3:].reshape(2, -1)


def join(parts):
    return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts])


class Reference:
    def __init__(self, method, start, **options):
        if method == "mlmc":
            law = mf.MLMC(**options)
            self.opt = mf.Optimizer(start, gradient=law, step=Constant(RATE))
        else:
            self.opt = mf.methods()[method](start, **options)

    def tell(self, gradient):
        return self.opt.tell(gradient)

    def refuse(self, gradient):
        """Tell a gradient that is not acceptable, and have it said so."""
        try:
            self.opt.tell(gradient)
        except ValueError as error:
            return str(error)
        return None

    def save(self):
        return self.opt.state_dict()

    def load(self, state):
        self.opt.load_state_dict(state)

    @property
    def x(self):
        return self.opt.x

    @property
    def average(self):
        return self.opt.average

    @property
    def samples(self):
        return self.opt.samples


class Torch:
    def __init__(self, method, start, **options):
        self.params = [torch.nn.Parameter(torch.tensor(part)) for part in split(start)]
        groups = [{"params": [p]} for p in self.params]
        if method == "mlmc":
            inner = torch.optim.SGD(groups, lr=RATE)
            self.opt = mixfree.torch.MLMC(inner, output="average", **options)
        else:
            make = {"mag": mixfree.torch.MAG, "ladder": mixfree.torch.Ladder}[method]
            self.opt = make(groups, **options)

    def tell(self, gradient):
        for p, part in zip(self.params, split(gradient), strict=True):
            p.grad = torch.tensor(part)
        self.opt.step()
        return self.opt.stepped

    def refuse(self, gradient):
        """A gradient is skipped and counted."""
        number, skipped = self.samples + 1, self.opt.skipped
        moved = self.tell(gradient)
        if not moved and self.opt.skipped == skipped + 1:
            return f"gradient of sample {number} skipped"
        return None

    def save(self):
        return copy.deepcopy((self.opt.state_dict(), self.x))

    def load(self, saved):
        state, x = saved
        self.opt.load_state_dict(state)
        with torch.no_grad():
            for p, part in zip(self.params, split(x), strict=True):
                p.copy_(torch.tensor(part))

    @property
    def x(self):
        return join(p.detach() for p in self.params)

    @property
    def average(self):
        with self.opt.averaged():
            return self.x

    @property
    def samples(self):
        return self.opt.samples


def transformation(method, options):
    if method == "mlmc":
        inner = optax.chain(mixfree.optax.averaging(), optax.sgd(RATE))
        return mixfree.optax.mlmc(inner, **options)
    return {"mag": mixfree.optax.mag, "ladder": mixfree.optax.ladder}[method](**options)


@cache
def compiled(method, options):
    """One compilation for all seeds of a level: such a seed is in the state."""
    opt = transformation(method, dict(options))

    @jax.jit
    def step(gradient, state, params):
        updates, state = opt.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    return step


class Optax:
    def __init__(self, method, start, **options):
        with enable_x64(True):
            opt = transformation(method, options)
            self.params = [jax.numpy.array(part) for part in split(start)]
            self.state = opt.init(self.params)
            if method != "ladder":
                options.pop("seed", None)
            self.step = compiled(method, tuple(sorted(options.items())))

    def tell(self, gradient):
        before = int(self.state.steps)
        with enable_x64(True):
            self.params, self.state = self.step(list(split(gradient)), self.state, self.params)
        return int(self.state.steps) > before

    def refuse(self, gradient):
        """Nothing can be raised in compiled code: the count of the skipped says it."""
        number, skipped = self.samples + 1, int(self.state.skipped)
        moved = self.tell(gradient)
        if not moved and int(self.state.skipped) == skipped + 1:
            return f"gradient of sample {number} skipped"
        return None

    def save(self):
        return self.params, self.state

    def load(self, saved):
        self.params, self.state = saved

    @property
    def x(self):
        return join(self.params)

    @property
    def average(self):
        with enable_x64(True):
            return join(mixfree.optax.averaged(self.state, self.params))

    @property
    def samples(self):
        return int(self.state.samples)


BACKENDS = {"reference": Reference, "torch": Torch, "optax": Optax}
