"""Transposes move towards each other; numbers and origins stay right whatever form values take."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.rewriting import RewriteOptions
from explorer.passes.simplify.push_transposes import PushTransposes, inverse

NCHW, NHWC = "tensor<1x3x4x5xf32>", "tensor<1x4x5x3xf32>"
TO_NHWC, TO_NCHW = "{permutation = [0, 2, 3, 1]}", "{permutation = [0, 3, 1, 2]}"


def body(operations: str, returned: str = "%y", arguments: str = f"%x: {NCHW}") -> str:
    return f"func.func @main({arguments}) {{\n{operations}\ntop.return({returned})\n}}"


def test_two_transposes_around_an_elementwise_operation_cancel(check):
    text = body(f"""
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %r = top.unary(%t) {{kind = "relu"}} : {NHWC}
      %y = top.transpose(%r) {TO_NCHW} : {NCHW}
    """)
    checked = check(PushTransposes(), text)
    assert checked.lines == [
        f'%r1 = top.unary(%x) {{kind = "relu"}} : {NCHW}',
        "top.return(%r1)",
    ]
    (name,) = checked.result.after.origins
    origin = checked.result.after.origins[name]
    # relu's value is still that of r, in the order before the transpose.
    assert (origin.tensor, origin.steps) == ("r", (("permute", (0, 3, 1, 2)),))


def test_a_transpose_passes_and_the_permuted_value_says_so(check):
    text = body(f"""
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %y = top.unary(%t) {{kind = "relu"}} : {NHWC}
    """)
    checked = check(PushTransposes(), text)
    assert checked.lines == [
        f'%y1 = top.unary(%x) {{kind = "relu"}} : {NCHW}',
        f"%transpose1 = top.transpose(%y1) {TO_NHWC} : {NHWC}",
        "top.return(%transpose1)",
    ]
    origins = checked.result.after.origins
    assert origins["transpose1"].tensor == "y" and origins["transpose1"].steps == ()
    assert origins["y1"].steps == (("permute", (0, 3, 1, 2)),)
    assert checked.sources("y1") == ("y",)
    assert checked.sources("transpose1") == ("t",)


def test_operands_that_are_transposed_alike_share_one_transpose_behind(check):
    text = body(
        f"""
      %s = top.transpose(%x) {TO_NHWC} : {NHWC}
      %t = top.transpose(%z) {TO_NHWC} : {NHWC}
      %y = top.binary(%s, %t) {{kind = "add"}} : {NHWC}
    """,
        arguments=f"%x: {NCHW}, %z: {NCHW}",
    )
    assert check(PushTransposes(), text).lines == [
        f'%y1 = top.binary(%x, %z) {{kind = "add"}} : {NCHW}',
        f"%transpose1 = top.transpose(%y1) {TO_NHWC} : {NHWC}",
        "top.return(%transpose1)",
    ]


@pytest.mark.parametrize(
    ("shape", "permuted"),
    [("3xf32", (1, 3, 1, 1)), ("1x4x5x3xf32", (1, 3, 4, 5)), ("5x1xf32", (1, 1, 1, 5))],
)
def test_a_constant_is_permuted_at_compile_time(check, shape, permuted):
    text = body(f"""
      %c = top.weight() {{weight = "c"}} : tensor<{shape}>
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %y = top.binary(%t, %c) {{kind = "mul"}} : {NHWC}
    """)
    checked = check(PushTransposes(), text)
    assert checked.lines[0] == f'%y1 = top.binary(%x, %w1) {{kind = "mul"}} : {NCHW}'
    assert checked.weight("w1").shape == permuted


def test_a_single_element_needs_no_permutation(check):
    text = body(
        f"""
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %y = top.binary(%t, %s) {{kind = "mul"}} : {NHWC}
    """,
        arguments=f"%x: {NCHW}, %s: tensor<1x1xf32>",
    )
    assert check(PushTransposes(), text).lines[0].startswith("%y1 = top.binary(%x, %s)")


def test_a_mean_over_height_and_width_needs_no_transpose_behind_it(check):
    text = body(f"""
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %y = top.reduce(%t) {{kind = "mean", axes = [1, 2], keepdims = false}} : tensor<1x3xf32>
    """)
    assert check(PushTransposes(), text).lines == [
        '%y1 = top.reduce(%x) {axes = [2, 3], keepdims = false, kind = "mean"} : tensor<1x3xf32>',
        "top.return(%y1)",
    ]


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_best_channel_is_found_where_channels_are(check, keepdims):
    shape = "tensor<1x4x5x1xi64>" if keepdims else "tensor<1x4x5xi64>"
    text = body(f"""
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %y = top.arg(%t) {{axis = 3, keepdims = {str(keepdims).lower()}, kind = "max",
                        select_last = false}} : {shape}
    """)
    checked = check(PushTransposes(), text)
    assert "top.arg(%x) {axis = 1" in checked.lines[0]
    assert not any("top.transpose" in line for line in checked.lines)


@pytest.mark.parametrize(
    "operation",
    [
        'top.reduce(%t) {kind = "max", axes = [2], keepdims = true} : tensor<1x4x1x3xf32>',
        'top.reduce(%t) {kind = "sum", axes = [0, 2], keepdims = false} : tensor<4x3xf32>',
        f"top.softmax(%t) {{axis = 3, logarithm = false}} : {NHWC}",
        "top.slice(%t) {starts = [0, 1, 4, 0], stops = [1, 3, -1, 3], steps = [1, 1, -2, 2]} "
        ": tensor<1x2x3x2xf32>",
        "top.cast(%t) {to = f16} : tensor<1x4x5x3xf16>",
    ],
)
def test_axes_are_renamed_on_the_way(check, operation):
    text = body(f"%t = top.transpose(%x) {TO_NHWC} : {NHWC}\n%y = {operation}")
    checked = check(PushTransposes(), text)
    assert checked.fired == ["sink-transpose y"]
    assert "(%x)" in checked.lines[0]


def test_inputs_of_a_concat_are_joined_before_the_transpose(check):
    text = body(
        f"""
      %c = top.weight() {{weight = "c"}} : tensor<1x4x5x1xf32>
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %u = top.concat(%t, %t, %c) {{axis = 3}} : tensor<1x4x5x7xf32>
      %r = top.reduce(%u) {{kind = "sum", axes = [1, 2, 3], keepdims = false}} : tensor<1xf32>
    """,
        "%r",
    )
    # Joined, it is larger than what was transposed: the transpose stays in front.
    assert check(PushTransposes(), text).declined == [
        "sink-transpose u: 560 bytes would be transposed behind u instead of 240"
    ]


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        (
            f"""%t = top.transpose(%x) {TO_NHWC} : {NHWC}
            %y = top.binary(%t, %v) {{kind = "add"}} : {NHWC}""",
            "an input, another operand of y, is not transposed",
        ),
        (
            f"""%t = top.transpose(%x) {TO_NHWC} : {NHWC}
            %u = top.transpose(%q) {{permutation = [3, 1, 2, 0]}} : {NHWC}
            %y = top.binary(%t, %u) {{kind = "add"}} : {NHWC}""",
            "the operands of y are transposed in different ways",
        ),
        (
            """%t = top.transpose(%v) {permutation = [0, 2, 1, 3]} : tensor<1x5x4x3xf32>
            %a = top.unary(%t) {kind = "relu"} : tensor<1x5x4x3xf32>
            %b = top.unary(%t) {kind = "neg"} : tensor<1x5x4x3xf32>
            %y = top.matmul(%a, %a2) : tensor<1x5x4x3xf32>""",
            "t is read by others than a",
        ),
    ],
    ids=["other operand", "different ways", "two uses"],
)
def test_it_declines_with_a_reason(check, operations, reason):
    arguments = f"%x: {NCHW}, %v: {NHWC}, %q: tensor<3x4x5x1xf32>, %a2: tensor<1x5x3x3xf32>"
    returned = "%y, %b" if "%b" in operations else "%y"
    checked = check(PushTransposes(), body(operations, returned, arguments))
    assert checked.declined[0].endswith(f": {reason}")


WIDE_NCHW, WIDE_NHWC = "tensor<1x6x4x5xf32>", "tensor<1x4x5x6xf32>"


def test_channels_are_added_below_a_transpose_that_meets_its_like(check):
    pad = "high = [0, 0, 0, 3], interior = [0, 0, 0, 0], low = [0, 0, 0, 0], value = 0.0"
    text = body(
        f"""
      %s = top.transpose(%x) {TO_NHWC} : {NHWC}
      %t = top.transpose(%z) {TO_NHWC} : {WIDE_NHWC}
      %p = top.pad(%s) {{{pad}}} : {WIDE_NHWC}
      %y = top.binary(%p, %t) {{kind = "add"}} : {WIDE_NHWC}
    """,
        arguments=f"%x: {NCHW}, %z: {WIDE_NCHW}",
    )
    moved = pad.replace("[0, 0, 0, 3]", "[0, 3, 0, 0]")
    assert check(PushTransposes(), text).lines == [
        f"%p1 = top.pad(%x) {{{moved}}} : {WIDE_NCHW}",
        f'%y1 = top.binary(%p1, %z) {{kind = "add"}} : {WIDE_NCHW}',
        f"%transpose2 = top.transpose(%y1) {TO_NHWC} : {WIDE_NHWC}",
        "top.return(%transpose2)",
    ]


def test_a_transpose_that_two_read_is_passed_where_another_one_goes(check):
    text = body(
        f"""
      %s = top.transpose(%x) {TO_NHWC} : {NHWC}
      %t = top.transpose(%z) {TO_NHWC} : {NHWC}
      %a = top.binary(%s, %t) {{kind = "add"}} : {NHWC}
      %y = top.binary(%s, %a) {{kind = "mul"}} : {NHWC}
    """,
        arguments=f"%x: {NCHW}, %z: {NCHW}",
    )
    assert check(PushTransposes(), text).lines == [
        f'%a1 = top.binary(%x, %z) {{kind = "add"}} : {NCHW}',
        f'%y1 = top.binary(%x, %a1) {{kind = "mul"}} : {NCHW}',
        f"%transpose2 = top.transpose(%y1) {TO_NHWC} : {NHWC}",
        "top.return(%transpose2)",
    ]


def test_what_is_transposed_back_is_bypassed_though_the_transpose_stays(check):
    text = body(
        f"""
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %r = top.unary(%t) {{kind = "relu"}} : {NHWC}
      %y = top.transpose(%r) {TO_NCHW} : {NCHW}
    """,
        "%y, %t",
    )
    checked = check(PushTransposes(), text)
    assert checked.fired == ["bypass-transposes r"]
    assert checked.lines == [
        f"%t = top.transpose(%x) {TO_NHWC} : {NHWC}",
        f'%r1 = top.unary(%x) {{kind = "relu"}} : {NCHW}',
        "top.return(%r1, %t)",
    ]


def test_an_override_keeps_a_transpose_where_it_is(check):
    text = body(f"""
      %t = top.transpose(%x) {TO_NHWC} : {NHWC}
      %y = top.unary(%t) {{kind = "relu"}} : {NHWC}
    """)
    options = RewriteOptions({"push-transposes/sink-transpose/y": False})
    assert not check(PushTransposes(), text, options=options).fired


@given(st.permutations(range(5)))
def test_an_inverse_undoes_its_permutation(permutation):
    assert [permutation[a] for a in inverse(permutation)] == [0, 1, 2, 3, 4]


SIZES = (2, 3, 4)
STEPS = st.lists(
    st.one_of(
        st.permutations(range(3)).map(lambda p: ("transpose", tuple(p))),
        st.sampled_from(["relu", "neg", "tanh"]).map(lambda kind: ("unary", kind)),
        st.integers(0, 2).map(lambda axis: ("softmax", axis)),
        st.just(("square", None)),
        st.just(("add", None)),
    ),
    min_size=1,
    max_size=8,
)


def chain(steps) -> str:
    """One operation per step, each on the value before; `add` adds the second input, permuted."""
    lines, order, value = [], (0, 1, 2), "%x"

    def type_of(order):
        return f"tensor<{'x'.join(str(SIZES[a]) for a in order)}xf32>"

    for index, (kind, argument) in enumerate(steps):
        name = f"%v{index}"
        if kind == "transpose":
            order = tuple(order[p] for p in argument)
            text = f"top.transpose({value}) {{permutation = {list(argument)}}}"
        elif kind == "unary":
            text = f'top.unary({value}) {{kind = "{argument}"}}'
        elif kind == "softmax":
            text = f"top.softmax({value}) {{axis = {argument}, logarithm = false}}"
        elif kind == "square":
            text = f'top.binary({value}, {value}) {{kind = "mul"}}'
        else:
            lines.append(
                f"%z{index} = top.transpose(%z) {{permutation = {list(order)}}} : {type_of(order)}"
            )
            text = f'top.binary({value}, %z{index}) {{kind = "add"}}'
        lines.append(f"{name} = {text} : {type_of(order)}")
        value = name
    return body("\n".join(lines), value, "%x: tensor<2x3x4xf32>, %z: tensor<2x3x4xf32>")


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_any_chain_keeps_its_numbers_and_gets_no_more_transposes(check, steps):
    checked = check(PushTransposes(), chain(steps))
    before, after = (
        sum(op.name == "top.transpose" for op in snapshot.operations.values())
        for snapshot in (checked.result.before, checked.result.after)
    )
    assert after <= before


def quantized(shape: str, parameters: str = "0.1:128") -> str:
    return f"tensor<{shape}x!top.quantized<ui8, {parameters}>>"


def quantized_sum(second: str = TO_NHWC) -> str:
    """quantize(dequantize(x) + dequantize(z)) between transposes, as with channels behind."""
    first, behind, back = quantized("1x3x4x5"), quantized("1x4x5x3"), quantized("1x3x4x5", "0.2:9")
    return body(
        f"""
      %s = top.transpose(%x) {TO_NHWC} : {behind}
      %t = top.transpose(%z) {second} : {behind}
      %a = top.dequantize(%s) {{to = f32}} : {NHWC}
      %b = top.dequantize(%t) {{to = f32}} : {NHWC}
      %r = top.binary(%a, %b) {{kind = "add"}} : {NHWC}
      %q = top.quantize(%r) {{to = !top.quantized<ui8, 0.2:9>}} : {quantized("1x4x5x3", "0.2:9")}
      %y = top.transpose(%q) {TO_NCHW} : {back}
    """,
        arguments=f"%x: {first}, %z: {first if second == TO_NHWC else quantized('1x5x3x4')}",
    )


def test_transposes_around_a_quantized_sum_cancel(check):
    """Real numbers are wider than stored ones; but they are stored again behind the sum."""
    checked = check(PushTransposes(), quantized_sum())
    expected = ["top.dequantize", "top.dequantize", "top.binary", "top.quantize", "top.return"]
    assert re.findall(r"top\.\w+(?=\()", "\n".join(checked.lines)) == expected


def test_a_transpose_of_stored_numbers_stays_where_real_ones_are_not_stored_again(check):
    text = body(
        f"""
      %s = top.transpose(%x) {TO_NHWC} : {quantized("1x4x5x3")}
      %a = top.dequantize(%s) {{to = f32}} : {NHWC}
      %y = top.unary(%a) {{kind = "relu"}} : {NHWC}
    """,
        arguments=f"%x: {quantized('1x3x4x5')}",
    )
    checked = check(PushTransposes(), text)
    assert "top.transpose" in checked.lines[0]
    assert any("240 bytes would be transposed" in reason for reason in checked.declined)


def test_operands_in_other_orders_keep_the_transposes_of_a_quantized_sum(check):
    checked = check(PushTransposes(), quantized_sum("{permutation = [0, 3, 1, 2]}"))
    assert sum("top.transpose" in line for line in checked.lines) == 3
