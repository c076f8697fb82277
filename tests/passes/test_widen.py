"""Products of narrow floats are computed in single precision and rounded once."""

import numpy as np
import pytest

from explorer.passes.lower.legalize import Legalize


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


CONV = "strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1], group = 1"


def operations_of(checked) -> list[str]:
    """The lines without the types and operands: operations and their results' element types."""
    kinds = [line.rsplit("x", 1)[-1].rstrip(">") for line in checked.lines[:-1]]
    names = [line.split(" = top.", 1)[-1].split("(")[0] for line in checked.lines[:-1]]
    return [f"{name} {kind}" for name, kind in zip(names, kinds, strict=True)]


def two_products(between: str, kind: str = "f16", extent: int = 5) -> str:
    """What lies between two convolutions of 4x4 pixels, %first and %last -> %y."""
    return f"""
        func.func @main(%x: tensor<1x2x{extent}x{extent}x{kind}>) {{
          %w = top.weight() {{weight = "w"}} : tensor<3x2x2x2x{kind}>
          %v = top.weight() {{weight = "v"}} : tensor<2x3x1x1x{kind}>
          %first = top.conv(%x, %w) {{{CONV}}} : tensor<1x3x4x4x{kind}>
          {between}
          %y = top.conv(%last, %v) {{{CONV}}} : tensor<1x2x4x4x{kind}>
          top.return(%y)
        }}
        """


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_between_products_numbers_are_rounded_and_stay_wide(check, kind):
    pool = f"""
          %last = top.pool(%first) {{kind = "max", window = [3, 3], strides = [1, 1],
            dilations = [1, 1], pads = [1, 1, 1, 1]}} : tensor<1x3x4x4x{kind}>"""
    checked = check(Legalize(), two_products(pool, kind), tolerance=0.0)
    live = [line for line in checked.lines if "top.cast(%conv" not in line or "return" in line]
    assert f"rounding = {kind}" in next(line for line in live if "top.conv" in line)
    (pooled,) = [line for line in live if "top.pool" in line]
    assert pooled.endswith("tensor<1x3x4x4xf32>") and "(%conv" in pooled
    assert not any("{to = f32}" in line for line in live[1:])
    assert "rounding" not in [line for line in live if "top.conv" in line][-1]


def test_movement_maxima_and_signs_stay_wide_whatever_their_order(check):
    between = """
          %k = top.weight() {weight = "k"} : tensor<1x1x4x4xf16>
          %a = top.unary(%first) {kind = "neg"} : tensor<1x3x4x4xf16>
          %b = top.slice(%a) {starts = [0, 0, 0, 0], stops = [1, 2, 4, 4], steps = [1, 1, 1, 1]}
            : tensor<1x2x4x4xf16>
          %c = top.concat(%b, %k) {axis = 1} : tensor<1x3x4x4xf16>
          %last = top.transpose(%c) {permutation = [0, 1, 3, 2]} : tensor<1x3x4x4xf16>"""
    checked = check(Legalize(), two_products(between), tolerance=0.0)
    wide = [name for name in operations_of(checked) if name.endswith(" f32")]
    assert wide == [
        "cast f32",
        "conv f32",
        "unary f32",
        "slice f32",
        "concat f32",
        "transpose f32",
        "conv f32",
    ]


def test_what_makes_other_numbers_is_rounded_by_itself(check):
    between = """
          %last = top.unary(%first) {kind = "sigmoid"} : tensor<1x3x4x4xf16>"""
    checked = check(Legalize(), two_products(between), tolerance=0.0)
    assert operations_of(checked)[2:5] == ["cast f16", "unary f16", "cast f32"]
    assert not any("rounding" in line for line in checked.lines)


def test_a_product_that_is_needed_as_it_is_is_not_rounded(check):
    checked = check(
        Legalize(),
        """
        func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
          %first = top.matmul(%x, %w) : tensor<2x4xf32>
          %last = top.cast(%first) {to = f16} : tensor<2x4xf16>
          %third = top.cast(%last) {to = f32} : tensor<2x4xf32>
          %y = top.binary(%first, %third) {kind = "sub"} : tensor<2x4xf32>
          top.return(%y)
        }
        """,
        tolerance=0.0,
    )
    assert operations_of(checked) == ["matmul f32", "cast f16", "cast f32", "binary f32"]
    (reason,) = checked.declined
    assert "is used 2 times: it is needed as f32 that is not rounded, too" in reason


def test_what_is_too_large_for_the_narrow_type_becomes_infinite(check):
    text = """
        func.func @main(%x: tensor<1x1xf16>, %w: tensor<1x2xf16>, %v: tensor<2x1xf16>) {
          %first = top.matmul(%x, %w) : tensor<1x2xf16>
          %y = top.matmul(%first, %v) : tensor<1x1xf16>
          top.return(%y)
        }
        """
    inputs = {
        "x": np.full((1, 1), 300, np.float16),
        "w": np.array([[300, 1]], np.float16),
        "v": np.array([[0.5], [1]], np.float16),
    }
    checked = check(Legalize(), text, inputs=inputs, tolerance=0.0)
    values = checked.result.after.run(checked.inputs)
    (output,) = [a for n, a in values.items() if a.shape == (1, 1) and n.startswith("cast")][-1:]
    assert np.isinf(output).all()
