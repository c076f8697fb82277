"""The search for tiles: bounds, the space, and what is found."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))
from npu_layers import compared, convolution, machine

from explorer.npu import LayerError, predict
from explorer.npu.program.addresses import ANYWHERE, Addresses
from explorer.npu.program.compiling import as_computed, tile_as
from explorer.npu.search.axes import all_sizes, fast_sizes
from explorer.npu.search.convolution import ConvolutionSpace
from explorer.npu.search.legal import legal_choices, require_legal
from explorer.npu.search.searching import search_layer
from explorer.npu.tiling.bands import Band
from explorer.npu.tiling.chunks import Loops, chunks_of
from explorer.targets.npu.formats import moves_on_chip

TARGETS = ("vta-16", "edge-64", "tiny-8", "mac-128", "odd-12x20")


@given(
    st.sampled_from(TARGETS), st.integers(1, 90), st.integers(1, 70),
    st.sampled_from([(1, 1), (3, 3), (1, 5)]), st.tuples(st.integers(5, 12), st.integers(5, 12)),
    st.booleans(), st.sampled_from([1, 2]), st.integers(0, 2), st.integers(0, 1000),
    st.sets(st.sampled_from(["input", "output"])),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_no_run_goes_below_its_bound(
    name, inputs, outputs, kernel, size, is_depthwise, stride, pad, seed, inside
):
    found, random = machine(name), np.random.default_rng(seed)
    if is_depthwise:
        inputs = outputs
    layer = convolution(
        found, random, inputs=inputs, outputs=outputs, kernel=kernel, size=size,
        groups=inputs if is_depthwise else 1, strides=(stride, stride), pads=(pad, 0, pad, pad),
    )  # fmt: skip
    addresses = ANYWHERE
    if moves_on_chip(found):
        names = {"input": layer.inputs[0].name, "output": layer.output.name}
        on_chip = frozenset(names[one] for one in inside)
        addresses = Addresses(tensors=dict.fromkeys(names.values(), 0), on_chip=on_chip)
    computed = as_computed(layer, found)
    space = ConvolutionSpace(computed, found, "fast", {}, addresses.on_chip)
    for point in random.choice(len(space), min(len(space), 3), replace=False):
        try:
            tiled = space.tiled(int(point))
        except LayerError:
            continue
        cycles = predict(tiled, addresses).cycles
        assert space.bound[point] <= cycles, space.choices(int(point))


@pytest.mark.parametrize(
    ("name", "kernel", "inputs", "outputs"),
    [("mac-128", (3, 3), 16, 16), ("tiny-8", (1, 1), 8, 9), ("odd-12x20", (2, 1), 13, 21)],
)
def test_a_full_search_finds_what_all_points_do(name, kernel, inputs, outputs):
    found, random = machine(name), np.random.default_rng(1)
    layer = convolution(found, random, inputs=inputs, outputs=outputs, kernel=kernel, size=(3, 3))
    fixed = {"sum_buffers": 2, "columns": 3 - kernel[1] + 1, "constants": "tile"}
    space = ConvolutionSpace(as_computed(layer, found), found, "full", fixed)
    cycles = []
    for point in range(len(space)):
        try:
            cycles.append(predict(space.tiled(point)).cycles)
        except LayerError:
            continue
    searched = search_layer(layer, found, "full", fixed, seconds=60)
    assert searched.record.cycles == min(cycles) == predict(searched.tiled).cycles
    assert (searched.record.gap, searched.record.stopped) == (0, "")
    assert searched.record.runs < searched.record.candidates == len(space)
    fast = search_layer(layer, found, "fast", fixed)
    assert min(cycles) <= fast.record.cycles and fast.record.bound <= min(cycles)


@pytest.mark.parametrize("effort", ["fast", "full"])
def test_what_is_found_computes_the_layer(effort):
    found, random = machine("tiny-8"), np.random.default_rng(2)
    layer = convolution(found, random, inputs=24, outputs=20, size=(9, 8), pads=(1, 1, 1, 1))
    searched = search_layer(layer, found, effort, seconds=0.05)
    names = ("rows", "columns", "outputs", "inputs", "order", "constants", "together",
             "input_buffers", "weight_buffers", "sum_buffers")  # fmt: skip
    _, run = compared(
        layer, found, random, choices={name: getattr(searched.tiled, name) for name in names}
    )
    assert run.cycles == searched.record.cycles >= searched.record.bound
    rule = search_layer(layer, found, "none")
    assert rule.record is None and predict(rule.tiled).cycles >= run.cycles


@pytest.mark.parametrize("effort", ["fast", "full"])
def test_the_record_has_the_points_that_were_run_and_estimates_of_others(effort):
    found, random = machine("tiny-8"), np.random.default_rng(3)
    layer = convolution(found, random, inputs=24, outputs=16, size=(8, 8))
    record = search_layer(layer, found, effort, seconds=0.2).record
    runs = [point for point in record.points if point.is_run]
    assert list(record.points[: len(runs)]) == runs and len(runs) == record.runs
    assert min(point.cycles for point in runs) == record.cycles
    for point in runs[:4]:
        predicted = predict(tile_as(layer, found, dict(point.choices)))
        traffic = predicted.traffic
        assert predicted.cycles == point.cycles >= point.bound > 0
        moved = sum((*traffic.loaded_bytes.values(), *traffic.stored_bytes.values()))
        assert moved == point.bytes
    others = record.points[len(runs) :]
    assert len(others) == min(40, record.candidates - record.runs)
    assert all(point.bound >= record.bound for point in others)


def test_a_search_that_has_no_time_keeps_the_best_so_far_and_states_the_gap():
    found, random = machine("mac-128"), np.random.default_rng(3)
    layer = convolution(found, random, inputs=20, outputs=30, size=(12, 12), pads=(1, 1, 1, 1))
    searched = search_layer(layer, found, "full", seconds=0)
    assert searched.record.stopped == "its time is over" and searched.record.runs == 1
    assert 0 < searched.record.gap < 1


def test_an_interrupted_search_keeps_the_best_so_far(monkeypatch):
    from explorer.npu.search import searching

    original, calls = searching.end_cycle, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(searching, "end_cycle", interrupted)
    found, random = machine("mac-128"), np.random.default_rng(3)
    layer = convolution(found, random, inputs=20, outputs=30, size=(12, 12), pads=(1, 1, 1, 1))
    record = search_layer(layer, found, "fast").record
    assert (record.stopped, record.runs) == ("it was interrupted", 2)
    assert record.bound <= record.cycles and 0 <= record.gap < 1


def test_given_choices_are_kept_and_the_rest_is_searched():
    found, random = machine("vta-16"), np.random.default_rng(4)
    layer = convolution(found, random, inputs=32, outputs=48, size=(10, 10))
    fixed = {"rows": 3, "order": "positions", "weight_buffers": 4}
    tiled = search_layer(layer, found, "fast", fixed).tiled
    assert (tiled.rows, tiled.order, tiled.weight_buffers) == (3, "positions", 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": 0}, "rows = 0 of its tiles; 1 to 9 are legal"),
        ({"rows": 10}, "rows = 10 of its tiles; 1 to 9 are legal"),
        ({"rows": True}, "rows = True of its tiles"),
        ({"order": "rows"}, "order = rows of its tiles; outputs, positions are legal"),
        ({"row": 2}, "no 'row' .did you mean 'rows'"),
        ({"sum_buffers": 3}, "sum_buffers = 3 of its tiles; 1, 2 are legal"),
    ],
)
def test_a_choice_outside_of_the_space_is_refused_with_what_is_legal(given, message):
    found, random = machine("vta-16"), np.random.default_rng(4)
    layer = convolution(found, random, inputs=32, outputs=48, size=(11, 10))
    with pytest.raises(LayerError, match=message):
        require_legal(layer, found, given)


def test_a_point_that_is_too_large_says_which_memory_is_too_small():
    found, random = machine("vta-16"), np.random.default_rng(4)
    layer = convolution(found, random, inputs=64, outputs=64, size=(60, 60))
    choices = {"rows": 58, "columns": 58, "outputs": 4, "inputs": 4, "order": "outputs",
               "constants": "tile", "together": 1, "input_buffers": 2, "weight_buffers": 2,
               "sum_buffers": 2}  # fmt: skip
    with pytest.raises(LayerError, match="takes 460800 bytes of inputs, which has 32768"):
        tile_as(layer, found, choices)
    with pytest.raises(LayerError, match=r"no tiles have rows = 58, columns = 58"):
        search_layer(layer, found, "fast", {"rows": 58, "columns": 58, "input_buffers": 2,
                                           "inputs": 1, "sum_buffers": 2})  # fmt: skip


def test_legal_choices_have_all_names_of_a_kind():
    found, random = machine("odd-12x20"), np.random.default_rng(4)
    legal = legal_choices(convolution(found, random), found)
    assert (legal["rows"], legal["outputs"], legal["inputs"]) == (
        range(1, 12), range(1, 3), range(1, 3)
    )  # fmt: skip
    assert legal["together"] == [1, 5] and legal["order"] == ("outputs", "positions")


@given(st.integers(1, 400))
def test_sizes_make_every_number_of_tiles_once(count):
    found = all_sizes(count)
    assert found == sorted(set(found), reverse=True)
    assert {-(-count // size) for size in found} == {-(-count // n) for n in range(1, count + 1)}
    assert set(fast_sizes(count)) <= {*range(1, count + 1)} and fast_sizes(count)[0] == count


@st.composite
def loops(draw):
    counts = st.integers(1, 5)
    starts = itertools.accumulate(draw(st.lists(counts, min_size=1, max_size=3)))
    edges = [0, *starts]
    return Loops(
        bands=tuple(
            Band(outputs=range(a, b), inputs=tuple(range(draw(counts))), first_weight=0)
            for a, b in itertools.pairwise(edges)
        ),
        height=draw(counts), width=draw(counts), rows=draw(counts), columns=draw(counts),
        outputs=draw(counts), inputs=draw(counts),
        order=draw(st.sampled_from(["outputs", "positions"])), input_buffers=draw(counts),
        weight_buffers=draw(st.integers(0, 5)),
    )  # fmt: skip


@given(loops())
def test_chunks_cover_each_product_once_and_read_what_was_loaded_last(found):
    products, held = [], {"input": {}, "weight": {}}
    waiting, freed = -1, set()
    readers = {}
    chunks = chunks_of(found)
    for number, chunk in enumerate(chunks):
        needs = []
        keys = {"input": (chunk.rows, chunk.columns, chunk.inputs)}
        if found.weight_buffers:
            keys["weight"] = (chunk.band, chunk.outputs, chunk.first_input)
        for kind, key in keys.items():
            place = getattr(chunk, f"{kind}_buffer")
            assert place < getattr(found, f"{kind}_buffers")
            if getattr(chunk, f"loads_{kind}s"):
                held[kind][place] = key
                needs.append(readers.get((kind, place), -1))
            assert held[kind][place] == key
            readers[kind, place] = number
        last = max(needs, default=-1)
        assert chunk.waits == (last > waiting)
        waiting = max(waiting, last)
        freed |= {last} if chunk.waits else set()
        products += itertools.product(chunk.outputs, chunk.rows, chunk.columns, chunk.inputs)
    assert {n for n, chunk in enumerate(chunks) if chunk.frees} == freed
    expected = [
        product
        for band in found.bands
        for product in itertools.product(
            band.outputs, range(found.height), range(found.width), band.inputs
        )
    ]
    assert sorted(products) == sorted(expected)


def test_a_tile_of_all_columns_is_one_transfer_though_there_are_others():
    """The first tile reads all seven columns, the second one four of them again."""
    found, random = machine("odd-12x20"), np.random.default_rng(0)
    layer = convolution(
        found, random, inputs=38, outputs=1, kernel=(1, 5), size=(10, 7), pads=(1, 0, 1, 1)
    )
    fixed = {"rows": 4, "columns": 3, "inputs": 2, "input_buffers": 2, "weight_buffers": 2}
    space = ConvolutionSpace(as_computed(layer, found), found, "fast", fixed)
    for point in range(len(space)):
        assert space.bound[point] <= predict(space.tiled(point)).cycles, space.choices(point)
