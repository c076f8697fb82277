"""Targets as data files: what is shipped, what is legal, and what a mistake is answered with."""

import pickle
import tomllib
from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import InputError
from explorer.targets import (
    DmaEngine,
    LayoutRules,
    MatrixEngine,
    Memory,
    Requantization,
    Target,
    VectorEngine,
    list_targets,
    load_target,
)
from explorer.targets.overrides import write_record
from explorer.targets.reading import FieldLocation, read_record

SMALL = """
name = "small"
languages = ["c"]
data_types = ["float32"]
memories = { arena = { kind = "arena" } }
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "chip.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_targets_of_this_package_are_listed_and_load_under_their_names():
    assert {"cpu", "opencl", "opencl_gpu"} <= set(list_targets())
    assert list_targets() == sorted(list_targets())
    assert [load_target(name).name for name in list_targets()] == list_targets()


def test_the_cpu_prints_c_and_blocks_channels_by_its_vectors():
    cpu = load_target("cpu")
    assert cpu.languages == ("c",)
    assert cpu.vector_floats == "auto"
    assert cpu.layout == LayoutRules(channel_block="vector", halo=True)
    assert cpu.memory("arena") == Memory("arena", "arena", size_bytes=None, alignment_bytes=64)


def test_opencl_prints_opencl_c_only():
    assert load_target("opencl").languages == ("opencl",)


def test_what_a_file_leaves_out_has_the_default(tmp_path):
    assert load_target(write(tmp_path, SMALL)) == Target(
        name="small",
        languages=("c",),
        data_types=("float32",),
        memories=(Memory(name="arena", kind="arena"),),
    )


def test_the_same_text_is_read_once_and_another_one_anew(tmp_path):
    path = write(tmp_path, SMALL)
    first = load_target(path)
    assert load_target(path) is first
    write(tmp_path, SMALL.replace('name = "small"', 'name = "other"'))
    assert load_target(path).name == "other"
    assert load_target("cpu") is load_target("cpu")


def test_a_path_may_be_a_string(tmp_path):
    assert load_target(str(write(tmp_path, SMALL))).name == "small"


def test_overrides_change_one_field_and_leave_the_rest():
    cpu = load_target("cpu")
    tight = load_target("cpu", {"memories.arena.size_bytes": 65536})
    assert tight.memory("arena").size_bytes == 65536
    assert tight.with_(**{"memories.arena.size_bytes": None}) == cpu
    assert cpu.with_(vector_floats=8).vector_floats == 8
    assert cpu.with_(**{"layout.channel_block": 4}).layout == LayoutRules(4, True)
    assert cpu.memory("arena").size_bytes is None


def test_an_override_may_add_a_table_that_the_file_left_out():
    scaled = {"scheme": "shift", "rounding": "down", "multiplier_bits": 8}
    assert load_target("cpu", {"requantization": scaled}).requantization == Requantization(
        "shift", "down", 8
    )
    assert load_target("cpu", {"costs.launch_seconds": 1}).costs.launch_seconds == 1.0


def test_targets_are_values(tmp_path):
    cpu = load_target("cpu")
    assert pickle.loads(pickle.dumps(cpu)) == cpu
    assert hash(cpu) == hash(load_target("cpu"))
    assert asdict(cpu)["memories"][0]["name"] == "arena"


def test_an_unknown_target_gets_a_near_name():
    with pytest.raises(InputError, match=r"no target 'openlc' \(did you mean 'opencl'\?\)"):
        load_target("openlc")


def test_an_unknown_memory_or_engine_gets_a_near_name():
    with pytest.raises(InputError, match=r"cpu has no memory 'arenas' \(did you mean 'arena'\?\)"):
        load_target("cpu").memory("arenas")
    with pytest.raises(InputError, match="cpu has no engine 'matrix'"):
        load_target("cpu").engine("matrix")


MATRIX = {"kind": "matrix", "rows": 16, "columns": 16}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"vector_float": 8}, r"vector_float is no known field \(did you mean 'vector_floats'\?\)"),
        (
            {"memories.arena.size_byte": 1},
            r"memories.arena.size_byte is no known field \(did you mean 'size_bytes'\?\)",
        ),
        (
            {"memories.arna.size_bytes": 1},
            r"memories.arna is not there to be overridden \(did you mean 'arena'\?\)",
        ),
        (
            {"engines": {"m": {**MATRIX, "rows": 0}}},
            "engines.m.rows is 0, expected a whole number ",
        ),
        ({"engines": {"m": {**MATRIX, "rows": 1.5}}}, "engines.m.rows is 1.5, expected a whole"),
        ({"engines": {"m": {**MATRIX, "rows": True}}}, "engines.m.rows is True, expected a whole"),
        ({"engines": {"m": {**MATRIX, "rows": 2**21}}}, "and at most 1048576"),
        ({"engines": {"m": {**MATRIX, "input_bits": 65}}}, "of at least 1 and at most 64"),
        (
            {"engines": {"m": {**MATRIX, "colums": 2}}},
            r"engines.m.colums is no known field \(did you mean 'columns'\?\)",
        ),
        ({"engines": {"m": {"kind": "matrix"}}}, "engines.m.rows is missing, expected a whole"),
        (
            {"engines": {"m": {"kind": "matrx"}}},
            r"engines.m.kind is 'matrx', which is no kind \(did you mean 'matrix'\?\)",
        ),
        (
            {"engines": {"m": {}}},
            r"engines.m.kind is missing \(known: matrix, vector, scalar, dma\)",
        ),
        ({"engines": {"m": 3}}, "engines.m.kind is missing"),
        ({"engines": []}, r"engines is \[\], expected a table"),
        (
            {"engines": {"d": {"kind": "dma", "connects": ["arna"]}}},
            r"engines.d.connects names 'arna', which is no memory \(did you mean 'arena'\?\)",
        ),
        (
            {"engines": {"m": {**MATRIX, "ops_per_cycle": {"int9": 1}}}},
            r"engines.m.ops_per_cycle is 'int9'.*\(did you mean 'int8'\?\)",
        ),
        (
            {"engines": {"m": {**MATRIX, "ops_per_cycle": {"int8": 0}}}},
            "engines.m.ops_per_cycle.int8 is 0",
        ),
        ({"languages": ["opencl", "cc"]}, 'languages.1 is \'cc\', expected "c" or "opencl" or '),
        ({"languages": "c"}, "languages is 'c', expected a list"),
        ({"languages": []}, "languages is empty, expected at least one"),
        ({"data_types": ["float23"]}, r"data_types.0 is 'float23'.*\(did you mean 'float32'\?\)"),
        ({"memories": {}}, "memories is empty, expected at least one"),
        (
            {"memories": {"Arena 1": {"kind": "arena"}}},
            "memories.Arena 1 is 'Arena 1', expected a ",
        ),
        ({"memories": {"": {"kind": "arena"}}}, "is '', expected a name of at most 64 small"),
        ({"memories.arena.kind": "sram"}, "memories.arena.kind is 'sram', expected \"arena\" or "),
        (
            {
                "memories.arena.size_bytes": 100,
                "memories.arena.lanes": 2,
                "memories.arena.banks": 4,
            },
            r"memories.arena.size_bytes is 100, expected a multiple of 8 \(lanes 2 times banks 4\)",
        ),
        ({"vector_floats": "aut"}, r"expected \"auto\" or a whole.*\(did you mean 'auto'\?\)"),
        (
            {"vector_floats": 0},
            'vector_floats is 0, expected "auto" or a whole number of at least 1',
        ),
        ({"clock_hz": 0}, "clock_hz is 0, expected a number of at least 1"),
        ({"clock_hz": float("inf")}, "clock_hz is inf, expected a number"),
        ({"clock_hz": float("nan")}, "clock_hz is nan, expected a number"),
        ({"clock_hz": 10**400}, "clock_hz is 1000.*, expected a number"),
        ({"layout": 3}, "layout is 3, expected a table"),
        ({"layout.halo": 1}, "layout.halo is 1, expected true or false"),
        ({"name.first": "x"}, "name is a value and has no fields"),
        ({"requantization": {"scheme": "shift"}}, "requantization.rounding is missing"),
        ({"arithmetic": "fixed"}, "arithmetic is 'fixed', expected"),
    ],
)
def test_an_illegal_override_names_the_field_and_what_was_expected(overrides, message):
    with pytest.raises(InputError, match=message) as caught:
        load_target("cpu", overrides)
    assert caught.value.file == "cpu with overrides"


def test_a_mistake_in_a_file_names_the_file(tmp_path):
    path = write(tmp_path, SMALL.replace("languages", "langauges"))
    with pytest.raises(InputError) as caught:
        load_target(path)
    assert str(caught.value) == (
        f"langauges is no known field (did you mean 'languages'?); where: file {path}"
    )


def test_a_missing_field_is_named(tmp_path):
    with pytest.raises(InputError, match="data_types is missing, expected a list"):
        load_target(write(tmp_path, 'name = "x"\nlanguages = ["c"]\nmemories = {}'))


@pytest.mark.parametrize(
    "text", ["name = ", "a = " + "[" * 100_000, "a = " + "9" * 10_000, "a = '\udcff'"]
)
def test_a_file_that_is_no_toml_is_refused(tmp_path, text):
    path = tmp_path / "chip.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match="not a readable target"):
        load_target(path)


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_target(tmp_path / "nothing.toml")
    with pytest.raises(InputError, match="at most 1048576 bytes"):
        load_target(write(tmp_path, "#" * (2**20 + 1)))


TPU_CHIPS = {
    # name: lanes, bytes per lane and cycle, bytes of local memory per lane, banks
    "bm1684": (64, 128, 512 * 1024, 8),
    "bm1684x": (64, 64, 256 * 1024, 16),
    "bm1688": (32, 16, 128 * 1024, 16),
    "bm1690": (64, 64, 256 * 1024, 16),
    "cv184x": (8, 16, 64 * 1024, 16),
}
TPU_EXTRAS = {
    "bm1684": "",
    "bm1684x": """
        clock_hz = 1e9
        [engines.matrix]
        kind = "matrix"
        rows = 256
        columns = 64
        ops_per_cycle = { int8 = 32768, float16 = 16384, float32 = 2048 }
        start_cycles = 41
    """,
    "bm1688": "cores = 2\nclock_hz = 900e6\nmemories.dram.bytes_per_second = 32e9",
    "bm1690": """
        cores = 8
        memories.dram.bytes_per_second = 68.3e9
        [memories.level2]
        kind = "scratchpad"
        scope = "device"
        size_bytes = 134217728
    """,
    "cv184x": "memories.dram.bytes_per_second = 4e9",
}


def tpu_chip(name: str) -> str:
    lanes, lane_bytes_per_cycle, lane_bytes, banks = TPU_CHIPS[name]
    return f"""
        name = "{name}"
        languages = ["instructions"]
        data_types = ["int8", "float16", "float32"]
        layout = {{ channel_block = {lanes} }}
        requantization = {{ scheme = "multiplier_shift", rounding = "nearest_away_from_zero" }}
        memories.dram.kind = "dram"
        memories.dram.alignment_bytes = 4096
        memories.local = {{ kind = "scratchpad", scope = "core", size_bytes = {lanes * lane_bytes},
        lanes = {lanes}, banks = {banks}, lane_bytes_per_cycle = {lane_bytes_per_cycle} }}
        engines.vector = {{ kind = "vector", lanes = {lanes} }}
        engines.dma = {{ kind = "dma", connects = ["dram", "local"] }}
        {TPU_EXTRAS[name]}
    """.replace(",\n        lanes", ", lanes")


@pytest.mark.parametrize("name", TPU_CHIPS)
def test_the_schema_describes_the_chips_of_tpu_mlir(tmp_path, name):
    chip = load_target(write(tmp_path, tpu_chip(name)))
    lanes, lane_bytes_per_cycle, lane_bytes, banks = TPU_CHIPS[name]
    local = chip.memory("local")
    assert (local.lanes, local.lane_bytes, local.banks) == (lanes, lane_bytes, banks)
    assert local.bank_bytes == lane_bytes // banks
    assert local.lane_bytes_per_cycle == lane_bytes_per_cycle
    assert chip.memory("dram").size_bytes is None
    assert chip.engine("dma") == DmaEngine("dma", "dma", ("dram", "local"))
    assert chip.engine("vector") == VectorEngine("vector", "vector", lanes)
    assert chip.layout == LayoutRules(channel_block=lanes, halo=False)


def test_the_schema_describes_rates_cores_and_shared_memory(tmp_path):
    matrix = load_target(write(tmp_path, tpu_chip("bm1684x"))).engine("matrix")
    assert isinstance(matrix, MatrixEngine)
    assert dict(matrix.ops_per_cycle) == {"int8": 32768, "float16": 16384, "float32": 2048}
    assert 2 * matrix.rows * matrix.columns == 32768
    chip = load_target(write(tmp_path, tpu_chip("bm1690")))
    assert (chip.cores, chip.memory("dram").bytes_per_second) == (8, 68.3e9)
    assert chip.memory("level2").size_bytes == 128 * 1024 * 1024
    assert (chip.memory("local").scope, chip.memory("level2").scope) == ("core", "device")


VTA = """
name = "vta"
languages = ["instructions"]
data_types = ["int8", "int32"]
layout = { channel_block = 16 }
requantization = { scheme = "shift", rounding = "down" }
[memories]
dram = { kind = "dram" }
uop = { kind = "scratchpad", size_bytes = 32768, holds = ["instructions"] }
input = { kind = "scratchpad", size_bytes = 32768, holds = ["activations"] }
weight = { kind = "scratchpad", size_bytes = 262144, holds = ["weights"] }
accumulator = { kind = "scratchpad", size_bytes = 131072, holds = ["accumulators"] }
[engines]
gemm = { kind = "matrix", batch = 1, rows = 16, columns = 16 }
alu = { kind = "vector", lanes = 16 }
load = { kind = "dma", connects = ["dram", "input", "weight"] }
store = { kind = "dma", connects = ["accumulator", "dram"] }
"""


def test_the_schema_describes_vta(tmp_path):
    vta = load_target(write(tmp_path, VTA))
    gemm = vta.engine("gemm")
    assert isinstance(gemm, MatrixEngine)
    assert (gemm.batch, gemm.rows, gemm.columns) == (1, 16, 16)
    assert (gemm.input_bits, gemm.weight_bits, gemm.accumulator_bits) == (8, 8, 32)
    sizes = {memory.name: memory.size_bytes for memory in vta.memories}
    assert sizes == {
        "dram": None, "uop": 32768, "input": 32768, "weight": 262144, "accumulator": 131072
    }  # fmt: skip
    assert vta.memory("weight").holds == ("weights",)


def test_array_sizes_need_not_be_equal_or_powers_of_two(tmp_path):
    odd = load_target(
        write(tmp_path, VTA),
        {
            "engines.gemm.rows": 12,
            "engines.gemm.columns": 7,
            "memories.weight.size_bytes": 5 * 12 * 7,
        },
    )
    gemm = odd.engine("gemm")
    assert isinstance(gemm, MatrixEngine)
    assert (gemm.rows, gemm.columns, odd.memory("weight").size_bytes) == (12, 7, 420)


@pytest.mark.parametrize("text", [SMALL, VTA, *map(tpu_chip, TPU_CHIPS)])
def test_writing_a_target_and_reading_it_back_is_the_identity(text):
    target = read_record(Target, tomllib.loads(text), FieldLocation("chip.toml"))
    assert read_record(Target, write_record(target), FieldLocation("chip.toml")) == target


@settings(deadline=None)  # other work on the machine must not fail a property
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["kind", "arena", "rows"]), inner)
        ),
        max_leaves=6,
    ),
    st.sampled_from([field.name for field in fields(Target)]),
)
def test_any_value_in_any_field_is_either_legal_or_an_input_error(value, field):
    place = FieldLocation("chip.toml")
    table = tomllib.loads(SMALL) | {field: value}
    message = refusal(table, place)
    if message is None:
        target = read_record(Target, table, place)
        assert read_record(Target, write_record(target), place) == target
    else:
        assert message.startswith(field)


def refusal(table: dict[str, object], place: FieldLocation) -> str | None:
    try:
        read_record(Target, table, place)
    except InputError as error:
        return error.message
    return None


def test_a_width_of_vectors_for_which_no_code_is_generated_names_the_targets_file(tmp_path):
    cpu = resources.files("explorer.targets").joinpath("cpu.toml").read_text()
    path = tmp_path / "chip.toml"
    path.write_text(cpu.replace('vector_floats = "auto"', "vector_floats = 7"))
    with pytest.raises(InputError, match='vector_floats is 7, expected "auto" or one of') as caught:
        load_target(path)
    assert caught.value.file == str(path)
