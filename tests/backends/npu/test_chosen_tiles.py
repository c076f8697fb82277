"""Tiles of a network: knobs, forks, and what is refused."""

import numpy as np
import pytest

import explorer
from explorer.backends.npu.passes import SEARCHES_MADE
from explorer.errors import InputError


@pytest.fixture(scope="module")
def network(digits):
    model, table, given = digits
    c = explorer.compile(model, "tiny-8", quantization=table)
    yield c, given
    c.close()


def knobs_of(c):
    return {knob.address: knob for knob in c.knobs if knob.address.startswith("tile-layers/")}


def test_every_choice_of_a_layer_is_a_knob_with_its_legal_values(network):
    c, _ = network
    found = knobs_of(c)
    assert found["tile-layers/search"].value == "fast"
    knob = found["tile-layers/conv12/rows"]
    assert knob.value in knob.choices and knob.choices[0] == 1
    assert "at least" in knob.why
    assert found["tile-layers/conv12/order"].choices == ("outputs", "positions")
    assert all(one.value in one.choices for one in found.values())


def test_a_fork_takes_any_point_and_searches_for_the_rest(network):
    c, given = network
    fork = c.fork(decisions={"tile-layers/conv12/rows": 2, "tile-layers/conv12/order": "positions"})
    try:
        found = knobs_of(fork)
        assert found["tile-layers/conv12/rows"].value == 2
        assert found["tile-layers/conv12/rows"].why.startswith("an override")
        for name, value in c.run(given).items():
            np.testing.assert_array_equal(fork.run(given)[name], value)
        assert fork.counted.cycles == fork.counted.predicted_cycles
    finally:
        fork.close()


def test_more_search_never_takes_more_cycles_of_a_layer(network, digits):
    model, table, _ = digits
    c, _ = network
    full = explorer.compile(
        model, "tiny-8", quantization=table, decisions={"tile-layers/search": "full"}
    )
    both = [one["tile-layers"].artifacts[SEARCHES_MADE] for one in (c, full)]
    for fast, more in zip(*both, strict=True):
        assert more.layer == fast.layer and more.cycles <= fast.cycles
        assert more.bound <= more.cycles and fast.bound <= fast.cycles


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"tile-layers/search": "fats"}, "search is 'fats', .*did you mean 'fast'"),
        ({"tile-layers/conv12/rows": 999}, r"tile-layers/conv12: rows = 999 .* 1 to \d+ are legal"),
        ({"tile-layers/conv12/row": 1}, "nothing in this program is decided by"),
        ({"tile-layers/conv12/order": 7}, "order = 7 of its tiles; outputs, positions are legal"),
    ],
)
def test_a_decision_outside_of_the_space_is_refused(network, decisions, message):
    c, _ = network
    with pytest.raises(InputError, match=message):
        c.fork(decisions=decisions)
