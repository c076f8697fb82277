"""Zero points of integer products: filters are centered, the bias takes the rest."""

import numpy as np
import pytest

from explorer.passes.quantize.fuse_quantization import FuseQuantization

GEOMETRY = "dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]"
SUMS = "!top.quantized<i32, 0.125:0>"


def convolution(x: str, w: str) -> str:
    return f"""
    func.func @main(%q: tensor<1x2x4x4x{x}>) {{
      %w = top.weight() {{weight = "w"}} : tensor<3x2x3x3x{w}>
      %b = top.weight() {{weight = "b"}} : tensor<3xi32>
      %s = top.conv(%q, %w, bias = %b) {{{GEOMETRY}}} : tensor<1x3x4x4x{SUMS}>
      top.return(%s)
    }}
    """


def arrays(low: int, high: int, dtype: type) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    filters = random.integers(low, high + 1, (3, 2, 3, 3)).astype(dtype)
    filters[0, 0, 0, 0], filters[0, 0, 0, 1] = low, high
    return {"w": filters, "b": np.array([5, -70, 900], np.int32)}


@pytest.mark.parametrize(
    ("x", "offset"),
    [("!top.quantized<ui8, 0.5:114>", 0), ("!top.quantized<i8, 0.5:3>", -128)],
)
def test_the_zero_point_of_the_input_becomes_part_of_the_bias(check, x, offset):
    filters = "!top.quantized<i8, 0.25:0>"
    given = arrays(-128, 127, np.int8)
    checked = check(FuseQuantization(), convolution(x, filters), given)
    assert f"subtracted = {offset}" in checked.lines[0]
    zero = 114 if offset == 0 else 3
    weights = checked.result.after.weights
    (bias,) = [weights[name] for name in weights if "offset_bias" in name]
    moved = (zero - offset) * given["w"].astype(np.int64).sum(axis=(1, 2, 3))
    np.testing.assert_array_equal(bias, given["b"] - moved)


def test_an_input_without_a_zero_point_keeps_its_bias(check):
    text = convolution("!top.quantized<ui8, 0.5:0>", "!top.quantized<i8, 0.25:0>")
    checked = check(FuseQuantization(), text, arrays(-128, 127, np.int8))
    assert "subtracted" not in checked.lines[0]


def test_unsigned_filters_that_fit_are_centered(check):
    text = convolution("!top.quantized<ui8, 0.5:114>", "!top.quantized<ui8, 0.25:120>")
    given = arrays(10, 240, np.uint8)
    checked = check(FuseQuantization(), text, given)
    weights = checked.result.after.weights
    (centered,) = [weights[name] for name in weights if "centered" in name]
    np.testing.assert_array_equal(centered, given["w"].astype(np.int64) - 120)


def test_unsigned_filters_that_do_not_fit_become_signed_with_a_zero_point(check):
    text = convolution("!top.quantized<ui8, 0.5:114>", "!top.quantized<ui8, 0.25:120>")
    checked = check(FuseQuantization(), text, arrays(0, 255, np.uint8))
    found = [str(line) for line in checked.result.after.module.walk() if "centered" in str(line)]
    assert any("!top.quantized<i8, 0.25:-8>" in line for line in found)


def test_a_sum_that_could_leave_32_bits_keeps_its_zero_point(check):
    text = convolution("!top.quantized<ui8, 0.5:114>", "!top.quantized<i8, 0.25:0>")
    given = arrays(-128, 127, np.int8)
    given["b"] = np.array([2**31 - 1, 0, 0], np.int32)
    checked = check(FuseQuantization(), text, given)
    assert "subtracted" not in checked.lines[0]
    assert any("partial sums" in reason for reason in checked.declined)


def test_of_scaled_sums_the_rest_is_taken_from_what_they_begin_as(check):
    text = f"""
    func.func @main(%q: tensor<1x2x4x4x!top.quantized<i8, 1.0:3>>, %f: tensor<f32>) {{
      %w = top.weight() {{weight = "w"}} : tensor<3x2x3x3x!top.quantized<i8, 1.0:0>>
      %b = top.weight() {{weight = "b"}} : tensor<3xf32>
      %s = top.conv(%q, %w, bias = %b, scale = %f) {{{GEOMETRY}}} : tensor<1x3x4x4xf32>
      top.return(%s)
    }}
    """
    given = arrays(-128, 127, np.int8)
    given["b"] = np.array([0.5, -7, 9], np.float32)
    checked = check(FuseQuantization(), text, given)
    assert "subtracted = -128" in checked.lines[0]
    weights = checked.result.after.weights
    (sums,) = [weights[name] for name in weights if "column_sums" in name]
    np.testing.assert_array_equal(sums, given["w"].astype(np.int64).sum(axis=(1, 2, 3)))
