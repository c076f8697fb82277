"""Matrix instructions of bytes: generated C gives the same bits as with dot products.

AMX runs by the definition of its instructions in C in their place, `usmmla` in QEMU.
"""

import platform
import re
import subprocess
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.parser
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.errors import ExplorerError
from explorer.importers.onnx import from_proto
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError
from explorer.kernels.steps.matrix_tiles import matrix_tiles
from explorer.kernels.steps.restructure import reorder
from explorer.runtime.compilers import compile_shared_library, find_compiler
from explorer.runtime.native.program import NativeProgram
from explorer.targets import load_target

TESTS = Path(__file__).parents[1]
samples = SimpleNamespace(**run_path(str(TESTS / "kernels" / "nest_samples.py")))
sets = SimpleNamespace(**run_path(str(TESTS / "runtime" / "test_instruction_sets.py")))

MODEL = """
<ir_version: 9, opset_import: ["" : 17]>
products (float[37,200] x, int8[33,136] b) => (float[37,72] y, int32[33,40] z) {
  q, s, zero = DynamicQuantizeLinear (x)
  sums = MatMulInteger (q, v, zero)
  y = Cast <to = 1> (sums)
  z = MatMulInteger (b, w)
}"""
"""Unsigned and signed bytes, rows, columns and depths that tiles leave over."""

AMX = """
typedef unsigned char tile_type[16][64];
static _Thread_local tile_type tiles[8];
static _Thread_local unsigned char rows_of_tile[8];
static void configure(const void *settings) {
    __builtin_memcpy(rows_of_tile, (const char *)settings + 48, 8);
}
static void load_tile(int tile, const void *first, long stride) {
    for (int r = 0; r < rows_of_tile[tile]; r++)
        __builtin_memcpy(tiles[tile][r], (const char *)first + r * stride, 64);
}
static void store_tile(int tile, void *first, long stride) {
    for (int r = 0; r < rows_of_tile[tile]; r++)
        __builtin_memcpy((char *)first + r * stride, tiles[tile][r], 64);
}
static void tdpbusd(int sums, int left, int right) {
    if (rows_of_tile[sums] != rows_of_tile[left] || rows_of_tile[right] != 16) __builtin_trap();
    for (int m = 0; m < rows_of_tile[sums]; m++)
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 16; n++)
                for (int i = 0; i < 4; i++)
                    ((int *)tiles[sums][m])[n] ADD
                        tiles[left][m][4 * k + i] * (signed char)tiles[right][k][4 * n + i];
}
#define AMX_LOAD(tile, first, stride) load_tile(tile, first, stride)
#define AMX_STORE(tile, first, stride) store_tile(tile, first, stride)
#define AMX_DOT_int16(sums, left, right) tdpbusd(sums, left, right)
#define AMX_CONFIGURE(settings) configure(settings)
#define AMX_RELEASE() (void)0
#define AMX_ASK() ANSWER
"""
"""TDPBUSD, LDTILECFG and the tile loads as Intel defines them (Instruction Set Extensions
Programming Reference, 319433, "Operation")."""


PICTURES = """
<ir_version: 9, opset_import: ["" : 17]>
pictures (uint8[1,16,9,37] x) => (uint8[1,64,9,37] a, uint8[1,48,4,19] b, int8[1,32,9,37] d) {
  a = QLinearConv <pads = [1, 1, 1, 1]> (x, scale, zero, u, scale, still, wide, zero)
  b = QLinearConv <strides = [2, 2]> (a, wide, zero, v, scale, still, wider, zero)
  c = QLinearConv <pads = [0, 1, 0, 1]> (a, wide, zero, w, scale, still, wider, still)
  d = QLinearConv (c, wider, still, z, scale, still, wider, still)
}"""
"""Taps of 16 channels, four to a tile; a stride, and one tile for each tap of 64 channels; a row of
taps; signed bytes. Widths and channels that tiles leave over."""


def compiled(folder: Path, vector_floats: int) -> tuple[Compilation, Compilation]:
    """With dot products, and with matrix instructions in their place."""
    model = onnx.parser.parse_model(MODEL)
    random = np.random.default_rng(0)
    for name, shape in (("v", (200, 72)), ("w", (136, 40))):
        array = random.integers(-128, 128, shape).astype(np.int8)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, folder / "products.onnx")
    target = load_target("cpu", {"vector_floats": vector_floats})
    by_dots = explorer.compile(folder / "products.onnx", target, tuned=False)
    asked = [k.address for k in by_dots.knobs if k.address.endswith("/instruction")]
    assert len(asked) == 2
    chosen = dict.fromkeys(asked, "matrix")
    return by_dots, by_dots.fork(
        decisions={**chosen, **{a.replace("/instruction", "/rows"): 16 for a in asked}}
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> tuple[Compilation, Compilation]:
    """The same of convolutions; their filters need no signs split off on any processor."""
    folder = tmp_path_factory.mktemp("pictures")
    model = onnx.parser.parse_model(PICTURES)
    random = np.random.default_rng(0)
    shapes = {"u": (64, 16, 3, 3), "v": (48, 64, 2, 1), "w": (96, 64, 1, 3), "z": (32, 96, 1, 1)}
    arrays = {n: random.integers(-64, 64, s).astype(np.int8) for n, s in shapes.items()}
    for name, scale in (("scale", 0.05), ("wide", 0.5), ("wider", 20.0)):
        arrays[name] = np.array(scale, np.float32)
    arrays |= {"zero": np.array(97, np.uint8), "still": np.array(0, np.int8)}
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, folder / "pictures.onnx")
    target = load_target("cpu", {"vector_floats": 16})
    by_dots = explorer.compile(folder / "pictures.onnx", target, tuned=False)
    asked = [k.address for k in by_dots.knobs if k.address.endswith("/instruction")]
    assert len(asked) == 4
    return by_dots, by_dots.fork(decisions=dict.fromkeys(asked, "matrix"))


def differences(compilation: Compilation, outputs: dict[str, np.ndarray]) -> int:
    with compilation.open() as executable:
        wanted = executable.run(compilation.example_inputs())
    assert outputs.keys() == wanted.keys()
    return sum(int((outputs[name] != wanted[name]).sum()) for name in wanted)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("wide"), 16)


def run_with(compilation: Compilation, folder: Path, *flags: str) -> dict[str, np.ndarray]:
    (folder / "amx.h").write_text(AMX)
    own = ["-include", str(folder / "amx.h"), *flags]
    built = compilation.built

    def build(source: str) -> Path:
        return compile_shared_library(source, folder, flags=own)

    with NativeProgram(built.program, built.weights, build=build) as executable:
        return executable.run(compilation.example_inputs())


def test_what_has_no_matrix_instructions_runs_the_dot_products(wide):
    by_dots, by_tiles = wide
    with by_tiles.open() as executable:
        assert differences(by_dots, executable.run(by_tiles.example_inputs())) == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
def test_tiles_of_amx_give_the_same_bits_where_the_system_lets_them(wide, tmp_path):
    by_dots, by_tiles = wide
    for answer, sign, is_same in ((1, "+=", True), (1, "-=", False), (0, "-=", True)):
        outputs = run_with(by_tiles, tmp_path, f"-DANSWER={answer}", f"-DADD={sign}")
        assert (differences(by_dots, outputs) == 0) == is_same


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
def test_tiles_of_amx_give_convolutions_the_same_bits(pictures, tmp_path):
    by_dots, by_tiles = pictures
    texts = ["\n".join(kernel.source.lines) for kernel in by_tiles.program.kernels]
    assert sum("matrix_pieces_int16(&tile_rows, &acc[0][0], " in text for text in texts) == 4
    for sign, is_same in (("+=", True), ("-=", False)):
        outputs = run_with(by_tiles, tmp_path, "-DANSWER=1", f"-DADD={sign}")
        assert (differences(by_dots, outputs) == 0) == is_same


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
def test_code_for_a_core_with_tiles_uses_them_for_convolutions(pictures):
    by_dots, _ = pictures
    target = load_target("cpu", {"processor": "sapphirerapids"})
    try:
        compilation = explorer.compile(by_dots.model, target, tuned=False)
    except ExplorerError as error:
        pytest.skip(f"a compiler that does not know AMX: {error}")
    chosen = {k.address: k for k in compilation.knobs if k.address.endswith("/instruction")}
    taken = [knob.value for knob in chosen.values()]
    assert taken == ["matrix"] * 3 + ["dot"], "sums of 96 products leave tiles idle"
    assert all(("AMX" in knob.why) == (knob.value == "matrix") for knob in chosen.values())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
def test_the_compiler_makes_tile_instructions_of_it(wide, tmp_path):
    _, by_tiles = wide
    (tmp_path / "program.c").write_text("\n".join(by_tiles.program.source.lines))
    compiler = find_compiler()
    flags = compiler.flags_for_others
    command = [*compiler.command, *flags, "-march=sapphirerapids", "-S", "program.c"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if finished.returncode and "sapphirerapids" in finished.stderr:
        pytest.skip("a compiler that does not know AMX")
    assert finished.returncode == 0, finished.stderr
    assembly = (tmp_path / "program.s").read_text()
    assert all(f"\t{name}" in assembly for name in ("ldtilecfg", "tdpbusd", "tilerelease"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
def test_the_compiler_keeps_what_tile_instructions_alone_read(pictures, tmp_path):
    """gcc's amxtileintrin.h does not say so: bytes that were gathered would not be written."""
    _, by_tiles = pictures
    source = "\n".join(by_tiles.program.source.lines)
    unsaid = re.sub(r"#define WRITTEN\(place\) .*", "#define WRITTEN(place) (void)(place)", source)
    compiler = find_compiler()
    flags = ["-std=gnu11", "-O3", "-fwrapv"]  # those of programs here let it leave out less
    stores = []
    for text in (source, unsaid):
        (tmp_path / "program.c").write_text(text)
        command = [*compiler.command, *flags, "-march=sapphirerapids", "-S", "program.c"]
        finished = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        if finished.returncode and "sapphirerapids" in finished.stderr:
            pytest.skip("a compiler that does not know AMX")
        assert finished.returncode == 0, finished.stderr
        assembly = (tmp_path / "program.s").read_text()
        stores.append(len(re.findall(r"^\s*v?mov\w*\s.*,\s*-?\d*\(%r", assembly, re.MULTILINE)))
    assert compiler.family != "gcc" or stores[0] > stores[1]


def test_matrix_instructions_of_arm_give_the_same_bits(tmp_path):
    by_dots, by_tiles = compiled(tmp_path, 4)
    outputs, assembly = sets.run_on_arm(by_tiles, tmp_path, 1, "neoverse-v1")
    assert "\tusmmla\t" in assembly
    assert differences(by_dots, outputs) == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
def test_code_for_a_core_with_tiles_uses_them_where_a_product_fills_one(wide, tmp_path):
    by_dots, _ = wide
    target = load_target("cpu", {"processor": "sapphirerapids"})
    try:
        compilation = explorer.compile(by_dots.model, target, tuned=False)
    except ExplorerError as error:
        pytest.skip(f"a compiler that does not know AMX: {error}")
    chosen = [k for k in compilation.knobs if k.address.endswith("/instruction")]
    assert [knob.value for knob in chosen] == ["matrix", "matrix"]
    assert all("AMX" in knob.why for knob in chosen)
    texts = {k.name: "\n".join(k.source.lines) for k in compilation.program.kernels}
    assert any("matrix_int16(&tile_rows, &acc[0][0], 16, 2, " in text for text in texts.values())


@pytest.mark.parametrize(
    ("loop", "reason"),
    [("k", "it does not hold one dot product; apply `dot` first"), ("n", "1 loops are nested")],
)
def test_a_nest_that_no_matrix_instruction_computes_is_refused(loop, reason):
    nest = LoopNest(lower_to_loops(samples.matmul(16, 64, 32, bias=False)))
    reorder(nest, "k m n")
    with pytest.raises(ScheduleError, match=reason):
        matrix_tiles(nest, loop)


FIRST = """
<ir_version: 9, opset_import: ["" : 17]>
first (int8[1,CHANNELS,29,10] x) => (int8[1,64,10,5] y) {
  y = QLinearConv <pads = [0, 1, 0, 2], strides = [2, 2]> (x, s, o, w, s, o, t, o)
}"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")
@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("processor", ["sapphirerapids", "haswell"])
def test_few_channels_have_the_schedule_of_their_kind_with_and_without_tiles(channels, processor):
    """Pieces of four bytes fill no tile: dot products take them."""
    model = onnx.parser.parse_model(FIRST.replace("CHANNELS", str(channels)))
    filters = np.arange(64 * channels * 40).reshape(64, channels, 10, 4) % 255 - 127
    arrays = {"w": filters.astype(np.int8), "o": np.int8(0)}
    arrays |= {"s": np.float32(0.01), "t": np.float32(20)}
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    target = load_target("cpu", {"processor": processor})
    try:
        compilation = explorer.compile(from_proto(model), target, tuned=False)
    except ExplorerError as error:
        pytest.skip(f"a compiler that does not know AMX: {error}")
    assert [kernel.note for kernel in compilation.kernels.values() if kernel.note] == []
    assert not any("scratch" in p.buffer.id for p in compilation.memory.placements)
    used = [k.value for k in compilation.knobs if k.address.endswith("/instruction")]
    assert ("matrix" in used) == (processor == "sapphirerapids" and channels > 4)
