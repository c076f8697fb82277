"""Tiles of a network: knobs, forks, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.backends.npu.passes import SEARCHES_MADE
from explorer.backends.npu.saved_searches import SavedSearches
from explorer.errors import CacheWarning, InputError
from explorer.npu import matrix_product
from explorer.npu.program.ir_layers import tiles_of
from explorer.npu.search import equal
from explorer.npu.search.searching import search_layer
from explorer.targets import load_target
from explorer.targets.npu.machine import describe


@pytest.fixture(scope="module")
def network(compiled, digits):
    return compiled("tiny-8"), digits[2]


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


def test_equal_layers_are_searched_once(monkeypatch):
    random, machine = np.random.default_rng(0), describe(load_target("tiny-8"))
    searched = equal.SearchedLayers(machine)
    calls = []
    original = equal.search_layer
    monkeypatch.setattr(
        equal, "search_layer", lambda *given: calls.append(given) or original(*given)
    )
    layers = [
        matrix_product(
            name=f"layer{index}", rows=rows, weights=random.integers(-9, 9, (20, 30)),
            bias=random.integers(-9, 9, 20), rescaling=None,
        )
        for index, rows in enumerate((40, 40, 41))
    ]  # fmt: skip
    found = [searched.of(layer) for layer in layers]
    assert len(calls) == 2
    assert tiles_of(found[0].tiled) == tiles_of(found[1].tiled)
    assert [one.record.layer for one in found] == ["layer0", "layer1", "layer2"]
    assert found[1].tiled.layer.weights is not found[0].tiled.layer.weights


def test_full_searches_are_kept_and_found_again(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "cache"))
    random, machine = np.random.default_rng(0), describe(load_target("tiny-8"))
    layer = matrix_product(
        name="layer", rows=9, weights=random.integers(-9, 9, (10, 12)),
        bias=random.integers(-9, 9, 10), rescaling=None,
    )  # fmt: skip
    saved, key = SavedSearches(), equal.key_of(layer, machine)
    assert saved.find(key, layer, machine) is None
    found = search_layer(layer, machine, "full")
    saved.keep(key, machine, found)
    again = saved.find(key, layer, machine)
    assert again.record == found.record and tiles_of(again.tiled) == tiles_of(found.tiled)
    assert again.record.points
    other = saved.find(key, replace(layer, name="other"), machine)
    assert other.record == replace(found.record, layer="other")
    assert saved.find(key, layer, describe(load_target("odd-12x20"))) is None
    (path,) = (tmp_path / "cache").glob("*.tiles")
    content = path.read_bytes()
    path.write_bytes(content[:-9] + b"!" + content[-8:])
    with pytest.warns(CacheWarning, match="are dropped: its content does not fit its seal"):
        assert saved.find(key, layer, machine) is None
    assert not path.exists()
