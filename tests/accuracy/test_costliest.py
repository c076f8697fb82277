"""The layer that costs most, found by bisection over sets of layers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.accuracy.costliest import MAX_RUNS, costliest


def adding(costs: dict[str, float]):
    """The noise of layers that know nothing of one another."""
    return lambda layers: sum(costs[layer] for layer in layers)


@pytest.mark.parametrize("planted", range(0, 60, 7))
def test_a_layer_that_stands_out_takes_two_runs_for_each_halving(planted):
    costs = {f"layer{k}": 1e-4 for k in range(60)}
    costs[f"layer{planted}"] = 1.0
    found = costliest(list(costs), adding(costs))
    assert found is not None and found.layer == f"layer{planted}" and found.is_certain
    assert found.noise == 1.0
    assert found.runs <= 1 + 2 * math.ceil(math.log2(60))


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=40))
def test_with_runs_enough_it_is_the_one_that_costs_most(noises):
    costs = {f"layer{k}": noise for k, noise in enumerate(noises)}
    found = costliest(list(costs), adding(costs), most_runs=1000)
    assert found is not None and found.is_certain
    assert found.noise == max(noises)


def test_where_all_cost_alike_the_search_ends_and_says_so():
    costs = {f"layer{k}": 1.0 + k * 1e-3 for k in range(400)}
    found = costliest(list(costs), adding(costs))
    assert found is not None and not found.is_certain
    assert found.runs <= MAX_RUNS + 2 + 2 * math.ceil(math.log2(400))
    assert costs[found.layer] == found.noise


def test_a_program_without_quantized_tensors_has_none():
    assert costliest([], adding({})) is None
