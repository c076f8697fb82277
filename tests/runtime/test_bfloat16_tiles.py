"""Matrix instructions of bfloat16: AMX by the definition of its instructions in C in their place,
`bfmmla` in QEMU. Sums have the bits of the definition, and are within the bound of all products.
"""

import platform
import re
import subprocess
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

import explorer
from explorer.compilation import Compilation
from explorer.errors import ExplorerError
from explorer.runtime.compilers import find_compiler
from explorer.targets import load_target

TESTS = Path(__file__).parents[1]
tiles = SimpleNamespace(**run_path(str(TESTS / "runtime" / "test_matrix_instructions.py")))
pairs = SimpleNamespace(**run_path(str(TESTS / "runtime" / "test_bfloat16_products.py")))
BF16 = ml_dtypes.bfloat16
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")

MODEL = """
<ir_version: 10, opset_import: ["" : 22]>
products (bfloat16[37,74] x) => (bfloat16[37,72] y) {
  y = MatMul (x, w)
}"""
"""Rows, columns and depths that tiles leave over."""
ROWS, DEPTH, COLUMNS, LANES = 37, 74, 72, 16
TILE_PAIRS = 16

TDPBF16PS = """
static float flushed_bits(unsigned upper)
{
    float value;
    upper <<= 16;
    __builtin_memcpy(&value, &upper, 4);
    return __builtin_fabsf(value) < 0x1p-126f ? value * 0.0f : value;
}
static void tdpbf16ps(int sums, int left, int right) {
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float halves[2] = {0, 0};
            for (int k = 0; k < 16; k++)
                for (int i = 0; i < 2; i++)
                    halves[i] += flushed_bits(((unsigned short *)tiles[left][m])[2 * k + i])
                        * flushed_bits(((unsigned short *)tiles[right][k])[2 * n + i]);
            ((float *)tiles[sums][m])[n] ADD halves[0] + halves[1];
        }
}
#define AMX_DOT_float16(sums, left, right) tdpbf16ps(sums, left, right)
"""
"""TDPBF16PS as Intel defines it (Instruction Set Extensions Programming Reference, 319433,
"Operation"): even and odd products of a tile have sums of their own, which start at 0 and are added
to each other before the tile's; to nearest, denormal numbers are zeros."""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    model = onnx.parser.parse_model(MODEL)
    array = np.random.default_rng(0).normal(size=(DEPTH, COLUMNS)).astype(BF16)
    tensor = onnx.TensorProto(
        name="w", data_type=onnx.TensorProto.BFLOAT16, dims=array.shape, raw_data=array.tobytes()
    )
    model.graph.initializer.append(tensor)
    path = tmp_path_factory.mktemp("tiles") / "tiles.onnx"
    onnx.save(model, path)
    return path


def compiled(model: Path, lanes: int, rows: int) -> Compilation:
    target = load_target("cpu", {"vector_floats": lanes, "processor": "cooperlake"})
    try:
        compilation = explorer.compile(model, target, tuned=False)
    except ExplorerError as error:
        pytest.skip(f"a compiler that does not know vdpbf16ps: {error}")
    (asked,) = [k for k in compilation.knobs if k.address.endswith("/instruction")]
    assert asked.value == "dot"  # the core has no tiles
    kernel = asked.address.removesuffix("instruction")
    return compilation.fork(
        decisions={asked.address: "matrix", f"{kernel}rows": rows, f"{kernel}vectors": 2}
    )


@pytest.fixture(scope="module")
def wide(model) -> Compilation:
    return compiled(model, LANES, 16)


def factors(compilation: Compilation, model: Path) -> tuple[np.ndarray, np.ndarray]:
    return compilation.example_inputs()["x"], pairs.constants(model)["w"]


def by_tiles(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Where a tile is whole, tile by tile; the pairs that are left, and all others, one by one."""
    sums = pairs.by_pairs(x, w)
    rows, columns = ROWS, COLUMNS // (2 * LANES) * 2 * LANES
    left, right = x[:rows].astype(np.float32), w[:, :columns].astype(np.float32)
    whole = np.zeros((rows, columns), np.float32)
    depth = DEPTH // (2 * TILE_PAIRS) * 2 * TILE_PAIRS
    for start in range(0, depth, 2 * TILE_PAIRS):
        halves = np.zeros((2, rows, columns), np.float32)
        for k in range(start, start + 2 * TILE_PAIRS):
            halves[k % 2] = halves[k % 2] + left[:, k, None] * right[k]
        whole = whole + (halves[0] + halves[1])
    for pair in range(depth, DEPTH, 2):
        for k in (pair + 1, pair):
            whole = whole + left[:, k, None] * right[k]
    sums[:rows, :columns] = whole
    return sums


def excess(outputs: dict[str, np.ndarray], x: np.ndarray, w: np.ndarray) -> float:
    """The largest error in parts of what roundings may do, as of products of pairs."""
    left, right = x.astype(np.float64), w.astype(np.float64)
    exact, most = left @ right, abs(left) @ abs(right)
    bound = 2.0**-8 * abs(exact) + (DEPTH + 1) * 2.0**-23 * most * (1 + 2.0**-8)
    return float((abs(outputs["y"].astype(np.float64) - exact) / bound).max())


@on_x86
def test_tiles_of_amx_are_those_of_the_instruction_bit_by_bit(wide, model, tmp_path):
    x, w = factors(wide, model)
    (tmp_path / "tiles.h").write_text(tiles.AMX + TDPBF16PS + pairs.REFERENCE)
    own = ["-include", str(tmp_path / "tiles.h"), "-ffp-contract=off", "-DSIGN=+"]
    outputs = pairs.run_with(wide, tmp_path, *own, "-DANSWER=1", "-DADD=+=")
    np.testing.assert_array_equal(outputs["y"], by_tiles(x, w).astype(BF16))
    assert excess(outputs, x, w) <= 1
    wrong = pairs.run_with(wide, tmp_path, *own, "-DANSWER=1", "-DADD=-=")
    assert excess(wrong, x, w) > 1  # they compute the sums
    refused = pairs.run_with(wide, tmp_path, *own, "-DANSWER=0", "-DADD=-=")
    np.testing.assert_array_equal(refused["y"], pairs.by_pairs(x, w).astype(BF16))


@on_x86
def test_a_core_with_such_tiles_gets_their_instruction(model, tmp_path):
    target = load_target("cpu", {"processor": "sapphirerapids"})
    try:
        compilation = explorer.compile(model, target, tuned=False)
    except ExplorerError as error:
        pytest.skip(f"a compiler that does not know AMX: {error}")
    (asked,) = [k for k in compilation.knobs if k.address.endswith("/instruction")]
    assert asked.value == "matrix" and "32 products" in asked.why
    (tmp_path / "program.c").write_text("\n".join(compilation.program.source.lines))
    compiler = find_compiler()
    flags = compiler.flags_for_others
    command = [*compiler.command, *flags, "-march=sapphirerapids", "-S", "program.c"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    assembly = (tmp_path / "program.s").read_text()
    assert re.search(r"\ttdpbf16ps\t", assembly) and re.search(r"\tldtilecfg\t", assembly)


def test_tiles_of_arm_have_the_bits_of_its_dot_products(model, tmp_path):
    by_matrix = compiled(model, 4, 8)
    (asked,) = [k for k in by_matrix.knobs if k.address.endswith("/instruction")]
    by_dots = by_matrix.fork(decisions={asked.address: "dot"})
    outputs, assembly = pairs.sets.run_on_arm(by_matrix, tmp_path, 1, "neoverse-v1")
    assert "\tbfmmla\t" in assembly
    wanted, others = pairs.sets.run_on_arm(by_dots, tmp_path, 1, "neoverse-v1")
    assert "\tbfmmla\t" not in others and "\tbfdot\t" in others
    np.testing.assert_array_equal(outputs["y"], wanted["y"])
    assert excess(outputs, *factors(by_matrix, model)) <= 1
