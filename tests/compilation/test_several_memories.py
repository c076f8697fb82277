"""Targets with several memories: what lies where, what is refused, and that no number changes."""

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compilation.arena_check import check_arena
from explorer.errors import ExplorerError, InputError, MemoryBudgetError
from explorer.targets import Target, load_target

TARGET = """
name = "two-memories"
description = "A fast memory next to a slow one, and flash"
languages = ["c"]
data_types = ["float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8"]
vector_floats = "auto"
[requantization]
scheme = "float"
rounding = "nearest_even"
[layout]
channel_block = "vector"
halo = true
[memories.fast]
kind = "arena"
size_bytes = {fast}
bytes_per_second = 4e9
[memories.slow]
kind = "arena"
size_bytes = {slow}
bytes_per_second = 5e8
[memories.flash]
kind = "arena"
size_bytes = {flash}
holds = ["weights"]
[core]
family = "auto"
"""


def target(folder: Path, fast: int, slow: int = 1 << 19, flash: int = 1 << 20) -> Target:
    path = folder / "two.toml"
    path.write_text(TARGET.format(fast=fast, slow=slow, flash=flash))
    return load_target(path)


@pytest.fixture(scope="module")
def model(sample_models: Path) -> Path:
    return sample_models / "digits_cnn.onnx"


@pytest.mark.parametrize("fast", [64, 2048, 8192])
def test_every_memory_is_obeyed_and_no_number_changes(fast: int, model: Path, tmp_path: Path):
    images = np.load(model.parent / "digits_test.npz")["images"][:1]
    c, plain = explorer.compile(model, target(tmp_path, fast)), explorer.compile(model)
    assert list(c.memories) == ["fast", "slow"]
    assert c.memories["fast"].peak_bytes <= fast
    assert c.memory.peak_bytes >= sum(plan.peak_bytes for plan in c.memories.values())
    said = str(c.memory).splitlines()[0]  # memories that are apart have no bound in common
    assert all(f"{name} " in said for name in c.memories)
    assert "bound" not in said and "bound" in str(plain.memory).splitlines()[0]
    np.testing.assert_array_equal(
        c.run({"image": images})["logits"], plain.run({"image": images})["logits"]
    )
    (record,) = check_arena(c)
    assert record.passed and record.written_bytes == c.memory.peak_bytes


def test_arguments_name_the_memory_in_which_they_lie(model: Path, tmp_path: Path):
    c = explorer.compile(model, target(tmp_path, 8192))
    places = {memory.name: memory for memory in c.program.memories}
    assert list(places) == ["fast", "slow"]
    spaces = set()
    for launch in c.program.launches:
        for a in launch.arguments:
            spaces.add(a.space)
            if a.space != "weights":
                first = places[a.space].offset_bytes
                end = first + places[a.space].size_bytes
                assert first <= a.offset_bytes and a.offset_bytes + a.size_bytes <= end
    assert spaces == {"fast", "slow", "weights"}


def test_scratch_may_lie_elsewhere_than_the_value_of_its_operation(
    sample_models: Path, tmp_path: Path
):
    """A scratch buffer has the name of its operation, which is that of the value, too."""
    model = sample_models / "digits_transformer.onnx"
    for fast in (2048, 4096):
        c = explorer.compile(model, target(tmp_path, fast))
        assert all(record.passed for record in check_arena(c))


def test_what_fits_the_fastest_memory_uses_no_other(model: Path, tmp_path: Path):
    c = explorer.compile(model, target(tmp_path, 1 << 16))
    assert c.memories["slow"].peak_bytes == 0
    assert c.memories["fast"].peak_bytes == explorer.compile(model).memory.peak_bytes


def test_a_target_with_one_memory_has_the_plan_under_its_name(model: Path):
    c = explorer.compile(model)
    assert c.memories == {"arena": c.memory}
    assert {a.space for launch in c.program.launches for a in launch.arguments} == {
        "arena", "weights",
    }  # fmt: skip


def test_memories_that_are_too_small_are_named(model: Path, tmp_path: Path):
    with pytest.raises(MemoryBudgetError, match="the plan of slow needs") as refusal:
        explorer.compile(model, target(tmp_path, 64, 4096))
    needed = refusal.value.needed_bytes
    assert refusal.value.budget_bytes == 4096 < needed and refusal.value.operations
    assert explorer.compile(model, target(tmp_path, 64, needed)).memories["slow"]
    with pytest.raises(MemoryBudgetError, match="the weights take"):
        explorer.compile(model, target(tmp_path, 1 << 16, flash=4096))


def test_a_pin_names_a_memory_and_a_byte_of_it(model: Path, tmp_path: Path):
    images = np.load(model.parent / "digits_test.npz")["images"][:1]
    c = explorer.compile(model, target(tmp_path, 8192))
    fast = next(p for p in c.memory.placements if p.memory == "fast" and p.buffer.size_bytes)
    slow = next(p for p in c.memory.placements if p.memory == "slow")
    name = fast.buffer.id
    fork = c.fork(decisions={"plan-memory/pins": {name: "slow:4096"}})
    assert name not in fork.memories["fast"].offsets
    assert fork.memories["slow"].offsets[name] == 4096
    assert fork.memories["fast"].peak_bytes <= 8192
    np.testing.assert_array_equal(fork.run({"image": images})["logits"],
                                  c.run({"image": images})["logits"])  # fmt: skip
    assert all(record.passed for record in check_arena(fork))
    anywhere = c.fork(decisions={"plan-memory/pins": [[name, "slow"]]})
    assert name in anywhere.memories["slow"].offsets
    if slow.buffer.size_bytes <= 8192:
        up = c.fork(decisions={"plan-memory/pins": {slow.buffer.id: "fast"}})
        assert slow.buffer.id in up.memories["fast"].offsets


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (0, "a pin names one of them"),
        ("flash:0", "a pin names one of them"),
        ("fast:", "a pin names one of them"),
        ("fast:-4", "a pin names one of them"),
        ("fast:0x40", "a pin names one of them"),
        ("fast:3", "is aligned to"),
        ("fast:1048576", "the plan of fast needs"),
    ],
)
def test_pins_that_no_memory_can_keep_are_refused(place, words: str, model: Path, tmp_path: Path):
    c = explorer.compile(model, target(tmp_path, 8192))
    name = next(p.buffer.id for p in c.memory.placements if p.memory == "fast")
    with pytest.raises(ExplorerError, match=words):
        c.fork(decisions={"plan-memory/pins": {name: place}})


def test_pins_of_unknown_buffers_and_of_a_target_with_one_memory(model: Path, tmp_path: Path):
    c = explorer.compile(model, target(tmp_path, 8192))
    with pytest.raises(InputError, match="no buffer 'nothing'"):
        c.fork(decisions={"plan-memory/pins": {"nothing": "fast"}})
    with pytest.raises(InputError, match="has one memory for activations"):
        explorer.compile(model).fork(decisions={"plan-memory/pins": {"conv_1": "fast:0"}})


def test_memories_of_the_second_target_are_obeyed(model: Path, tmp_path: Path):
    """Also the one that holds weights, of which the first target says nothing."""
    chosen = {"assign/device/conv8": "two-memories"}
    c = explorer.compile(model, ["cpu", target(tmp_path, 2048)], decisions=chosen)
    assert c.companion is not None
    assert c.companion.memories["fast"].peak_bytes <= 2048
    small = target(tmp_path, 2048, flash=1000)
    with pytest.raises(MemoryBudgetError, match="more than the flash of 1,000"):
        explorer.compile(model, ["cpu", small], decisions=chosen).program  # noqa: B018
