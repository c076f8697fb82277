"""Activations are fused into what feeds them, and only where nothing else needs that."""

import pytest

from explorer.ir.rewriting import Fuel, RewriteOptions
from explorer.passes.fuse.fuse_activation import FuseActivation

CONV_RELU = """
func.func @main(%x: tensor<1x3x6x6xf32>) {
  %w = top.weight() {weight = "w"} : tensor<8x3x3x3xf32>
  %conv1 = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]}
    : tensor<1x8x6x6xf32>
  %relu1 = top.unary(%conv1) {kind = "KIND"} : tensor<1x8x6x6xf32>
  top.return(RETURNED)
}
"""


def conv_with(kind: str, returned: str = "%relu1") -> str:
    return CONV_RELU.replace("KIND", kind).replace("RETURNED", returned)


def test_a_relu_becomes_the_end_of_the_convolution_before_it(check):
    checked = check(FuseActivation(), conv_with("relu"))
    assert checked.lines == [
        '%conv2 = top.conv(%x, %w) {activation = "relu", dilations = [1, 1], group = 1, '
        "pads = [1, 1, 1, 1], strides = [1, 1]} : tensor<1x8x6x6xf32>",
        "top.return(%conv2)",
    ]
    assert checked.fired == ["fuse-unary relu1"]
    assert checked.sources("conv2") == ("conv1", "relu1")


def test_parameters_come_along(check):
    text = conv_with("clip").replace('kind = "clip"', 'alpha = -1.0, beta = 2.5, kind = "clip"')
    (line, _) = check(FuseActivation(), text).lines
    assert 'activation = "clip", alpha = -1.0, beta = 2.5' in line


def test_a_matmul_takes_an_activation_too(check):
    text = """
    func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x5xf32>) {
      %m = top.matmul(%a, %b) : tensor<4x5xf32>
      %y = top.unary(%m) {kind = "gelu"} : tensor<4x5xf32>
      top.return(%y)
    }
    """
    assert check(FuseActivation(), text).lines == [
        '%matmul1 = top.matmul(%a, %b) {activation = "gelu"} : tensor<4x5xf32>',
        "top.return(%matmul1)",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            conv_with("relu", "%relu1, %conv1"),
            "conv1 is used 2 times: its result without relu is needed too",
        ),
        (conv_with("exp"), "exp can make infinities of the zeros in conv1's padding channels"),
        (
            conv_with("relu").replace("dilations =", 'activation = "tanh", dilations ='),
            "conv1 ends with tanh already",
        ),
    ],
    ids=["two uses", "infinities", "second activation"],
)
def test_it_declines_with_a_reason(check, text, reason):
    checked = check(FuseActivation(), text)
    assert checked.declined == [f"fuse-unary relu1: {reason}"]
    assert not checked.result.changed


def test_a_kind_that_changes_the_type_stays(check):
    text = conv_with("is_nan").replace(
        'kind = "is_nan"} : tensor<1x8x6x6xf32>', 'kind = "is_nan"} : tensor<1x8x6x6xi1>'
    )
    assert check(FuseActivation(), text).declined == [
        "fuse-unary relu1: is_nan changes the element type of conv1"
    ]


TWO_LAYERS = """
func.func @main(%x: tensor<1x4x6x6xf32>) {
  %w = top.weight() {weight = "w"} : tensor<4x4x1x1xf32>
  %conv1 = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]}
    : tensor<1x4x6x6xf32>
  %relu1 = top.unary(%conv1) {kind = "relu"} : tensor<1x4x6x6xf32>
  %conv2 = top.conv(%relu1, %w) {dilations = [1, 1], group = 1, pads = [0, 0, 0, 0],
    strides = [1, 1]} : tensor<1x4x6x6xf32>
  %relu2 = top.unary(%conv2) {kind = "relu"} : tensor<1x4x6x6xf32>
  top.return(%relu2)
}
"""


def test_fuel_for_one_rewrite_fuses_the_first_only(check):
    checked = check(FuseActivation(), TWO_LAYERS, options=RewriteOptions(fuel=Fuel(1)))
    assert checked.fired == ["fuse-unary relu1"]


def test_an_override_declines_one_site_by_its_address(check):
    options = RewriteOptions({"fuse-activation/fuse-unary/relu1": False})
    checked = check(FuseActivation(), TWO_LAYERS, options=options)
    assert checked.fired == ["fuse-unary relu2"]
    assert checked.declined == ["fuse-unary relu1: declined by an override"]
