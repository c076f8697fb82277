"""Products of bfloat16 with dot products of pairs: numbers of the instructions, by definition.

`vdpbf16ps` runs by its definition in C in its place, and its numbers are those of the same
definition in NumPy, bit by bit; `bfdot` runs in QEMU. Against the exact product all are judged by
the bound that follows from how sums are rounded: two processors do not agree in bits.
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
from explorer.runtime.compilers import compile_shared_library, find_compiler
from explorer.runtime.native.program import NativeProgram
from explorer.targets import load_target

TESTS = Path(__file__).parents[1]
sets = SimpleNamespace(**run_path(str(TESTS / "runtime" / "test_instruction_sets.py")))
BF16 = ml_dtypes.bfloat16
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="another architecture")

MODEL = """
<ir_version: 10, opset_import: ["" : 22]>
products (bfloat16[7,66] x, bfloat16[5,33] u) => (bfloat16[7,107] y, bfloat16[5,24] z) {
  sums = MatMul (x, w)
  shifted = Add (sums, b)
  y = Relu (shifted)
  z = MatMul (u, v)
}"""
"""Rows and columns that tiles leave over; of an odd depth no pairs are made."""
SHAPES = {"w": (66, 107), "v": (33, 24), "b": (107,)}

REFERENCE = """
static float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? x * 0.0f : x; }
static float number(const void *halves, int i) {
    float value = 0;
    __builtin_memcpy((char *)&value + 2, (const char *)halves + 2 * i, 2);
    return flushed(value);
}
#define REFERENCE(name, lanes) \\
    typedef float name##_sums __attribute__((vector_size(4 * lanes))); \\
    typedef int name##_pairs __attribute__((vector_size(4 * lanes))); \\
    static inline name##_sums name(name##_sums sums, name##_pairs x, name##_pairs w) { \\
        for (int i = 0; i < lanes; i++) \\
            for (int j = 2 * i + 1; j >= 2 * i; j--) \\
                sums[i] = flushed(__builtin_fmaf( \\
                    SIGN number(&x, j), number(&w, j), flushed(sums[i]))); \\
        return sums; \\
    }
REFERENCE(vdpbf16ps_16, 16)
REFERENCE(vdpbf16ps_8, 8)
REFERENCE(vdpbf16ps_4, 4)
#define VDPBF16PS_512 vdpbf16ps_16
#define VDPBF16PS_256 vdpbf16ps_8
#define VDPBF16PS_128 vdpbf16ps_4
"""
"""VDPBF16PS as Intel's manual defines it (Software Developer's Manual, volume 2C, "Operation"):
multiply-adds, the upper number of a pair first, to nearest, denormal numbers are zeros."""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    model = onnx.parser.parse_model(MODEL)
    random = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        array = random.normal(size=shape).astype(BF16)
        tensor = onnx.TensorProto(
            name=name, data_type=onnx.TensorProto.BFLOAT16, dims=shape, raw_data=array.tobytes()
        )
        model.graph.initializer.append(tensor)
    path = tmp_path_factory.mktemp("products") / "products.onnx"
    onnx.save(model, path)
    return path


def compiled(model: Path, lanes: int, processor: str = "cooperlake") -> Compilation:
    target = load_target("cpu", {"vector_floats": lanes, "processor": processor})
    try:
        compilation = explorer.compile(model, target, tuned=False)
    except ExplorerError as error:
        pytest.skip(f"a compiler that does not know {processor}: {error}")
    (rows,) = [k.address for k in compilation.knobs if k.address.endswith("/rows")][:1]
    return compilation.fork(decisions={rows: 4})


@pytest.fixture(scope="module")
def wide(model) -> Compilation:
    return compiled(model, 16)


def constants(model: Path) -> dict[str, np.ndarray]:
    return {
        tensor.name: np.frombuffer(tensor.raw_data, BF16).reshape(tensor.dims)
        for tensor in onnx.load(model).graph.initializer
    }


def by_pairs(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What `loop.dot_pairs` means on x86, for numbers of which none is denormal."""
    x, w = x.astype(np.float32), w.astype(np.float32)
    sums = np.zeros((len(x), w.shape[1]), np.float32)
    for pair in range(0, len(w), 2):
        for k in (pair + 1, pair):
            sums = sums + x[:, k, None] * w[k]  # a product of two bfloat16 is exact
    return sums


def excess(compilation: Compilation, outputs: dict[str, np.ndarray], model: Path) -> float:
    """The largest error, in parts of what rounding may do: at most 1 if all is right.

    Each of the roundings of a sum, to nearest or to odd, changes it by less than 2^-23 of the sum
    of absolute values; the result is rounded to 8 digits.
    """
    inputs, held = compilation.example_inputs(), constants(model)
    largest = 0.0
    for name, x, w, bias in (
        ("y", "x", "w", held["b"].astype(np.float64)),
        ("z", "u", "v", np.zeros(24)),
    ):
        left, right = inputs[x].astype(np.float64), held[w].astype(np.float64)
        sums, most = left @ right + bias, abs(left) @ abs(right) + abs(bias)
        exact = np.maximum(sums, 0) if name == "y" else sums
        bound = 2.0**-8 * abs(exact) + (len(right) + 1) * 2.0**-23 * most * (1 + 2.0**-8)
        largest = max(largest, float((abs(outputs[name].astype(np.float64) - exact) / bound).max()))
    return largest


def run_with(compilation: Compilation, folder: Path, *flags: str) -> dict[str, np.ndarray]:
    """Outputs of the program as this processor runs it: the caller's flags come last."""
    built = compilation.built
    own = ["-march=native", *flags]

    def build(source: str) -> Path:
        return compile_shared_library(source, folder, flags=own)

    with NativeProgram(built.program, built.weights, build=build) as executable:
        return executable.run(compilation.example_inputs())


def test_products_of_pairs_read_what_is_stored_and_others_are_widened(wide):
    texts = {kernel.name: "\n".join(kernel.source.lines) for kernel in wide.program.kernels}
    (paired,) = [text for text in texts.values() if "dot_pairs_float16(" in text]
    assert "float_from_bf16" not in paired.split("main")[1]
    assert any("cast" in name for name in texts)  # of the product of an odd depth
    (knob,) = [k for k in wide.knobs if k.address.endswith("/instruction")]
    assert knob.value == "dot"


@pytest.mark.sampled(2)
@on_x86
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_products_are_those_of_the_instruction_bit_by_bit(model, lanes, tmp_path):
    compilation = compiled(model, lanes)
    (tmp_path / "reference.h").write_text(REFERENCE)
    own = ["-include", str(tmp_path / "reference.h")]
    outputs = run_with(compilation, tmp_path, *own, "-DSIGN=+")
    inputs, held = compilation.example_inputs(), constants(model)
    sums = by_pairs(inputs["x"], held["w"]) + held["b"].astype(np.float32)
    np.testing.assert_array_equal(outputs["y"], np.maximum(sums, 0).astype(BF16))
    assert excess(compilation, outputs, model) <= 1
    wrong = run_with(compilation, tmp_path, *own, "-DSIGN=-")
    assert excess(compilation, wrong, model) > 1  # it is what computes the sums


@on_x86
def test_where_the_instruction_is_missing_sums_are_rounded_as_often(wide, model, tmp_path):
    outputs = run_with(wide, tmp_path)
    assert outputs["y"].any()
    assert excess(wide, outputs, model) <= 1


@on_x86
def test_the_compiler_makes_one_instruction_of_a_pair(wide, tmp_path):
    (tmp_path / "program.c").write_text("\n".join(wide.program.source.lines))
    compiler = find_compiler()
    flags = compiler.flags_for_others
    command = [*compiler.command, *flags, "-march=cooperlake", "-S", "program.c"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    found = re.findall(r"\tvdpbf16ps\t.*(%[xyz]mm)", (tmp_path / "program.s").read_text())
    assert set(found) == {"%zmm", "%ymm"}  # whole vectors, and the columns that are left


def test_pairs_on_arm_are_within_the_same_bound(model, tmp_path):
    compilation = compiled(model, 4)
    outputs, assembly = sets.run_on_arm(compilation, tmp_path, 1, "neoverse-v1")
    assert "\tbfdot\t" in assembly
    assert excess(compilation, outputs, model) <= 1


@on_x86
def test_what_asks_for_no_such_processor_is_computed_in_single_precision(model):
    compilation = compiled(model, 16, "x86-64-v4")
    assert not any("dot_pairs" in line for line in compilation.program.source.lines)
