"""Factors and offsets on their way into weights, and matmuls in the form that kernels like."""

import numpy as np
import pytest

from explorer.passes.simplify.fold_batch_norm import FoldBatchNorm
from explorer.passes.simplify.push_transposes import PushTransposes

IMAGE, RESULT = "tensor<1x4x6x6xf32>", "tensor<1x8x4x4xf32>"
CONV = (
    '%w = top.weight() {weight = "w"} : tensor<8x4x3x3xf32>\n'
    "%y = top.conv(%a, %w) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]} "
    f": {RESULT}"
)
# Weights are rounded once more, and sums of 36 products differ in their last places.
TOLERANCE = 1e-5


def body(operations: str, returned: str = "%y", arguments: str = f"%x: {IMAGE}") -> str:
    return f"func.func @main({arguments}) {{\n{operations}\ntop.return({returned})\n}}"


def before(kind: str, shape: str = "4x1x1", value: str = "%x") -> str:
    return (
        f'%f = top.weight() {{weight = "f"}} : tensor<{shape}xf32>\n'
        f'%a = top.binary({value}, %f) {{kind = "{kind}"}} : {IMAGE}\n'
    )


def fold(check, operations, returned="%y", arrays=None, **more):
    text = body(operations, returned, **more)
    return check(FoldBatchNorm(), text, arrays, tolerance=TOLERANCE)


@pytest.mark.parametrize("shape", ["4x1x1", "1x1x1"])
def test_a_factor_before_a_convolution_goes_into_its_weights(check, shape):
    checked = fold(check, before("mul", shape) + CONV)
    assert len(checked.lines) == 2 and "top.conv(%x, %w1)" in checked.lines[0]
    assert checked.rewritten == ["fold-scale-ahead y"]
    assert checked.sources("conv1") == ("a", "y")


def test_an_offset_before_a_convolution_becomes_its_bias(check):
    checked = fold(check, before("add") + CONV)
    assert "top.conv(%x, %w, bias = %w1)" in checked.lines[0]
    assert checked.rewritten == ["fold-offset-ahead y"]


def test_an_offset_before_a_padded_convolution_stays(check):
    padded = CONV.replace("pads = [0, 0, 0, 0]", "pads = [1, 1, 1, 1]").replace(
        "4x4xf32", "6x6xf32"
    )
    checked = fold(check, before("add") + padded)
    assert checked.declined == ["fold-offset-ahead y: y pads with zeros, which got no offset"]


def test_a_batch_norm_before_a_convolution_goes_into_it(check):
    statistics = "".join(
        f'%{name} = top.weight() {{weight = "{name}"}} : tensor<4xf32>\n' for name in "smnv"
    )
    norm = f"%a = top.batch_norm(%x, %s, %m, %n, %v) {{epsilon = 1.0e-05}} : {IMAGE}\n"
    arrays = {"v": np.array([0.5, 1, 2, 3], np.float32)}
    checked = fold(check, statistics + norm + CONV, arrays=arrays)
    assert [line.split("(")[0] for line in checked.lines] == ["%conv2 = top.conv", "top.return"]
    assert "bias = " in checked.lines[0]


@pytest.mark.parametrize("group", [2, 4])
def test_each_group_of_a_convolution_sees_the_factors_of_its_own_channels(check, group):
    grouped = CONV.replace("group = 1", f"group = {group}").replace(
        "8x4x3x3", f"8x{4 // group}x3x3"
    )
    assert fold(check, before("mul") + grouped).rewritten == ["fold-scale-ahead y"]


@pytest.mark.parametrize("kind", ["mul", "add"])
def test_factors_and_offsets_before_a_matmul(check, kind):
    operations = f"""
      %f = top.weight() {{weight = "f"}} : tensor<16xf32>
      %w = top.weight() {{weight = "w"}} : tensor<16x8xf32>
      %b = top.weight() {{weight = "b"}} : tensor<8xf32>
      %a = top.binary(%x, %f) {{kind = "{kind}"}} : tensor<4x16xf32>
      %y = top.matmul(%a, %w, bias = %b) : tensor<4x8xf32>
    """
    checked = fold(check, operations, arguments="%x: tensor<4x16xf32>")
    assert len(checked.lines) == 2 and "top.matmul(%x, " in checked.lines[0]


@pytest.mark.parametrize(
    ("operations", "returned", "reason"),
    [
        (before("mul") + CONV, "%y, %a", "a is needed elsewhere too"),
        (
            before("mul", "6x1") + CONV,
            "%y",
            "the constant of a is not one number per channel",
        ),
        (
            f'%r = top.unary(%x) {{kind = "round"}} : {IMAGE}\n' + before("mul", value="%r") + CONV,
            "%y",
            "a scales whole numbers: sums of them stay exact",
        ),
    ],
)
def test_a_factor_ahead_declines_with_a_reason(check, operations, returned, reason):
    assert fold(check, operations, returned).declined == [f"fold-scale-ahead y: {reason}"]


def test_weights_that_are_whole_numbers_stay(check):
    arrays = {"w": np.random.default_rng(0).integers(-8, 8, (8, 4, 3, 3)).astype(np.float32)}
    checked = fold(check, before("mul") + CONV, arrays=arrays)
    assert checked.declined == [
        "fold-scale-ahead y: the weights of y are whole numbers: sums stay exact"
    ]


def test_a_factor_passes_an_offset_on_its_way_to_the_weights(check):
    operations = (
        CONV.replace("%a", "%x").replace("%y", "%c")
        + f"""
      %f = top.weight() {{weight = "f"}} : tensor<8x1x1xf32>
      %b = top.weight() {{weight = "b"}} : tensor<8x1x1xf32>
      %s = top.binary(%c, %b) {{kind = "add"}} : {RESULT}
      %y = top.binary(%s, %f) {{kind = "mul"}} : {RESULT}
    """
    )
    checked = fold(check, operations)
    assert checked.rewritten[:2] == ["scale-before-offset y", "fold-scale mul1"]
    assert [line.split("(")[0] for line in checked.lines] == [
        "%conv1 = top.conv",
        "%add1 = top.binary",
        "top.return",
    ]


def test_what_is_rounded_behind_a_factor_keeps_it(check):
    operations = (
        CONV.replace("%a", "%x").replace("%y", "%c")
        + f"""
      %f = top.weight() {{weight = "f"}} : tensor<f32>
      %s = top.binary(%c, %f) {{kind = "mul"}} : {RESULT}
      %y = top.unary(%s) {{kind = "round"}} : {RESULT}
    """
    )
    assert fold(check, operations).declined == [
        "fold-scale s: y makes whole numbers of it: a tie could fall to the other side"
    ]


# -- forms of a matmul -----------------------------------------------------------------------------


def push(check, operations, returned="%y", arrays=None, **more):
    text = body(operations, returned, **more)
    return check(PushTransposes(), text, arrays, tolerance=TOLERANCE)


def test_weights_lose_batch_dimensions_of_one(check):
    operations = """
      %w = top.weight() {weight = "w"} : tensor<1x16x8xf32>
      %y = top.matmul(%x, %w) : tensor<3x4x8xf32>
    """
    checked = push(check, operations, arguments="%x: tensor<3x4x16xf32>")
    assert checked.fired == ["squeeze-weights y"]
    assert checked.weight("w1").shape == (16, 8)


def test_quantized_weights_keep_their_scales_without_axes_of_one_element(check):
    """The axis of the scales is counted anew; a scale for each batch has no place left."""
    x, scales = "!top.quantized<ui8, 0.5:3>", "{0.25:0, 0.5:0}"
    text = f"""
        func.func @main(%x: tensor<1x3x4x{x}>) {{
          %w = top.weight() {{weight = "w"}} : tensor<1x4x2x!top.quantized<i8, axis 2, {scales}>>
          %y = top.matmul(%x, %w) : tensor<1x3x2x!top.quantized<i32, axis 2, {{0.125:0, 0.25:0}}>>
          top.return(%y)
        }}
        """
    arrays = {"w": np.arange(8, dtype=np.int8).reshape(1, 4, 2)}
    checked = check(PushTransposes(), text, arrays)
    assert checked.fired == ["squeeze-weights y"]
    assert checked.weight("w1").shape == (4, 2)


def test_a_matrix_times_a_column_is_a_row_times_a_matrix(check):
    operations = """
      %w = top.weight() {weight = "w"} : tensor<8x5xf32>
      %b = top.weight() {weight = "b"} : tensor<8x1xf32>
      %a = top.matmul(%w, %x) : tensor<8x1xf32>
      %y = top.binary(%a, %b) {kind = "add"} : tensor<8x1xf32>
    """
    checked = push(check, operations, arguments="%x: tensor<5x1xf32>")
    assert checked.lines == [
        "%reshape1 = top.reshape(%x) {shape = [1, 5]} : tensor<1x5xf32>",
        "%matmul1 = top.matmul(%reshape1, %w1) : tensor<1x8xf32>",
        '%y1 = top.binary(%matmul1, %w2) {kind = "add"} : tensor<1x8xf32>',
        "%reshape3 = top.reshape(%y1) {shape = [8, 1]} : tensor<8x1xf32>",
        "top.return(%reshape3)",
    ]


def test_a_product_of_transposes_is_the_transpose_of_a_product(check):
    operations = """
      %s = top.transpose(%x) {permutation = [0, 2, 1]} : tensor<3x5x4xf32>
      %t = top.transpose(%z) {permutation = [0, 2, 1]} : tensor<3x4x6xf32>
      %y = top.matmul(%s, %t) : tensor<3x5x6xf32>
    """
    arguments = "%x: tensor<3x4x5xf32>, %z: tensor<3x6x4xf32>"
    assert push(check, operations, arguments=arguments).lines == [
        "%matmul1 = top.matmul(%z, %x) : tensor<3x6x5xf32>",
        "%transpose1 = top.transpose(%matmul1) {permutation = [0, 2, 1]} : tensor<3x5x6xf32>",
        "top.return(%transpose1)",
    ]
    kept = push(check, operations, "%y, %s", arguments=arguments)
    assert "swap-transposed-factors y: s is needed elsewhere too" in kept.declined


ATTENTION = """
  %w = top.weight() {weight = "w"} : tensor<16x16xf32>
  %b = top.weight() {weight = "b"} : tensor<16xf32>
  %f = top.weight() {weight = "f"} : tensor<f32>
  %m = top.matmul(%x, %w) : tensor<6x16xf32>
  %a = top.binary(%m, %b) {kind = "add"} : tensor<6x16xf32>
  %r = top.reshape(%a) {shape = [6, 2, 8]} : tensor<6x2x8xf32>
  %q = top.transpose(%r) {permutation = [1, 0, 2]} : tensor<2x6x8xf32>
  %s = top.matmul(%q, %k) : tensor<2x6x6xf32>
  %y = top.binary(%s, %f) {kind = "mul"} : tensor<2x6x6xf32>
"""
SCORES = "%x: tensor<6x16xf32>, %k: tensor<2x8x6xf32>"


def test_the_factor_of_attention_scores_reaches_the_weights_of_the_query(
    make_program, check_pipeline
):
    working = make_program(body(ATTENTION, arguments=SCORES), {"f": np.float32(0.375)})
    random = np.random.default_rng(0)
    inputs = {
        "x": random.normal(size=(6, 16)).astype(np.float32),
        "k": random.normal(size=(2, 8, 6)).astype(np.float32),
    }
    passes = [PushTransposes(), FoldBatchNorm()]
    last = check_pipeline(working, passes, inputs, TOLERANCE)[-1].after
    kinds = [op.name[4:] for op in last.operations.values() if op.name != "top.weight"]
    assert kinds == ["matmul", "binary", "reshape", "transpose", "matmul", "return"]
    # The query is another value than the source's now, and says so.
    assert "transpose1" not in last.origins


def test_a_factor_between_two_computed_matrices_stays(check):
    operations = """
      %f = top.weight() {weight = "f"} : tensor<f32>
      %s = top.matmul(%x, %k) : tensor<2x6x6xf32>
      %y = top.binary(%s, %f) {kind = "mul"} : tensor<2x6x6xf32>
    """
    checked = push(check, operations, arguments="%x: tensor<2x6x8xf32>, %k: tensor<2x8x6xf32>")
    assert checked.declined == ["scale-operand y: no operand of s comes straight from weights"]
