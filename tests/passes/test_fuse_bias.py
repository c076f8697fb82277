"""Constants per channel become the bias of what they are added to."""

import numpy as np
import pytest

from explorer.passes.fuse.fuse_bias import FuseBias

CONV = """
func.func @main(%x: tensor<2x3x5x5xf32>) {
  %w = top.weight() {weight = "w"} : tensor<4x3x1x1xf32>
  %b = top.weight() {weight = "b"} : tensor<SHAPE>
  %conv1 = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]}
    : tensor<2x4x5x5xf32>
  %y = top.binary(%conv1, %b) {kind = "add"} : tensor<2x4x5x5xf32>
  top.return(%y)
}
"""


@pytest.mark.parametrize("shape", ["4x1x1xf32", "1x4x1x1xf32", "f32", "1x1xf32"])
def test_a_constant_per_channel_becomes_the_bias_of_a_convolution(check, shape):
    checked = check(FuseBias(), CONV.replace("SHAPE", shape))
    assert checked.lines == [
        "%conv2 = top.conv(%x, %w, bias = %w1) {dilations = [1, 1], group = 1, "
        "pads = [0, 0, 0, 0], strides = [1, 1]} : tensor<2x4x5x5xf32>",
        "top.return(%conv2)",
    ]
    assert checked.weight("w1").shape == (4,)
    assert checked.sources("conv2") == ("conv1", "y")


def test_a_vector_becomes_the_bias_of_a_matmul_as_it_is(check):
    checked = check(
        FuseBias(),
        """
        func.func @main(%x: tensor<2x7x3xf32>, %m: tensor<3x4xf32>) {
          %b = top.weight() {weight = "b"} : tensor<4xf32>
          %p = top.matmul(%x, %m) : tensor<2x7x4xf32>
          %y = top.binary(%b, %p) {kind = "add"} : tensor<2x7x4xf32>
          top.return(%y)
        }
        """,
    )
    assert checked.lines == [
        "%matmul1 = top.matmul(%x, %m, bias = %b) : tensor<2x7x4xf32>",
        "top.return(%matmul1)",
    ]


def test_a_constant_that_is_subtracted_changes_its_sign(check):
    text = CONV.replace("SHAPE", "4x1x1xf32").replace('kind = "add"', 'kind = "sub"')
    numbers = np.array([1, 2, 3, 4], np.float32)
    checked = check(FuseBias(), text, arrays={"b": numbers.reshape(4, 1, 1)})
    assert checked.weight("w1").tolist() == [-1, -2, -3, -4]


def test_two_constants_add_up(check):
    text = CONV.replace("SHAPE", "4x1x1xf32").replace(
        "top.return(%y)",
        """%z = top.binary(%y, %b) {kind = "add"} : tensor<2x4x5x5xf32>
        top.return(%z)""",
    )
    numbers = np.array([1, 2, 3, 4], np.float32)
    checked = check(FuseBias(), text, arrays={"b": numbers.reshape(4, 1, 1)})
    assert checked.weight("w2").tolist() == [2, 4, 6, 8]
    assert checked.fired == ["fuse-added-constant y", "fuse-added-constant z"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            CONV.replace("SHAPE", "5xf32"),
            "a constant of shape 5 is not one number per channel of conv1",
        ),
        (
            CONV.replace("SHAPE", "f32").replace("return(%y)", "return(%y, %conv1)"),
            "conv1 is used 2 times",
        ),
        (
            CONV.replace("SHAPE", "f32").replace("{dil", '{activation = "relu", dil'),
            "conv1 ends with an activation, and the constant comes after it",
        ),
    ],
    ids=["along the width", "two uses", "activation"],
)
def test_it_declines_with_a_reason(check, text, reason):
    assert check(FuseBias(), text).declined == [f"fuse-added-constant y: {reason}"]


def test_a_constant_that_enlarges_the_result_is_no_bias(check):
    text = """
    func.func @main(%x: tensor<1x3xf32>, %m: tensor<3x4xf32>) {
      %b = top.weight() {weight = "b"} : tensor<5x1x4xf32>
      %p = top.matmul(%x, %m) : tensor<1x4xf32>
      %y = top.binary(%p, %b) {kind = "add"} : tensor<5x1x4xf32>
      top.return(%y)
    }
    """
    assert check(FuseBias(), text).declined == [
        "fuse-added-constant y: the sum has another shape than p"
    ]
