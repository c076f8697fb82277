"""What kernels do not know is written in operations that they do."""

import numpy as np
import pytest

from explorer.ir.structure import operations
from explorer.ir.top.movement.concat import ConcatOp
from explorer.passes.lower.legalize import Legalize


def test_an_average_that_leaves_padding_out_gets_a_table_of_counts(check):
    checked = check(
        Legalize(),
        """
        func.func @main(%x: tensor<1x2x3x3xf32>) {
          %y = top.pool(%x) {kind = "average", window = [2, 2], strides = [1, 1],
            pads = [1, 1, 0, 0], dilations = [1, 1], includes_padding = false}
            : tensor<1x2x3x3xf32>
          top.return(%y)
        }
        """,
    )
    assert checked.lines == [
        "%average1 = top.pool(%x) {dilations = [1, 1], includes_padding = true, "
        'kind = "average", pads = [1, 1, 0, 0], strides = [1, 1], window = [2, 2]} '
        ": tensor<1x2x3x3xf32>",
        '%mul1 = top.binary(%average1, %w1) {kind = "mul"} : tensor<1x2x3x3xf32>',
        "top.return(%mul1)",
    ]
    # Window size / elements inside: the corner's window holds one of its four.
    assert checked.weight("w1").tolist() == [[[[4, 2, 2], [2, 1, 1], [2, 1, 1]]]]


def test_without_pads_the_average_may_as_well_count_them(check):
    checked = check(
        Legalize(),
        """
        func.func @main(%x: tensor<1x2x4x4xf32>) {
          %y = top.pool(%x) {kind = "average", window = [2, 2], strides = [2, 2],
            pads = [0, 0, 0, 0], dilations = [1, 1], includes_padding = false}
            : tensor<1x2x2x2xf32>
          top.return(%y)
        }
        """,
    )
    assert "includes_padding = true" in checked.lines[0]


def test_a_window_altogether_in_the_padding_is_declined(check):
    text = """
    func.func @main(%x: tensor<1x1x2x2xf32>) {
      %y = top.pool(%x) {kind = "average", window = [1, 1], strides = [1, 1],
        pads = [1, 0, 0, 0], dilations = [1, 1], includes_padding = false}
        : tensor<1x1x3x2xf32>
      top.return(%y)
    }
    """
    assert check(Legalize(), text).declined == [
        "count-padding y: a window of y lies in the padding altogether"
    ]


CONV_1D = """
func.func @main(%x: tensor<2x3x16xf32>, %r: tensor<2x4x8xf32>) {
  %w = top.weight() {weight = "w"} : tensor<4x3x5xf32>
  %b = top.weight() {weight = "b"} : tensor<4xf32>
  %y = top.conv(%x, %w, bias = %b, residual = %r) {activation = "relu", dilations = [1],
    group = 1, pads = [2, 1], strides = [2]} : tensor<2x4x8xf32>
  top.return(%y)
}
"""


def test_a_convolution_over_one_dimension_becomes_one_over_two(check):
    checked = check(Legalize(), CONV_1D)
    assert checked.lines == [
        "%reshape1 = top.reshape(%x) {shape = [2, 3, 1, 16]} : tensor<2x3x1x16xf32>",
        "%reshape2 = top.reshape(%r) {shape = [2, 4, 1, 8]} : tensor<2x4x1x8xf32>",
        "%conv1 = top.conv(%reshape1, %w1, bias = %b, residual = %reshape2) "
        '{activation = "relu", dilations = [1, 1], group = 1, pads = [0, 2, 0, 1], '
        "strides = [1, 2]} : tensor<2x4x1x8xf32>",
        "%reshape3 = top.reshape(%conv1) {shape = [2, 4, 8]} : tensor<2x4x8xf32>",
        "top.return(%reshape3)",
    ]
    origins = checked.result.after.origins
    assert origins["conv1"].steps == (("reshape", (2, 4, 1, 8)),)
    assert origins["reshape3"].steps == ()


def test_no_reshapes_stay_between_two_of_them(check):
    text = """
    func.func @main(%x: tensor<1x4x8xf32>) {
      %w = top.weight() {weight = "w"} : tensor<4x4x1xf32>
      %a = top.conv(%x, %w) {dilations = [1], group = 1, pads = [0, 0], strides = [1]}
        : tensor<1x4x8xf32>
      %y = top.pool(%a) {kind = "max", window = [2], strides = [2], pads = [0, 0],
        dilations = [1]} : tensor<1x4x4xf32>
      top.return(%y)
    }
    """
    names = [line.split(" = top.")[1].split("(")[0] for line in check(Legalize(), text).lines[:-1]]
    assert names == ["reshape", "conv", "pool", "reshape"]


VOLUME = """
func.func @main(%x: tensor<1x2x4x4x4xf32>) {
  OPERATION
  top.return(%y)
}
"""


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        (
            """%w = top.weight() {weight = "w"} : tensor<3x2x3x3x3xf32>
            %y = top.conv(%x, %w) {dilations = [1, 1, 1], group = 1, strides = [1, 1, 1],
            pads = [1, 1, 1, 0, 0, 0]} : tensor<1x3x3x3x3xf32>""",
            "0.0",
        ),
        (
            """%y = top.pool(%x) {kind = "max", window = [2, 2, 2], strides = [1, 1, 1],
            pads = [1, 1, 1, 0, 0, 0], dilations = [1, 1, 1]} : tensor<1x2x4x4x4xf32>""",
            "0xfff0000000000000 : f64",
        ),
        (
            """%y = top.pool(%x) {kind = "average", window = [2, 2, 2], strides = [1, 1, 1],
            pads = [1, 1, 1, 0, 0, 0], dilations = [1, 1, 1], includes_padding = false}
            : tensor<1x2x4x4x4xf32>""",
            "0.0",
        ),
    ],
    ids=["conv", "max", "average"],
)
def test_windows_over_three_dimensions_get_their_input_padded(check, operation, value):
    checked = check(Legalize(), VOLUME.replace("OPERATION", operation))
    assert checked.lines[0].startswith(
        "%pad1 = top.pad(%x) {high = [0, 0, 0, 0, 0], interior = [0, 0, 0, 0, 0], "
        f"low = [0, 0, 1, 1, 1], value = {value}"
    )
    assert "pads = [0, 0, 0, 0, 0, 0]" in checked.lines[1]


def test_a_batch_norm_that_is_left_over_becomes_a_product_and_a_sum(check):
    names = ("s", "b", "m", "v")
    weights = "\n".join(f'%{n} = top.weight() {{weight = "{n}"}} : tensor<3xf32>' for n in names)
    checked = check(
        Legalize(),
        f"""
        func.func @main(%x: tensor<2x3xf32>) {{
          {weights}
          %y = top.batch_norm(%x, %s, %b, %m, %v) {{epsilon = 0.001}} : tensor<2x3xf32>
          top.return(%y)
        }}
        """,
        arrays={"v": np.array([1, 2, 3], np.float32)},
    )
    assert [line.split(" = ")[1] for line in checked.lines[:-1]] == [
        "top.binary(%x, %w1) {kind",
        "top.binary(%mul1, %w2) {kind",
    ]


def test_a_range_of_known_length_is_counted_in_steps(check):
    checked = check(
        Legalize(),
        """
        func.func @main(%s: tensor<i64>, %l: tensor<i64>, %d: tensor<i64>) {
          %y = top.range(%s, %l, %d) : tensor<3xi64>
          top.return(%y)
        }
        """,
        inputs={"s": np.array(5), "l": np.array(-1), "d": np.array(-2)},
    )
    assert checked.lines == [
        '%mul1 = top.binary(%w1, %d) {kind = "mul"} : tensor<3xi64>',
        '%add1 = top.binary(%mul1, %s) {kind = "add"} : tensor<3xi64>',
        "top.return(%add1)",
    ]
    assert checked.weight("w1").tolist() == [0, 1, 2]


def three_dimensional(check, x, w, y, properties, residual=""):
    text = f"""
      func.func @main(%x: tensor<{x}xf32>, %r: tensor<{y}xf32>) {{
        %w = top.weight() {{weight = "w"}} : tensor<{w}xf32>
        %y = top.conv(%x, %w{residual}) {{group = 1, {properties}}} : tensor<{y}xf32>
        top.return(%y)
      }}
    """
    shape = [int(n) for n in w.split("x")]
    weight = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return check(Legalize(), text, {"w": weight})


@pytest.mark.parametrize(
    ("x", "w", "y", "pads", "flat"),
    [
        ("1x3x1x8x8", "4x3x1x3x3", "1x4x1x8x8", [0, 1, 1, 0, 1, 1], "1x4x8x8"),
        ("1x3x8x1x8", "4x3x3x1x3", "1x4x8x1x8", [1, 0, 1, 1, 0, 1], "1x4x8x8"),
        ("1x3x8x8x1", "4x3x3x3x1", "1x4x8x8x1", [1, 1, 0, 1, 1, 0], "1x4x8x8"),
        ("1x3x2x5x8", "4x3x1x1x3", "1x4x2x5x8", [0, 0, 1, 0, 0, 1], "1x4x10x8"),
        ("1x3x2x5x8", "4x3x1x1x1", "1x4x2x5x8", [0] * 6, "1x4x10x8"),
    ],
)
@pytest.mark.parametrize("residual", ["", ", residual = %r"])
def test_a_plain_axis_of_three_is_dropped_or_joined(check, x, w, y, pads, flat, residual):
    properties = f"dilations = [1, 1, 1], strides = [1, 1, 1], pads = {pads}"
    checked = three_dimensional(check, x, w, y, properties, residual)
    (conv,) = [line for line in checked.lines if "top.conv" in line]
    assert conv.endswith(f": tensor<{flat}xf32>")
    assert "top.pad" not in "".join(checked.lines)
    assert checked.fired[0] == "drop-plain-axis y"


def test_windows_over_three_dimensions_stay(check):
    properties = "dilations = [1, 1, 1], strides = [2, 1, 1], pads = [0, 0, 0, 0, 0, 0]"
    checked = three_dimensional(check, "1x3x4x5x8", "4x3x1x1x3", "1x4x2x5x6", properties)
    assert not checked.fired
    assert checked.declined == ["drop-plain-axis y: y has windows over three dimensions"]


def test_a_pool_over_three_dimensions_drops_a_plain_one_too(check):
    checked = check(
        Legalize(),
        """
        func.func @main(%x: tensor<1x3x1x6x6xf32>) {
          %y = top.pool(%x) {kind = "max", window = [1, 2, 2], strides = [1, 2, 2],
            pads = [0, 0, 0, 0, 0, 0], dilations = [1, 1, 1]} : tensor<1x3x1x3x3xf32>
          top.return(%y)
        }
        """,
    )
    assert "window = [2, 2]} : tensor<1x3x3x3xf32>" in checked.lines[1]


def test_a_concat_of_many_is_joined_in_groups(check):
    """No kernel joins more than 32; groups of the same shapes are equal, and share one."""
    count = 32 * 32 + 33
    names = ", ".join("%x" if number % 2 else "%z" for number in range(count))
    checked = check(
        Legalize(),
        f"""
        func.func @main(%x: tensor<1x3xf32>, %z: tensor<1x3xf32>) {{
          %y = top.concat({names}) {{axis = 0}} : tensor<{count}x3xf32>
          top.return(%y)
        }}
        """,
    )
    concats = [op for op in operations(checked.result.after.module) if isinstance(op, ConcatOp)]
    assert max(len(op.inputs) for op in concats) == 32
    # 33 groups of 32 and one operand, which are two groups of 32 and 2, which are joined.
    assert len(concats) == 33 + 2 + 1
    assert checked.fired == ["join-in-groups y", "join-in-groups concat34"]


def test_a_concat_of_few_is_one_kernel(check):
    names = ", ".join(["%x"] * 32)
    checked = check(
        Legalize(),
        f"""
        func.func @main(%x: tensor<1x3xf32>) {{
          %y = top.concat({names}) {{axis = 0}} : tensor<32x3xf32>
          top.return(%y)
        }}
        """,
    )
    assert checked.fired == []
