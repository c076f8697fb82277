"""Batch normalizations and factors per channel go into weights; what cannot, becomes arithmetic."""

import numpy as np
import pytest

from explorer.ir.rewriting import RewriteOptions
from explorer.passes.simplify.fold_batch_norm import FoldBatchNorm

POSITIVE = {"v": np.array([0.5, 1, 2, 4], np.float32)}

PARAMETERS = """
  %s = top.weight() {weight = "s"} : tensor<4xf32>
  %b = top.weight() {weight = "b"} : tensor<4xf32>
  %m = top.weight() {weight = "m"} : tensor<4xf32>
  %v = top.weight() {weight = "v"} : tensor<4xf32>
"""

CONV = f"""
func.func @main(%x: tensor<1x3x5x5xf32>) {{
  %w = top.weight() {{weight = "w"}} : tensor<4x3x3x3xf32>
  {PARAMETERS}
  %conv1 = top.conv(%x, %w) {{dilations = [1, 1], group = 1, pads = [1, 1, 1, 1],
    strides = [1, 1]}} : tensor<1x4x5x5xf32>
  %y = top.batch_norm(%conv1, %s, %b, %m, %v) {{epsilon = 0.001}} : tensor<1x4x5x5xf32>
  top.return(%y)
}}
"""

# Weights are rounded once more after they were multiplied; sums of 27 products.
TOLERANCE = 1e-6


@pytest.mark.parametrize("bias", ["", ", bias = %s"])
def test_a_batch_norm_goes_into_weights_and_bias_of_the_convolution(check, bias):
    text = CONV.replace("%conv1 = top.conv(%x, %w)", f"%conv1 = top.conv(%x, %w{bias})")
    checked = check(FoldBatchNorm(), text, arrays=POSITIVE, tolerance=TOLERANCE)
    assert checked.lines == [
        "%conv2 = top.conv(%x, %w1, bias = %w2) {dilations = [1, 1], group = 1, "
        "pads = [1, 1, 1, 1], strides = [1, 1]} : tensor<1x4x5x5xf32>",
        "top.return(%conv2)",
    ]
    assert checked.rewritten == ["fold-into-weights y"]
    assert checked.sources("conv2") == ("conv1", "y")
    assert checked.result.after.origins["conv2"].tensor == "y"


def test_a_batch_norm_of_narrow_floats_subtracts_the_mean_before_anything_is_rounded(check):
    """x * f of numbers around 300 has steps of 1/4 in f16."""
    text = f"""
    func.func @main(%x: tensor<2x4x3xf32>) {{
      {PARAMETERS}
      %y = top.batch_norm(%x, %s, %b, %m, %v) {{epsilon = 0.001}} : tensor<2x4x3xf32>
      top.return(%y)
    }}
    """
    assert check(FoldBatchNorm(), text, arrays=POSITIVE).rewritten == ["split-batch-norm y"]
    narrow = {"v": POSITIVE["v"].astype(np.float16)}
    checked = check(FoldBatchNorm(), text.replace("f32", "f16"), arrays=narrow)
    assert checked.rewritten == []
    assert "split-batch-norm y: the product would be rounded to f16" in checked.declined


def test_a_grouped_convolution_is_scaled_by_output_channel(check):
    text = CONV.replace("4x3x3x3", "4x1x3x3").replace("1x3x5x5", "1x4x5x5")
    text = text.replace("group = 1", "group = 4")
    checked = check(FoldBatchNorm(), text, arrays=POSITIVE, tolerance=TOLERANCE)
    assert checked.rewritten == ["fold-into-weights y"]


def test_a_matmul_of_two_matrices_takes_it_into_its_columns(check):
    text = f"""
    func.func @main(%x: tensor<6x3xf32>) {{
      %w = top.weight() {{weight = "w"}} : tensor<3x4xf32>
      {PARAMETERS}
      %p = top.matmul(%x, %w) : tensor<6x4xf32>
      %y = top.batch_norm(%p, %s, %b, %m, %v) {{epsilon = 0.001}} : tensor<6x4xf32>
      top.return(%y)
    }}
    """
    checked = check(FoldBatchNorm(), text, arrays=POSITIVE, tolerance=TOLERANCE)
    assert checked.lines[0] == "%matmul1 = top.matmul(%x, %w1, bias = %w2) : tensor<6x4xf32>"


def test_after_anything_else_it_becomes_a_product_and_a_sum(check):
    text = f"""
    func.func @main(%x: tensor<2x4x5x5xf32>) {{
      {PARAMETERS}
      %y = top.batch_norm(%x, %s, %b, %m, %v) {{epsilon = 0.001}} : tensor<2x4x5x5xf32>
      top.return(%y)
    }}
    """
    checked = check(FoldBatchNorm(), text, arrays=POSITIVE)
    assert checked.lines == [
        '%mul1 = top.binary(%x, %w1) {kind = "mul"} : tensor<2x4x5x5xf32>',
        '%add1 = top.binary(%mul1, %w2) {kind = "add"} : tensor<2x4x5x5xf32>',
        "top.return(%add1)",
    ]
    assert checked.declined == ["fold-into-weights y: an input is no convolution or matmul"]


def test_a_convolution_that_others_read_keeps_its_weights(check):
    text = CONV.replace("return(%y)", "return(%y, %conv1)")
    checked = check(FoldBatchNorm(), text, arrays=POSITIVE)
    assert checked.rewritten == ["split-batch-norm y"]
    assert checked.declined == [
        "fold-into-weights y: conv1 is used 2 times",
        "fold-scale mul1: conv1 is used 2 times",
    ]


def test_an_override_leaves_the_batch_norm_as_it_is(check):
    options = RewriteOptions({"fold-batch-norm/fold-into-weights/y": False})
    checked = check(FoldBatchNorm(), CONV, arrays=POSITIVE, options=options)
    assert checked.declined == ["fold-into-weights y: declined by an override"]
    assert not checked.result.changed


@pytest.mark.parametrize(
    ("kind", "shape"), [("mul", "4x1x1xf32"), ("mul", "f32"), ("div", "1x4x1x1xf32")]
)
def test_a_factor_per_channel_goes_into_the_weights(check, kind, shape):
    text = CONV.replace(
        "%y = top.batch_norm(%conv1, %s, %b, %m, %v) {epsilon = 0.001}",
        f'%f = top.weight() {{weight = "f"}} : tensor<{shape}>\n'
        f'  %y = top.binary(%conv1, %f) {{kind = "{kind}"}}',
    )
    checked = check(FoldBatchNorm(), text, arrays=POSITIVE, tolerance=TOLERANCE)
    assert checked.lines[0].startswith("%conv2 = top.conv(%x, %w1) {")


def test_a_factor_along_another_axis_is_declined(check):
    text = CONV.replace(
        "%y = top.batch_norm(%conv1, %s, %b, %m, %v) {epsilon = 0.001}",
        '%f = top.weight() {weight = "f"} : tensor<5xf32>\n'
        '  %y = top.binary(%conv1, %f) {kind = "mul"}',
    )
    assert check(FoldBatchNorm(), text).declined == [
        "fold-scale y: y's factor is not one number per channel"
    ]


def test_computed_statistics_are_declined(check):
    text = CONV.replace("%x: tensor<1x3x5x5xf32>", "%x: tensor<1x3x5x5xf32>, %m: tensor<4xf32>")
    text = text.replace('  %m = top.weight() {weight = "m"} : tensor<4xf32>\n', "")
    assert check(FoldBatchNorm(), text, arrays=POSITIVE).declined == [
        "fold-into-weights y: the statistics of y are computed, not constant"
    ]


def test_whole_numbers_stay_exact(check):
    text = CONV.replace(
        "%y = top.batch_norm(%conv1, %s, %b, %m, %v) {epsilon = 0.001}",
        '%f = top.weight() {weight = "f"} : tensor<f32>\n'
        '  %y = top.binary(%conv1, %f) {kind = "mul"}',
    )
    whole = np.arange(4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)
    assert check(FoldBatchNorm(), text, arrays={"w": whole}).declined == [
        "fold-scale y: the weights of conv1 are whole numbers: sums stay exact"
    ]


def test_rows_of_a_batched_matmul_are_split_off(check):
    text = f"""
    func.func @main(%x: tensor<2x4x3xf32>) {{
      %w = top.weight() {{weight = "w"}} : tensor<3x5xf32>
      {PARAMETERS}
      %p = top.matmul(%x, %w) : tensor<2x4x5xf32>
      %y = top.batch_norm(%p, %s, %b, %m, %v) {{epsilon = 0.001}} : tensor<2x4x5xf32>
      top.return(%y)
    }}
    """
    checked = check(FoldBatchNorm(), text, arrays=POSITIVE)
    assert checked.rewritten == ["split-batch-norm y"]
    assert checked.declined[0] == "fold-into-weights y: p's columns are not what y normalizes"
