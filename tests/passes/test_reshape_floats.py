"""Reshapes beside conversions between floats and integers work on the floats; numbers stay."""

import pytest

from explorer.passes.lower.reshape_floats import ReshapedFloats

Q = "!top.quantized<ui8, 0.5:9>"


def test_a_reshape_in_front_of_a_part_is_one_of_floats(check):
    checked = check(
        ReshapedFloats(),
        f"""func.func @main(%x: tensor<1x6x4x1xf32>) {{
              %q = top.quantize(%x) {{to = {Q}}} : tensor<1x6x4x1x{Q}>
              %r = top.reshape(%q) {{shape = [1, 1, 6, 4]}} : tensor<1x1x6x4x{Q}>
              top.return(%r) }}""",
    )
    assert checked.lines[0].startswith("%reshape1 = top.reshape(%x) {shape = [1, 1, 6, 4]}")
    assert (
        checked.lines[1]
        == f"%quantize1 = top.quantize(%reshape1) {{to = {Q}}} : tensor<1x1x6x4x{Q}>"
    )


def test_a_reshape_behind_a_part_is_one_of_floats(check):
    checked = check(
        ReshapedFloats(),
        f"""func.func @main(%x: tensor<1x6x4x1xf32>) {{
              %q = top.quantize(%x) {{to = {Q}}} : tensor<1x6x4x1x{Q}>
              %r = top.reshape(%q) {{shape = [24]}} : tensor<24x{Q}>
              %d = top.dequantize(%r) {{to = f32}} : tensor<24xf32>
              top.return(%q, %d) }}""",
    )
    assert "top.dequantize(%q)" in checked.lines[1]
    assert checked.lines[2].startswith("%reshape1 = top.reshape(%dequantize1) {shape = [24]}")


BY_ROW = "!top.quantized<i32, axis 1, {0.5:0, 0.25:0, 2.0:0}>"


@pytest.mark.parametrize(("shape", "axis"), [((1, 3, 8), 1), ((3, 8), 0), ((1, 1, 3, 2, 4), 2)])
def test_a_scale_for_each_slice_stays_where_slices_do(check, shape, axis):
    size, after = "x".join(map(str, shape)), BY_ROW.replace("axis 1", f"axis {axis}")
    checked = check(
        ReshapedFloats(),
        f"""func.func @main(%q: tensor<1x3x1x8x{BY_ROW}>) {{
              %r = top.reshape(%q) {{shape = {list(shape)}}} : tensor<{size}x{after}>
              %d = top.dequantize(%r) {{to = f32}} : tensor<{size}xf32>
              top.return(%d) }}""",
    )
    assert "top.dequantize(%q)" in checked.lines[0]
    assert checked.lines[1].startswith("%reshape1 = top.reshape(%dequantize1)")


def test_what_others_read_keeps_its_shape(check):
    checked = check(
        ReshapedFloats(),
        f"""func.func @main(%x: tensor<1x6x4x1xf32>) {{
              %q = top.quantize(%x) {{to = {Q}}} : tensor<1x6x4x1x{Q}>
              %r = top.reshape(%q) {{shape = [24]}} : tensor<24x{Q}>
              top.return(%q, %r) }}""",
    )
    assert not checked.result.changed
