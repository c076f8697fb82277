"""An activation that is added becomes the residual of a convolution."""

import pytest

from explorer.passes.fuse.fuse_residual import FuseResidual

BLOCK = """
func.func @main(%x: tensor<1x4x5x5xf32>) {
  %w = top.weight() {weight = "w"} : tensor<4x4x1x1xf32>
  %conv1 = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]}
    : tensor<1x4x5x5xf32>
  %y = top.binary(%conv1, %x) {kind = "add"} : tensor<1x4x5x5xf32>
  top.return(%y)
}
"""


@pytest.mark.parametrize("operands", ["%conv1, %x", "%x, %conv1"])
def test_what_is_added_becomes_the_residual(check, operands):
    checked = check(FuseResidual(), BLOCK.replace("%conv1, %x)", f"{operands})"))
    assert checked.lines == [
        "%conv2 = top.conv(%x, %w, residual = %x) {dilations = [1, 1], group = 1, "
        "pads = [0, 0, 0, 0], strides = [1, 1]} : tensor<1x4x5x5xf32>",
        "top.return(%conv2)",
    ]
    assert checked.sources("conv2") == ("conv1", "y")


TWO_CONVOLUTIONS = """
func.func @main(%x: tensor<1x4x5x5xf32>) {
  %w = top.weight() {weight = "w"} : tensor<4x4x1x1xf32>
  %first = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0],
    strides = [1, 1]} : tensor<1x4x5x5xf32>
  %n = top.unary(%x) {kind = "neg"} : tensor<1x4x5x5xf32>
  %last = top.conv(%n, %w) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0],
    strides = [1, 1]} : tensor<1x4x5x5xf32>
  %y = top.binary(OPERANDS) {kind = "add"} : tensor<1x4x5x5xf32>
  top.return(%y)
}
"""


@pytest.mark.parametrize("operands", ["%first, %last", "%last, %first"])
def test_of_two_convolutions_the_last_takes_the_first(check, operands):
    checked = check(FuseResidual(), TWO_CONVOLUTIONS.replace("OPERANDS", operands))
    assert checked.lines[2].startswith("%conv1 = top.conv(%n, %w, residual = %first)")


def test_where_the_last_is_needed_elsewhere_the_first_takes_it(check):
    text = TWO_CONVOLUTIONS.replace("OPERANDS", "%first, %last").replace(
        "return(%y)", "return(%y, %last)"
    )
    checked = check(FuseResidual(), text)
    assert checked.lines[2].startswith("%conv1 = top.conv(%x, %w, residual = %last)")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BLOCK.replace("return(%y)", "return(%y, %conv1)"), "conv1 is used 2 times"),
        (BLOCK.replace("%conv1, %x)", "%conv1, %conv1)"), "conv1 is used 2 times"),
        (
            BLOCK.replace("{dil", '{activation = "relu", dil'),
            "conv1 ends with an activation, and the addition comes after it",
        ),
        (
            BLOCK.replace("top.conv(%x, %w)", "top.conv(%x, %w, residual = %x)"),
            "conv1 has a residual already",
        ),
        (
            BLOCK.replace(
                "%x: tensor<1x4x5x5xf32>", "%x: tensor<1x4x5x5xf32>, %s: tensor<5xf32>"
            ).replace("%conv1, %x)", "%conv1, %s)"),
            "5 f32 is broadcast when it is added to conv1",
        ),
    ],
    ids=["two uses", "added to itself", "activation", "second residual", "broadcast"],
)
def test_it_declines_with_a_reason(check, text, reason):
    checked = check(FuseResidual(), text)
    assert checked.declined == [f"fuse-added-activation y: {reason}"]


def test_a_constant_is_left_to_the_bias(check):
    text = BLOCK.replace(
        "%conv1 = ", '%c = top.weight() {weight = "c"} : tensor<1x4x5x5xf32>\n  %conv1 = '
    ).replace("%conv1, %x)", "%conv1, %c)")
    assert check(FuseResidual(), text).declined == [
        "fuse-added-activation y: what is added to conv1 is a constant, not an activation"
    ]
