"""Reshapes move towards the outputs; numbers and origins stay right in the other shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.passes.analysis.axes import axis_groups, joined_axes, moved_through
from explorer.passes.simplify.push_transposes import PushTransposes

FLAT, DEEP = "tensor<6x8xf32>", "tensor<2x3x8xf32>"
RESHAPE = f"%r = top.reshape(%x) {{shape = [2, 3, 8]}} : {DEEP}\n"


def body(operations: str, returned: str = "%y", arguments: str = f"%x: {FLAT}") -> str:
    return f"func.func @main({arguments}) {{\n{operations}\ntop.return({returned})\n}}"


def push(check, operations, returned="%y", arrays=None, **more):
    return check(PushTransposes(), body(operations, returned, **more), arrays)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (f'top.unary(%r) {{kind = "relu"}} : {DEEP}', f'top.unary(%x) {{kind = "relu"}} : {FLAT}'),
        (
            "top.cast(%r) {to = f16} : tensor<2x3x8xf16>",
            "top.cast(%x) {to = f16} : tensor<6x8xf16>",
        ),
        (
            f'top.binary(%r, %r) {{kind = "mul"}} : {DEEP}',
            f'top.binary(%x, %x) {{kind = "mul"}} : {FLAT}',
        ),
        (
            f"top.softmax(%r) {{axis = 2, logarithm = false}} : {DEEP}",
            f"top.softmax(%x) {{axis = 1, logarithm = false}} : {FLAT}",
        ),
        (
            f"top.layer_norm(%r) {{axis = 2, epsilon = 1.0e-05}} : {DEEP}",
            f"top.layer_norm(%x) {{axis = 1, epsilon = 1.0e-05}} : {FLAT}",
        ),
        (
            "top.slice(%r) {starts = [0, 0, 2], steps = [1, 1, 2], stops = [2, 3, 7]} "
            ": tensor<2x3x3xf32>",
            "top.slice(%x) {starts = [0, 2], steps = [1, 2], stops = [6, 7]} : tensor<6x3xf32>",
        ),
        (
            "top.concat(%r, %r) {axis = 2} : tensor<2x3x16xf32>",
            "top.concat(%x, %x) {axis = 1} : tensor<6x16xf32>",
        ),
    ],
)
def test_an_operation_works_on_the_shape_before_the_reshape(check, operation, expected):
    checked = push(check, RESHAPE + f"%y = {operation}")
    assert checked.lines[0] == f"%y1 = {expected}"
    assert checked.lines[1].startswith("%reshape1 = top.reshape(%y1)")
    origins = checked.result.after.origins
    shape = tuple(int(n) for n in expected.split("tensor<")[-1].split("x")[:-1])
    assert (origins["y1"].tensor, origins["y1"].steps) == ("y", (("reshape", shape),))
    assert origins["reshape1"].steps == ()


@pytest.mark.parametrize(
    ("shape", "moved"), [("8", (8,)), ("2x3x8", (6, 8)), ("1x1x8", None), ("2x3x1", (6, 1))]
)
def test_a_constant_gets_the_shape_before_the_reshape(check, shape, moved):
    operations = (
        RESHAPE
        + f'%c = top.weight() {{weight = "c"}} : tensor<{shape}xf32>\n'
        + f'%y = top.binary(%r, %c) {{kind = "add"}} : {DEEP}'
    )
    checked = push(check, operations)
    assert checked.fired == ["sink-reshape y"]
    if shape == "8":
        assert "top.binary(%x, %c)" in checked.lines[0]
    else:
        assert checked.weight("w1").shape == (moved or (8,))


def test_a_quantized_constant_keeps_its_type(check):
    kind = "!top.quantized<i8, 0.125:0>"
    by = f"#top.requantization<{kind}, multiplier_shift 32, nearest_up>"
    operations = f"""
      %r = top.reshape(%x) {{shape = [2, 3, 8]}} : tensor<2x3x8x{kind}>
      %c = top.weight() {{weight = "c"}} : tensor<2x3x1x{kind}>
      %y = top.fixed_point(%r, %c) {{by = {by}, kind = "add"}} : tensor<2x3x8x{kind}>"""
    arrays = {"c": np.arange(6, dtype=np.int8).reshape(2, 3, 1)}
    text = body(operations, arguments=f"%x: tensor<6x8x{kind}>")
    checked = check(PushTransposes(), text, arrays)
    assert checked.fired == ["sink-reshape y"]
    (line,) = [one for one in checked.result.after.text.lines if "%w1 = " in one]
    assert f"tensor<6x1x{kind}>" in line


def test_a_product_with_a_constant_matrix_has_the_rows_before_the_reshape(check):
    operations = (
        RESHAPE
        + '%w = top.weight() {weight = "w"} : tensor<8x5xf32>\n'
        + "%p = top.matmul(%r, %w) : tensor<2x3x5xf32>\n"
        + "%y = top.reshape(%p) {shape = [6, 5]} : tensor<6x5xf32>"
    )
    assert push(check, operations).lines == [
        "%p1 = top.matmul(%x, %w) : tensor<6x5xf32>",
        "top.return(%p1)",
    ]


@pytest.mark.parametrize(
    ("operations", "returned", "reason"),
    [
        (
            RESHAPE + f'%y = top.unary(%r) {{kind = "relu"}} : {DEEP}',
            "%y, %r",
            "r is read by others than y",
        ),
        (
            RESHAPE + f'%y = top.binary(%r, %z) {{kind = "add"}} : {DEEP}',
            "%y",
            "another operand of y is not reshaped",
        ),
        (
            RESHAPE + f"%y = top.softmax(%r) {{axis = 1, logarithm = false}} : {DEEP}",
            "%y",
            "y: its axis is none before the reshape",
        ),
        (
            RESHAPE + f"%y = top.layer_norm(%r) {{axis = 1, epsilon = 1.0e-05}} : {DEEP}",
            "%y",
            "y: its axes are none before the reshape",
        ),
        (
            RESHAPE
            + '%c = top.weight() {weight = "c"} : tensor<3x1xf32>\n'
            + f'%y = top.binary(%r, %c) {{kind = "add"}} : {DEEP}',
            "%y",
            "a constant of y varies along a part of an axis of x",
        ),
        (
            RESHAPE
            + "%y = top.slice(%r) {starts = [0, 1, 0], steps = [1, 1, 1], stops = [2, 3, 8]} "
            ": tensor<2x2x8xf32>",
            "%y",
            "y: its axis 1 is none before the reshape",
        ),
    ],
)
def test_it_declines_with_a_reason(check, operations, returned, reason):
    checked = push(check, operations, returned, arguments=f"%x: {FLAT}, %z: {DEEP}")
    assert checked.declined == [f"sink-reshape y: {reason}"]


def test_a_layer_between_two_reshapes_is_free_of_them(check):
    operations = (
        RESHAPE
        + f"""%a = top.unary(%r) {{kind = "relu"}} : {DEEP}
        %y = top.reshape(%a) {{shape = [6, 8]}} : {FLAT}"""
    )
    assert push(check, operations).lines == [
        f'%a1 = top.unary(%x) {{kind = "relu"}} : {FLAT}',
        "top.return(%a1)",
    ]


# -- axes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ((6, 4), (2, 3, 4), [((0,), (0, 1)), ((1,), (2,))]),
        ((1, 8, 1, 1), (1, 8), [((0,), (0,)), ((1, 2, 3), (1,))]),
        ((4, 6), (3, 8), [((0, 1), (0, 1))]),
        ((2, 1, 3), (2, 3), [((0,), (0,)), ((1, 2), (1,))]),
    ],
)
def test_axes_are_grouped_as_finely_as_can_be(source, target, groups):
    found = axis_groups(source, target)
    assert found is not None
    assert [(g.source, g.target) for g in found] == groups


@given(st.lists(st.integers(1, 4), max_size=5), st.data())
def test_groups_hold_all_axes_in_order_and_the_same_elements(pieces, data):
    def merged():
        shape = [1]
        for piece in pieces:
            if data.draw(st.booleans()):
                shape.append(piece)
            else:
                shape[-1] *= piece
        return tuple(shape)

    source, target = merged(), merged()
    groups = axis_groups(source, target)
    assert groups is not None
    assert [a for g in groups for a in g.source] == list(range(len(source)))
    assert [a for g in groups for a in g.target] == list(range(len(target)))
    for group in groups:
        left, right = 1, 1
        for axis in group.source:
            left *= source[axis]
        for axis in group.target:
            right *= target[axis]
        assert left == right
    assert moved_through(target, source, target, groups) == source


def test_axes_that_move_together_are_joined():
    assert joined_axes((2, 3, 4, 5), (2, 3, 0, 1)) == [[0, 1], [2, 3]]
    assert joined_axes((1, 2, 29, 28, 28), (0, 2, 1, 3, 4)) == [[1], [2], [3, 4]]
    assert joined_axes((2, 3, 4, 5), (2, 3, 0, 1), {3, 4}) == [[0], [1], [2, 3]]
    assert joined_axes((2, 3), (1, 0)) == [[0], [1]]


def test_a_constant_of_stored_numbers_keeps_their_type(check):
    """Which is not to be read off the array: its scale stands in the type alone."""
    q = "!top.quantized<i8, 0.5:3>"
    wide = "!top.quantized<i16, 0.25:0>"
    by = f"#top.requantization<{q}, multiplier_shift 16, nearest_up>"
    checked = push(
        check,
        f"""%r = top.reshape(%x) {{shape = [1, 2, 3, 4]}} : tensor<1x2x3x4x{q}>
            %c = top.weight() {{weight = "c"}} : tensor<1x2x1x1x{wide}>
            %y = top.fixed_point(%r, %c) {{by = {by}, kind = "add"}} : tensor<1x2x3x4x{q}>""",
        arguments=f"%x: tensor<2x3x4x{q}>",
        arrays={"c": np.array([5, -300], np.int16).reshape(1, 2, 1, 1)},
    )
    assert checked.lines[0].startswith("%y1 = top.fixed_point(%x, %w1)")
