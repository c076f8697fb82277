"""Values that idle leave the fast memory by a copy, where that saves traffic."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compilation.arena_check import check_arena
from explorer.memory.moving import Life, with_move
from explorer.targets import Target, load_target

TARGET = """
name = "two-memories"
languages = ["c"]
data_types = ["float32"]
vector_floats = 4
[layout]
channel_block = 1
[memories.slow]
kind = "arena"
size_bytes = 65536
bytes_per_second = 5e8
[memories.fast]
kind = "arena"
size_bytes = {fast}
bytes_per_second = {speed}
"""
SIDE = 16
BYTES = 4 * SIDE * SIDE


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`kept` is read at once and again at the end; between lie six products of its size."""
    return chain(tmp_path_factory.mktemp("moving"), readers=1)


def chain(folder: Path, readers: int) -> Path:
    """The same with so many readers at the end, one product after the other; with several a
    product between takes the two before it, so that three of them live at once."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(SIDE, SIDE)).astype(np.float32) / 4 for _ in range(8)]
    names = ["x", "kept", *(f"h{i}" for i in range(7))]
    nodes = [
        helper.make_node(
            "MatMul",
            [names[i], names[i - 1] if readers > 1 and i > 2 else f"w{i}"],
            [names[i + 1]],
            name=f"m{i}",
        )
        for i in range(8)
    ]
    ends = ["h6", *(f"s{i}" for i in range(readers - 1)), "y"]
    for i, (before, after) in enumerate(pairwise(ends)):
        nodes.append(helper.make_node("MatMul", ["kept", before], [after], name=f"e{i}"))
    shape = [SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    path = folder / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def target(folder: Path, fast: int, speed: float = 4e9) -> Target:
    path = folder / "two.toml"
    path.write_text(TARGET.format(fast=fast, speed=speed))
    return load_target(path)


def test_a_value_that_idles_is_copied_to_the_slow_memory(model: Path, tmp_path: Path):
    x = np.random.default_rng(1).normal(size=(SIDE, SIDE)).astype(np.float32)
    c = explorer.compile(model, target(tmp_path, 2 * BYTES))
    (rewrite,) = [r for r in c["move-buffers"].rewrites if r.applied]
    assert rewrite.explanation.startswith("saves ")
    places = {p.buffer.id: p for p in c.memory.placements}
    (copy,) = [p for name, p in places.items() if "_moved" in name]
    source = places[copy.buffer.id.split("_moved")[0]]
    assert (source.memory, copy.memory) == ("fast", "slow")
    assert source.buffer.last == copy.buffer.first + 1  # the copy reads it last
    assert copy.buffer.last == len(c.memory.steps)  # and the sum reads the copy
    assert all(record.passed for record in check_arena(c, {"x": x}))
    plain = explorer.compile(model)
    np.testing.assert_allclose(c.run({"x": x})["y"], plain.run({"x": x})["y"], rtol=1e-5)


def test_what_several_steps_read_later_is_copied_back(tmp_path: Path):
    """Four late readers pay for one copy; the decision to leave it in the slow memory holds."""
    x = np.random.default_rng(1).normal(size=(SIDE, SIDE)).astype(np.float32) / 8
    model, two = chain(tmp_path, readers=4), target(tmp_path, 3 * BYTES)
    c = explorer.compile(model, two)
    places = {p.buffer.id: p for p in c.memory.placements}
    (out,) = [p for name, p in places.items() if "_moved" in name]
    (back,) = [p for name, p in places.items() if "_returned" in name]
    assert (out.memory, back.memory) == ("slow", "fast")
    assert out.buffer.last == back.buffer.first + 1  # the copy back reads it last
    assert all(record.passed for record in check_arena(c, {"x": x}))
    plain = explorer.compile(model)
    np.testing.assert_allclose(c.run({"x": x})["y"], plain.run({"x": x})["y"], rtol=1e-5)
    (knob,) = [k for k in c.knobs if k.address.startswith("move-buffers/return/")]
    assert knob.value is True and knob.why.startswith("a copy back saves ")
    fork = c.fork(decisions={knob.address: False})
    assert not any("_returned" in p.buffer.id for p in fork.memory.placements)
    assert any("_moved" in p.buffer.id for p in fork.memory.placements)


def test_what_one_step_reads_later_is_not_copied_back(model: Path, tmp_path: Path):
    c = explorer.compile(model, target(tmp_path, 2 * BYTES))
    (rewrite,) = [r for r in c["move-buffers"].rewrites if r.applied]
    assert "one step reads it later" in rewrite.explanation
    assert not any("_returned" in p.buffer.id for p in c.memory.placements)


def test_a_move_can_be_decided_against(model: Path, tmp_path: Path):
    c = explorer.compile(model, target(tmp_path, 2 * BYTES))
    (knob,) = [k for k in c.knobs if k.address.startswith("move-buffers/move/")]
    assert knob.value is True
    fork = c.fork(decisions={knob.address: False})
    assert not any("_moved" in p.buffer.id for p in fork.memory.placements)


@pytest.mark.parametrize(
    ("fast", "speed"), [(16 * BYTES, 4e9), (2 * BYTES, 5.5e8)], ids=["room", "no faster"]
)
def test_nothing_moves_where_there_is_room_or_nothing_to_save(
    fast: int, speed: float, model: Path, tmp_path: Path
):
    c = explorer.compile(model, target(tmp_path, fast, speed))
    assert not [r for r in c["move-buffers"].rewrites if r.applied]


def test_a_target_with_one_memory_has_no_such_pass(model: Path):
    assert "move-buffers" not in [result.name for result in explorer.compile(model).passes]


def test_a_copy_takes_a_step_and_all_that_comes_later():
    value: object = None
    lives = [
        Life("a", value, 8, (0, 1, 4), 5, True),  # pyright: ignore[reportArgumentType]
        Life("b", value, 4, (1, 2), 3, True),  # pyright: ignore[reportArgumentType]
    ]
    assert lives[0].gap == 1 and lives[1].gap is None
    moved = {life.name: life for life in with_move(lives, lives[0], 1)}
    assert (moved["a"].accesses, moved["a"].last) == ((0, 1, 2), 3)
    assert (moved["a/moved"].accesses, moved["a/moved"].last) == ((2, 5), 6)
    assert (moved["b"].accesses, moved["b"].last) == ((1, 3), 4)
    moved = {life.name: life for life in with_move(lives, lives[0], 1, returns=True)}
    assert (moved["a/moved"].accesses, moved["a/moved"].last) == ((2, 5), 6)
    assert (moved["a/returned"].accesses, moved["a/returned"].last) == ((5, 6), 7)
