"""Terms and waits of a prediction add up to what the simulator says."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import convolution, machine

from explorer.npu import compile_layer, predict
from explorer.npu.cost.prediction import Timeline, end_cycle, times_of
from explorer.npu.cost.steps import steps_of
from explorer.npu.program.compiling import tile_layer, write_layer
from explorer.runtime.npu import simulate


@pytest.fixture(scope="module")
def tiled():
    """A layer of several tiles in chunks, with its prediction and its run."""
    small = machine("mac-128")
    layer = convolution(small, np.random.default_rng(8), inputs=40, outputs=33, pads=(1, 1, 1, 1))
    made = compile_layer(layer, small, sizes=(5, 4, 2, 2))
    x = np.zeros(layer.input_shape, np.int64)
    return predict(made.tiled), simulate(made.program, made.image_with(x), small)


def test_terms_of_a_queue_are_the_cycles_in_which_it_is_busy(tiled):
    predicted, run = tiled
    busy = dict.fromkeys(run.busy_cycles, 0)
    for term in predicted.terms:
        busy[term.queue] += term.cycles
    assert busy == run.busy_cycles
    assert predicted.bound == max(busy, key=lambda queue: busy[queue])
    for queue, cycles in busy.items():
        assert cycles + sum(predicted.waits[queue].values()) <= predicted.cycles


def test_terms_say_what_they_are_made_of(tiled):
    predicted, run = tiled
    terms = {term.name: term for term in predicted.terms}
    assert f"for {run.counters.loaded_bytes['weights']:,} bytes" in terms["weights"].why
    assert f"{terms['multiply'].count} instructions" in terms["multiply"].why
    assert terms["finish"].cycles == 1
    assert list(terms)[:2] == ["weights", "activations"]


def test_a_slower_memory_costs_loads_and_nothing_else():
    slow, fast = (machine("vta-16", **{"engines.dma.bytes_per_cycle": n}) for n in (1, 64))
    layer = convolution(fast, np.random.default_rng(9), pads=(1, 1, 1, 1))
    both = [predict(compile_layer(layer, one, sizes=(7, 11, 1, 1)).tiled) for one in (slow, fast)]
    cycles = [{term.name: term.cycles for term in found.terms} for found in both]
    assert cycles[0]["multiply"] == cycles[1]["multiply"]
    assert cycles[0]["weights"] > 5 * cycles[1]["weights"]
    assert both[0].bound != "compute"
    assert both[1].bound == "compute"


@pytest.mark.parametrize("target", ["mac-128", "edge-64", "vta-16", "odd-12x20"])
def test_a_timeline_that_is_continued_ends_as_one_of_all_steps(target):
    """Of three layers one after the other; empty continuations and copies change nothing."""
    found, random = machine(target), np.random.default_rng(4)
    layers = [
        convolution(found, random, inputs=ins, outputs=outs, size=size, pads=(1, 1, 1, 1))
        for ins, outs, size in ((20, 16, (5, 4)), (3, 40, (9, 7)), (64, 8, (1, 1)))
    ]
    parts = [steps_of(write_layer(tile_layer(layer, found)))[0] for layer in layers]
    steps = [step for part in parts for step in part]
    times = times_of(found, steps)
    whole = max(time.end_cycle for time in times)
    assert len(times) == len(steps) and end_cycle(found, steps) == whole
    timeline = Timeline(found)
    for part in parts:
        before = timeline.copy()
        timeline.run(part, is_last=False)
        timeline.run((), is_last=False)
        assert before.run(part) == timeline.copy().run(())
    assert timeline.run(()) == whole
    for queue in range(len(found.queues)):
        ends = [time.end_cycle for time in times if time.step.queue == queue]
        assert timeline.end_of(queue) == max(ends, default=0)
