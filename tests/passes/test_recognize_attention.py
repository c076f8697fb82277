"""Attention that is spelled out: recognized in the forms that exporters write, or not, and why."""

import numpy as np
import pytest

from explorer.ir.rewriting import RewriteOptions
from explorer.ir.rewriting.passes import run_pass
from explorer.passes.lower.split_attention import SplitAttentions
from explorer.passes.recognize.recognize_attention import RecognizeAttentions

Q, K, S = "tensor<2x3x5x8xf32>", "tensor<2x3x7x8xf32>", "tensor<2x3x5x7xf32>"
T = "tensor<2x3x8x7xf32>"
ARGUMENTS = f"%q: {Q}, %k: {K}, %v: {K}"
KEY = f"%t = top.transpose(%k) {{permutation = [0, 1, 3, 2]}} : {T}\n"
SCORES = f"{KEY}%s = top.matmul(%q, %t) : {S}\n"
EIGHTH = '%c = top.weight() {weight = "c"} : tensor<f32>\n'
ZERO = '%z = top.weight() {weight = "z"} : tensor<f32>\n'
ARRAYS = {"c": np.float32(0.125), "f": np.float32(-1e4), "z": np.float32(0)}

# Sums of eight products, exponentials and sums of seven: some units in the last place.
TOLERANCE = 4e-6


def weights(of: str) -> str:
    return f"%p = top.softmax({of}) {{axis = 3, logarithm = false}} : {S}\n"


MIXED = f"%y = top.matmul(%p, %v) : {Q}\n"


def body(operations: str, returned: str = "%y", arguments: str = ARGUMENTS) -> str:
    return f"func.func @main({arguments}) {{\n{operations}\ntop.return({returned})\n}}"


def recognize(check, operations, returned="%y", arguments=ARGUMENTS, arrays=None, **more):
    return check(
        RecognizeAttentions(),
        body(operations, returned, arguments),
        {**ARRAYS, **(arrays or {})},
        tolerance=TOLERANCE,
        **more,
    )


def test_attention_is_recognized_from_its_pieces(check):
    checked = recognize(check, SCORES + weights("%s") + MIXED)
    assert checked.lines == [
        f"%attention1 = top.attention(%q, %k, %v) {{scale = 1.0}} : {Q}",
        "top.return(%attention1)",
    ]
    assert set(checked.sources("attention1")) == {"t", "s", "p", "y"}
    assert checked.result.after.origins["attention1"].tensor == "y"
    assert checked.result.after.macs == checked.result.before.macs


@pytest.mark.parametrize(("kind", "scale"), [("mul", 0.125), ("div", 8.0)])
def test_a_number_behind_the_product_is_its_scale(check, kind, scale):
    scaled = f'{EIGHTH}%m = top.binary(%s, %c) {{kind = "{kind}"}} : {S}\n'
    checked = recognize(check, SCORES + scaled + weights("%m") + MIXED)
    assert f"(%q, %k, %v) {{scale = {scale}}}" in checked.lines[0]


def test_half_precision_keeps_a_scale_where_it_is(check):
    scaled = f'{EIGHTH}%m = top.binary(%s, %c) {{kind = "mul"}} : {S}\n'
    half = (SCORES + scaled + weights("%m") + MIXED).replace("xf32", "xf16")
    half = half.replace("tensor<f32>", "tensor<f16>")
    arguments = ARGUMENTS.replace("xf32", "xf16")
    program = f"func.func @main({arguments}) {{\n{half}\ntop.return(%y)\n}}"
    checked = check(RecognizeAttentions(), program, {"c": np.float16(0.125)}, tolerance=TOLERANCE)
    assert not any("top.attention" in line for line in checked.lines)
    assert any("rounds otherwise" in reason for reason in checked.declined)


def test_numbers_on_queries_and_keys_are_too(check):
    operations = (
        f'{EIGHTH}%a = top.binary(%q, %c) {{kind = "mul"}} : {Q}\n'
        + KEY
        + f'%b = top.binary(%t, %c) {{kind = "mul"}} : {T}\n%s = top.matmul(%a, %b) : {S}\n'
    )
    checked = recognize(check, operations + weights("%s") + MIXED)
    assert "(%q, %k, %v) {scale = 0.015625}" in checked.lines[0]


def test_a_mask_selects_before_a_bias_is_added(check):
    operations = (
        SCORES
        + '%f = top.weight() {weight = "f"} : tensor<f32>\n'
        + f"%x = top.select(%mask, %s, %f) : {S}\n"
        + f'%m = top.binary(%bias, %x) {{kind = "add"}} : {S}\n'
    )
    arguments = ARGUMENTS + ", %mask: tensor<5x7xi1>, %bias: tensor<2x1x1x7xf32>"
    random = np.random.default_rng(0)
    inputs = {
        **{n: random.normal(size=s).astype(np.float32) for n, s in SHAPES.items()},
        "mask": random.random((5, 7)) < 0.5,
        "bias": random.normal(size=(2, 1, 1, 7)).astype(np.float32),
    }
    checked = recognize(
        check, operations + weights("%m") + MIXED, arguments=arguments, inputs=inputs
    )
    assert "mask = %mask, bias = %bias) {fill = -10000.0, scale = 1.0}" in checked.lines[0]


SHAPES = {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 8)}


def test_a_mask_behind_a_bias_is_none_of_its(check):
    operations = (
        SCORES
        + '%f = top.weight() {weight = "f"} : tensor<f32>\n'
        + f'%m = top.binary(%s, %s2) {{kind = "add"}} : {S}\n%x = top.select(%mask, %m, %f) : {S}\n'
    )
    arguments = ARGUMENTS + f", %mask: tensor<5x7xi1>, %s2: {S}"
    checked = recognize(check, operations + weights("%x") + MIXED, arguments=arguments)
    assert not checked.fired
    assert checked.declined == [
        "recognize-attention y: expected a product of queries and keys, found m (add)"
    ]


def test_a_transposed_product_of_values_and_weights_is_transposed_attention(check):
    operations = (
        SCORES
        + weights("%s")
        + "%o = top.transpose(%p) {permutation = [0, 1, 3, 2]} : tensor<2x3x7x5xf32>\n"
        + "%y = top.matmul(%w, %o) : tensor<2x3x8x5xf32>\n"
    )
    arguments = f"%q: {Q}, %k: {K}, %w: {T}"
    checked = recognize(check, operations, arguments=arguments)
    assert [line.split(" = ")[1].split("(")[0] for line in checked.lines[:-1]] == [
        "top.transpose",
        "top.attention",
        "top.transpose",
    ]
    assert str(checked.result.after.origins["attention1"].steps) == "(('permute', (0, 1, 3, 2)),)"


@pytest.mark.parametrize(
    ("operations", "returned", "reason"),
    [
        (SCORES + weights("%s") + MIXED, "%y, %s", "s is needed elsewhere too"),
        (SCORES + weights("%s") + MIXED, "%y, %p", "p is needed elsewhere too"),
        (weights("%s2") + MIXED, "%y", "a product of queries and keys, found the input s2"),
        (
            f'%kt = top.weight() {{weight = "k"}} : {T}\n%s = top.matmul(%q, %kt) : {S}\n'
            + weights("%s")
            + MIXED,
            "%y",
            "the keys of y are weights: it is a layer",
        ),
    ],
)
def test_what_is_no_attention_says_why(check, operations, returned, reason):
    random = np.random.default_rng(0)
    arrays = {"k": random.normal(size=(2, 3, 8, 7)).astype(np.float32)}
    arguments = ARGUMENTS + f", %s2: {S}"
    checked = recognize(check, operations, returned, arguments, arrays)
    assert not [f for f in checked.fired if f.startswith("recognize")]
    assert any(reason in declined for declined in checked.declined)


def test_products_that_broadcast_otherwise_than_by_heads_are_left_alone(check):
    operations = (
        "%s = top.matmul(%q, %t) : tensor<2x3x5x7xf32>\n"
        + weights("%s")
        + "%y = top.matmul(%p, %v) : tensor<2x3x5x8xf32>"
    )
    arguments = "%q: tensor<2x3x5x8xf32>, %t: tensor<1x3x8x7xf32>, %v: tensor<1x3x7x8xf32>"
    checked = recognize(check, operations, arguments=arguments)
    assert not checked.fired
    assert "broadcast in another way than heads" in checked.declined[0]


@pytest.mark.parametrize(
    ("test", "condition"),
    [
        ('%g = top.unary(%p) {kind = "is_nan"} : tensor<2x3x5x7xi1>\n', "%g"),
        ("", "%rows"),
    ],
)
def test_a_guard_of_masked_rows_moves_behind_the_product(check, test, condition):
    operations = (
        SCORES
        + f'%m = top.binary(%s, %bias) {{kind = "add"}} : {S}\n'
        + weights("%m")
        + test
        + f"{ZERO}%h = top.select({condition}, %z, %p) : {S}\n"
        + f"%y = top.matmul(%h, %v) : {Q}"
    )
    arguments = ARGUMENTS + ", %bias: tensor<5x7xf32>, %rows: tensor<5x1xi1>"
    random = np.random.default_rng(0)
    bias = np.where(random.random((5, 7)) < 0.5, -np.inf, 0).astype(np.float32)
    bias[2] = -np.inf
    inputs = {
        **{n: random.normal(size=s).astype(np.float32) for n, s in SHAPES.items()},
        "bias": bias,
        "rows": np.isneginf(bias).all(1, keepdims=True),
    }
    checked = recognize(check, operations, arguments=arguments, inputs=inputs)
    assert checked.fired[:2] == ["zero-behind-product y", "recognize-attention matmul1"]
    assert any("top.attention(%q, %k, %v, bias = %bias)" in line for line in checked.lines)


def test_a_guard_of_single_weights_stays(check):
    operations = (
        SCORES
        + weights("%s")
        + f"{ZERO}%h = top.select(%mask, %z, %p) : {S}\n"
        + f"%y = top.matmul(%h, %v) : {Q}"
    )
    checked = recognize(check, operations, arguments=ARGUMENTS + ", %mask: tensor<5x7xi1>")
    assert not checked.fired
    assert checked.declined[0].endswith("replaces single weights, not those of whole rows")


def repeated(name: str, heads: int, times: int) -> str:
    own, wide = f"tensor<2x{heads}x1x7x8xf32>", f"tensor<2x{heads}x{times}x7x8xf32>"
    return (
        f"%{name}1 = top.reshape(%{name}) {{shape = [2, {heads}, 1, 7, 8]}} : {own}\n"
        f"%{name}2 = top.expand(%{name}1) {{shape = [2, {heads}, {times}, 7, 8]}} : {wide}\n"
        f"%{name}3 = top.reshape(%{name}2) {{shape = [2, {heads * times}, 7, 8]}} : "
        f"tensor<2x{heads * times}x7x8xf32>\n"
    )


GROUPED = "%q: tensor<2x6x5x8xf32>, %k: tensor<2x2x7x8xf32>, %v: tensor<2x2x7x8xf32>"


def test_repeated_keys_and_values_are_shared_by_heads(check):
    operations = (
        repeated("k", 2, 3)
        + repeated("v", 2, 3)
        + "%y = top.attention(%q, %k3, %v3) {scale = 0.5} : tensor<2x6x5x8xf32>"
    )
    checked = recognize(check, operations, arguments=GROUPED)
    assert checked.lines[0] == (
        "%attention1 = top.attention(%q, %k, %v) {scale = 0.5} : tensor<2x6x5x8xf32>"
    )
    only_keys = repeated("k", 2, 3) + (
        "%y = top.attention(%q, %k3, %w) {scale = 0.5} : tensor<2x6x5x8xf32>"
    )
    other = recognize(check, only_keys, arguments=GROUPED + ", %w: tensor<2x6x7x8xf32>")
    assert other.declined == ["share-heads y: keys and values of y are not repeated alike"]


# -- and back --------------------------------------------------------------------------------------


def split(check, operations, arguments=ARGUMENTS, **more):
    text = body(operations, "%y", arguments)
    return check(SplitAttentions(), text, ARRAYS, tolerance=TOLERANCE, **more)


def kinds(checked) -> list[str]:
    return [line.split(" = ")[1].split("(")[0][4:] for line in checked.lines[:-1]]


def test_attention_becomes_two_products_with_a_softmax_between(check):
    checked = split(check, f"%y = top.attention(%q, %k, %v) {{scale = 0.125}} : {Q}")
    assert kinds(checked) == ["transpose", "matmul", "binary", "softmax", "matmul"]
    assert checked.fired == ["split-attention y"]
    assert checked.result.after.macs == checked.result.before.macs
    one = split(check, f"%y = top.attention(%q, %k, %v) {{scale = 1.0}} : {Q}")
    assert kinds(one) == ["transpose", "matmul", "softmax", "matmul"]


def test_the_factor_stands_on_the_queries_where_these_are_fewer(check):
    wide = "tensor<2x3x9x8xf32>"
    arguments = f"%q: {Q}, %k: {wide}, %v: {wide}"
    checked = split(check, f"%y = top.attention(%q, %k, %v) {{scale = 0.125}} : {Q}", arguments)
    assert kinds(checked) == ["binary", "transpose", "matmul", "softmax", "matmul"]


def test_mask_and_bias_of_shared_heads_see_all_scores(check):
    arguments = GROUPED + ", %mask: tensor<5x7xi1>, %bias: tensor<2x6x1x7xf32>"
    random = np.random.default_rng(1)
    inputs = {
        "q": random.normal(size=(2, 6, 5, 8)).astype(np.float32),
        "k": random.normal(size=(2, 2, 7, 8)).astype(np.float32),
        "v": random.normal(size=(2, 2, 7, 8)).astype(np.float32),
        "mask": random.random((5, 7)) < 0.7,
        "bias": random.normal(size=(2, 6, 1, 7)).astype(np.float32),
    }
    kind = "tensor<2x6x5x8xf32>"
    operation = "%y = top.attention(%q, %k, %v, mask = %mask, bias = %bias) {fill = -1.0e4, "
    checked = split(check, operation + f"scale = 0.5}} : {kind}", arguments, inputs=inputs)
    assert kinds(checked).count("reshape") == 4 and "select" in kinds(checked)
    assert "tensor<2x2x15x7xf32>" in "".join(checked.lines)
    plain = split(check, f"%y = top.attention(%q, %k, %v) {{scale = 1.0}} : {kind}", GROUPED)
    assert kinds(plain).count("reshape") == 2


def test_scores_and_weights_keep_their_origins_on_the_way(make_program):
    working = make_program(body(SCORES + weights("%s") + MIXED), {})
    run_pass(RecognizeAttentions(), working, RewriteOptions())
    result = run_pass(SplitAttentions(), working, RewriteOptions())
    assert {o.tensor for o in result.after.origins.values()} == {"s", "p", "y"}
