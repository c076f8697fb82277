"""Printing kernels as C and OpenCL C: what the text looks like, and what it computes."""

import math as python_math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects import affine, arith, func, math, memref, scf, vector
from xdsl.dialects.builtin import (
    AffineMapAttr,
    Float16Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NameLoc,
    NoneAttr,
    Signedness,
    StringAttr,
    VectorType,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from explorer.errors import UnsupportedError
from explorer.ir.compute import KernelBuilder, clamp_index, make_loop
from explorer.ir.loop_dialect import CompareLanesOp, SelectLanesOp
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.printing.c import print_c
from explorer.kernels.printing.identifiers import Names, comment_text, identifier
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.printing.printer import PrintedKernel

f16, f64 = Float16Type(), Float64Type()
u8 = IntegerType(8, Signedness.UNSIGNED)
RUNNERS = ["run_c", pytest.param("run_opencl", marks=pytest.mark.opencl)]


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[..., dict[str, np.ndarray]]:
    return request.getfixturevalue(request.param)


def elementwise(body: Callable, types: Sequence, result_type, extent: int = 8) -> func.FuncOp:
    """y[i] = body(s, a[i], b[i], ...) as a textbook nest."""
    k = KernelBuilder("kernel_1")
    buffers = [
        k.argument(name, (extent,), t, "input") for name, t in zip("abc", types, strict=False)
    ]
    y = k.argument("y", (extent,), result_type, "output")
    (i,) = k.dimensions(i=extent)
    k.generic("plain", [(b, (i,)) for b in buffers], (y, (i,)), body)
    return lower_to_loops(k.finish("elementwise"))


def body_lines(printed: PrintedKernel) -> list[str]:
    """The lines between the braces of the first function, without their common indentation."""
    opening = printed.lines.index("{")
    closing = printed.lines.index("}")
    return [line.removeprefix("    ") for line in printed.lines[opening + 1 : closing]]


# -- the text ----------------------------------------------------------------------------------


def matmul_with_init() -> func.FuncOp:
    k = KernelBuilder("fc_1")
    x = k.argument("x", (4, 6), f32, "input")
    w = k.argument("w", (6, 5), f32, "weight")
    y = k.argument("y", (4, 5), f32, "output")
    m, n = k.dimensions(m=4, n=5)
    k.generic("init", [], (y, (m, n)), lambda s: s.constant(0.0))
    m, n, c = k.dimensions(m=4, n=5, k=6)
    k.generic(
        "main",
        [(x, (m, c)), (w, (c, n))],
        (y, (m, n)),
        lambda s, x, w, y: y + x * w,
        reductions="k",
        accumulates=True,
    )
    function = lower_to_loops(k.finish("matmul"))
    for loop in function.walk():
        if isinstance(loop, affine.ForOp) and loop.attributes["loop.name"] != StringAttr("k"):
            loop.attributes["loop.kind"] = StringAttr("parallel")
    return function


def test_c_of_a_matrix_product_in_two_phases():
    printed = print_c(matmul_with_init(), "fc_1")
    assert (
        "\n".join(printed.lines)
        == """\
// fc_1, phase 1 of 2: 20 tasks (init_m, init_n)
static VECTORIZE_LOOPS void fc_1_phase0(
    const float *restrict x, const float *restrict w, float *restrict y, long lo, long hi)
{
    for (long task = lo; task < hi; task++) {
        // fc_1/init
        const long init_m = task / 5;
        const long init_n = task % 5;
        y[init_m * 5 + init_n] = 0.0f;
    }
}

// fc_1, phase 2 of 2: 20 tasks (m, n)
static VECTORIZE_LOOPS void fc_1_phase1(
    const float *restrict x, const float *restrict w, float *restrict y, long lo, long hi)
{
    for (long task = lo; task < hi; task++) {
        // fc_1/main
        const long m = task / 5;
        const long n = task % 5;
        for (long k = 0; k < 6; k++) {
            y[m * 5 + n] += x[m * 6 + k] * w[n + k * 5];
        }
    }
}"""
    )
    assert [(p.function, p.tasks) for p in printed.phases] == [
        ("fc_1_phase0", 20),
        ("fc_1_phase1", 20),
    ]
    assert printed.arguments == ("x", "w", "y")


def test_opencl_of_the_same_derives_pointers_and_the_task():
    printed = print_opencl(matmul_with_init(), "fc_1")
    second = printed.lines.index("// fc_1, phase 2 of 2: 20 tasks (m, n)")
    assert (
        "\n".join(printed.lines[second:])
        == """\
// fc_1, phase 2 of 2: 20 tasks (m, n)
__kernel void fc_1_phase1(
    __global char *arena, __global const char *weights, const ulong offset0, const ulong offset1,
    const ulong offset2)
{
    __global const float *restrict x = (__global const float *)(arena + offset0);
    __global const float *restrict w = (__global const float *)(weights + offset1);
    __global float *restrict y = (__global float *)(arena + offset2);
    const int task = (int)get_global_id(0);
    // fc_1/main
    const int m = task / 5;
    const int n = task % 5;
    for (int k = 0; k < 6; k++) {
        y[m * 5 + n] += x[m * 6 + k] * w[n + k * 5];
    }
}"""
    )


def test_every_line_of_a_phase_knows_its_statement():
    printed = print_c(matmul_with_init(), "fc_1")
    owned = dict(zip(printed.lines, printed.owners, strict=True))
    assert owned["        y[init_m * 5 + init_n] = 0.0f;"] == ("fc_1/init",)
    assert owned["        for (long k = 0; k < 6; k++) {"] == ("fc_1/main",)
    assert owned["            y[m * 5 + n] += x[m * 6 + k] * w[n + k * 5];"] == ("fc_1/main",)
    assert owned["        const long m = task / 5;"] == ("fc_1/main",)


def test_a_line_made_from_two_statements_belongs_to_both():
    function = elementwise(lambda s, a: a * 2.0, [f32], f32)
    for op in function.walk():
        if isinstance(op, affine.LoadOp):
            op.location = NameLoc(StringAttr("kernel_1/init"), NoneAttr())
    printed = print_c(function, "k")
    line = printed.lines.index("        y[i] = a[i] * 2.0f;")
    assert printed.owners[line] == ("kernel_1/plain", "kernel_1/init")


def test_what_nothing_uses_is_not_printed():
    def body(s, a):
        a.unary(math.ExpOp)
        return a

    function = elementwise(body, [f32], f32)
    assert body_lines(print_c(function, "k"))[2] == "    y[i] = a[i];"


def test_long_statements_continue_on_the_next_line():
    k = KernelBuilder("wide")
    x = k.argument("x", (7, 70, 700, 7000), f32, "input")
    y = k.argument("y", (7, 70, 700, 7000), f32, "output")
    names = ("first_dimension", "second_dimension", "third_dimension", "fourth_dimension")
    at = k.dimensions(**dict.fromkeys(names, 7))
    k.generic("plain", [(x, at)], (y, at), lambda s, x: x)
    lines = print_c(lower_to_loops(k.finish("copy")), "wide").lines
    assert max(len(line) for line in lines) <= 100
    subscript = (
        "first_dimension * 343000000 + second_dimension * 4900000 + third_dimension * 7000 "
        "+ fourth_dimension"
    )
    assert f"y[{subscript}] = x[{subscript}];" in " ".join(
        part.strip() for part in lines[lines.index("{") :]
    )


def test_a_value_with_two_uses_gets_a_name():
    function = elementwise(lambda s, a: a * a, [f32], f32)
    assert body_lines(print_c(function, "square")) == [
        "// kernel_1/plain",
        "for (long i = 0; i < 8; i++) {",
        "    const float a_value = a[i];",
        "    y[i] = a_value * a_value;",
        "}",
    ]


def test_a_load_does_not_move_behind_a_store_that_may_hit_it():
    k = KernelBuilder("swap")
    a = k.argument("a", (8,), f32, "input")
    y = k.argument("y", (8,), f32, "output")

    def body(s, i):
        old = s.load(a, [i])
        s.store(s.constant(1.0, f32), y, [i])
        s.store(old, a, [i])

    k.nest({"i": 8}, body)
    assert body_lines(print_c(k.finish("explicit"), "swap")) == [
        "for (long i = 0; i < 8; i++) {",
        "    const float a_value = a[i];",
        "    y[i] = 1.0f;",
        "    a[i] = a_value;",
        "}",
    ]


@pytest.mark.parametrize(
    ("value", "element", "text"),
    [
        (0.1, f32, "0.1f"),
        (1e-5, f32, "1e-05f"),
        (3.0, f32, "3.0f"),
        (-2.5, f32, "-2.5f"),
        (16777217.0, f32, "1.6777216e+07f"),
        (float("inf"), f32, "INFINITY"),
        (float("-inf"), f32, "-INFINITY"),
        (float("nan"), f32, "NAN"),
        (3.4028234663852886e38, f32, "3.4028235e+38f"),
        (0.1, f64, "0.1"),
        (-7, i64, "-7L"),
        (-(2**63), i64, "(-9223372036854775807L - 1)"),
        (-(2**31), i32, "(-2147483647 - 1)"),
        (200, u8, "(uint8_t)(-56)"),
        (1, i1, "true"),
    ],
)
def test_constants_are_exact(value, element, text):
    function = elementwise(lambda s: s.constant(value), [], element)
    assert f"    y[i] = {text};" in body_lines(print_c(function, "constant"))


def test_opencl_has_no_double_constants_in_float_kernels():
    function = elementwise(lambda s, a: (a * 0.1 + 3.0).maximum(-1e30), [f32], f32)
    (line,) = [x for x in body_lines(print_opencl(function, "k")) if "y[i]" in x]
    assert line == "    y[i] = maximum_float(-1e+30f, a[i] * 0.1f + 3.0f);"


def test_parentheses_keep_the_order_of_operations():
    function = elementwise(lambda s, a, b, c: (a - (b - c)) / (a * b) * -2.0, [f32] * 3, f32)
    assert body_lines(print_c(function, "k"))[-2:] == [
        "    y[i] = (a_value - (b_value - c[i])) / (a_value * b_value) * (-2.0f);",
        "}",
    ]


def test_index_arithmetic_becomes_one_linear_subscript():
    k = KernelBuilder("pad")
    x = k.argument("x", (4, 10), f32, "input")
    y = k.argument("y", (3, 8), f32, "output")

    def body(s, i, j):
        shifted = (j + s.index(1)) + (i - i)
        s.store(s.load(x, [i + s.index(1), shifted]), y, [i, j])

    k.nest({"i": 3, "j": 8}, body)
    lines = body_lines(print_c(k.finish("explicit"), "pad"))
    assert "        y[i * 8 + j] = x[i * 10 + j + 11];" in lines


def test_subscripts_with_division_are_printed_when_never_negative():
    k = KernelBuilder("blocked")
    x = k.argument("x", (4, 16), f32, "input")
    y = k.argument("y", (64,), f32, "output")
    (i,) = k.dimensions(i=64)
    k.generic("plain", [(x, (i // 16, i % 16))], (y, (i,)), lambda s, x: x)
    function = lower_to_loops(k.finish("copy"))
    assert "    y[i] = x[(i / 16) * 16 + (i % 16)];" in body_lines(print_c(function, "blocked"))
    k = KernelBuilder("negative")
    x = k.argument("x", (4,), f32, "input")
    y = k.argument("y", (64,), f32, "output")
    (i,) = k.dimensions(i=64)
    k.generic("plain", [(x, ((i - 8) // 16,))], (y, (i,)), lambda s, x: x)
    with pytest.raises(UnsupportedError, match="may be negative"):
        print_c(lower_to_loops(k.finish("copy")), "negative")


def test_independent_nests_share_a_phase_and_number_their_tasks_through():
    k = KernelBuilder("two")
    x = k.argument("x", (6,), f32, "input")
    y = k.argument("y", (4,), f32, "output")
    z = k.argument("z", (6,), f32, "output")
    (i,) = k.dimensions(i=4)
    k.generic("plain", [(x, (i,))], (y, (i,)), lambda s, x: x)
    (i,) = k.dimensions(i=6)
    k.generic("plain", [(x, (i,))], (z, (i,)), lambda s, x: x)
    function = lower_to_loops(k.finish("copy"))
    for loop in function.walk():
        if isinstance(loop, affine.ForOp):
            loop.attributes["loop.kind"] = StringAttr("parallel")
    printed = print_c(function, "two")
    assert [p.tasks for p in printed.phases] == [10]
    assert body_lines(printed) == [
        "for (long task = lo; task < hi; task++) {",
        "    if (task < 4) {",
        "        // two/plain",
        "        const long i = task;",
        "        y[i] = x[i];",
        "    } else {",
        "        // two/plain2",
        "        const long plain2_i = task - 4;",
        "        z[plain2_i] = x[plain2_i];",
        "    }",
        "}",
    ]


def test_names_from_a_model_become_identifiers():
    assert identifier("conv/1:0") == "conv_1_0"
    assert identifier("3x") == "v3x"
    assert identifier("__float") == "float_"
    assert identifier("größe") == "gr__e"
    assert [identifier(n) for n in ("float16", "exp", "task", "kernel", "get_global_id")] == [
        "float16_",
        "exp_",
        "task_",
        "kernel_",
        "get_global_id_",
    ]
    names = Names()
    assert [names.claim("x"), names.claim("x"), names.claim("x/")] == ["x", "x_1", "x_"]
    names.open_block()
    assert names.claim("i") == "i"
    names.close_block()
    assert names.claim("i") == "i"


def test_comments_cannot_be_ended_or_spliced():
    assert comment_text("a */ b") == "a *<U+002F> b"
    assert comment_text("ends in \\\n#include") == "ends in <U+005C><U+000A>#include"
    assert comment_text("what??/") == "what?<U+003F>/"
    assert comment_text("Größe") == "Gr<U+00F6><U+00DF>e"
    function = elementwise(lambda s, a: a, [f32], f32)
    for op in function.walk():
        if not isinstance(op, func.FuncOp):
            op.location = NameLoc(StringAttr("evil\n*/ int x; \\"), NoneAttr())
    printed = print_c(function, "a\nb")
    assert "    // evil<U+000A>*<U+002F> int x; <U+005C>" in printed.lines
    assert printed.phases[0].function == "a_b_phase0"
    assert all("\n" not in line and line.isascii() for line in printed.lines)


def test_an_operation_without_a_form_is_named():
    function = elementwise(lambda s, a: a.unary(math.CountLeadingZerosOp), [i32], i32)
    with pytest.raises(UnsupportedError, match=r"math\.ctlz .*where: node kernel_1/plain"):
        print_c(function, "k")


def test_control_flow_without_a_form_is_refused():
    function = elementwise(lambda s, a: a, [f32], f32)
    loop = next(op for op in function.walk() if isinstance(op, affine.ForOp))
    condition = arith.ConstantOp(IntegerAttr(1, i1))
    branch = scf.IfOp(condition.result, [], [scf.YieldOp()])
    loop.body.block.insert_ops_before([condition, branch], loop.body.block.last_op)
    with pytest.raises(UnsupportedError, match=r"scf\.if has no form"):
        print_c(function, "k")


def test_a_kernel_that_is_not_lowered_is_refused():
    k = KernelBuilder("k")
    y = k.argument("y", (4,), f32, "output")
    (i,) = k.dimensions(i=4)
    k.generic("plain", [], (y, (i,)), lambda s: s.constant(0.0))
    with pytest.raises(UnsupportedError, match="lower_to_loops"):
        print_c(k.finish("plain"), "k")


def test_opencl_converts_halves_only_where_they_are_used_and_uses_long_only_when_needed():
    plain = print_opencl(elementwise(lambda s, a: a, [f32], f32), "k")
    halves = print_opencl(elementwise(lambda s, a: a + a, [f16], f16), "k")
    assert "float_from_f16" not in [need.section for need in plain.needs]
    assert "float_from_f16" in [need.section for need in halves.needs]
    gathered = print_opencl(gather(), "k")
    assert any("for (int i" in line for line in plain.lines)
    assert any("for (long i" in line for line in gathered.lines)


# -- the numbers -------------------------------------------------------------------------------

SPECIALS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 88.8, -104.0, 0.5]
UNARY = {
    "abs": (math.AbsFOp, np.abs),
    "ceil": (math.CeilOp, np.ceil),
    "cos": (math.CosOp, np.cos),
    "erf": (math.ErfOp, np.vectorize(python_math.erf)),
    "exp": (math.ExpOp, np.exp),
    "floor": (math.FloorOp, np.floor),
    "log": (math.LogOp, np.log),
    "roundeven": (math.RoundEvenOp, np.rint),
    "rsqrt": (math.RsqrtOp, lambda x: 1 / np.sqrt(x)),
    "sin": (math.SinOp, np.sin),
    "sqrt": (math.SqrtOp, np.sqrt),
    "tanh": (math.TanhOp, np.tanh),
}


def samples(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    special = [x for x in SPECIALS if name not in ("sin", "cos") or not abs(x) > 1e4]
    values = np.concatenate([special, rng.normal(size=52) * 3, rng.normal(size=64 * 15) * 20])
    return values[: 64 * 16 - len(special)].astype(np.float32)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_scalars_agree_with_numpy(run, name):
    operation, reference = UNARY[name]
    a = samples(name)
    y = np.zeros_like(a)
    function = elementwise(lambda s, a: a.unary(operation), [f32], f32, len(a))
    found = run(function, {"a": a, "y": y})["y"]
    with np.errstate(all="ignore"):
        expected = reference(a.astype(np.float64)).astype(np.float32)
    # OpenCL allows erf 16 units in the last place, and results that are denormal to be 0.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-38)


def test_maximum_and_minimum_propagate_nan(run):
    nan = np.float32(np.nan)
    a = np.array([1, nan, 2, nan, np.inf, -3, 0, 5], np.float32)
    b = np.array([2, 1, nan, nan, 1, -np.inf, 0, 4], np.float32)
    function = elementwise(lambda s, a, b: a.maximum(b), [f32, f32], f32)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_array_equal(found, np.maximum(a, b))
    function = elementwise(lambda s, a: a.minimum(0.5), [f32], f32)
    found = run(function, {"a": a, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_array_equal(found, np.minimum(a, np.float32(0.5)))


def test_power_and_comparisons(run):
    a = np.array([0, 1, 2, 3, 0.5, 9, 4, 10], np.float32)
    b = np.array([0, -1, 3, 0.5, 2, -0.5, 1.5, -2], np.float32)
    function = elementwise(lambda s, a, b: a.power(b), [f32, f32], f32)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_allclose(found, np.power(a, b), rtol=1e-6)
    both = elementwise(
        lambda s, a, b: a.compare("lt", b).logical_or(a.compare("eq", s.constant(1.0, f32))),
        [f32, f32],
        i1,
    )
    found = run(both, {"a": a, "b": b, "y": np.zeros(8, np.uint8)})["y"]
    np.testing.assert_array_equal(found, ((a < b) | (a == 1)).astype(np.uint8))


def test_where_reads_booleans_as_bytes(run):
    function = elementwise(lambda s, a, b, c: a.select(b, c), [i1, f32, f32], f32)
    a = np.array([1, 0, 0, 1, 1, 1, 0, 0], np.uint8)
    b = np.arange(8, dtype=np.float32)
    found = run(function, {"a": a, "b": b, "c": -b - 1, "y": np.zeros(8, np.float32)})["y"]
    np.testing.assert_array_equal(found, np.where(a != 0, b, -b - 1))


def test_conversions_keep_signedness_and_wrap_small_integers(run):
    a = np.array([0, 1, 127, 128, 200, 255, 3, 250], np.uint8)
    zero = np.zeros(8, np.float32)
    widened = elementwise(lambda s, a: a.convert(f32) * 0.5, [u8], f32)
    np.testing.assert_array_equal(run(widened, {"a": a, "y": zero})["y"], a * np.float32(0.5))
    wrapped = elementwise(lambda s, a: (a + a).convert(i32), [u8], i32)
    found = run(wrapped, {"a": a, "y": np.zeros(8, np.int32)})["y"]
    np.testing.assert_array_equal(found, (a + a).astype(np.int32))
    signed = a.view(np.int8)
    truncated = elementwise(lambda s, a: (a.convert(f32) * 1.5).convert(i64), [i8], i64)
    found = run(truncated, {"a": signed, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, (signed * np.float32(1.5)).astype(np.int64))
    doubles = elementwise(lambda s, a: a.convert(f64) / 3.0, [i64], f64)
    found = run(doubles, {"a": np.arange(8), "y": np.zeros(8)})["y"]
    np.testing.assert_allclose(found, np.arange(8) / 3, rtol=1e-15)


def test_integer_arithmetic(run):
    a = np.array([7, -7, 9, -9, 0, 5, -1, 6], np.int64)
    b = np.array([2, 2, -4, -4, 3, 5, 7, 1], np.int64)
    function = elementwise(lambda s, a, b: a.remainder(b) * 10 + a / b, [i64, i64], i64)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, np.fmod(a, b) * 10 + np.trunc(a / b).astype(np.int64))
    function = elementwise(lambda s, a, b: a.maximum(b) - a.minimum(b).negate(), [i64, i64], i64)
    found = run(function, {"a": a, "b": b, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, a + b)
    function = elementwise(lambda s, a: a.power(3), [i64], i64)
    found = run(function, {"a": a, "y": np.zeros(8, np.int64)})["y"]
    np.testing.assert_array_equal(found, a**3)


def test_half_is_computed_through_c(run_c):
    a = np.linspace(-4, 4, 8).astype(np.float16)
    function = elementwise(lambda s, a: (a * 2.0).unary(math.ExpOp), [f16], f16)
    found = run_c(function, {"a": a, "y": np.zeros_like(a)})["y"]
    np.testing.assert_allclose(found, np.exp(a * np.float16(2)), rtol=1e-3)


def gather() -> func.FuncOp:
    k = KernelBuilder("gather")
    data = k.argument("data", (5, 3), f32, "weight")
    indices = k.argument("indices", (7,), i64, "input")
    y = k.argument("y", (7, 3), f32, "output")

    def body(s, i, j):
        loaded = s.load(indices, [i]).convert(s.index(0).value.type)
        s.store(s.load(data, [clamp_index(s, loaded, 5), j]), y, [i, j])

    k.nest({"i": 7, "j": 3}, body, parallel="i")
    return k.finish("explicit")


def test_gather_wraps_negative_indices_and_stays_inside(run):
    data = np.arange(15, dtype=np.float32).reshape(5, 3)
    indices = np.array([0, 4, -1, -5, 2, 2**40, -(2**40)], np.int64)
    y = np.zeros((7, 3), np.float32)
    found = run(gather(), {"data": data, "indices": indices, "y": y})["y"]
    np.testing.assert_array_equal(found, data[[0, 4, 4, 0, 2, 4, 0]])


def test_convolution_as_in_the_textbook(run):
    k = KernelBuilder("conv")
    x = k.argument("x", (1, 3, 10, 10), f32, "input")
    w = k.argument("w", (8, 3, 3, 3), f32, "weight")
    y = k.argument("y", (1, 8, 8, 8), f32, "output")
    n, o, i, j = k.dimensions(n=1, o=8, i=8, j=8)
    k.generic("init", [], (y, (n, o, i, j)), lambda s: s.constant(0.0))
    n, o, i, j, c, p, q = k.dimensions(n=1, o=8, i=8, j=8, c=3, p=3, q=3)
    k.generic(
        "main",
        [(x, (n, c, i + p, j + q)), (w, (o, c, p, q))],
        (y, (n, o, i, j)),
        lambda s, x, w, y: y + x * w,
        reductions="c p q",
        accumulates=True,
    )
    n, o, i, j = k.dimensions(n=1, o=8, i=8, j=8)
    at = (n, o, i, j)
    k.generic("epilogue", [(y, at)], (y, at), lambda s, y: y.maximum(0.0))
    rng = np.random.default_rng(1)
    images = rng.normal(size=(1, 3, 10, 10)).astype(np.float32)
    weights = rng.normal(size=(8, 3, 3, 3)).astype(np.float32)
    arrays = {"x": images, "w": weights, "y": np.zeros((1, 8, 8, 8), np.float32)}
    found = run(lower_to_loops(k.finish("convolution")), arrays)["y"]
    windows = np.lib.stride_tricks.sliding_window_view(images[0], (3, 3), axis=(1, 2))
    expected = np.maximum(np.einsum("cijpq,ocpq->oij", windows, weights), 0)[None]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def softmax(rows: int, columns: int) -> func.FuncOp:
    k = KernelBuilder("softmax")
    x = k.argument("x", (rows, columns), f32, "input")
    top = k.argument("top", (rows,), f32, "scratch")
    total = k.argument("total", (rows,), f32, "scratch")
    y = k.argument("y", (rows, columns), f32, "output")
    (i,) = k.dimensions(i=rows)
    k.generic("plain", [], (top, (i,)), lambda s: s.constant(float("-inf")))
    i, j = k.dimensions(i=rows, j=columns)
    k.generic(
        "plain",
        [(x, (i, j))],
        (top, (i,)),
        lambda s, x, top: top.maximum(x),
        reductions="j",
        accumulates=True,
    )
    i, j = k.dimensions(i=rows, j=columns)
    k.generic(
        "plain",
        [(x, (i, j)), (top, (i,))],
        (y, (i, j)),
        lambda s, x, top: (x - top).unary(math.ExpOp),
    )
    (i,) = k.dimensions(i=rows)
    k.generic("plain", [], (total, (i,)), lambda s: s.constant(0.0))
    i, j = k.dimensions(i=rows, j=columns)
    k.generic(
        "plain",
        [(y, (i, j))],
        (total, (i,)),
        lambda s, y, total: total + y,
        reductions="j",
        accumulates=True,
    )
    i, j = k.dimensions(i=rows, j=columns)
    k.generic("plain", [(total, (i,))], (y, (i, j)), lambda s, t, y: y / t, accumulates=True)
    return lower_to_loops(k.finish("plain"))


def test_softmax_runs_its_phases_one_after_another(run):
    x = np.random.default_rng(2).normal(size=(4, 33)).astype(np.float32) * 5
    row = np.zeros(4, np.float32)
    arrays = {"x": x, "top": row, "total": row, "y": np.zeros_like(x)}
    function = softmax(4, 33)
    assert len(print_c(function, "softmax").phases) >= 4
    found = run(function, arrays)["y"]
    shifted = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, shifted / shifted.sum(1, keepdims=True), rtol=1e-5)


# -- vectors -----------------------------------------------------------------------------------


class NestBuilder:
    """Writes the body of a loop by hand: subscripts are (coefficient, index) sums plus a number."""

    def __init__(self):
        self.operations: list[Operation] = []

    def add(self, operation: Operation) -> SSAValue:
        self.operations.append(operation)
        return operation.results[0]

    def load(self, buffer: SSAValue, index: SSAValue, factor: int, kind: VectorType) -> SSAValue:
        return self.add(affine.VectorLoadOp(buffer, [index], scaled(factor), kind))

    def store(self, value: SSAValue, buffer: SSAValue, index: SSAValue, factor: int) -> None:
        self.operations.append(affine.VectorStoreOp(value, buffer, [index], scaled(factor)))


def scaled(factor: int) -> AffineMapAttr:
    return AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0) * factor,)))


def vector_kernel(
    lanes: int, types: Sequence, result_type, body: Callable, extent: int
) -> func.FuncOp:
    """y[i * lanes ..] = body(builder, a, b, ...) over whole vectors."""
    k = KernelBuilder("kernel_1")
    buffers = [
        k.argument(name, (extent,), t, "input") for name, t in zip("abc", types, strict=False)
    ]
    y = k.argument("y", (extent,), result_type, "output")
    k.nest({"i": extent // lanes}, lambda s, i: None, parallel="i")
    function = k.finish("explicit")
    loop = next(op for op in function.walk() if isinstance(op, affine.ForOp))
    index = loop.body.block.args[0]
    builder = NestBuilder()
    values = [
        builder.load(b.value, index, lanes, VectorType(t, [lanes]))
        for b, t in zip(buffers, types, strict=True)
    ]
    builder.store(body(builder, *values), y.value, index, lanes)
    loop.body.block.insert_ops_before(builder.operations, loop.body.block.last_op)
    return function


def unary_vector(operation: type[Operation], lanes: int, extent: int) -> func.FuncOp:
    def body(b: NestBuilder, a: SSAValue) -> SSAValue:
        created = operation.create(operands=[a], result_types=[a.type])
        created.properties = {"fastmath": arith.FastMathFlagsAttr("none")}
        return b.add(created)

    return vector_kernel(lanes, [f32], f32, body, extent)


# Every function at one width, and at the others those that have a form of their own.
WIDTHS = [*((name, 16) for name in UNARY)]
WIDTHS += [(name, lanes) for name in ("erf", "exp", "log", "tanh") for lanes in (4, 8)]


@pytest.mark.parametrize(("name", "lanes"), WIDTHS)
def test_functions_of_vectors_agree_with_numpy(run_c, name, lanes):
    operation, reference = UNARY[name]
    a = samples(name)
    a = a[: len(a) // 16 * 16]
    found = run_c(unary_vector(operation, lanes, len(a)), {"a": a, "y": np.zeros_like(a)})["y"]
    with np.errstate(all="ignore"):
        expected = reference(a.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=5e-7)


@pytest.mark.opencl
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_opencl_vectors_agree_with_numpy(run_opencl, name):
    operation, reference = UNARY[name]
    a = samples(name)
    a = a[: len(a) // 16 * 16]
    found = run_opencl(unary_vector(operation, 16, len(a)), {"a": a, "y": np.zeros_like(a)})["y"]
    with np.errstate(all="ignore"):
        expected = reference(a.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-38)


def test_vectors_are_loaded_repeated_and_stored():
    def body(b: NestBuilder, a: SSAValue) -> SSAValue:
        two = b.add(arith.ConstantOp(FloatAttr(2.0, f32)))
        repeated = b.add(vector.BroadcastOp(two, VectorType(f32, [16])))
        return b.add(arith.MaximumfOp(a, repeated))

    function = vector_kernel(16, [f32], f32, body, 64)
    assert body_lines(print_c(function, "k")) == [
        "for (long i = 0; i < 4; i++) {",
        "    store_float16("
        "maximum_float16(splat_float16(2.0f), load_float16(a + i * 16)), y + i * 16);",
        "}",
    ]
    assert body_lines(print_opencl(function, "k"))[2:] == [
        "for (int i = 0; i < 4; i++) {",
        "    vstore16(maximum_float16((float16)(2.0f), vload16(0, a + i * 16)), 0, y + i * 16);",
        "}",
    ]


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_vector_maximum_propagates_nan_and_selects_by_mask(run, lanes):
    nan = np.nan
    a = np.array([1, nan, 2, nan, np.inf, -3, 0, 5] * 4, np.float32)
    b = np.array([2, 1, nan, nan, 1, -np.inf, 0, 4] * 4, np.float32)
    y = np.zeros_like(a)

    def largest(builder: NestBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        return builder.add(arith.MaximumfOp(a, b))

    function = vector_kernel(lanes, [f32, f32], f32, largest, 32)
    np.testing.assert_array_equal(run(function, {"a": a, "b": b, "y": y})["y"], np.maximum(a, b))

    def select(builder: NestBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        condition = builder.add(CompareLanesOp(a, b, "ult"))
        return builder.add(SelectLanesOp(condition, a, b))

    function = vector_kernel(lanes, [f32, f32], f32, select, 32)
    expected = np.where(~(a >= b), a, b)
    np.testing.assert_array_equal(run(function, {"a": a, "b": b, "y": y})["y"], expected)


def test_masks_are_stored_and_read_as_bytes(run):
    a = np.array([1, 0] * 16, np.uint8)
    b = np.linspace(-1, 1, 32).astype(np.float32)

    def body(builder: NestBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        is_number = builder.add(CompareLanesOp(b, b, "oeq"))
        return builder.add(arith.AndIOp(a, is_number))

    function = vector_kernel(8, [i1, f32], i1, body, 32)
    found = run(function, {"a": a, "b": b, "y": np.zeros(32, np.uint8)})["y"]
    np.testing.assert_array_equal(found, a)


def test_vector_conversions(run):
    a = np.arange(224, 256).astype(np.uint8)

    def body(builder: NestBuilder, a: SSAValue) -> SSAValue:
        target = VectorType(f32, [16])
        return builder.add(arith.UIToFPOp.create(operands=[a], result_types=[target]))

    function = vector_kernel(16, [i8], f32, body, 32)
    found = run(function, {"a": a, "y": np.zeros(32, np.float32)})["y"]
    np.testing.assert_array_equal(found, a.astype(np.float32))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(
    ("kind", "reference"), [("add", np.sum), ("maximumf", np.max), ("mul", np.prod)]
)
def test_vector_reductions(run, lanes, kind, reference):
    function = tile_kernel(lanes, kind)
    a = np.random.default_rng(3).normal(size=(3, lanes)).astype(np.float32)
    y = np.full(3, 2.0, np.float32)
    found = run(function, {"a": a, "y": y})["y"]
    combine = {"add": np.add, "maximumf": np.maximum, "mul": np.multiply}[kind]
    np.testing.assert_allclose(found, combine(y, reference(a, axis=1)), rtol=1e-5)


def tile_kernel(lanes: int, kind: str) -> func.FuncOp:
    """Rows into a register array of vectors, then y[i] = y[i] <kind> all lanes of acc[i]."""
    k = KernelBuilder("kernel_1")
    a = k.argument("a", (3, lanes), f32, "input")
    y = k.argument("y", (3,), f32, "output")
    function = k.finish("explicit")
    row = VectorType(f32, [lanes])
    array = memref.AllocaOp.get(row, 64, [3])
    array.memref.name_hint = "acc"
    fill, drain, outer = make_loop(0, 3, "r"), make_loop(0, 3, "r2"), make_loop(0, 1, "t")
    fill.attributes["loop.kind"] = StringAttr("unroll")
    one, other = fill.body.block.args[0], drain.body.block.args[0]
    identity = AffineMapAttr(AffineMap.identity(1))
    start = AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0), AffineExpr.constant(0))))
    load = affine.VectorLoadOp(a.value, [one], start, row)
    keep = affine.StoreOp(load.result, array.memref, [one], identity)
    fill.body.block.insert_ops_before([load, keep], fill.body.block.last_op)
    whole = affine.LoadOp(array.memref, [other], identity)
    old = affine.LoadOp(y.value, [other], identity)
    reduced = vector.ReductionOp.create(
        operands=[whole.result, old.result],
        result_types=[f32],
        properties={
            "kind": vector.CombiningKindAttr(vector.CombiningKindFlag(kind)),
            "fastmath": arith.FastMathFlagsAttr("none"),
        },
    )
    new = affine.StoreOp(reduced.results[0], y.value, [other], identity)
    drain.body.block.insert_ops_before([whole, old, reduced, new], drain.body.block.last_op)
    outer.body.block.insert_ops_before([array, fill, drain], outer.body.block.last_op)
    function.body.block.insert_op_before(outer, function.body.block.last_op)
    return function


def test_register_arrays_of_vectors_and_unrolled_loops():
    assert body_lines(print_c(tile_kernel(16, "add"), "k")) == [
        "for (long t = 0; t < 1; t++) {",
        "    float16 acc[3];",
        "    UNROLL(3)",
        "    for (long r = 0; r < 3; r++) {",
        "        acc[r] = load_float16(a + r * 16);",
        "    }",
        "    for (long r2 = 0; r2 < 3; r2++) {",
        "        y[r2] += reduce_add_float16(acc[r2]);",
        "    }",
        "}",
    ]
