"""Normalizations and softmaxes that are spelled out: recognized in all their forms, or not."""

import numpy as np
import pytest

from explorer.passes.recognize.recognize_normalization import RecognizeNormalization

X, R = "tensor<2x5x8xf32>", "tensor<2x5x1xf32>"
MEAN = f'%m = top.reduce(%x) {{axes = [2], keepdims = true, kind = "mean"}} : {R}\n'
CENTERED = MEAN + f'%d = top.binary(%x, %m) {{kind = "sub"}} : {X}\n'
EPSILON = '%e = top.weight() {weight = "e"} : tensor<f32>\n'

# A sum of eight squares in another order, a root and a quotient: a few units in the last place.
TOLERANCE = 4e-6


def variance(of: str) -> str:
    return (
        f'%q = top.binary({of}, {of}) {{kind = "mul"}} : {X}\n'
        f'%v = top.reduce(%q) {{axes = [2], keepdims = true, kind = "mean"}} : {R}\n'
        + EPSILON
        + f'%s = top.binary(%v, %e) {{kind = "add"}} : {R}\n'
        f'%r = top.unary(%s) {{kind = "sqrt"}} : {R}\n'
    )


def divided(value: str) -> str:
    return f'%y = top.binary({value}, %r) {{kind = "div"}} : {X}\n'


def body(operations: str, returned: str = "%y", arguments: str = f"%x: {X}") -> str:
    return f"func.func @main({arguments}) {{\n{operations}\ntop.return({returned})\n}}"


def recognize(check, operations, returned="%y", arrays=None, **more):
    given = {"e": np.float32(1e-5), **(arrays or {})}
    text = body(operations, returned, **more)
    return check(RecognizeNormalization(), text, given, tolerance=TOLERANCE)


LAYER_NORM = f"%layer1 = top.layer_norm(%x) {{axis = 2, epsilon = 9.999999747378752e-06}} : {X}"


def test_a_layer_norm_is_recognized_from_its_pieces(check):
    checked = recognize(check, CENTERED + variance("%d") + divided("%d"))
    assert checked.lines == [LAYER_NORM, "top.return(%layer1)"]
    assert set(checked.sources("layer1")) == {"m", "d", "q", "v", "s", "r", "y"}
    assert checked.result.after.origins["layer1"].tensor == "y"


def test_a_product_with_the_reciprocal_of_the_root_is_one_too(check):
    operations = (
        CENTERED
        + variance("%d")
        + f'%i = top.unary(%r) {{kind = "reciprocal"}} : {R}\n'
        + f'%y = top.binary(%i, %d) {{kind = "mul"}} : {X}'
    )
    assert recognize(check, operations).lines[0] == LAYER_NORM


def test_a_sum_of_squares_over_the_count_is_a_variance(check):
    operations = (
        CENTERED
        + f'%q = top.reduce(%d) {{axes = [2], keepdims = true, kind = "sum_square"}} : {R}\n'
        + '%c = top.weight() {weight = "c"} : tensor<f32>\n'
        + f'%v = top.binary(%q, %c) {{kind = "mul"}} : {R}\n'
        + EPSILON
        + f'%s = top.binary(%v, %e) {{kind = "add"}} : {R}\n'
        + f'%r = top.unary(%s) {{kind = "sqrt"}} : {R}\n'
        + divided("%d")
    )
    checked = recognize(check, operations, arrays={"c": np.float32(1 / 8)})
    assert checked.lines[0] == LAYER_NORM
    other = recognize(check, operations, arrays={"c": np.float32(1 / 7)})
    assert not other.fired


def test_without_the_mean_it_is_an_rms_norm(check):
    checked = recognize(check, variance("%x") + divided("%x"))
    uncentered = LAYER_NORM.replace("axis = 2, ", "axis = 2, centered = false, ")
    assert checked.lines[0] == uncentered.replace("layer1", "rms1")
    assert checked.result.after.operations["rms1"].label() == "rms norm"


def test_the_form_that_tensorflow_writes_has_scale_and_shift(check):
    operations = (
        CENTERED
        + variance("%d")
        + '%g = top.weight() {weight = "g"} : tensor<8xf32>\n'
        + '%b = top.weight() {weight = "b"} : tensor<8xf32>\n'
        + f"""%i = top.unary(%r) {{kind = "reciprocal"}} : {R}
        %f = top.binary(%i, %g) {{kind = "mul"}} : {X}
        %k = top.binary(%x, %f) {{kind = "mul"}} : {X}
        %l = top.binary(%m, %f) {{kind = "mul"}} : {X}
        %n = top.binary(%b, %l) {{kind = "sub"}} : {X}
        %y = top.binary(%k, %n) {{kind = "add"}} : {X}"""
    )
    checked = recognize(check, operations)
    assert checked.lines == [
        LAYER_NORM.replace("(%x)", "(%x, scale = %g, shift = %b)"),
        "top.return(%layer1)",
    ]
    assert checked.fired[0] == "recognize-factored-normalization y"


def test_scale_and_shift_behind_it_become_its_own(check):
    operations = (
        f"%n = top.layer_norm(%x) {{axis = 2, epsilon = 1.0e-05}} : {X}\n"
        + '%g = top.weight() {weight = "g"} : tensor<5x1xf32>\n'
        + '%b = top.weight() {weight = "b"} : tensor<8xf32>\n'
        + '%h = top.weight() {weight = "h"} : tensor<8xf32>\n'
        + f"""%a = top.binary(%n, %g) {{kind = "mul"}} : {X}
        %c = top.binary(%a, %b) {{kind = "add"}} : {X}
        %y = top.binary(%c, %h) {{kind = "add"}} : {X}"""
    )
    checked = recognize(check, operations)
    assert len(checked.lines) == 2 and "scale = %g, shift = %w1" in checked.lines[0]
    assert checked.fired[:3] == ["scale-normalized a", "shift-normalized c", "shift-normalized y"]


@pytest.mark.parametrize(
    ("returned", "operations", "reason"),
    [
        (
            "%y",
            CENTERED.replace("[2]", "[1]").replace(R, "tensor<2x1x8xf32>")
            + variance("%d").replace("[2]", "[1]").replace(R, "tensor<2x1x8xf32>")
            + divided("%d"),
            "recognize-layer-norm y: y normalizes over axes [1] of 3: only trailing axes have one "
            "kernel",
        ),
        (
            "%y, %n",
            f"%n = top.layer_norm(%x) {{axis = 2, epsilon = 1.0e-05}} : {X}\n"
            '%g = top.weight() {weight = "g"} : tensor<8xf32>\n'
            f'%y = top.binary(%n, %g) {{kind = "mul"}} : {X}',
            "scale-normalized y: n is needed elsewhere too",
        ),
    ],
)
def test_it_declines_with_a_reason(check, returned, operations, reason):
    assert recognize(check, operations, returned).declined == [reason]


def test_the_deviation_of_another_value_is_no_norm(check):
    operations = CENTERED + variance("%z") + divided("%d")
    checked = recognize(check, operations, arguments=f"%x: {X}, %z: {X}")
    assert not checked.fired
    assert checked.declined == [
        "recognize-layer-norm y: expected the same x - mean(x) again, found the input z"
    ]


def test_what_divides_by_another_root_says_what_is_no_variance(check):
    total = f'%v = top.reduce(%x) {{axes = [2], keepdims = true, kind = "sum_square"}} : {R}\n'
    operations = total + variance("%x").split("\n", 2)[2] + divided("%x")
    checked = recognize(check, operations)
    assert not checked.fired
    assert checked.declined == [
        "recognize-layer-norm y: expected a variance, found v (reduce sum square)"
    ]


def test_a_scale_behind_a_computed_shift_is_declined_before_anything_is_changed(check):
    operations = (
        '%g = top.weight() {weight = "g"} : tensor<8xf32>\n'
        + f"%n = top.layer_norm(%x, scale = %g, shift = %z) {{axis = 2, epsilon = 1.0e-05}} : {X}\n"
        + f'%y = top.binary(%n, %g) {{kind = "mul"}} : {X}'
    )
    checked = recognize(check, operations, arguments=f"%x: {X}, %z: tensor<8xf32>")
    assert checked.declined == ["scale-normalized y: the shift of n is computed"]
    assert not checked.result.changed


# -- softmax ---------------------------------------------------------------------------------------

EXPONENTIAL = (
    f'%g = top.reduce(%x) {{axes = [2], keepdims = true, kind = "max"}} : {R}\n'
    f'%d = top.binary(%x, %g) {{kind = "sub"}} : {X}\n'
    f'%p = top.unary(%d) {{kind = "exp"}} : {X}\n'
)
TOTAL = f'%t = top.reduce(%p) {{axes = [2], keepdims = true, kind = "sum"}} : {R}\n'
SOFTMAX = f"%softmax1 = top.softmax(%x) {{axis = 2, logarithm = false}} : {X}"


@pytest.mark.parametrize(
    "operations",
    [
        EXPONENTIAL + TOTAL + f'%y = top.binary(%p, %t) {{kind = "div"}} : {X}',
        f'%p = top.unary(%x) {{kind = "exp"}} : {X}\n'
        + TOTAL
        + f'%y = top.binary(%p, %t) {{kind = "div"}} : {X}',
        EXPONENTIAL
        + TOTAL
        + f'%i = top.unary(%t) {{kind = "reciprocal"}} : {R}\n'
        + f'%y = top.binary(%p, %i) {{kind = "mul"}} : {X}',
    ],
    ids=["with maximum", "without maximum", "reciprocal"],
)
def test_a_softmax_is_recognized_from_its_pieces(check, operations):
    assert recognize(check, operations).lines == [SOFTMAX, "top.return(%softmax1)"]


def test_a_softmax_whose_exponential_is_needed_elsewhere_stays(check):
    operations = EXPONENTIAL + TOTAL + f'%y = top.binary(%p, %t) {{kind = "div"}} : {X}'
    assert recognize(check, operations, "%y, %p").declined == [
        "recognize-softmax y: p is needed elsewhere too"
    ]


@pytest.mark.parametrize(
    ("rule", "operations"),
    [
        (
            "recognize-log-softmax",
            f"%s = top.softmax(%x) {{axis = 2, logarithm = false}} : {X}\n"
            f'%y = top.unary(%s) {{kind = "log"}} : {X}',
        ),
        (
            "recognize-log-sum-exp",
            f'%s = top.reduce(%x) {{axes = [2], keepdims = true, kind = "log_sum_exp"}} : {R}\n'
            f'%y = top.binary(%x, %s) {{kind = "sub"}} : {X}',
        ),
    ],
)
def test_the_logarithm_of_a_softmax_is_one_operation(check, rule, operations):
    checked = recognize(check, operations)
    assert checked.lines[0] == SOFTMAX.replace("false", "true").replace("softmax1", "log1")
    assert checked.fired[0] == f"{rule} y"


def test_the_logarithm_of_a_sum_of_exponentials_is_one_reduction(check):
    operations = (
        f'%p = top.unary(%x) {{kind = "exp"}} : {X}\n'
        + TOTAL
        + f'%y = top.unary(%t) {{kind = "log"}} : {R}'
    )
    assert recognize(check, operations).lines[0] == (
        f'%reduce1 = top.reduce(%x) {{axes = [2], keepdims = true, kind = "log_sum_exp"}} : {R}'
    )
