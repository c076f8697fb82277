"""Products of bytes with zero points that are known at run time only, and pairs of weights."""

import numpy as np
import pytest

from explorer.passes.quantize.compute_in_integers import ComputeInIntegers
from explorer.passes.quantize.fuse_quantization import FuseQuantization
from explorer.passes.quantize.rules.weight_pairs import paired
from explorer.targets.capabilities import Capabilities

PAIRS = Capabilities(multiplies_pairs=True)

MATMUL = """
func.func @main(%q: tensor<3x8xLEFT>, %z: tensor<LEFT>, %s: tensor<f32>) {
  %w = top.weight() {weight = "w"} : tensor<8x4xi32>
  %a = top.cast(%q) {to = i32} : tensor<3x8xi32>
  %za = top.cast(%z) {to = i32} : tensor<i32>
  %x = top.binary(%a, %za) {kind = "sub"} : tensor<3x8xi32>
  %y = top.matmul(%x, %w) : tensor<3x4xi32>
  top.return(%y)
}
"""
SCALED = MATMUL.replace(
    "top.return(%y)",
    """%c = top.weight() {weight = "c"} : tensor<CHANNELS>
  %f = top.cast(%y) {to = f32} : tensor<3x4xf32>
  %both = top.binary(%s, %c) {kind = "mul"} : tensor<CHANNELS>
  %r = top.binary(%f, %both) {kind = "mul"} : tensor<3x4xf32>
  top.return(%r)""",
)


def weights(low: int, high: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    array = random.integers(low, high + 1, (8, 4)).astype(np.int32)
    array[0], array[1] = low, high
    return {"w": array}


@pytest.mark.parametrize(("left", "subtracted"), [("ui8", 0), ("i8", -128)])
def test_a_zero_point_of_run_time_stands_beside_sums_of_columns(check, left, subtracted):
    given = weights(-128, 127)
    checked = check(ComputeInIntegers(), MATMUL.replace("LEFT", left), given)
    (product,) = [line for line in checked.lines if "top.matmul" in line]
    assert f"left_zero = %z, right_sums = %w2) {{subtracted = {subtracted}}}" in product
    assert product.endswith("tensor<3x4x!top.quantized<i32, 1.0:0>>")
    assert checked.fired == ["multiply-bytes y"]
    assert checked.weight("w1").dtype == np.int8
    np.testing.assert_array_equal(checked.weight("w2"), given["w"].sum(axis=0))


def test_products_of_the_same_bytes_make_numbers_of_them_once(check):
    text = MATMUL.replace(
        "top.return(%y)",
        """%v = top.weight() {weight = "v"} : tensor<8x4xi32>
  %u = top.matmul(%x, %v) : tensor<3x4xi32>
  top.return(%y, %u)""",
    )
    given = weights(-128, 127)
    checked = check(ComputeInIntegers(), text.replace("LEFT", "ui8"), {**given, "v": given["w"]})
    assert checked.fired == ["multiply-bytes y", "multiply-bytes u"]
    assert sum("top.bitcast(%q)" in line for line in checked.lines) == 1


def test_constants_that_have_no_sign_become_signed_bytes(check):
    given = weights(0, 255)
    checked = check(ComputeInIntegers(), MATMUL.replace("LEFT", "ui8"), given)
    assert "tensor<8x4x!top.quantized<i8, 1.0:-128>>" in str(checked.result.after.module)
    np.testing.assert_array_equal(checked.weight("w1"), given["w"] - 128)


def test_columns_with_ranges_of_their_own_have_zero_points_of_their_own(check):
    given = weights(-100, 100)
    given["w"][:, 1] += 100
    checked = check(ComputeInIntegers(), MATMUL.replace("LEFT", "ui8"), given)
    low = given["w"].min(axis=0)
    np.testing.assert_array_equal(checked.weight("w1"), given["w"] - 128 - low)


def test_constants_of_more_than_bytes_stay_as_they_are(check):
    checked = check(ComputeInIntegers(), MATMUL.replace("LEFT", "ui8"), weights(-200, 200))
    assert checked.fired == []
    assert checked.declined == [
        "multiply-bytes y: the constant that y multiplies takes more than bytes"
    ]


def test_zero_points_of_rows_stay_in_arithmetic(check):
    text = MATMUL.replace("LEFT", "ui8").replace("%z: tensor<ui8>", "%z: tensor<3x1xui8>")
    text = text.replace("tensor<i32>", "tensor<3x1xi32>")
    checked = check(ComputeInIntegers(), text, weights(-128, 127))
    (reason,) = checked.declined
    assert reason == "multiply-bytes y: each row of what y multiplies has a zero point of its own"


@pytest.mark.parametrize("channels", ["f32", "4xf32"])
def test_a_scale_of_run_time_and_a_constant_one_end_the_product(check, channels):
    text = SCALED.replace("LEFT", "ui8").replace("CHANNELS", channels)
    checked = check(ComputeInIntegers(), text, weights(-128, 127))
    assert checked.fired == ["multiply-bytes y", "scale-sums r"]
    (product,) = [line for line in checked.lines if "top.matmul" in line]
    assert "scale = %s, channel_scales = %w3" in product and product.endswith("tensor<3x4xf32>")
    assert checked.weight("w3").shape == (4,)
    assert {"y", "f", "r"} <= set(checked.sources(product.split()[0][1:]))


def test_sums_that_are_needed_elsewhere_keep_their_scale_apart(check):
    text = SCALED.replace("LEFT", "ui8").replace("CHANNELS", "f32")
    checked = check(
        ComputeInIntegers(), text.replace("return(%r)", "return(%r, %y)"), weights(-128, 127)
    )
    assert checked.fired == ["multiply-bytes y"]
    assert any("needed elsewhere" in reason for reason in checked.declined)


def test_padding_of_a_convolution_is_the_zero_point(check):
    checked = check(
        ComputeInIntegers(),
        """
        func.func @main(%q: tensor<1x2x4x4xui8>, %z: tensor<ui8>) {
          %w = top.weight() {weight = "w"} : tensor<3x2x3x3xi32>
          %a = top.cast(%q) {to = i32} : tensor<1x2x4x4xi32>
          %za = top.cast(%z) {to = i32} : tensor<i32>
          %x = top.binary(%a, %za) {kind = "sub"} : tensor<1x2x4x4xi32>
          %y = top.conv(%x, %w) {dilations = [1, 1], group = 1, pads = [1, 0, 1, 2],
            strides = [1, 1]} : tensor<1x3x4x4xi32>
          top.return(%y)
        }
        """,
        {"w": np.arange(54, dtype=np.int32).reshape(3, 2, 3, 3) - 20},
    )
    assert checked.fired == ["multiply-bytes y"]
    assert any("top.select" in line and "1x2x6x6xui8" in line for line in checked.lines)


# -- pairs -----------------------------------------------------------------------------------------

BYTES = """
func.func @main(%q: tensor<3x6x!top.quantized<ui8, 1.0:0>>) {
  %w = top.weight() {weight = "w"} : tensor<6x4x!top.quantized<i8, 1.0:0>>
  %y = top.matmul(%q, %w) : tensor<3x4x!top.quantized<i32, 1.0:0>>
  top.return(%y)
}
"""


def pairs_fit(rows: np.ndarray) -> bool:
    pairs = rows.reshape(-1, 2, rows.shape[1]).astype(int)
    sums = [255 * np.clip(pairs, *limits).sum(axis=1) for limits in ((0, 128), (-128, 0))]
    return sums[0].max() < 2**15 and sums[1].min() >= -(2**15)


def test_neighbours_that_fit_stay(check):
    given = {"w": np.array([[64, -64] * 2] * 6, np.int8)}
    checked = check(FuseQuantization(PAIRS), BYTES, given)
    assert checked.lines[0].startswith("%matmul1 = top.matmul(%q, %w) {fits_pairs = true}")


def test_rows_change_places_until_pairs_fit(check):
    rows = np.array([[120, 3], [100, 3], [5, 2], [7, 2], [1, 1], [2, 2]], np.int8).repeat(2, axis=1)
    checked = check(FuseQuantization(PAIRS), BYTES, {"w": rows})
    assert checked.fired == ["pair-weights y"]
    gather, product = checked.lines[:2]
    assert "top.gather(%q, %w1)" in gather and "fits_pairs = true" in product
    order = checked.weight("w1")
    assert sorted(order) == list(range(6)) and order[4:].tolist() == [4, 5]
    assert pairs_fit(rows[order])


def test_products_of_the_same_bytes_share_an_order(check):
    text = BYTES.replace(
        "top.return(%y)",
        """%v = top.weight() {weight = "v"} : tensor<6x4x!top.quantized<i8, 1.0:0>>
  %z = top.matmul(%q, %v) : tensor<3x4x!top.quantized<i32, 1.0:0>>
  top.return(%y, %z)""",
    )
    w = np.array([[120, 3], [100, 3], [5, 2], [7, 2], [1, 1], [2, 2]], np.int8).repeat(2, axis=1)
    v = np.array([[1, 1], [-90, 3], [-80, 2], [-70, 2], [1, 1], [2, 2]], np.int8).repeat(2, axis=1)
    checked = check(FuseQuantization(PAIRS), text, {"w": w, "v": v})
    assert checked.fired == ["pair-weights y", "pair-weights z"]
    assert sum("top.gather" in line for line in checked.lines) == 1
    assert sum("fits_pairs = true" in line for line in checked.lines) == 2


def test_products_of_which_one_fits_nobody_have_an_order_of_their_own(check):
    text = BYTES.replace(
        "top.return(%y)",
        """%v = top.weight() {weight = "v"} : tensor<6x4x!top.quantized<i8, 1.0:0>>
  %z = top.matmul(%q, %v) : tensor<3x4x!top.quantized<i32, 1.0:0>>
  top.return(%y, %z)""",
    )
    w = np.array([[120, 3], [100, 3], [5, 2], [7, 2], [1, 1], [2, 2]], np.int8).repeat(2, axis=1)
    v = np.full((6, 4), 127, np.int8)
    checked = check(FuseQuantization(PAIRS), text, {"w": w, "v": v})
    assert checked.fired == ["pair-weights y"]


def test_rows_that_fit_nobody_are_told(check):
    given = {"w": np.full((6, 4), 127, np.int8)}
    checked = check(FuseQuantization(PAIRS), BYTES, given)
    assert checked.fired == [] and "cannot be paired" in checked.declined[0]


def test_targets_with_dot_products_of_bytes_need_no_pairs(check):
    checked = check(FuseQuantization(), BYTES, {"w": np.ones((6, 4), np.int8)})
    assert checked.fired == checked.declined == []


# -- signs -----------------------------------------------------------------------------------------

LOUD = np.array([[127, -128], [127, 127], [65, -128], [90, 0]] * 2, np.int8).repeat(2, axis=1)
"""No two rows fit 16 bits: of the first columns all are more than 64."""
SPLITS = FuseQuantization(Capabilities(multiplies_pairs=True, splits_signs=True))


def byte_product(left: str, zero: int, subtracted: int, rest: str = "") -> str:
    kind = f"!top.quantized<{left}, 1.0:{zero}>"
    return f"""
    func.func @main(%q: tensor<3x8x{kind}>) {{
      %w = top.weight() {{weight = "w"}} : tensor<8x4x!top.quantized<i8, 1.0:0>>
      {rest}
      %y = top.matmul(%q, %w) {{subtracted = {subtracted}}} : tensor<3x4x!top.quantized<i32, 1.0:0>>
      top.return(%y)
    }}
    """


@pytest.mark.parametrize(("left", "before", "after"), [("ui8", 0, 128), ("i8", -128, 0)])
def test_signs_of_rows_that_fit_nobody_are_split_off(check, left, before, after):
    checked = check(SPLITS, byte_product(left, 3, before), {"w": LOUD})
    assert checked.fired == ["split-signs y"]
    (product,) = [line for line in checked.lines if "top.matmul" in line]
    assert f"sign_sums = %w1) {{splits_signs = true, subtracted = {after}}}" in product
    wide = LOUD.astype(int)
    expected = 128 * wide.sum(axis=0) - np.minimum(wide, 0).sum(axis=0)
    np.testing.assert_array_equal(checked.weight("w1"), expected)


WINDOW = "strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], group = 1"
PICTURE = f"""
func.func @main(%q: tensor<1x4x5x5x!top.quantized<ui8, 1.0:7>>) {{
  %w = top.weight() {{weight = "w"}} : tensor<3x4x3x3x!top.quantized<i8, 1.0:0>>
  %b = top.weight() {{weight = "b"}} : tensor<3xi32>
  %y = top.conv(%q, %w, bias = %b) {{{WINDOW}}} : tensor<1x3x5x5x!top.quantized<i32, 1.0:0>>
  top.return(%y)
}}
"""


def test_signs_of_filters_are_split_off_and_padding_stands_for_0(check):
    """`check` executes the program before and after the pass."""
    w = np.random.default_rng(0).integers(-128, 128, (3, 4, 3, 3)).astype(np.int8)
    w[0], w[1] = -128, 127
    checked = check(SPLITS, PICTURE, {"w": w, "b": np.array([5, -6, 7], np.int32)})
    assert [fired.split()[0] for fired in checked.fired] == ["fold-zero-point", "split-signs"]
    (product,) = [line for line in checked.lines if "top.conv" in line]
    assert "splits_signs = true" in product and "subtracted = 128}" in product


def test_filters_of_groups_keep_their_signs(check):
    text = PICTURE.replace("group = 1", "group = 2").replace("tensor<3x4x3x3x", "tensor<2x2x3x3x")
    text = text.replace("tensor<3xi32>", "tensor<2xi32>").replace(
        "tensor<1x3x5x5x", "tensor<1x2x5x5x"
    )
    given = {"w": np.full((2, 2, 3, 3), -9, np.int8), "b": np.zeros(2, np.int32)}
    assert check(SPLITS, text, given).fired == ["fold-zero-point y"]


def test_a_zero_point_of_run_time_takes_the_sums_of_columns_along(check):
    text = byte_product("ui8", 0, 0)
    text = text.replace("ui8, 1.0:0>>)", "ui8, 1.0:0>>, %z: tensor<ui8>)")
    text = text.replace("(%q, %w)", "(%q, %w, left_zero = %z, right_sums = %t)")
    text = text.replace("%y =", '%t = top.weight() {weight = "t"} : tensor<4xi32>\n  %y =')
    sums = LOUD.astype(np.int32).sum(axis=0, dtype=np.int32)
    checked = check(SPLITS, text, {"w": LOUD, "t": sums})
    assert checked.fired == ["split-signs y"]
    np.testing.assert_array_equal(
        checked.weight("w1"), -np.minimum(LOUD.astype(int), 0).sum(axis=0)
    )


def test_pairs_are_taken_before_signs_are_split_off(check):
    given = {"w": np.array([[64, -64] * 2] * 6, np.int8)}
    checked = check(SPLITS, BYTES, given)
    assert checked.fired == ["pair-weights y"]


def test_rows_that_are_no_fours_keep_their_signs(check):
    checked = check(SPLITS, BYTES, {"w": np.full((6, 4), 127, np.int8)})
    assert checked.fired == []


def test_columns_that_fill_no_vector_keep_their_order_and_their_signs(check):
    text = BYTES.replace("6x4x", "6x3x").replace("3x4x", "3x3x")
    for rows in ([64, -64, 1], [127, 127, 127]):
        checked = check(SPLITS, text, {"w": np.array([rows] * 6, np.int8)})
        assert checked.fired == []
    assert "fewer columns than vectors have lanes" in checked.declined[0]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_paired_is_a_permutation_that_fits(seed):
    random = np.random.default_rng(seed)
    rows = np.clip(random.normal(0, 40, (40, 24)), -128, 127).astype(np.int8)
    rows[:, 12:] //= 2
    order = paired(rows)
    if order is not None:
        assert sorted(order) == list(range(40)) and pairs_fit(rows[order])
    quiet = (rows // 2).astype(np.int8)
    found = paired(quiet)
    assert found is not None and pairs_fit(quiet[found])
