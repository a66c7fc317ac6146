"""Values of the uniform policy on FrozenLake, compared with the exact values."""

import gymnasium

from mixfree.td import RewardProcess, evaluate_policy


def main(samples=200_000):
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    found = evaluate_policy(env, "uniform", gamma=0.9, samples=samples)
    exact = RewardProcess.from_gymnasium(env, "uniform", gamma=0.9)
    low, high = found.interval(exact.visited)
    print("state   value          interval    exact")
    for state, value, least, most in zip(
        exact.visited, found.values(exact.visited), low, high, strict=True
    ):
        print(f"{state:5}  {value:6.4f}  [{least:7.4f}, {most:6.4f}]  {exact.values[state]:7.4f}")
    within = (low <= exact.values[exact.visited]) & (exact.values[exact.visited] <= high)
    print(f"{within.sum()} of {within.size} within their intervals")
    return bool(within.all())


if __name__ == "__main__":
    main()
