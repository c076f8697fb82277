"""Between dequantization and quantization: integer arithmetic, exactly or up to a tie of rounding.

Scales are powers of two, so that floats hold every product exactly and no rounding can go another
way: the numbers before and after are equal.
"""

import numpy as np
import pytest

from explorer.ir.requantization import Requantization
from explorer.ir.rewriting import RewriteOptions
from explorer.passes.quantize.compute_in_integers import ComputeInIntegers
from explorer.passes.quantize.fuse_quantization import FuseQuantization
from explorer.passes.simplify.fold_constants import FoldConstants

Q = "!top.quantized<i8, 0.5:3>"
"""Of activations."""
W = "!top.quantized<i8, 0.25:0>"
Y = "!top.quantized<i8, 2.0:-7>"
GEOMETRY = "dilations = [1, 1], group = 1, pads = [1, 1, 1, 1], strides = [1, 1]"
CONV = f"""
func.func @main(%qx: tensor<1x2x4x4x{Q}>) {{
  %qw = top.weight() {{weight = "w"}} : tensor<3x2x3x3x{W}>
  %b = top.weight() {{weight = "b"}} : tensor<3xf32>
  %x = top.dequantize(%qx) {{to = f32}} : tensor<1x2x4x4xf32>
  %w = top.dequantize(%qw) {{to = f32}} : tensor<3x2x3x3xf32>
  %conv1 = top.conv(%x, %w, bias = %b) {{{GEOMETRY}}} : tensor<1x3x4x4xf32>
  REST
}}
"""
REQUANTIZED = f"""%y = top.quantize(%conv1) {{to = {Y}}} : tensor<1x3x4x4x{Y}>
  top.return(%y)"""
BIAS = np.array([1.0, -2.5, 0.125], np.float32)


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"w": random.integers(-128, 128, (3, 2, 3, 3)).astype(np.int8), "b": BIAS}


# -- products --------------------------------------------------------------------------------------


def test_a_convolution_between_pairs_becomes_one_of_integers(check):
    checked = check(ComputeInIntegers(), CONV.replace("REST", REQUANTIZED), weights())
    sums = "!top.quantized<i32, 0.125:0>"
    assert checked.lines == [
        f"%conv2 = top.conv(%qx, %qw, bias = %w1) {{{GEOMETRY}}} : tensor<1x3x4x4x{sums}>",
        f"%requantize1 = top.requantize(%conv2) {{by = #top.requantization<{Y}, float, "
        f"nearest_even>}} : tensor<1x3x4x4x{Y}>",
        "top.return(%requantize1)",
    ]
    assert checked.weight("w1").tolist() == [8, -20, 1]  # in units of the sums
    assert checked.weight("w1").dtype == np.int32
    assert checked.sources("requantize1") == ("x", "w", "conv1", "y")
    assert checked.fired == ["multiply-integers conv1", "requantize-pairs y"]


def test_a_product_without_a_quantization_behind_is_dequantized(check):
    checked = check(ComputeInIntegers(), CONV.replace("REST", "top.return(%conv1)"), weights())
    assert checked.lines[1:] == [
        "%dequantize1 = top.dequantize(%conv2) {to = f32} : tensor<1x3x4x4xf32>",
        "top.return(%dequantize1)",
    ]


def test_scales_per_filter_become_scales_per_channel(check):
    per_filter = "!top.quantized<i8, axis 0, {0.25:0, 0.5:0, 1.0:0}>"
    text = CONV.replace("REST", REQUANTIZED).replace(W, per_filter)
    checked = check(ComputeInIntegers(), text, weights())
    sums = "!top.quantized<i32, axis 1, {0.125:0, 0.25:0, 0.5:0}>"
    assert checked.lines[0].endswith(f": tensor<1x3x4x4x{sums}>")
    assert checked.weight("w1").tolist() == [8, -10, 0]


def test_a_matmul_with_scales_per_column(check):
    columns = "!top.quantized<i8, axis 1, {0.25:0, 0.5:0}>"
    checked = check(
        ComputeInIntegers(),
        f"""
        func.func @main(%qa: tensor<3x4x{Q}>) {{
          %qb = top.weight() {{weight = "b"}} : tensor<4x2x{columns}>
          %a = top.dequantize(%qa) {{to = f32}} : tensor<3x4xf32>
          %b = top.dequantize(%qb) {{to = f32}} : tensor<4x2xf32>
          %p = top.matmul(%a, %b) : tensor<3x2xf32>
          %y = top.quantize(%p) {{to = {Y}}} : tensor<3x2x{Y}>
          top.return(%y)
        }}
        """,
    )
    sums = "!top.quantized<i32, axis 1, {0.125:0, 0.25:0}>"
    assert checked.lines[0] == f"%p1 = top.matmul(%qa, %qb) : tensor<3x2x{sums}>"


def test_a_constant_that_is_added_is_the_bias_of_integers(check):
    """Behind a product of matrices, which ONNX has no bias for, and through moves before it."""
    columns = "!top.quantized<i8, axis 1, {0.25:0, 0.5:0}>"
    checked = check(
        ComputeInIntegers(),
        f"""
        func.func @main(%qa: tensor<3x2x2x{Q}>) {{
          %qb = top.weight() {{weight = "b"}} : tensor<4x2x{columns}>
          %c = top.weight() {{weight = "c"}} : tensor<2xf32>
          %a = top.dequantize(%qa) {{to = f32}} : tensor<3x2x2xf32>
          %r = top.reshape(%a) {{shape = [3, 4]}} : tensor<3x4xf32>
          %b = top.dequantize(%qb) {{to = f32}} : tensor<4x2xf32>
          %p = top.matmul(%r, %b) : tensor<3x2xf32>
          %z = top.binary(%p, %c) {{kind = "add"}} : tensor<3x2xf32>
          %y = top.quantize(%z) {{to = {Y}}} : tensor<3x2x{Y}>
          top.return(%y)
        }}
        """,
        {"b": np.full((4, 2), 3, np.int8), "c": np.array([1.5, -2.0], np.float32)},
    )
    assert [line.split("(")[0].split(" = ")[-1] for line in checked.lines] == [
        "top.reshape",
        "top.matmul",
        "top.requantize",
        "top.return",
    ]
    assert checked.weight("w1").tolist() == [12, -8]  # in units of the sums: 0.125 and 0.25


def test_two_activations_are_multiplied_too(check):
    checked = check(
        ComputeInIntegers(),
        f"""
        func.func @main(%qa: tensor<3x4x{Q}>, %qb: tensor<4x2x{Q}>) {{
          %a = top.dequantize(%qa) {{to = f32}} : tensor<3x4xf32>
          %b = top.dequantize(%qb) {{to = f32}} : tensor<4x2xf32>
          %p = top.matmul(%a, %b) : tensor<3x2xf32>
          top.return(%p)
        }}
        """,
    )
    assert checked.fired == ["multiply-integers p"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((W, "!top.quantized<i8, axis 1, {0.25:0, 0.5:0}>"), "only axis 0 is not summed over"),
        (("i8, 0.25:0", "i32, 0.25:0"), "more than 16 bits"),
    ],
)
def test_a_product_that_integers_cannot_do_says_why(check, change, reason):
    arrays = weights()
    if "i32" in change[1]:
        arrays["w"] = arrays["w"].astype(np.int32)
    text = CONV.replace("REST", REQUANTIZED).replace(*change)
    checked = check(ComputeInIntegers(), text, arrays)
    assert any(reason in declined for declined in checked.declined)


def test_a_computed_bias_stays_in_floats(check):
    text = CONV.replace("REST", REQUANTIZED).replace(
        '%b = top.weight() {weight = "b"} : tensor<3xf32>', ""
    )
    text = text.replace(f"%qx: tensor<1x2x4x4x{Q}>", f"%qx: tensor<1x2x4x4x{Q}>, %b: tensor<3xf32>")
    checked = check(ComputeInIntegers(), text, {"w": weights()["w"]})
    assert "multiply-integers conv1: the bias of conv1 is computed" in checked.declined


def test_sums_that_could_exceed_32_bits_stay_in_floats(check):
    wide = "!top.quantized<i16, 0.25:0>"
    text = (
        CONV.replace("REST", REQUANTIZED).replace(W, wide).replace(Q, "!top.quantized<i16, 0.5:3>")
    )
    arrays = {**weights(), "w": np.full((3, 2, 3, 3), 32767, np.int16)}
    zeros = {"qx": np.zeros((1, 2, 4, 4), np.int16)}
    checked = check(ComputeInIntegers(), text, arrays, inputs=zeros)
    assert any("more than 32 bits hold" in declined for declined in checked.declined)


def test_weights_that_no_product_takes_are_folded(check):
    text = CONV.replace("REST", REQUANTIZED).replace(
        "%w = top.dequantize(%qw) {to = f32} : tensor<3x2x3x3xf32>",
        """%v = top.dequantize(%qw) {to = f32} : tensor<3x2x3x3xf32>
        %w = top.unary(%v) {kind = "tanh"} : tensor<3x2x3x3xf32>""",
    )
    checked = check(FoldConstants(), text, weights())
    assert not any("dequantize(%qw)" in line for line in checked.lines)


def test_weights_of_a_product_of_integers_wait_for_it(check):
    checked = check(FoldConstants(), CONV.replace("REST", REQUANTIZED), weights())
    assert checked.declined == ["fold-constant w: conv1 may take w's integers"]


def test_weights_that_waited_in_vain_are_folded(check):
    text = CONV.replace("REST", REQUANTIZED).replace(
        W, "!top.quantized<i8, axis 1, {0.25:0, 0.5:0}>"
    )
    checked = check(ComputeInIntegers(), text, weights())
    assert checked.fired == ["fold-dequantized w"]


# -- pairs -----------------------------------------------------------------------------------------


def activation(kind: str, rest: str = "") -> str:
    return f"""%r = top.unary(%conv1) {{kind = "{kind}"{rest}}} : tensor<1x3x4x4xf32>
      %y = top.quantize(%r) {{to = {Y}}} : tensor<1x3x4x4x{Y}>
      top.return(%y)"""


def test_relu_becomes_a_limit(check):
    checked = check(ComputeInIntegers(), CONV.replace("REST", activation("relu")), weights())
    by = f"#top.requantization<{Y}, float, nearest_even, [-7, 127]>"
    assert checked.lines[1] == (
        f"%requantize1 = top.requantize(%conv2) {{by = {by}}} : tensor<1x3x4x4x{Y}>"
    )


def test_the_bounds_of_a_clip_are_quantized(check):
    clip = activation("clip", ", alpha = -10.0, beta = 40.0")
    checked = check(ComputeInIntegers(), CONV.replace("REST", clip), weights())
    assert "nearest_even, [-12, 13]>" in checked.lines[1]


def test_other_activations_stay_real(check):
    checked = check(ComputeInIntegers(), CONV.replace("REST", activation("tanh")), weights())
    assert checked.fired == ["multiply-integers conv1"]


def pair(first: str, second: str) -> str:
    return f"""
    func.func @main(%q: tensor<2x3x{first}>) {{
      %x = top.dequantize(%q) {{to = f32}} : tensor<2x3xf32>
      %y = top.quantize(%x) {{to = {second}}} : tensor<2x3x{second}>
      top.return(%y)
    }}
    """


def test_a_pair_of_one_type_is_nothing(check):
    checked = check(ComputeInIntegers(), pair(Q, Q))
    assert checked.lines[-1] == "top.return(%q)"


def test_a_pair_of_two_types_is_a_requantization(check):
    checked = check(ComputeInIntegers(), pair(Q, Y))
    assert checked.lines[-2].startswith("%requantize1 = top.requantize(%q) {by = ")


def test_a_second_requantization_to_the_same_type_only_clamps(check):
    rest = f"""%y = top.quantize(%conv1) {{to = {Y}}} : tensor<1x3x4x4x{Y}>
      %z = top.dequantize(%y) {{to = f32}} : tensor<1x3x4x4xf32>
      %r = top.unary(%z) {{kind = "relu"}} : tensor<1x3x4x4xf32>
      %u = top.quantize(%r) {{to = {Y}}} : tensor<1x3x4x4x{Y}>
      top.return(%u)"""
    checked = check(ComputeInIntegers(), CONV.replace("REST", rest), weights())
    assert "merge-requantizations" in " ".join(checked.fired)
    assert len(checked.lines) == 3
    assert "[-7, 127]" in checked.lines[1]


def test_the_scheme_is_the_one_of_the_target(check):
    how = Requantization("multiplier_shift", "nearest_up", 16)
    checked = check(ComputeInIntegers(how), CONV.replace("REST", REQUANTIZED), weights())
    assert f"by = #top.requantization<{Y}, multiplier_shift 16, nearest_up>" in checked.lines[1]
    assert checked.fired[-1] == "choose-scheme requantize1"


def test_a_ratio_beyond_the_multiplier_keeps_the_float_scheme(check):
    text = pair("!top.quantized<i8, 1.0e20:0>", Y)
    zeros = {"q": np.zeros((2, 3), np.int8)}
    checked = check(ComputeInIntegers(Requantization("shift", "down")), text, inputs=zeros)
    assert "float, nearest_even" in checked.lines[-2]
    assert any("more than 32 bits" in declined for declined in checked.declined)


def test_a_rule_can_be_switched_off(check):
    options = RewriteOptions(decisions={"compute-in-integers/requantize-pairs": False})
    checked = check(ComputeInIntegers(), pair(Q, Y), options=options)
    assert len(checked.lines) == 3


# -- movement --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "move",
    [
        "top.transpose(%x) {permutation = [0, 2, 3, 1]} : tensor<1x4x4x2xf32>",
        "top.reshape(%x) {shape = [2, 16]} : tensor<2x16xf32>",
        "top.slice(%x) {starts = [0, 0, 1, 0], stops = [1, 2, 4, 4], steps = [1, 1, 2, 1]} "
        ": tensor<1x2x2x4xf32>",
        "top.pad(%x) {low = [0, 0, 1, 1], high = [0, 0, 0, 2], interior = [0, 0, 0, 0], "
        "value = 1.5} : tensor<1x2x5x7xf32>",
        "top.concat(%x, %x) {axis = 1} : tensor<1x4x4x4xf32>",
        'top.pool(%x) {kind = "max", window = [2, 2], strides = [2, 2], dilations = [1, 1], '
        "pads = [0, 0, 0, 0]} : tensor<1x2x2x2xf32>",
    ],
)
def test_movement_is_of_integers(check, move):
    kind = move.split(" : ")[-1]
    quantized = kind.replace("f32>", f"{Q}>")
    checked = check(
        ComputeInIntegers(),
        f"""
        func.func @main(%q: tensor<1x2x4x4x{Q}>) {{
          %x = top.dequantize(%q) {{to = f32}} : tensor<1x2x4x4xf32>
          %m = {move}
          %y = top.quantize(%m) {{to = {Q}}} : {quantized}
          top.return(%y)
        }}
        """,
    )
    (moved, _) = checked.lines
    assert moved.endswith(f" : {quantized}")
    assert "%q" in moved


def test_padding_that_no_integer_stands_for_stays_real(check):
    checked = check(
        ComputeInIntegers(),
        f"""
        func.func @main(%q: tensor<4x{Q}>) {{
          %x = top.dequantize(%q) {{to = f32}} : tensor<4xf32>
          %m = top.pad(%x) {{low = [1], high = [0], interior = [0], value = 0.2}} : tensor<5xf32>
          top.return(%m)
        }}
        """,
    )
    assert checked.declined == ["move-integers m: m: no integer stands for 0.2, which it pads with"]


def test_parts_of_a_concat_are_requantized_one_by_one(check):
    checked = check(
        ComputeInIntegers(),
        f"""
        func.func @main(%p: tensor<2x3x{Q}>, %q: tensor<2x3x{W}>) {{
          %x = top.dequantize(%p) {{to = f32}} : tensor<2x3xf32>
          %z = top.dequantize(%q) {{to = f32}} : tensor<2x3xf32>
          %m = top.concat(%x, %z) {{axis = 0}} : tensor<4x3xf32>
          %y = top.quantize(%m) {{to = {Q}}} : tensor<4x3x{Q}>
          top.return(%y)
        }}
        """,
    )
    assert checked.lines[-2] == (
        f"%concat1 = top.concat(%p, %requantize1) {{axis = 0}} : tensor<4x3x{Q}>"
    )


SHUFFLE = f"""
func.func @main(%p: tensor<2x3x{Q}>, %q: tensor<2x3x{W}>) {{
  %x = top.dequantize(%p) {{to = f32}} : tensor<2x3xf32>
  %z = top.dequantize(%q) {{to = f32}} : tensor<2x3xf32>
  %m = top.concat(%x, %z) {{axis = 0}} : tensor<4x3xf32>
  %s = top.reshape(%m) {{shape = [2, 2, 3]}} : tensor<2x2x3xf32>
  %t = top.transpose(%s) {{permutation = [1, 0, 2]}} : tensor<2x2x3xf32>
  %y = top.quantize(%t) {{to = {Q}}} : tensor<2x2x3x{Q}>
  top.return(RESULTS)
}}
"""


def test_a_shuffle_of_parts_of_other_scales_moves_integers(check):
    checked = check(ComputeInIntegers(), SHUFFLE.replace("RESULTS", "%y"))
    assert not any("xf32" in line for line in checked.lines)
    assert [line.split(" = ")[1].split("(")[0] for line in checked.lines[:-1]] == [
        "top.requantize",
        "top.concat",
        "top.reshape",
        "top.transpose",
    ]


def test_a_shuffle_that_is_read_in_real_numbers_stays(check):
    checked = check(ComputeInIntegers(), SHUFFLE.replace("RESULTS", "%y, %s"))
    assert any("top.concat" in line and "xf32" in line for line in checked.lines)
    assert "quantize-before-moves y: s is read in real numbers, too" in checked.declined


def test_stored_integers_that_become_quantized_again_are_not_looked_at(check):
    checked = check(
        ComputeInIntegers(),
        f"""
        func.func @main(%q: tensor<4x{Q}>) {{
          %s = top.bitcast(%q) {{to = i8}} : tensor<4xi8>
          %t = top.bitcast(%s) {{to = {Q}}} : tensor<4x{Q}>
          %x = top.dequantize(%t) {{to = f32}} : tensor<4xf32>
          top.return(%x)
        }}
        """,
    )
    assert checked.lines[0] == "%x = top.dequantize(%q) {to = f32} : tensor<4xf32>"


# -- fusion ----------------------------------------------------------------------------------------


def test_sums_are_requantized_in_the_kernel_that_makes_them(check):
    sums = "!top.quantized<i32, 0.125:0>"
    by = f"#top.requantization<{Y}, shift, down>"
    checked = check(
        FuseQuantization(),
        f"""
        func.func @main(%q: tensor<1x2x4x4x{Q}>) {{
          %w = top.weight() {{weight = "w"}} : tensor<3x2x3x3x{W}>
          %s = top.conv(%q, %w) {{{GEOMETRY}}} : tensor<1x3x4x4x{sums}>
          %y = top.requantize(%s) {{by = {by}}} : tensor<1x3x4x4x{Y}>
          top.return(%y)
        }}
        """,
        {"w": weights()["w"]},
    )
    assert checked.lines == [
        "%conv2 = top.conv(%q, %w, bias = %w1) {dilations = [1, 1], group = 1, "
        f"pads = [1, 1, 1, 1], requantization = {by}, strides = [1, 1], subtracted = -128}} : "
        f"tensor<1x3x4x4x{Y}>",
        "top.return(%conv2)",
    ]


def test_an_addition_reads_and_writes_integers(check):
    checked = check(
        FuseQuantization(),
        f"""
        func.func @main(%p: tensor<2x3x{Q}>, %q: tensor<3x{W}>) {{
          %x = top.dequantize(%p) {{to = f32}} : tensor<2x3xf32>
          %z = top.dequantize(%q) {{to = f32}} : tensor<3xf32>
          %s = top.binary(%x, %z) {{kind = "add"}} : tensor<2x3xf32>
          %y = top.quantize(%s) {{to = {Y}}} : tensor<2x3x{Y}>
          top.return(%y)
        }}
        """,
    )
    assert len(checked.lines) == 2
    assert checked.lines[0].endswith(
        f'= top.binary(%p, %q) {{kind = "add", to = {Y}}} : tensor<2x3x{Y}>'
    )


def test_real_numbers_that_are_needed_are_not_fused_away(check):
    checked = check(
        FuseQuantization(),
        f"""
        func.func @main(%x: tensor<4xf32>) {{
          %s = top.unary(%x) {{kind = "tanh"}} : tensor<4xf32>
          %y = top.quantize(%s) {{to = {Q}}} : tensor<4x{Q}>
          top.return(%s, %y)
        }}
        """,
    )
    assert checked.declined == [
        "write-integers y: s is used 2 times: its real numbers are needed, too"
    ]


# -- averages --------------------------------------------------------------------------------------

MEAN = f"""
func.func @main(%qx: tensor<1x2x4x4x{Q}>) {{
  %x = top.dequantize(%qx) {{to = f32}} : tensor<1x2x4x4xf32>
  %m = top.reduce(%x) {{kind = "KIND", axes = [2, 3], keepdims = false}} : tensor<1x2xf32>
  %y = top.quantize(%m) {{to = {Y}}} : tensor<1x2x{Y}>
  top.return(%y)
}}
"""


@pytest.mark.parametrize(("kind", "scale"), [("mean", "0.03125"), ("sum", "0.5")])
def test_an_average_between_pairs_is_a_sum_of_integers(check, kind, scale):
    checked = check(ComputeInIntegers(), MEAN.replace("KIND", kind))
    sums = f"!top.quantized<i32, {scale}:48>"
    assert checked.lines == [
        "%m1 = top.bitcast(%qx) {to = i8} : tensor<1x2x4x4xi8>",
        "%m2 = top.cast(%m1) {to = i32} : tensor<1x2x4x4xi32>",
        '%m3 = top.reduce(%m2) {axes = [2, 3], keepdims = false, kind = "sum"} : tensor<1x2xi32>',
        f"%m4 = top.bitcast(%m3) {{to = {sums}}} : tensor<1x2x{sums}>",
        f"%requantize1 = top.requantize(%m4) {{by = #top.requantization<{Y}, float, "
        f"nearest_even>}} : tensor<1x2x{Y}>",
        "top.return(%requantize1)",
    ]
    assert checked.fired == ["sum-integers m", "requantize-pairs y"]


def test_an_average_that_nobody_quantizes_stays_one_of_floats(check):
    text = MEAN.replace("KIND", "mean")
    text = text.replace(f"  %y = top.quantize(%m) {{to = {Y}}} : tensor<1x2x{Y}>\n", "")
    checked = check(ComputeInIntegers(), text.replace("top.return(%y)", "top.return(%m)"))
    assert checked.fired == []


def test_a_sum_that_may_exceed_32_bits_is_declined(check):
    wide = "!top.quantized<i16, 0.5:0>"
    text = MEAN.replace("KIND", "sum").replace(Q, wide).replace("x4x4x", "x512x512x")
    checked = check(ComputeInIntegers(), text)
    assert checked.fired == []
    assert "may reach" in checked.declined[0]


# -- whole numbers held in floats ------------------------------------------------------------------

WHOLE = f"""
func.func @main(%qx: tensor<1x2x4x4x{Q}>) {{
  %w = top.weight() {{weight = "w"}} : tensor<3x2x3x3xf32>
  %x = top.dequantize(%qx) {{to = f32}} : tensor<1x2x4x4xf32>
  %conv1 = top.conv(%x, %w) {{{GEOMETRY}}} : tensor<1x3x4x4xf32>
  top.return(%conv1)
}}
"""


def test_weights_that_are_whole_numbers_multiply_as_integers(check):
    """Numbers of 8 bits in floats, as exporters for microcontrollers write them."""
    array = np.random.default_rng(3).integers(-128, 128, (3, 2, 3, 3)).astype(np.float32)
    checked = check(ComputeInIntegers(), WHOLE, {"w": array})
    assert "store-whole-weights conv1" in checked.fired
    assert any(rule.startswith("multiply-integers") for rule in checked.fired)
    assert any("x!top.quantized<i32, 0.5:0>" in line for line in checked.lines)


@pytest.mark.parametrize("number", [0.5, 128.0, -129.0, np.nan])
def test_weights_that_are_no_whole_numbers_of_8_bits_stay(check, number):
    array = np.zeros((3, 2, 3, 3), np.float32)
    array[0, 0, 0, 0] = number
    checked = check(ComputeInIntegers(), WHOLE, {"w": array})
    assert checked.fired == []
    assert "no whole numbers of 8 bits" in checked.declined[0]
