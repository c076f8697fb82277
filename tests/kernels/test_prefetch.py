"""What the step `prefetch` touches, against what the next iteration reads."""

import importlib.util
from itertools import product
from pathlib import Path

import pytest
from xdsl.dialects.builtin import DictionaryAttr

from explorer.kernels.cost.tiles import Tile, Work, choose_prefetch
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
    for numbers in product(*(range(extent_of(op)) for op in inside)):
        place = {**at, **{index_of(op): n for op, n in zip(inside, numbers, strict=True)}}
        first = flat(values(linear_subscripts(access), place), shape_of(access.memref))
        width = 8 if name == "w" else 1
        found |= {first // LINE, (first + width - 1) // LINE}
    return found


def around(loop, **numbers):
    """Indices of all loops around and of the loop itself: 0, but for those that are named."""
    loops = [*enclosing_loops(loop), loop]
    return {index_of(op): numbers.get(name_of(op), 0) for op in loops}


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_the_next_block_of_channels_is_touched_line_by_line(kernel, stride):
    nest = LoopNest(scheduled(kernel, stride, prefetch="inputs").function)
    loop = nest.loop("cb")
    for jt, cb in product(range(2), range(3)):
        now = around(loop, jt=jt, cb=cb, i=1)
        touched = [t for t in touches_of(loop) if nest.name_of_buffer(t.buffer) == "x"]
        lines = [values([touch.place], now)[0] // LINE for touch in touched]
        read = lines_read(loop, "x", nest, around(loop, jt=jt, cb=cb + 1, i=1))
        assert set(lines) <= read
        # Each row of taps may begin within a line, and then end in one more.
        assert len(read) - len(set(lines)) <= kernel
        assert len(lines) == len(set(lines))


def test_all_weights_of_the_next_tile_are_touched_once():
    nest = LoopNest(scheduled(3, prefetch="weights").function)
    (loop,) = nest.loops("cb")
    touched = []
    for i, jt, cb in product(range(4), range(2), range(4)):
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
    with pytest.raises(ScheduleError, match="an iteration of jt does not read what lies together"):
        prefetch(nest, at="cb", buffer="x", ahead="jt")
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
