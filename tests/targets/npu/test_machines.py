"""What target files of NPUs come to, and what contradictions are answered with."""

import pytest

from explorer.errors import InputError
from explorer.targets import list_targets, load_target
from explorer.targets.npu.formats import formats_of
from explorer.targets.npu.machine import describe

NPUS = ["edge-64", "mac-128", "odd-12x20", "tiny-8", "vta-16", "vta-32"]


def machine(name, **overrides):
    return describe(load_target(name, overrides))


def test_the_targets_that_instructions_drive_are_shipped():
    assert [name for name in list_targets() if load_target(name).queues] == NPUS


@pytest.mark.parametrize(
    ("name", "macs", "bits"),
    [
        ("edge-64", 16384, 256),  # 32768 operations in a cycle, as published for a BM1684X
        ("mac-128", 128, 192),
        ("odd-12x20", 720, 192),
        ("tiny-8", 512, 256),
        ("vta-16", 256, 128),
        ("vta-32", 1024, 128),
    ],
)
def test_arrays_and_instructions_have_the_size_that_their_files_describe(name, macs, bits):
    found = machine(name)
    assert found.batch * found.rows * found.columns == macs
    assert formats_of(found).bits == bits


def test_vta_has_the_depths_of_its_default_configuration():
    depths = {space.content: space.depth for space in machine("vta-16").spaces}
    # VTA_UOP_BUFF_DEPTH and its siblings in hw_spec_const.h for vta_config.json
    assert depths["micro_operations"] == 8192
    assert depths["activations"] == depths["accumulators"] == 2048
    assert depths["weights"] == 1024


def fields(name, kind):
    format = formats_of(machine(name)).of(kind)
    return {field.name: (field.word, field.shift, field.bits) for field in format.fields}


def test_vtas_formats_lie_where_its_bit_fields_do():
    load = fields("vta-16", "load")
    assert load["memory"] == (0, 7, 3)
    assert load["scratchpad_address"] == (0, 10, 16)
    assert load["global_address"] == (0, 26, 32)
    assert load["y_size"] == (1, 0, 16)  # 58 bits are taken: 16 more do not fit into the word
    assert load["x_pad_after"] == (1, 60, 4)
    multiply = fields("vta-16", "multiply")
    assert multiply["reset"] == (0, 7, 1)
    assert (multiply["micro_begin"], multiply["micro_end"]) == ((0, 8, 13), (0, 21, 14))
    assert (multiply["outer"], multiply["inner"]) == ((0, 35, 14), (0, 49, 14))
    assert multiply["weight_inner"] == (1, 54, 10)
    vector = fields("vta-16", "vector")
    assert (vector["operation"], vector["use_immediate"]) == ((1, 44, 3), (1, 47, 1))
    assert vector["immediate"] == (1, 48, 16)


def test_widths_follow_from_sizes_and_may_be_given():
    assert fields("odd-12x20", "load")["scratchpad_address"][2] == 13  # 5000 gathered columns
    assert fields("odd-12x20", "load")["global_address"][2] == 24  # 50 MB in elements of 4 bytes
    wide = load_target("odd-12x20", {"instructions.widths": {"scratchpad_address": 20}})
    format = formats_of(describe(wide)).of("load")
    assert {f.name: f.bits for f in format.fields}["scratchpad_address"] == 20


def test_rates_come_from_pairs_engines_or_memories():
    odd = machine("odd-12x20").route
    assert float(odd["dram", 2, True].bytes_per_cycle) == 11.5  # weights have a pair of their own
    assert float(odd["dram", 1, True].bytes_per_cycle) == 7
    small = machine("mac-128").route
    assert float(small["sram", 0, True].bytes_per_cycle) == 7.46  # 3.73 GB/s at 500 MHz
    assert float(small["flash", 0, True].bytes_per_cycle) == 0.94
    assert ("sram", 1, False) not in small  # nothing is stored from micro-operations and tables


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("vta-16", {"engines.matrix.input_bits": 5}, "matrix.input_bits is 5, expected 4, 8 or 16"),
        (
            "vta-16",
            {"engines.matrix.input_bits": 16, "engines.matrix.accumulator_bits": 16},
            r"accumulator_bits is 16, expected at least 32 \(twice 16\)",
        ),
        (
            "odd-12x20",
            {"engines.matrix.input_bits": 4, "engines.matrix.rows": 13},
            "engines.matrix.rows is 13, expected a multiple of 2: 13 numbers of 4 bits",
        ),
        (
            "vta-16",
            {"memories.weights.size_bytes": 255},
            "memories.weights.size_bytes is 255, expected at least 256, one element of weights",
        ),
        ("vta-16", {"memories.inputs.size_bytes": None}, "inputs.size_bytes is missing"),
        (
            "vta-16",
            {"memories.weights.size_bytes": 2**19},
            "micro-operation addresses .* with 33 bits, expected at most 32",
        ),
        ("vta-16", {"instructions.bits": 192}, r"bits is 192, expected 128 \(those of VTA\)"),
        ("vta-16", {"instructions.widths": {"pad": 5}}, "widths has pad, and set = .* of VTA"),
        ("tiny-8", {"requantization.scheme": "float"}, "scheme is 'float', expected one of integ"),
        ("tiny-8", {"engines.dma.channels": 65}, "channels is 65, expected at most 64"),
        (
            "odd-12x20",
            {"instructions.bits": 128},
            "instructions.bits is 128, expected at least 143: load has no room for x_pad_after",
        ),
        ("odd-12x20", {"instructions.bits": 130}, "bits is 130, expected a multiple of 64"),
        (
            "odd-12x20",
            {"instructions.widths": {"scratchpad_address": 10}},
            "scratchpad_address is 10, expected at least 13: a scratchpad has 5000 elements",
        ),
        (
            "vta-16",
            {"engines.vector.operations": ["add", "requantize"]},
            'vector.operations has requantize, which instructions.set = "vta" has not',
        ),
        ("tiny-8", {"engines.vector.table_entries": 100}, "is 100, expected a power of two"),
        ("tiny-8", {"engines.vector.table_entries": None}, "table_entries is missing"),
        ("tiny-8", {"engines.vector.division_cycles": None}, "division_cycles is missing"),
        ("vta-16", {"memories.inputs.holds": ["weights"]}, "2 scratchpads that hold weights"),
        ("vta-16", {"queues.load.loads": ["weights"]}, "loads of activations stand in 0 of them"),
        (
            "vta-16",
            {"queues.load.loads": ["weights", "activations", "accumulators"]},
            r"loads of accumulators stand in 2 of them \(load, compute\)",
        ),
        ("vta-16", {"queues.compute.engines": ["matrx"]}, r"'matrx' \(did you mean 'matrix'\?\)"),
        ("vta-16", {"engines.dma.bytes_per_cycle": None}, "dma.bytes_per_cycle is missing"),
        (
            "vta-16",
            {"engines.dma.connects": ["dram", "inputs", "weights", "accumulators"]},
            "no dma engine that connects a dram with micro_operations",
        ),
        (
            "odd-12x20",
            {"engines.dma.transfers.weights_in.source": "dra"},
            r"transfers.weights_in.source names 'dra', which the engine does not connect",
        ),
        ("mac-128", {"memories.sram.size_bytes": None}, "sram.size_bytes is missing.*flash lies"),
        ("vta-16", {"memories.dram.kind": "arena"}, "memories have none of kind dram"),
        (
            "mac-128",
            {"memories.fast": {"kind": "arena", "size_bytes": 65536}},
            r"memories\.fast\.kind is 'arena', .*, expected 'dram' or 'scratchpad'",
        ),
    ],
)
def test_a_contradiction_names_the_field_and_its_bound(name, overrides, message):
    with pytest.raises(InputError, match=message) as caught:
        load_target(name, overrides)
    assert caught.value.file == f"{name} with overrides"


def test_an_array_of_other_sizes_and_types_is_legal():
    found = machine(
        "odd-12x20",
        **{
            "engines.matrix.rows": 7,
            "engines.matrix.columns": 30,
            "engines.matrix.weight_bits": 4,
            "engines.matrix.input_bits": 16,
        },
    )
    assert found.by_content["weights"].element_bytes == 7 * 30 * 4 // 8
    assert found.by_content["activations"].element_bytes == 14
