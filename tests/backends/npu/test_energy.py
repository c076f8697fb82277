"""Energy of instructions: each part by hand, and estimates between the sizes of their table."""

from dataclasses import replace

import pytest

from explorer.backends.npu.roofs import Work, energy_of, work_of
from explorer.targets import load_target
from explorer.targets.npu.energy import ON_CHIP, figures, on_chip_picojoules
from explorer.targets.npu.instructions import (
    Finish,
    Instruction,
    Load,
    Multiply,
    Requantize,
    Softmax,
    Store,
    Vector,
)
from explorer.targets.npu.machine import Machine, describe

VTA = describe(load_target("vta-16"))  # elements of 16 numbers
TINY = describe(load_target("tiny-8"))  # 16 positions x 4 inputs x 8 outputs, one row an element


def work(instruction: Instruction, machine: Machine = VTA) -> Work:
    return work_of([instruction], machine)


def test_the_table_holds_at_its_sizes_and_powers_between_and_beyond_them():
    assert [8 * on_chip_picojoules(size) for size, _ in ON_CHIP] == pytest.approx([10, 20, 100])
    assert 8 * on_chip_picojoules(16 * 1024) == pytest.approx(10 * 2**0.5)
    assert 8 * on_chip_picojoules(2 * 1024) == pytest.approx(5)
    sizes = [1, 100, 8191, 8192, 8193, 32769, 1 << 20, 1 << 24]
    found = [on_chip_picojoules(size) for size in sizes]
    assert found == sorted(found) and found[0] > 0


def test_estimates_follow_widths_and_banks():
    found = {figure.part: figure for figure in figures(VTA)}
    assert found["matrix engine"].picojoules == pytest.approx(0.2 + 0.1)
    assert found["vector engine"].picojoules == pytest.approx(0.2 * 16 + 0.1)
    assert found["dram"].picojoules == pytest.approx(1950 / 8)
    assert "32,768 bytes" in found["inputs"].source
    narrow = describe(load_target("tiny-8", {"engines.matrix.weight_bits": 4}))
    assert next(figures(narrow)).picojoules == pytest.approx(0.1 + 0.1)
    banked = describe(load_target("vta-16", {"memories.inputs.banks": 4}))
    assert {f.part: f for f in figures(banked)}["inputs"].picojoules == pytest.approx(1.25)


def test_what_a_target_states_comes_before_estimates_zero_too():
    stated = {
        "engines.matrix.energy_picojoules_per_operation": 0,
        "memories.dram.energy_picojoules_per_byte": 20.5,
        "memories.dram.energy_source": "a data sheet",
    }
    found = {f.part: f for f in figures(describe(load_target("vta-16", stated)))}
    assert (found["matrix engine"].picojoules, found["matrix engine"].source) == (0, "the target")
    assert (found["dram"].picojoules, found["dram"].source) == (20.5, "a data sheet")


def test_a_transfer_is_read_at_one_end_and_written_at_the_other():
    load = Load(memory="activations", scratchpad_address=0, global_address=0, y_size=3, x_size=5,
                x_stride=5, x_pad_before=1, y_pad_after=2)  # fmt: skip
    found = work(load)
    assert found.memory_bytes == {"dram": 3 * 5 * 16}
    assert found.scratchpad_bytes == {"inputs": 5 * 6 * 16}
    stored = work(Store(memory="outputs", scratchpad_address=0, global_address=0, x_size=7))
    assert stored.memory_bytes == {"dram": 7 * 16}
    assert stored.scratchpad_bytes == {"accumulators": 7 * 64}
    inside = work(replace(load, on_chip=True), TINY)
    assert not inside.memory_bytes
    assert inside.scratchpad_bytes == {"local": 5 * 6 * 4 + 3 * 5 * 4}


def test_the_array_reads_operands_and_holds_its_sums():
    found = work(Multiply(micro_begin=2, micro_end=5, outer=2, inner=7))
    assert found.array_macs == 42 * 256
    assert found.scratchpad_bytes == {"inputs": 42 * 16, "weights": 42 * 256}
    rows = work(Multiply(micro_begin=0, micro_end=1, batch=17), TINY)
    assert rows.array_macs == 17 * 32
    assert rows.scratchpad_bytes == {"local": 17 * 4 + 2 * 32}, "16 rows share a block of weights"


@pytest.mark.parametrize(
    ("instruction", "numbers"),
    [
        (Vector(micro_begin=0, micro_end=3, outer=2, operation="add"), 6 * 8),
        (Requantize(micro_begin=0, micro_end=1, inner=5), 5 * 8),
        (Multiply(micro_begin=0, micro_end=4, reset=True), 4 * 8),
        (Softmax(micro_begin=0, micro_end=2, count=10, valid=80), 3 * 2 * 10 * 8),
        (Finish(), 0),
        (Multiply(micro_begin=3, micro_end=3), 0),
    ],
)
def test_the_vector_engine_reads_and_writes_accumulators(instruction, numbers):
    found = work(instruction, TINY)
    assert found.vector_operations == numbers
    assert found.scratchpad_bytes.total() == 2 * 4 * numbers


def test_energy_is_the_sum_of_its_parts_and_leaves_out_what_rests():
    load = Load(memory="activations", scratchpad_address=0, global_address=0, x_size=4)
    found = dict(energy_of(work_of([load, Multiply(micro_begin=0, micro_end=1)], VTA), VTA))
    assert found["matrix engine"] == pytest.approx(256 * 0.3)
    assert found["dram"] == pytest.approx(64 * 1950 / 8)
    assert found["inputs"] == pytest.approx((64 + 16) * 20 / 8)
    assert "vector engine" not in found and "accumulators" not in found
    assert energy_of(Work(), VTA) == ()


def test_a_run_states_the_energy_of_every_layer_and_part(compiled, digits):
    run = compiled("vta-16").profile(digits[2]).counted
    assert all(layer.energy_picojoules > 0 for layer in run.layers)
    assert sum(run.energy_by_part.values()) == pytest.approx(run.energy_picojoules)
    assert set(run.energy_by_part) <= set(dict(run.energy_sources))
    assert run.energy_by_part["matrix engine"] == pytest.approx(0.3 * run.macs)
