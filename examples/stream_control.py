"""Control from one stream of transitions: CartPole and Acrobot, learnt online.

A network of action values learns by Q(λ), with one step per transition, as in streaming deep
reinforcement learning (Elsayed, Vasan and Mahmood, arXiv 2410.14606): normalised observations and
rewards, layer norms, sparse initial weights. The methods differ in their steps and in whether they
store some transitions.
"""

import time
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from curves import finish, keep, last_fifth
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics
from scipy.stats import t as student

import mixfree.optax as mo
from mixfree.base.figures import new_figure, styles_of

GAMMA, DECAY = 0.99, 0.8  # discount, and λ of the traces
WIDTH, SPARSE = 32, 0.9  # units per hidden layer, and the fraction of initial weights that are 0
CAPACITY, DRAWS = 1_000, 4  # transitions in a memory, and draws for each new transition
EXPLORING, LEAST = 0.2, 0.01  # fraction of the run in which ε falls from 1, and its final value
MARKS = 20  # points of a curve
WORLDS = {"CartPole-v1": 15_000, "Acrobot-v1": 30_000}  # transitions
jax.config.update("jax_cpu_enable_async_dispatch", False)  # the environments need every result


class Transition(NamedTuple):
    state: Any
    action: Any
    reward: Any
    following: Any
    goes_on: Any  # 0 after a terminal state, else 1


class Learner(NamedTuple):
    params: Any
    trace: Any
    step: Any  # state of the optimiser
    memory: Any


def obgd(rate=1.0, kappa=2.0):
    """Return overshooting-bounded gradient descent, whose steps use the TD error and the trace."""

    def update(gradient, state, params=None, *, error, trace):
        size = sum(jnp.abs(z).sum() for z in jax.tree.leaves(trace))
        bound = jnp.maximum(1.0, rate * kappa * jnp.maximum(1.0, jnp.abs(error)) * size)
        return jax.tree.map(lambda g: -rate / bound * g, gradient), state

    return optax.GradientTransformationExtraArgs(lambda params: (), update)


METHODS = {
    "ObGD": obgd(),
    "Adam": optax.adam(1e-3),
    "Ladder": mo.ladder(),
    "Adam + Memory": optax.adam(1e-3),
    "Ladder + Memory": mo.ladder(),
}


def network(sizes, seed):
    """Return layers of weights, with the biases in their last column."""
    rng, layers = np.random.default_rng(seed), []
    for inputs, outputs in pairwise(sizes):
        weights = rng.uniform(-1.0, 1.0, (outputs, inputs + 1)) / np.sqrt(inputs)
        for unit in weights:
            unit[rng.permutation(inputs)[: round(SPARSE * inputs)]] = 0.0
        weights[:, -1] = 0.0
        layers.append(jnp.asarray(weights, jnp.float32))
    return layers


def values(params, state):
    """Return the value of each action."""
    for layer in params[:-1]:
        state = layer[:, :-1] @ state + layer[:, -1]
        state = (state - state.mean()) / jnp.sqrt(state.var() + 1e-5)
        state = jax.nn.leaky_relu(state)
    return params[-1][:, :-1] @ state + params[-1][:, -1]


def td(params, transition):
    """Return the TD error and the gradient of the value of the action."""
    value, gradient = jax.value_and_grad(lambda p: values(p, transition.state)[transition.action])(
        params
    )
    ahead = values(params, transition.following).max()
    return transition.reward + GAMMA * transition.goes_on * ahead - value, gradient


def learn(name, learner, transition, stop, now):
    """Learn from a transition, and return the action values at the current state ``now``.

    ``stop`` ends the trace: the episode is over, or the action was not greedy.
    """
    error, gradient = td(learner.params, transition)
    trace = jax.tree.map(lambda z, g: GAMMA * DECAY * z + g, learner.trace, gradient)
    direction, memory = jax.tree.map(lambda z: -error * z, trace), learner.memory
    if memory is not None:
        fresh = jax.tree.map(lambda part: part[None], transition)
        mixed, memory = mo.memory(CAPACITY, DRAWS).mix(fresh, memory)
        drawn = jax.tree.map(lambda rows: rows[1:], mixed)
        errors, gradients = jax.vmap(td, (None, 0))(learner.params, drawn)
        direction = jax.tree.map(
            lambda d, g: (d - jnp.tensordot(errors, g, 1)) / (1 + DRAWS), direction, gradients
        )
    opt = optax.with_extra_args_support(METHODS[name])
    moved, step = opt.update(direction, learner.step, learner.params, error=error, trace=trace)
    params = optax.apply_updates(learner.params, moved)
    trace = jax.tree.map(lambda z: jnp.where(stop, 0.0, z), trace)
    return Learner(params, trace, step, memory), values(params, now)


def begin(name, params, state, seed):
    memory = None
    if "Memory" in name:
        one = jnp.zeros(1)
        first = Transition(state[None], one.astype(int), one, state[None], one)
        memory = mo.memory(CAPACITY, DRAWS, seed).init(first)
    return Learner(params, jax.tree.map(jnp.zeros_like, params), METHODS[name].init(params), memory)


def environment(world):
    env = RecordEpisodeStatistics(gymnasium.make(world))
    return NormalizeReward(NormalizeObservation(env), gamma=GAMMA)


def run(name, world, steps, seeds):
    """Run all seeds side by side; the return of the latest complete episode by seed and step."""
    envs = [environment(world) for _ in seeds]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    now = np.float32([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    sizes = (now.shape[1], WIDTH, WIDTH, int(envs[0].action_space.n))
    params = jax.tree.map(lambda *each: jnp.stack(each), *[network(sizes, s) for s in seeds])
    learner = jax.vmap(partial(begin, name))(params, now, jnp.array(seeds))
    advance = jax.jit(jax.vmap(partial(learn, name)), donate_argnums=0)
    ahead, found = np.zeros((len(envs), sizes[-1])), np.full((len(envs), steps), np.nan)
    for i in range(steps):
        epsilon = max(LEAST, 1.0 - (1.0 - LEAST) * i / (EXPLORING * steps))
        greedy = np.argmax(ahead, axis=1)
        blind = [rng.random() < epsilon for rng in rngs]
        action = np.where(blind, [rng.integers(sizes[-1]) for rng in rngs], greedy)
        seen = [env.step(each) for env, each in zip(envs, action, strict=True)]
        after, reward, ended, cut, info = zip(*seen, strict=True)
        after, ended = np.float32(after), np.array(ended)
        transition = Transition(now, action, np.float32(reward), after, np.float32(~ended))
        now, over = after.copy(), ended | np.array(cut)
        for k in np.flatnonzero(over):
            found[k, i:] = info[k]["episode"]["r"]
            now[k] = envs[k].reset()[0]
        learner, ahead = advance(learner, transition, over | (action != greedy), now)
    return found


def interval(each):
    """Return the mean over the seeds and the half-width of its 95 % interval."""
    half = student.ppf(0.975, len(each) - 1) * np.std(each, ddof=1) / np.sqrt(len(each))
    return float(np.mean(each)), float(half)


def main(
    worlds=WORLDS,
    seeds=range(1000, 1010),
    methods=tuple(METHODS),
    figure="docs/figures/stream-control",
):
    """Measure the mean return over the last fifth of the run, with its 95 % interval."""
    drawing, panels = new_figure(1, len(worlds), width=5.0 * len(worlds))
    last, begun = {}, time.process_time()
    for axes, (world, steps) in zip(np.atleast_1d(panels), worlds.items(), strict=True):
        for name, style in styles_of(methods).items():
            parts = run(name, world, steps, seeds).reshape(len(seeds), MARKS, -1)
            curves = np.nanmean(parts, axis=2)  # no episode may be complete in the first part
            last[world, name] = interval([last_fifth(curve) for curve in curves])
            mean, half = np.array([interval(each) for each in curves.T]).T
            at = steps * (np.arange(MARKS) + 1) // MARKS
            axes.plot(at, mean, label=name, **style)
            axes.fill_between(at, mean - half, mean + half, color=style["color"], alpha=0.12)
            print(
                f"{world:12s} {name:16s} return over the last fifth: {{:.0f}} ± {{:.0f}}".format(
                    *last[world, name]
                ),
                flush=True,
            )
        axes.set_title(world.partition("-")[0])
    label = "return of the latest episode\n(mean of the seeds, 95 % interval)"
    finish(drawing, figure, begun, "transitions seen", label)
    return last


if __name__ == "__main__":
    found = main()
    shown = {
        name: [5 if "Memory" in name else 1]
        + ["{:.0f} ± {:.0f}".format(*found[world, name]) for world in WORLDS]
        for name in METHODS
    }
    head = [f"{world.partition('-')[0]}, {steps:,} transitions" for world, steps in WORLDS.items()]
    title = "Return of the latest episode over the last fifth of the run, 95 %"
    keep(__file__, title, shown, ["gradients per transition", *head], range(1000, 1010), digits=0)
