"""One block of weights for several programs: what is equal has one place."""

import numpy as np
import pytest

from explorer.runtime.native.weight_block import WeightBlock


def placed(block: WeightBlock, *arrays: np.ndarray) -> list[int]:
    block.begin()
    return [block.place(array.nbytes, lambda array=array: array) for array in arrays]


@pytest.mark.parametrize("is_file", [False, True])
def test_a_later_program_reads_equal_weights_where_they_lie(is_file: bool):
    numbers = np.random.default_rng(0).random((3, 100), dtype=np.float32)
    block = WeightBlock(is_file)
    assert placed(block, *numbers[:2]) == [0, 448]
    first = block.first(block.size_bytes)
    assert (block.shared_bytes, block.new_bytes) == (0, 800)
    assert placed(block, numbers[1], numbers[2], numbers[0]) == [448, 896, 0]
    assert (block.shared_bytes, block.new_bytes) == (800, 400)
    mapped = block.mapped(block.size_bytes)
    whole = mapped if isinstance(mapped, np.ndarray) else mapped.array
    np.testing.assert_array_equal(whole[896:1296].view(np.float32), numbers[2])
    np.testing.assert_array_equal(first, whole[: first.nbytes])  # it has not moved


@pytest.mark.parametrize("is_file", [False, True])
def test_the_first_program_has_a_place_for_each_weight(is_file: bool):
    """So that its code is that of a program alone; equal ones are not looked for, nor made."""
    block, made = WeightBlock(is_file), []

    def content() -> np.ndarray:
        made.append(1)
        return np.ones(16, np.float32)

    block.begin()
    assert [block.place(64, content) for _ in range(3)] == [0, 64, 128]
    assert not made
    assert block.first(192).view(np.float32).tolist() == [1.0] * 48


@pytest.mark.parametrize("other", [0.0, -0.0, np.nan])
@pytest.mark.parametrize("is_file", [False, True])
def test_weights_are_equal_bit_by_bit(other: float, is_file: bool):
    block = WeightBlock(is_file)
    placed(block, np.full(4, other, np.float32))
    assert placed(block, np.full(4, other, np.float32)) == [0]
    assert placed(block, np.full(4, 1.0, np.float32), np.zeros(16, np.uint8)) == (
        [64, 0] if str(other) == "0.0" else [64, 128]
    )


@pytest.mark.parametrize("is_file", [False, True])
def test_programs_without_weights_have_a_block(is_file: bool):
    block = WeightBlock(is_file)
    assert placed(block) == []
    assert block.first(block.size_bytes).nbytes == 64
    assert placed(block, np.zeros(0, np.float32), np.ones(1, np.float32)) == [0, 0]


@pytest.mark.parametrize("is_file", [False, True])
def test_a_saved_program_takes_the_block_that_its_weights_begin_with(is_file: bool):
    numbers = np.random.default_rng(1).integers(0, 255, 192, np.uint8)
    block = WeightBlock(is_file)
    assert not block.adopt(numbers)  # nothing lies in it
    placed(block, numbers[:128])
    assert not block.adopt(numbers[::-1].copy())
    assert block.adopt(numbers[:64])
    assert block.adopt(numbers)
    np.testing.assert_array_equal(block.first(192), numbers)
    assert placed(block, numbers[128:]) == [128]


@pytest.mark.parametrize("is_file", [False, True])
def test_what_is_read_is_constant(is_file: bool):
    block = WeightBlock(is_file)
    placed(block, np.ones(16, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        block.first(64)[0] = 1


def test_a_block_that_outgrows_its_room_is_moved(monkeypatch: pytest.MonkeyPatch):
    """Programs keep the part that they have."""
    monkeypatch.setattr("explorer.runtime.native.weight_block.ROOM_BYTES", 0)
    numbers = np.random.default_rng(2).integers(0, 255, 1024, np.uint8)
    block = WeightBlock(is_file=False)
    placed(block, numbers[:128])
    first = block.first(128)
    assert placed(block, numbers[128:]) == [128]
    np.testing.assert_array_equal(block.first(1024), numbers)
    np.testing.assert_array_equal(first, numbers[:128])
    assert placed(block, numbers[:128], numbers[128:]) == [0, 128]
