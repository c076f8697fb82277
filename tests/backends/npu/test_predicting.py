"""Predicted effects of other tiles, compared with programs that are compiled with them."""

import random

import pytest

import explorer
from explorer.compilation.levers.finding import find_lever, find_levers
from explorer.compilation.levers.modelled import model_of, predict_by_model, spread
from explorer.compilation.levers.trials import quantity_of
from explorer.errors import ExplorerError, InputError
from explorer.npu.layers.layer import LayerError
from explorer.results.levers import LeverOption, LeverRecord
from tests.backends.npu.chains import chain

QUANTITIES = ("cycles", "traffic_bytes", "energy_picojoules")
ALONE = {"combine-layers": False, "unfold-inputs": False, "group-layers": False}
"""No pass after the tiles chooses anything."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return chain(tmp_path_factory.mktemp("chain"), seed=3, channels=16, count=3)


def opened(model, target, **decisions):
    path, table, _ = model
    return explorer.compile(path, target, quantization=table, decisions=decisions)


@pytest.mark.parametrize("target", ["mac-128", "tiny-8"])
def test_tiles_of_a_layer_have_the_effect_that_a_compilation_has(model, target):
    c = opened(model, target, **ALONE)
    machine = model_of(c)
    before = {quantity: quantity_of(c, quantity) for quantity in QUANTITIES}
    points = [(k.address, v) for k in c.knobs if machine.has(k.address) for v in k.choices]
    layers = c.backend.predicted_cycles(list(c.passes), c.target)
    assert {address.split("/")[1] for address, _ in points} == set(layers)
    compared = changed = 0
    for address, value in random.Random(1).sample(points, 12):
        try:
            found = machine.effect(address, value)
        except LayerError:
            with pytest.raises(ExplorerError):
                c.fork(decisions={address: value})
            continue
        fork = c.fork(decisions={address: value})
        compared += 1
        for quantity in QUANTITIES:
            change = quantity_of(fork, quantity) - before[quantity]
            assert getattr(found, quantity) == pytest.approx(change, abs=1e-3), address
            changed += change != 0
    assert compared > 4 and changed > 4


def test_the_choice_that_is_made_already_has_no_effect(model):
    c = opened(model, "mac-128")
    machine = model_of(c)
    place, *_ = [k for k in c.knobs if machine.has(k.address) and k.address.endswith("/order")]
    given = c.fork(decisions={place.address: place.value})
    again = model_of(given).effect(place.address, place.value)
    assert (again.cycles, again.traffic_bytes, again.energy_picojoules) == (0, 0, 0)


def test_a_tensor_that_leaves_the_chip_adds_its_transfers(model):
    c = opened(model, "edge-64")
    machine = model_of(c)
    kept = [
        event.address
        for event in c["group-layers"].record.events
        if event.applied and machine.has(event.address)
    ]
    assert kept
    for address in kept:
        assert machine.effect(address, False).traffic_bytes > 0


def test_what_no_layer_of_the_program_has_is_refused(model):
    c = opened(model, "mac-128")
    machine = model_of(c)
    combined = [e.site for e in c["combine-layers"].record.events if e.applied]
    for address in ("tile-layers/search", "tile-layers/moon/rows", "fuse-activation", "", "a/b/c"):
        assert not machine.has(address)
        with pytest.raises(LayerError, match="no layer"):
            machine.effect(address, 1)
    for name in combined:  # the pass that combines it has its tiles
        assert not machine.has(f"tile-layers/{name}/rows")
        assert machine.has(f"combine-layers/{name}/rows")
    legal = next(k for k in c.knobs if machine.has(k.address) and k.address.endswith("/rows"))
    for value in (0, -1, 10**9, 1.5, "many", None, True):
        with pytest.raises(LayerError):
            machine.effect(legal.address, value)


def test_every_layer_has_levers_with_predictions_when_they_are_asked_for(model):
    c = opened(model, "mac-128")
    fork = lambda decisions: c.fork(decisions=decisions)  # noqa: E731
    for layer in c.backend.predicted_cycles(list(c.passes), c.target):
        own = [one for one in find_levers(c, "cycles", of=layer).levers if one.of == layer]
        modelled = [one for one in own if one.on_demand == "model"]
        assert modelled and all(one.unpredicted for one in modelled)
    one = find_lever(c, "cycles", modelled[0].address, fork, layer)
    assert (one.options[0].change is not None) == bool(one.source) != bool(one.unpredicted)
    field = find_lever(c, "cycles", "target/engines.matrix.rows", fork)
    larger = c.fork(decisions=dict(field.options[0].decisions))
    assert field.options[0].value == 16
    assert field.options[0].change == quantity_of(larger, "cycles") - quantity_of(c, "cycles")
    with pytest.raises(InputError, match="no lever"):
        find_lever(c, "cycles", "moon", fork)


class Slow:
    """A model of which every answer takes a second."""

    def __init__(self):
        self.now = 0.0

    def effect(self, address, value):
        self.now += 1.0
        if value == 3:
            raise LayerError("too large")
        return type("Found", (), {"cycles": value})()


def test_a_lever_has_at_least_one_answer_and_stops_when_its_time_is_over():
    values = (1, 2, 3, 4, 8)
    options = tuple(LeverOption(value=v, decisions=(("a", v),)) for v in values if v != 4)
    lever = LeverRecord(address="a", group="", of="", title="", value=4, options=options)
    for seconds, count in ((0.0, 1), (1.5, 2), (100.0, 4)):
        slow = Slow()
        found = predict_by_model(lever, "cycles", slow, seconds, lambda slow=slow: slow.now)
        assert slow.now == count
        assert {option.value for option in found.options} == {1, 2, 3, 8}
        known = [option.change for option in found.options if option.change is not None]
        assert known == sorted(known) and len(known) >= count - 1
    assert {o.value: o.also for o in found.options}[3] == "too large"


def test_values_next_to_the_present_one_and_the_ends_are_asked_for_first():
    assert spread([v for v in range(1, 257) if v != 8], 8)[:6] == [9, 7, 10, 6, 12, 4]
    found = spread([v for v in range(1, 257) if v != 8], 8)
    assert len(found) == 12 and 1 in found
    assert spread(["outputs"], "positions") == ["outputs"]
    assert spread([], 3) == [] and spread([2], 2) == []
