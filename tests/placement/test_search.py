"""The search over devices finds what trying all assignments finds."""

import itertools
import random

import pytest

from explorer.placement.messages import Edge, Model
from explorer.placement.search import search


def random_model(chance: random.Random, variables: int) -> Model:
    """Costs of two or three labels each, and tables over some pairs."""
    sizes = [chance.randint(2, 3) for _ in range(variables)]
    pairs = [p for p in itertools.combinations(range(variables), 2) if chance.random() < 0.5]
    return Model(
        labels=[tuple(range(size)) for size in sizes],
        operations=list(range(variables)),
        costs=[[chance.randint(0, 9) for _ in range(size)] for size in sizes],
        edges=[
            Edge(a, b, [[chance.randint(0, 9) for _ in range(sizes[b])] for _ in range(sizes[a])])
            for a, b in pairs
        ],
    )


def units_of(model: Model, labels: tuple[int, ...]) -> int:
    own = sum(costs[label] for costs, label in zip(model.costs, labels, strict=True))
    return own + sum(edge.costs[labels[edge.first]][labels[edge.second]] for edge in model.edges)


@pytest.mark.parametrize("seed", range(8))
def test_the_cheapest_of_all_assignments_is_found_and_proven(seed: int):
    chance = random.Random(seed)
    model = random_model(chance, chance.randint(1, 7))
    every = itertools.product(*(range(len(costs)) for costs in model.costs))
    cheapest = min(units_of(model, labels) for labels in every)
    for known in (cheapest + 1, cheapest + 40):
        found = search(model, known)
        assert found.labels is not None and units_of(model, found.labels) == cheapest
        assert found.units == found.bound == cheapest
    nothing_better = search(model, cheapest)
    assert nothing_better.labels is None
    assert nothing_better.units == nothing_better.bound == cheapest
