"""Products of floats that are quantized, and requantized, in their epilogues."""

import numpy as np
import pytest

from explorer.passes.quantize.fuse_quantization import FuseQuantization

BYTE = "!top.quantized<ui8, 0.5:3>"
WHOLE = "!top.quantized<i32, 1.0:0>"
SCALED = "!top.quantized<i32, 0.007843017578125:0>"
BY = f"#top.requantization<{BYTE}, multiplier_shift 32, nearest_up>"
GEOMETRY = "dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]"
SHAPE = "1x3x4x4"
CONV = f"%y = top.conv(%x, %w) {{{GEOMETRY}}} : tensor<{SHAPE}xf32>"
QUANTIZE = f"%q = top.quantize(%y) {{to = {BYTE}}} : tensor<{SHAPE}x{BYTE}>"
WEIGHTS = {"w": np.array([1, -1, 0.25], np.float32).reshape(3, 1, 1, 1)}
X = np.array([0.25, 0.75, -1.25, 62.75, 63, 1e9, -1e9, 0, -0.0], np.float32)
"""Ties, both ends of the bytes, and zeros."""


def function(*lines):
    body = "\n".join(lines)
    return f"""
        func.func @main(%x: tensor<1x1x4x4xf32>, %r: tensor<{SHAPE}xf32>) {{
          %w = top.weight() {{weight = "w"}} : tensor<3x1x1x1xf32>
          {body}
        }}
        """


def inputs():
    return {"x": np.resize(X, (1, 1, 4, 4)), "r": np.resize(X, (1, 3, 4, 4))}


def requantized(scaled=SCALED):
    return (
        f"%i = top.quantize(%y) {{to = {WHOLE}}} : tensor<{SHAPE}x{WHOLE}>",
        f"%t = top.bitcast(%i) {{to = {scaled}}} : tensor<{SHAPE}x{scaled}>",
        f"%q = top.requantize(%t) {{by = {BY}}} : tensor<{SHAPE}x{BYTE}>",
    )


def test_a_convolution_of_floats_writes_bytes(check):
    text = function(CONV, QUANTIZE, "top.return(%q)")
    checked = check(FuseQuantization(), text, WEIGHTS, inputs=inputs(), tolerance=0)
    assert len(checked.lines) == 2 and f"to = {BYTE}" in checked.lines[0]
    assert checked.fired == ["write-integers q"]


def test_whole_numbers_are_requantized_with_the_scale_that_a_bitcast_gives_them(check):
    text = function(CONV, *requantized(), "top.return(%q)")
    checked = check(FuseQuantization(), text, WEIGHTS, inputs=inputs(), tolerance=0)
    assert len(checked.lines) == 2
    for part in (f"to = {WHOLE}", f"taken_as = {SCALED}", f"requantization = {BY}"):
        assert part in checked.lines[0]
    assert checked.fired == ["write-integers i", "fuse-requantize q"]


def test_channels_have_scales_of_their_own(check):
    scaled = "!top.quantized<i32, axis 1, {0.5:0, 0.25:0, 0.125:0}>"
    text = function(CONV, *requantized(scaled), "top.return(%q)")
    checked = check(FuseQuantization(), text, WEIGHTS, inputs=inputs(), tolerance=0)
    assert len(checked.lines) == 2 and f"taken_as = {scaled}" in checked.lines[0]


def test_scales_along_another_axis_are_declined(check):
    scaled = "!top.quantized<i32, axis 3, {0.5:0, 0.25:0, 0.125:0, 0.5:0}>"
    text = function(CONV, *requantized(scaled), "top.return(%q)")
    checked = check(FuseQuantization(), text, WEIGHTS, inputs=inputs(), tolerance=0)
    assert "scales of q run along another axis than channels" in " ".join(checked.declined)


RESIDUAL = CONV.replace("%w)", "%w, residual = %r)")


@pytest.mark.parametrize(
    ("conv", "rest", "reason"),
    [
        (RESIDUAL, "top.return(%q)", "takes the place of its residual"),
        (CONV, "top.return(%q, %y)", "its real numbers are needed, too"),
        (CONV.replace("strides", "rounding = bf16, strides"), "top.return(%q)", "narrower float"),
    ],
)
def test_a_convolution_that_stays_real_says_why(check, conv, rest, reason):
    text = function(conv, QUANTIZE, rest)
    checked = check(FuseQuantization(), text, WEIGHTS, inputs=inputs(), tolerance=0)
    assert reason in " ".join(checked.declined)
    assert any("top.quantize" in line for line in checked.lines)


def test_whole_numbers_that_are_read_elsewhere_are_stored(check):
    text = function(CONV, *requantized(), "top.return(%q, %t)")
    checked = check(FuseQuantization(), text, WEIGHTS, inputs=inputs(), tolerance=0)
    assert "its sums are needed as they are, too" in " ".join(checked.declined)
    assert checked.fired == ["write-integers i"]


def test_a_matrix_product_writes_bytes(check):
    text = f"""
        func.func @main(%x: tensor<3x2xf32>) {{
          %w = top.weight() {{weight = "w"}} : tensor<2x3xf32>
          %y = top.matmul(%x, %w) : tensor<3x3xf32>
          %q = top.quantize(%y) {{to = {BYTE}}} : tensor<3x3x{BYTE}>
          top.return(%q)
        }}
        """
    arrays = {"w": np.array([[1, 0, -1], [0, 1, 0]], np.float32)}
    given = {"x": np.array([[0.25, 0.75], [63, 1e9], [-1e9, 0]], np.float32)}
    checked = check(FuseQuantization(), text, arrays, inputs=given, tolerance=0)
    assert len(checked.lines) == 2 and f"to = {BYTE}" in checked.lines[0]
