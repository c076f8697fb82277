"""Measures how long `least_cost` takes on random graphs, and how far its results are proven.

    python benchmarks/placement/assigning.py

Three kinds of graphs: a chain with residual connections, values that are read close by, and values
that are read anywhere. The second column of times is of makespans.
"""

from __future__ import annotations

import itertools
import random
import time

from explorer.placement import least_cost

KINDS = ("residual chain", "local", "anywhere")
SIZES = ((5000, 2), (300, 3), (300, 4), (2000, 3))
LATENCIES = (2e-5, 2e-4, 1e-3)


def make_problem(count: int, devices: int, kind: str, latency: float) -> tuple[dict, dict, dict]:
    """Prices up to 1 ms, values of 1 kB to 1 MB, transfers at 1 or 10 GB/s."""
    chance = random.Random(count + devices)
    names = "abcdef"[:devices]
    costs = {f"op{n}": {d: chance.uniform(1e-6, 1e-3) for d in names} for n in range(count)}
    values = {}
    for maker in range(count - 1):
        if kind == "residual chain":
            later = [maker + 1, *([min(maker + 5, count - 1)] if maker % 10 == 0 else [])]
        elif kind == "local":
            later = [
                min(count - 1, maker + chance.randint(1, 8)) for _ in range(chance.randint(1, 3))
            ]
        else:
            later = [chance.randint(maker + 1, count - 1) for _ in range(chance.randint(1, 3))]
        size = chance.choice([1000, 100_000, 1_000_000])
        values[f"v{maker}"] = f"op{maker}", size, [f"op{n}" for n in later]
    pairs = itertools.permutations(names, 2)
    return costs, values, {pair: (latency, chance.choice([1e9, 1e10])) for pair in pairs}


def main() -> None:
    print("| graph | operations | devices | latency | seconds | gap | below the best rule |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (count, devices), kind, latency in itertools.product(SIZES, KINDS, LATENCIES):
        problem = make_problem(count, devices, kind, latency)
        begin = time.perf_counter()
        found = least_cost(*problem)
        seconds = time.perf_counter() - begin
        rule = min(*found.single.values(), found.greedy or found.seconds)
        gap = "optimal" if found.optimal else f"{found.gap:.2%}"
        print(
            f"| {kind} | {count} | {devices} | {latency * 1e6:.0f} µs | {seconds:.2f} | {gap} "
            f"| {1 - found.seconds / rule:.1%} |"
        )


if __name__ == "__main__":
    main()
