"""What runs of simulated NPUs are counted as, layer by layer, beside predictions and peaks."""

import numpy as np
import pytest

from explorer.backends.npu.occupancy import uses_of
from explorer.backends.npu.roofs import memory_rates
from explorer.npu import Convolution, compile_layer
from explorer.npu.cost.prediction import times_of
from explorer.npu.cost.steps import steps_of
from explorer.npu.program.addresses import ANYWHERE
from explorer.npu.program.compiling import write_layer
from explorer.results.encoding import from_json, to_json
from explorer.results.runs.events import ProfileRecord
from explorer.targets import load_target
from explorer.targets.npu.machine import describe


@pytest.fixture(scope="module", params=["vta-16", "odd-12x20"])
def profile(request, compiled, digits):
    """Times of the network on a machine, the counted run with them."""
    return compiled(request.param).profile(digits[2])


def test_every_layer_is_predicted_where_it_runs(profile):
    for layer in profile.counted.layers:
        found = layer.predicted
        assert (found.first_cycle, found.last_cycle) == (layer.first_cycle, layer.last_cycle)
        assert sorted(found.waits) == sorted(layer.waits)
        spent = dict.fromkeys(dict(layer.busy), 0)
        for term in found.terms:
            spent[term.queue] += term.cycles
        assert spent == dict(layer.busy)


def test_layers_add_up_to_the_machines_counters(profile):
    run = profile.counted
    assert sum(layer.array_macs for layer in run.layers) == run.macs
    assert sum(layer.bytes for layer in run.layers) == run.bytes
    assert all(layer.macs <= layer.array_macs for layer in run.layers)


def test_no_layer_is_faster_than_its_roof(profile):
    for layer in profile.counted.layers:
        assert 0 < layer.least_cycles <= layer.cycles
        assert layer.bound


def test_peaks_are_those_of_the_target_file():
    """3.73 and 0.47 GB/s at 500 MHz, on each of two channels."""
    sram, flash = memory_rates(describe(load_target("mac-128")))
    assert (sram.memory, flash.memory, sram.channels) == ("sram", "flash", 2)
    assert sram.bytes_per_cycle == pytest.approx(2 * 3.73e9 / 500e6)
    assert flash.bytes_per_cycle == pytest.approx(2 * 0.47e9 / 500e6)


def test_what_lies_in_a_scratchpad_at_once_does_not_overlap(profile):
    sizes = {pad.name: pad.size_bytes for pad in profile.counted.scratchpads}
    for layer in profile.counted.layers:
        assert layer.uses and not layer.uses_left_out
        for place, one in enumerate(layer.uses):
            assert one.start_cycle < one.ready_cycle <= one.end_cycle
            assert one.offset_bytes + one.size_bytes <= sizes[one.scratchpad]
            for other in layer.uses[:place]:
                is_apart = (
                    one.scratchpad != other.scratchpad
                    or one.start_cycle >= other.end_cycle
                    or other.start_cycle >= one.end_cycle
                    or one.offset_bytes >= other.offset_bytes + other.size_bytes
                    or other.offset_bytes >= one.offset_bytes + one.size_bytes
                )
                assert is_apart, (layer.operation, one, other)


def test_tiles_spend_what_their_layer_spends(profile):
    for layer in profile.counted.layers:
        assert layer.tiles and not layer.tiles_left_out
        spent = dict.fromkeys(dict(layer.busy), 0)
        for tile in layer.tiles:
            assert layer.first_cycle <= tile.start_cycle < tile.end_cycle <= layer.last_cycle
            for phase in tile.phases:
                spent[phase.queue] += phase.busy_cycles
                assert phase.end_cycle - phase.start_cycle >= phase.busy_cycles
        # To no tile belong the waits for the layer before, and the end: a cycle each.
        rest = {queue: cycles - spent[queue] for queue, cycles in layer.busy}
        is_first, is_last = (layer is profile.counted.layers[place] for place in (0, -1))
        waits = 0 if is_first else 1
        assert rest == {"load": waits, "compute": waits + is_last, "store": 0}
        moved = sum(phase.bytes for tile in layer.tiles for phase in tile.phases)
        assert moved <= layer.bytes


def test_a_second_buffer_is_loaded_while_the_first_is_used():
    machine = describe(load_target("odd-12x20"))
    layer = Convolution(
        name="conv",
        input_shape=(24, 8, 8),
        weights=np.ones((20, 24, 3, 3), np.int64),
        bias=np.zeros(20, np.int64),
        rescaling=None,
    )

    def is_loaded_meanwhile(buffers: int) -> bool:
        tiled = compile_layer(layer, machine, buffers=buffers, sizes=(3, 3, 1, 1)).tiled
        steps, _ = steps_of(write_layer(tiled, ANYWHERE))
        uses, _ = uses_of(times_of(machine, steps), machine)
        inputs = [use for use in uses if use.content == "activations"]
        return any(
            earlier.ready_cycle <= later.start_cycle < earlier.end_cycle
            and earlier.offset_bytes != later.offset_bytes
            for place, earlier in enumerate(inputs)
            for later in inputs[place + 1 :]
        )

    assert is_loaded_meanwhile(buffers=2)
    assert not is_loaded_meanwhile(buffers=1)


def test_counted_runs_are_saved_with_the_profile(profile):
    assert from_json(ProfileRecord, to_json(profile)) == profile
