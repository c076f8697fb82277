"""Products of narrow floats are computed in single precision and rounded once."""

import numpy as np

from explorer.passes.legalize import Legalize


def test_a_product_of_halves_is_one_of_floats_between_casts(check):
    checked = check(
        Legalize(),
        """
        func.func @main(%x: tensor<2x3xf16>, %w: tensor<3x4xf16>, %r: tensor<2x4xf16>) {
          %y = top.matmul(%x, %w, residual = %r) {activation = "relu"} : tensor<2x4xf16>
          top.return(%y)
        }
        """,
        tolerance=0.0,
    )
    assert [line.split(" = ", 1)[-1].split("(")[0] for line in checked.lines] == [
        "top.cast",
        "top.cast",
        "top.cast",
        "top.matmul",
        "top.cast",
        "top.return",
    ]
    assert checked.lines[3].endswith("tensor<2x4xf32>")
    assert checked.lines[4].endswith("{to = f16} : tensor<2x4xf16>")


def test_constant_filters_are_widened_at_once(check):
    weight = np.arange(8, dtype=np.float16).reshape(4, 2, 1, 1) / 3
    checked = check(
        Legalize(),
        """
        func.func @main(%x: tensor<1x2x3x3xf16>) {
          %w = top.weight() {weight = "w"} : tensor<4x2x1x1xf16>
          %y = top.conv(%x, %w) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1],
            group = 1} : tensor<1x4x3x3xf16>
          top.return(%y)
        }
        """,
        {"w": weight},
        tolerance=0.0,
    )
    assert sum("top.cast" in line for line in checked.lines) == 2
    np.testing.assert_array_equal(checked.weight("w1"), weight.astype(np.float32))


def test_products_of_floats_and_of_integers_stay(check):
    for kind in ("f32", "f64", "i32"):
        text = f"""
        func.func @main(%x: tensor<2x3x{kind}>, %w: tensor<3x4x{kind}>) {{
          %y = top.matmul(%x, %w) : tensor<2x4x{kind}>
          top.return(%y)
        }}
        """
        assert not any("top.cast" in line for line in check(Legalize(), text).lines)
