"""Whole numbers that floats hold between two layers: the integers are requantized. All is exact."""

import numpy as np
import pytest

from explorer.ir.requantization import Requantization
from explorer.passes.quantize.compute_in_integers import ComputeInIntegers
from explorer.passes.quantize.fuse_quantization import FuseQuantization

BYTE = "!top.quantized<ui8, 1.0:0>"
SIGNED = "!top.quantized<i8, 1.0:0>"
WHOLE = "!top.quantized<i32, 1.0:0>"
SCALED = "!top.quantized<i32, 0.007843017578125:0>"  # 257 / 2^15
BY = f"#top.requantization<{BYTE}, multiplier_shift 32, nearest_up>"
GEOMETRY = "dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]"


def behind(value, shape, scaled=SCALED, by=BY, result=BYTE):
    """A factor and a shift, as the importer has them."""
    return f"""
          %i = top.quantize({value}) {{to = {WHOLE}}} : tensor<{shape}x{WHOLE}>
          %t = top.bitcast(%i) {{to = {scaled}}} : tensor<{shape}x{scaled}>
          %q = top.requantize(%t) {{by = {by}}} : tensor<{shape}x{result}>
          top.return(%q)"""


def convolution(rest, read="%y"):
    return f"""
        func.func @main(%qx: tensor<1x2x4x4x{BYTE}>) {{
          %w = top.weight() {{weight = "w"}} : tensor<3x2x3x3xf32>
          %b = top.weight() {{weight = "b"}} : tensor<3xf32>
          %x = top.dequantize(%qx) {{to = f32}} : tensor<1x2x4x4xf32>
          %y = top.conv(%x, %w, bias = %b) {{{GEOMETRY}}} : tensor<1x3x4x4xf32>
          {rest}
        }}
        """


def weights(seed=0):
    random = np.random.default_rng(seed)
    return {
        "w": random.integers(-40, 41, (3, 2, 3, 3)).astype(np.float32),
        "b": np.array([300, -200, 7], np.float32),
    }


def test_a_product_of_whole_numbers_is_requantized_with_the_scale_of_its_weights(check):
    text = convolution(behind("%y", "1x3x4x4"))
    checked = check(ComputeInIntegers(), text, weights())
    assert [line.split("(")[0].split(" = ")[-1] for line in checked.lines] == [
        "top.conv",
        "top.requantize",
        "top.return",
    ]
    assert checked.lines[0].endswith(f"tensor<1x3x4x4x{SCALED}>")
    assert "scale-weights" in " ".join(checked.fired)
    after = checked.result.after
    fused = check(FuseQuantization(), "\n".join(after.text.lines), after.weights)
    assert len(fused.lines) == 2 and f"requantization = {BY}" in fused.lines[0]


def test_channels_have_factors_of_their_own(check):
    scaled = "!top.quantized<i32, axis 1, {0.5:0, 0.25:0, 0.007843017578125:0}>"
    checked = check(ComputeInIntegers(), convolution(behind("%y", "1x3x4x4", scaled)), weights())
    assert checked.lines[0].endswith(f"tensor<1x3x4x4x{scaled}>")
    assert len(checked.lines) == 3


def test_sums_that_are_read_as_they_are_keep_their_scale(check):
    text = convolution(behind("%y", "1x3x4x4")).replace("top.return(%q)", "top.return(%q, %y)")
    checked = check(ComputeInIntegers(), text, weights())
    assert any("needed with their own scale" in reason for reason in checked.declined)


def test_a_scale_that_weights_cannot_have_stays_with_the_sums(check):
    """Weights have scales in single precision."""
    scaled = "!top.quantized<i32, 0.1000000000000001:0>"
    checked = check(ComputeInIntegers(), convolution(behind("%y", "1x3x4x4", scaled)), weights())
    assert any("cannot have these scales exactly" in reason for reason in checked.declined)


def residual(kind, left=BYTE, scaled="!top.quantized<i32, 2.0:0>", by=BY):
    return f"""
        func.func @main(%qa: tensor<2x8x{left}>, %qb: tensor<2x8x{SIGNED}>) {{
          %a = top.dequantize(%qa) {{to = f32}} : tensor<2x8xf32>
          %b = top.dequantize(%qb) {{to = f32}} : tensor<2x8xf32>
          %s = top.binary(%a, %b) {{kind = "{kind}"}} : tensor<2x8xf32>
          {behind("%s", "2x8", scaled, by)}
        }}
        """


@pytest.mark.parametrize("kind", ["add", "sub"])
@pytest.mark.parametrize("scale", ["2.0", "0.25", "0.007843017578125", "1.0"])
def test_sums_of_whole_numbers_are_added_in_fixed_point(check, kind, scale):
    random = np.random.default_rng(0)
    inputs = {
        "qa": random.integers(0, 256, (2, 8)).astype(np.uint8),
        "qb": random.integers(-128, 128, (2, 8)).astype(np.int8),
    }
    text = residual(kind, scaled=f"!top.quantized<i32, {scale}:0>")
    checked = check(ComputeInIntegers(), text, inputs=inputs)
    assert [line.split("(")[0].split(" = ")[-1] for line in checked.lines] == [
        "top.bitcast",
        "top.bitcast",
        "top.fixed_point",
        "top.return",
    ]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"scaled": "!top.quantized<i32, 0.3333333333333333:0>"}, "more than a short factor"),
        ({"left": "!top.quantized<ui8, 0.5:0>"}, "is not made of whole numbers"),
        ({"by": BY.replace("nearest_up", "nearest_even")}, "more than a short factor"),
    ],
)
def test_other_sums_stay_floats(check, changed, why):
    checked = check(ComputeInIntegers(), residual("add", **changed))
    assert any(why in reason for reason in checked.declined)
    assert any("top.binary" in line for line in checked.lines)


@pytest.mark.parametrize("axis", ["", "axis 1, "])
def test_bytes_are_requantized_as_they_lie(check, axis):
    scales = "{0.5:0, 0.25:0}" if axis else "0.5:0"
    scaled = f"!top.quantized<i32, {axis}{scales}>"
    text = f"""
        func.func @main(%qx: tensor<4x2x{BYTE}>) {{
          %x = top.dequantize(%qx) {{to = f32}} : tensor<4x2xf32>
          {behind("%x", "4x2", scaled)}
        }}
        """
    checked = check(ComputeInIntegers(), text)
    assert [line.split("(")[0].split(" = ")[-1] for line in checked.lines] == [
        "top.bitcast",
        "top.requantize",
        "top.return",
    ]
    assert f"to = !top.quantized<ui8, {axis}{scales}>" in checked.lines[0]


SHIFTS = Requantization("shift", "down")
DOUBLES = Requantization("doubling_high_multiply", "nearest_away_from_zero")


@pytest.mark.parametrize("how", [SHIFTS, DOUBLES], ids=str)
def test_a_short_factor_stays_what_the_file_states(check, how):
    checked = check(ComputeInIntegers(how), convolution(behind("%y", "1x3x4x4")), weights())
    assert any("states whole factors and shifts" in reason for reason in checked.declined)
    assert any(BY in line for line in checked.lines)
