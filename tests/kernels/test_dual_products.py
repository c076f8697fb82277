"""Dual multiply-adds of bytes: the step, its refusals, the function, and kernels that have it."""

import ctypes
import itertools
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i8, i32
from xdsl.ir import Attribute

import explorer as ex
from explorer.ir.compute import KernelBuilder
from explorer.ir.loop_dialect import DualProductsOp
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import LoopNest, ScheduleError
from explorer.kernels.printing.c import CLanguage
from explorer.kernels.printing.language import Requirement
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.steps.dual_products import dual_products
from explorer.kernels.steps.restructure import reorder, split
from explorer.targets import load_target

U8 = IntegerType(8, Signedness.UNSIGNED)
ROWS, DEPTH, COLUMNS = 2, 8, 4
EXTREMES = np.array([-128, 127, -1, 0, 1, 85], np.int8)
SAMPLES = Path(__file__).parents[2] / "sample_models"
ACLE = """
#include <stdint.h>
typedef int32_t int16x2_t, int8x4_t;
typedef uint32_t uint16x2_t, uint8x4_t;
static int32_t __smlad(int16x2_t a, int16x2_t b, int32_t sum)
{
    return (int32_t)((uint32_t)sum + (uint32_t)((int16_t)a * (int16_t)b)
        + (uint32_t)((int16_t)(a >> 16) * (int16_t)(b >> 16)));
}
static uint32_t halves(int32_t low, int32_t high)
{
    return ((uint32_t)low & 0xffffu) | (uint32_t)high << 16;
}
static int16x2_t __sxtb16(int8x4_t x)
{
    return (int16x2_t)halves((int8_t)x, (int8_t)(x >> 16));
}
static int16x2_t __sxtab16(int16x2_t a, int8x4_t x)
{
    return (int16x2_t)halves((int16_t)a + (int8_t)x, (int16_t)(a >> 16) + (int8_t)(x >> 16));
}
static uint16x2_t __uxtab16(uint16x2_t a, uint8x4_t x)
{
    return halves((int32_t)(a & 0xffff) + (uint8_t)x, (int32_t)(a >> 16) + (uint8_t)(x >> 16));
}
"""
"""What the instructions do, for processors without them (Arm C Language Extensions, 10.5)."""


def product_kernel(
    left: Attribute = i8, right: Attribute = i8, zero=0, sums: Attribute = i32, transposed=True
):
    """y[m, n] += (x[m, k] - zero) * w[n, k], or of w[k, n]."""
    k = KernelBuilder("product")
    x = k.argument("x", (ROWS, DEPTH), left, "input")
    shape = (COLUMNS, DEPTH) if transposed else (DEPTH, COLUMNS)
    w = k.argument("w", shape, right, "weight")
    y = k.argument("y", (ROWS, COLUMNS), sums, "output")

    def body(s, a, b, y):
        factor = a.convert(sums)
        return y + (factor - zero if zero else factor) * b.convert(sums)

    m, n, c = k.dimensions(m=ROWS, n=COLUMNS, k=DEPTH)
    places = (n, c) if transposed else (c, n)
    k.generic("main", [(x, (m, c)), (w, places)], (y, (m, n)), body, "k", accumulates=True)
    return k.finish("matmul")


def in_fours(function, four=4) -> LoopNest:
    nest = LoopNest(lower_to_loops(function))
    split(nest, loop="k", into="kt ku", factors=(four,))
    reorder(nest, order="m n kt ku")
    return nest


@pytest.mark.parametrize(("left", "zero"), [(U8, 255), (U8, 0), (i8, -128), (i8, 127)])
def test_neighbours_are_read_as_a_word(left, zero):
    nest = in_fours(product_kernel(left, zero=zero))
    dual_products(nest, loop="ku")
    (found,) = [op for op in nest.function.walk() if isinstance(op, DualProductsOp)]
    assert [str(value.type) for value in found.bytes] == [f"vector<4x{left}>"]
    assert str(found.filters.type) == "vector<4xi8>"
    assert not nest.has("ku")
    nest.function.verify()


def test_bytes_that_lie_apart_are_read_one_by_one():
    k = KernelBuilder("columns")
    x = k.argument("x", (DEPTH, ROWS), i8, "input")
    w = k.argument("w", (COLUMNS, DEPTH), i8, "weight")
    y = k.argument("y", (ROWS, COLUMNS), i32, "output")
    m, n, c = k.dimensions(m=ROWS, n=COLUMNS, k=DEPTH)
    k.generic("main", [(x, (c, m)), (w, (n, c))], (y, (m, n)),
              lambda s, a, b, y: y + a.convert(i32) * b.convert(i32), "k",
              accumulates=True)  # fmt: skip
    nest = in_fours(k.finish("matmul"))
    dual_products(nest, loop="ku")
    (found,) = [op for op in nest.function.walk() if isinstance(op, DualProductsOp)]
    assert [value.type for value in found.bytes] == [i8] * 4


@pytest.mark.parametrize(
    ("kernel", "four", "reason"),
    [
        (product_kernel(left=U8, right=U8), 4, "not two bytes of which one's lie side by side"),
        (product_kernel(zero=256), 4, "not two bytes"),
        (product_kernel(transposed=False, left=U8), 4, "not two bytes of which"),
        (product_kernel(sums=f32), 4, "does not add products to a sum of i32"),
        (product_kernel(), 2, "has 2 iterations, not 4"),
    ],
)
def test_other_products_are_refused(kernel, four, reason):
    nest = in_fours(kernel, four)
    with pytest.raises(ScheduleError, match=reason):
        dual_products(nest, loop="ku")
    assert nest.has("ku")


def test_a_loop_around_others_is_refused():
    with pytest.raises(ScheduleError, match="kt is not the innermost loop"):
        dual_products(in_fours(product_kernel()), loop="kt")


@pytest.mark.parametrize("has_instructions", [False, True])
def test_both_forms_compute_the_same_products(has_instructions, tmp_path: Path):
    needs = [Requirement("dual_products"), Requirement("dual_products_of_word")]
    text = [*prelude_lines(CLanguage(), needs)]
    text.append("""
void all(int32_t *sums, int32_t zero, int is_signed, const uint8_t *x, const int8_t *w, int count)
{
    for (int i = 0; i < count; i++, x += 4, w += 4) {
        int32_t few, filters;
        memcpy(&few, x, 4);
        memcpy(&filters, w, 4);
        sums[2 * i] = dual_products(sums[2 * i], zero, is_signed, x[0], x[1], x[2], x[3], filters);
        sums[2 * i + 1] = dual_products_of_word(sums[2 * i + 1], zero, is_signed, few, filters);
    }
}
""")
    (tmp_path / "dual.c").write_text("#include <string.h>\n" + "\n".join(text))
    (tmp_path / "arm_acle.h").write_text(ACLE)
    flags = ["-D__ARM_FEATURE_SIMD32=1"] if has_instructions else []
    library = tmp_path / "dual.so"
    words = ["gcc", "-std=gnu11", "-O1", "-fwrapv", "-shared", "-fPIC", "-Wall", "-Werror",
             "-Wno-unused-function", f"-I{tmp_path}", *flags]  # fmt: skip
    subprocess.run([*words, str(tmp_path / "dual.c"), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).all
    few = np.array(list(itertools.product(EXTREMES, repeat=4)), np.int8)
    filters = np.random.default_rng(0).permutation(few)
    for is_signed, zero in ((1, -128), (1, 127), (1, 0), (0, 255), (0, 128), (0, 0)):
        sums = np.full((len(few), 2), 2**31 - 1, np.int32)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (sums, few, filters)]
        function(pointers[0], zero, is_signed, pointers[1], pointers[2], len(few))
        wide = (few if is_signed else few.view(np.uint8)).astype(np.int64) - zero
        exact = (wide * filters).sum(axis=1) + 2**31 - 1
        np.testing.assert_array_equal(sums, np.stack([exact.astype(np.int32)] * 2, axis=1))


@pytest.mark.parametrize("optimize", ["speed", "size"])
def test_a_quantized_network_gives_the_same_bytes(optimize):
    target = replace(load_target("cortex-m4"), optimize=optimize)
    model = ex.load(SAMPLES / "roundings_int8.tflite")
    has = ex.compile(model, target)
    lacks = ex.compile(model, replace(target, dual_products=False))
    inputs = has.example_inputs(seed=3)
    found, expected = has.run(inputs), lacks.run(inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    steps = {call.step for kernel in has.program.kernels for call in has.calls_of(kernel.name)}
    assert "dual_products" in steps
    has.close()
    lacks.close()
