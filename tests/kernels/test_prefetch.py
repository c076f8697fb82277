"""What the step `prefetch` touches, against what the next iteration reads."""

import importlib.util
from itertools import product as product_of
from pathlib import Path

import pytest
from xdsl.dialects.builtin import DictionaryAttr

from explorer.kernels.cost.tiles import Tile, Work, choose_distance, choose_prefetch
from explorer.kernels.loops.nest import (
    LoopNest,
    ScheduleError,
    accesses_in,
    enclosing_loops,
    extent_of,
    index_of,
    linear_subscripts,
    name_of,
    shape_of,
)
from explorer.kernels.printing.languages import print_kernel
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.kernels.steps.pack import blocked_pack
from explorer.kernels.steps.prefetch import PREFETCH, prefetch, touches_of

_SPEC = importlib.util.spec_from_file_location(
    "kernel_nest_samples", Path(__file__).with_name("nest_samples.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)

LINE = 16
"""Numbers in a line of 64 bytes."""


def scheduled(kernel=1, stride=1, language="c", **choices):
    """32 channels to 32 of 4 x 12 pixels, tiles of 6 pixels x 2 vectors of 8."""
    function = samples.convolution(32, 32, 4, 12, kernel=kernel, stride=stride)
    packs = {"x": blocked_pack(8), "y": blocked_pack(8)}
    machine = Machine(vector_floats=8, language=language, registers=16)
    return schedule_kernel(
        function, machine, packs, {"schedule": "direct", "pixels": 6, "vectors": 2, **choices}
    )


def values(forms, at):
    return [f.constant + sum(c * at[i] for i, c in f.terms.items()) for f in forms]


def flat(numbers, shape):
    found = 0
    for number, extent in zip(numbers, shape, strict=True):
        found = found * extent + number
    return found


def lines_read(loop, name, nest, at):
    """Lines of a buffer that one iteration reads; `at` has the indices of the loops around."""
    (access,) = [a for a in accesses_in(loop) if nest.name_of_buffer(a.memref) == name]
    inside = [op for op in enclosing_loops(access) if loop in enclosing_loops(op)]
    found = set()
    for numbers in product_of(*(range(extent_of(op)) for op in inside)):
        place = {**at, **{index_of(op): n for op, n in zip(inside, numbers, strict=True)}}
        first = flat(values(linear_subscripts(access), place), shape_of(access.memref))
        width = 8 if name == "w" else 1
        found |= {first // LINE, (first + width - 1) // LINE}
    return found


def around(loop, **numbers):
    """Indices of all loops around and of the loop itself: 0, but for those that are named."""
    loops = [*enclosing_loops(loop), loop]
    return {index_of(op): numbers.get(name_of(op), 0) for op in loops}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_the_next_block_of_channels_is_touched_line_by_line(kernel, stride):
    nest = LoopNest(scheduled(kernel, stride, prefetch="inputs").function)
    loop = nest.loop("cb")
    for jt, cb in product_of(range(2), range(3)):
        now = around(loop, jt=jt, cb=cb, i=1)
        touched = [t for t in touches_of(loop) if nest.name_of_buffer(t.buffer) == "x"]
        lines = [values([touch.place], now)[0] // LINE for touch in touched]
        read = lines_read(loop, "x", nest, around(loop, jt=jt, cb=cb + 1, i=1))
        assert set(lines) <= read
        # Each row of taps may begin within a line, and then end in one more.
        assert len(read) - len(set(lines)) <= kernel
        assert len(lines) == len(set(lines))


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (3, 2)])
def test_what_comes_from_far_is_touched_a_tile_of_pixels_earlier(kernel, stride):
    nest = LoopNest(scheduled(kernel, stride, prefetch="inputs", distance="tile").function)
    loop = nest.loop("cb")
    for i, cb in product_of(range(2), range(4)):
        now = around(loop, i=i, cb=cb)
        touched = [values([touch.place], now)[0] // LINE for touch in touches_of(loop)]
        read = lines_read(loop, "x", nest, around(loop, jt=1, i=i, cb=cb))
        assert set(touched) <= read
        assert len(read) - len(set(touched)) <= kernel


@pytest.mark.parametrize(
    ("size", "channels", "outputs", "expected"),
    [
        (56, 256, 64, "tile"),  # 3.2 MB of inputs
        (14, 256, 1024, "block"),  # the second cache holds 200 KB
        (14, 2048, 512, "block"),  # tiles of 48 KB would leave the nearest cache too early
    ],
)
def test_inputs_that_the_second_cache_does_not_hold_are_asked_for_earlier(
    size, channels, outputs, expected
):
    machine = Machine(vector_floats=8, language="c", registers=16).costs
    work = Work(
        height=size, width=size, blocks=outputs // 8, steps=channels, point_bytes=4 * channels
    )
    assert choose_distance(Tile(6, 2), work, machine)[0] == expected


def test_without_a_next_tile_there_is_no_distance():
    function = samples.convolution(32, 32, 4, 6, kernel=1)
    packs = {"x": blocked_pack(8), "y": blocked_pack(8)}
    machine = Machine(vector_floats=8, language="c", registers=16)
    choices = {"schedule": "direct", "pixels": 6, "vectors": 2, "prefetch": "inputs"}
    assert "distance" not in schedule_kernel(function, machine, packs, choices).choices


def test_all_weights_of_the_next_tile_are_touched_once():
    nest = LoopNest(scheduled(3, prefetch="weights").function)
    (loop,) = nest.loops("cb")
    touched = []
    for i, jt, cb in product_of(range(4), range(2), range(4)):
        now = around(loop, i=i, jt=jt, cb=cb)
        for touch in touches_of(loop):
            assert touch.line is not None
            start, line = values([touch.place, touch.line], now)
            touched.append(start // LINE + min(line, touch.last))
    top = loop
    while name_of(top) != "ot":
        top = top.parent_op()
    wanted = lines_read(top, "w", nest, around(top, ot=1))
    assert set(touched) == wanted
    assert len(touched) < len(wanted) + 32  # one more per tile, at most


def test_what_is_asked_for_stands_in_the_code_of_languages_that_can():
    lines = print_kernel("c", scheduled(prefetch="both").function, "conv").lines
    assert sum("prefetch(x + " in line for line in lines) == 3  # 6 pixels of 8 channels
    assert sum("prefetch_line(w + " in line for line in lines) == 1
    lines = print_kernel("c", scheduled(prefetch="none").function, "conv").lines
    assert not any("prefetch" in line for line in lines)
    assert "prefetch" not in scheduled(language="opencl").choices


def test_only_what_is_read_ahead_can_be_asked_for():
    nest = LoopNest(scheduled(prefetch="none").function)
    with pytest.raises(ScheduleError, match="y in cb: it is not just read, at one place"):
        prefetch(nest, at="cb", buffer="y", ahead="cb")
    with pytest.raises(ScheduleError, match="jt reads the same in each iteration"):
        prefetch(nest, at="jt", buffer="w", ahead="jt")
    with pytest.raises(ScheduleError, match="ci is not a loop around it"):
        prefetch(nest, at="cb", buffer="x", ahead="ci")
    with pytest.raises(ScheduleError, match="ot reads the same in each iteration"):
        prefetch(nest, at="cb", buffer="x", ahead="ot")
    assert PREFETCH not in nest.loop("cb").attributes
    prefetch(nest, at="cb", buffer="x", ahead="cb")
    assert isinstance(nest.loop("cb").attributes[PREFETCH], DictionaryAttr)


@pytest.mark.parametrize(
    ("size", "channels", "outputs", "order", "expected"),
    [
        (4, 32, 32, "channels", "none"),  # 2 KB of inputs, 4 of weights
        (56, 256, 8, "channels", "inputs"),  # one tile of channels has no next one
        (14, 1024, 256, "channels", "both"),
        (4, 128, 512, "channels", "weights"),
        (28, 512, 128, "rows", "inputs"),  # 256 KB of weights stay in the second cache
    ],
)
def test_what_the_nearest_cache_does_not_hold_is_asked_for(
    size, channels, outputs, order, expected
):
    machine = Machine(vector_floats=8, language="c", registers=16).costs
    work = Work(
        height=size, width=size, blocks=outputs // 8, steps=channels, point_bytes=4 * channels
    )
    assert choose_prefetch(Tile(6, 2), work, machine, order)[0] == expected


def product(rows=128, depth=64, columns=512, language="c", **choices):
    """Tiles of 6 rows x 2 vectors of 8."""
    function = samples.matmul(rows, depth, columns)
    machine = Machine(vector_floats=8, language=language, registers=16)
    return schedule_kernel(function, machine, {}, {"rows": 6, "vectors": 2, **choices})


def test_weights_of_the_next_columns_are_touched_a_line_now_and_then():
    scheduled = product()
    assert scheduled.choices["prefetch"] == "weights"
    nest = LoopNest(scheduled.function)
    (loop,) = nest.loops("ko")
    assert [name_of(op) for op in enclosing_loops(loop)] == ["nt", "mt"]
    touched = []
    for mt, ko in product_of(range(21), range(extent_of(loop))):
        now = around(loop, mt=mt, ko=ko, nt=3)
        (touch,) = touches_of(loop)  # one line in every 16 steps of 6 cycles
        start, line = values([touch.place, touch.line], now)
        touched.append(start // LINE + min(line, touch.last))
    top = nest.loop("nt")
    (access,) = [a for a in accesses_in(loop) if nest.name_of_buffer(a.memref) == "w"]
    wanted = set()
    for k in range(64):
        at = {**around(loop, nt=4), index_of(loop): k // 16}
        at |= {index_of(op): 0 for op in enclosing_loops(access) if index_of(op) not in at}
        at[index_of(nest.loop("ki"))] = k % 16
        wanted.add(flat(values(linear_subscripts(access), at), shape_of(access.memref)) // LINE)
    assert top in enclosing_loops(loop)
    assert set(touched) == wanted
    assert len(wanted) == 64


def test_products_that_cannot_look_ahead_do_not():
    assert "prefetch" not in product(language="opencl").choices
    assert "prefetch" not in product(columns=16).choices  # there is no next tile
    assert product(rows=6).choices["prefetch"] == "none"  # all weights are read just once
    assert product(depth=8, columns=64).choices["prefetch"] == "none"  # the cache holds them
    lines = print_kernel("c", product(prefetch="none").function, "product").lines
    assert not any("prefetch" in line for line in lines)
