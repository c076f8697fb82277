"""Results in global memory that lie in place of an operand that nothing reads afterwards."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from chains import measured, saved
from onnx import helper, numpy_helper

from explorer.backends.npu.planning import in_place, tensors_of
from explorer.ir.functions.calls import functions_on
from explorer.memory.planners import GreedyPlanner
from explorer.memory.uses import Use
from explorer.targets import load_target
from explorer.targets.npu.machine import describe


def computed(uses, over):
    """Every result as a tuple of what it is made of, with results in the cells of others; reading
    what was overwritten is an assertion."""
    cells, cell_of, expected = {"x": "x"}, {"x": "x"}, {"x": "x"}
    for use in uses:
        found = tuple(cells[cell_of[name]] for name in use.reads)
        assert found == tuple(expected[name] for name in use.reads)
        (name,) = use.writes
        expected[name] = (name, found)
        cell_of[name] = cell_of[over[name]] if name in over else name
        cells[cell_of[name]] = expected[name]
    return cells, cell_of, expected


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_is_read_later_is_overwritten(seed):
    random = np.random.default_rng(seed)
    sizes, uses, replaceable = {"x": int(random.integers(1, 3))}, [], {}
    for step in range(12):
        name, known = f"v{step}", list(sizes)[-4:]
        reads = tuple(str(one) for one in random.choice(known, random.integers(1, 3)))
        sizes[name] = int(random.integers(1, 3))
        uses.append(Use(name, reads, (name,)))
        replaceable[name] = reads if random.random() < 0.8 else ()
    outputs = {"v11", str(random.choice([f"v{step}" for step in range(11)]))}
    found = in_place(uses, replaceable, sizes, {}, {"x", *outputs})
    assert [replace(use, aliases=()) for use in found] == uses
    over = {name: other for use in found for name, other in use.aliases}
    assert all(sizes[name] == sizes[other] for name, other in over.items())
    assert all(other in replaceable[name] for name, other in over.items())
    assert not {"x", *outputs} & set(over.values())
    cells, cell_of, expected = computed(found, over)
    assert all(cells[cell_of[name]] == expected[name] for name in ("x", *outputs))


def test_every_value_that_could_be_overwritten_is():
    uses = [Use("a", ("x",), ("a",)), Use("b", ("a",), ("b",)), Use("c", ("b", "a"), ("c",)),
            Use("d", ("c", "c"), ("d",)), Use("e", ("d",), ("e",))]  # fmt: skip
    any_of = {use.operation: use.reads for use in uses}
    found = in_place(uses, any_of, dict.fromkeys("xabcde", 4), {}, {"x", "e"})
    # x is an argument, a is read again, and d reads c twice.
    assert {u.operation: u.aliases for u in found if u.aliases} == {
        "c": (("c", "b"),), "e": (("e", "d"),),
    }  # fmt: skip


def test_a_view_that_is_read_later_keeps_what_it_shows():
    uses = [Use("a", ("x",), ("a",)), Use("b", ("a",), ("b",)), Use("c", ("shown", "b"), ("c",))]
    found = in_place(uses, {"b": ("a",)}, dict.fromkeys("xabc", 4), {"shown": "a"}, {"x"})
    assert not any(use.aliases for use in found)
    found = in_place(uses[:2], {"b": ("a",)}, dict.fromkeys("xab", 4), {"shown": "a"}, {"shown"})
    assert not any(use.aliases for use in found)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """Two residual blocks of two convolutions."""
    random = np.random.default_rng(3)
    nodes, weights, last = [], [], "x"
    for index, (source, ins) in enumerate([("x", 3), *[("", 16)] * 4]):
        data = random.normal(0, 0.2, (16, ins, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(data, f"w{index}"))
        nodes.append(helper.make_node("Conv", [source or last, f"w{index}"], [f"c{index}"],
                                      pads=[1] * 4))  # fmt: skip
        last = f"c{index}"
        if index in (2, 4):
            nodes.append(helper.make_node("Add", [last, f"r{index - 2}"], [f"s{index}"]))
            last = f"s{index}"
        nodes.append(helper.make_node("Relu", [last], [f"r{index}"]))
        last = f"r{index}"
    return saved(tmp_path_factory.mktemp("blocks"), nodes, weights, last, (1, 3, 9, 7), random)


@pytest.mark.parametrize(("target", "combine"), [("mac-128", True), ("vta-16", False)])
def test_a_residual_sum_takes_no_memory_of_its_own(blocks, target, combine):
    c, _, _ = measured(blocks, target, **{"group-layers": False, "combine-layers": combine})
    (function,) = functions_on(c["lay-out-constants"].after.program, target)
    tensors = tensors_of(function, describe(load_target(target)))
    apart = GreedyPlanner()(tensors.buffers, tensors.steps)
    assert len(c.memory.placements) <= len(apart.placements) - 2
    assert c.memory.peak_bytes <= apart.peak_bytes
    if combine:  # the tensor that is added, and what the last convolution reads
        assert (c.memory.peak_bytes, apart.peak_bytes) == (2 * 1024 - 16, 3 * 1024 - 16)
    places = [event for event in c["assign-addresses"].events if "in place of" in event.explanation]
    assert len(places) == len(apart.placements) - len(c.memory.placements)
