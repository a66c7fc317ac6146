"""Does a value network learn from one CartPole trajectory in order as well as from shuffled rows?

Pushes are random but sticky: the last one is repeated with probability 0.9, so that episodes differ
and neighbouring transitions are similar.
"""

import time

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from curves import finish, keep, last_fifth

import mixfree.optax as mo
from mixfree.base.figures import new_figure, styles_of

GAMMA, STICKY = 0.95, 0.9
SEEDS = range(1001, 1003)  # of the trajectories to learn from; the test has its own
SCALE = np.array(
    [2.4, 2.5, 0.21, 2.5, 1.0], dtype=np.float32
)  # scales of the state's entries and of the last push


def trajectory(samples, seed):
    """Return states, next states and whether the pole fell, on one trajectory with restarts."""
    env, rng = gymnasium.make("CartPole-v1"), np.random.default_rng(seed)
    now, push = env.reset(seed=seed)[0], 1
    states, nexts, ends = [], [], []
    for _ in range(samples):
        states.append(np.append(now, 2.0 * push - 1.0))
        push = push if rng.random() < STICKY else 1 - push
        now, _, fallen, cut, _ = env.step(push)
        nexts.append(np.append(now, 2.0 * push - 1.0))
        ends.append(fallen)
        if fallen or cut:
            now, push = env.reset()[0], int(rng.integers(2))
    arrays = (np.array(states) / SCALE, np.array(nexts) / SCALE, np.array(ends))
    return [a.astype(np.float32) for a in arrays]


def returns(ends):
    """Return the discounted number of steps until the pole falls, without the last episode."""
    found, total = np.zeros(len(ends)), 0.0
    for t in range(len(ends) - 1, -1, -1):
        total = 1.0 + GAMMA * total * (1.0 - ends[t])
        found[t] = total
    return found[: int(np.flatnonzero(ends)[-1]) + 1]


def network(seed):
    keys = jax.random.split(jax.random.key(seed), 2)
    return {
        "in": jax.random.normal(keys[0], (5, 32)) / 5**0.5,
        "shift": jnp.zeros(32),
        "out": jax.random.normal(keys[1], (32,)) / 32**0.5,
        "level": jnp.zeros(()),
    }


def value(params, state):
    """Return a value between 0 and the largest possible one, 1/(1 − γ)."""
    hidden = jnp.tanh(state @ params["in"] + params["shift"])
    return jax.nn.sigmoid(hidden @ params["out"] + params["level"]) / (1.0 - GAMMA)


def td_loss(params, state, following, end):
    target = 1.0 + GAMMA * (1.0 - end) * jax.lax.stop_gradient(value(params, following))
    return 0.5 * (target - value(params, state)) ** 2


METHODS = {
    "adam": (optax.adam(3e-3), True),
    "adam, averaged": (optax.chain(mo.averaging("recent"), optax.adam(3e-3)), True),
    "mlmc(adam)": (mo.mlmc(optax.adam(3e-3)), True),
    "mlmc(adam), averaged": (
        mo.mlmc(optax.chain(mo.averaging("recent"), optax.adam(3e-3))),
        True,
    ),
    "ladder, averaged": (mo.ladder(), True),
    "adam, shuffled": (optax.adam(3e-3), False),
}


def run(opt, start, transitions, test, truth, marks):
    """Return the mean squared error of the values at each mark."""

    def step(carry, transition):
        params, state = carry
        gradient = jax.grad(td_loss)(params, *transition)
        updates, state = opt.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    @jax.jit
    def block(carry, transitions):
        carry, _ = jax.lax.scan(step, carry, transitions)
        params = mo.averaged(carry[1], carry[0])
        return carry, jnp.mean((value(params, test) - truth) ** 2)

    carry, errors = (start, opt.init(start)), []
    for first in range(0, len(transitions[0]), marks):
        carry, error = block(carry, [a[first : first + marks] for a in transitions])
        errors.append(float(error))
    return errors


def main(
    samples=60_000,
    seeds=SEEDS,
    marks=2_000,
    asked=100_000,
    figure="results/optax-cart-pole/cart-pole",
):
    states, _, ends = trajectory(asked, seed=1000)
    truth = returns(ends)
    test = states[: len(truth)]
    drawing, axes = new_figure()
    last, begun = {}, time.process_time()
    styles = styles_of(METHODS)
    for name, (opt, in_order) in METHODS.items():
        curves = []
        for seed in seeds:
            transitions = trajectory(samples, seed)
            if not in_order:
                order = np.random.default_rng(seed).permutation(samples)
                transitions = [a[order] for a in transitions]
            curves.append(run(opt, network(seed), transitions, test, truth, marks))
        curve = np.mean(curves, axis=0)
        last[name] = last_fifth(curve)
        axes.plot(marks * np.arange(1, len(curve) + 1), curve, label=name, **styles[name])
        print(f"{name:20s} squared error over the last fifth: {last[name]:.3f}")
    finish(
        drawing, figure, begun, "transitions seen", "squared error to the returns of other episodes"
    )
    return last


if __name__ == "__main__":
    errors = main()
    rows = {
        name: [errors.get(name), errors.get(f"{name}, averaged")]
        for name in ("adam", "adam, shuffled", "mlmc(adam)", "ladder")
    }
    title = "Squared error of the values over the last fifth of the run"
    keep(__file__, title, rows, ["last iterate", "averaged"], SEEDS, digits=1)
