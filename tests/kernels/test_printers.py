"""Printing kernels as C and OpenCL C: what the text looks like."""

import sys
from pathlib import Path

import pytest
from xdsl.dialects import affine, arith, func, math, scf
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Block, Region

from explorer.errors import UnsupportedError
from explorer.ir.compute import KernelBuilder
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.loops.nest import index_of
from explorer.kernels.printing.c import print_c
from explorer.kernels.printing.identifiers import Names, comment_text, identifier
from explorer.kernels.printing.opencl import print_opencl
from explorer.kernels.printing.subscripts import Sum, written_out_apart

sys.path.insert(0, str(Path(__file__).parent))
from printed_samples import body_lines, elementwise, f16, f64, gather, u8


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


def test_arms_of_a_choice_hold_no_loads():
    """They would be jumps, and loops with jumps are not vectorized."""
    function = elementwise(
        lambda s, a, b: a.compare("lt", a.constant(0.0)).select(a * b, a), [f32, f32], f32
    )
    for printed in (print_c(function, "kernel_1"), print_opencl(function, "kernel_1")):
        (chosen,) = (line for line in printed.lines if "?" in line)
        arms = chosen.split("?")[1]
        assert "[" not in arms, printed.lines


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
        (-7, i64, "-7LL"),
        (-(2**63), i64, "(-9223372036854775807LL - 1)"),
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


def test_what_loops_that_are_written_out_add_to_a_subscript_stands_apart_in_c():
    k = KernelBuilder("rows")
    x = k.argument("x", (4, 10), f32, "input")
    y = k.argument("y", (4, 8), f32, "output")
    i, j = k.dimensions(i=4, j=8)
    k.generic("plain", [(x, (i, j + 2))], (y, (i, j)), lambda s, x: x)
    function = lower_to_loops(k.finish("copy"))
    text = "y[i * 8 + j] = x[i * 10 + j + 2];"
    assert f"        {text}" in body_lines(print_c(function, "rows"))
    for loop in function.walk():
        if isinstance(loop, affine.ForOp) and loop.attributes["loop.name"] == StringAttr("j"):
            loop.attributes["loop.kind"] = StringAttr("unroll")
    lines = [line.strip() for line in body_lines(print_c(function, "rows"))]
    assert "(y + i * 8)[j] = (x + i * 10)[j + 2];" in lines
    assert text in [line.strip() for line in body_lines(print_opencl(function, "rows"))]


@pytest.mark.parametrize(("first", "constant"), [(-1, 12), (1, -2), (0, 3)])
def test_a_subscript_is_not_taken_apart_where_a_part_may_be_negative(first, constant):
    loops = [
        affine.ForOp.from_region([], [], [], [], 0, 4, Region(Block(arg_types=[IndexType()])))
        for _ in range(2)
    ]
    outer, written_out = loops
    written_out.attributes["loop.kind"] = StringAttr("unroll")
    own = (index_of(written_out), 1)
    form = Sum((*([(index_of(outer), first)] if first else []), own), constant)
    assert written_out_apart(form) == (Sum(), form)
    positive = Sum(((index_of(outer), 5), own), 2)
    assert written_out_apart(positive) == (Sum(((index_of(outer), 5),)), Sum((own,), 2))


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
