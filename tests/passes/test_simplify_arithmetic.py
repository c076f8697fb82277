"""Every rule of arithmetic: what it makes of the smallest program, and why it leaves another."""

import numpy as np
import pytest

from explorer.passes.simplify.arithmetic.casts import holds_exactly
from explorer.passes.simplify.simplify_arithmetic import SimplifyArithmetic

X = "tensor<4x6xf32>"
FLOATS = np.float32

CONSTANTS = {
    "zero": FLOATS(0),
    "one": FLOATS(1),
    "minus_one": FLOATS(-1),
    "two": FLOATS(2),
    "three": FLOATS(3),
    "six": FLOATS(6),
    "row": np.arange(1, 7, dtype=FLOATS),
    "column": np.arange(1, 5, dtype=FLOATS).reshape(4, 1),
    "magic": FLOATS(12582912.0),
    "minus_magic": FLOATS(-12582912.0),
    "half": FLOATS(0.5),
    "minus_half": FLOATS(-0.5),
    "yes": np.array(True),
    "no": np.array(False),
}
TYPES = {"row": "tensor<6xf32>", "column": "tensor<4x1xf32>"}


def body(operations: str, returned: str = "%y", arguments: str = f"%x: {X}, %z: {X}") -> str:
    used = [name for name in CONSTANTS if f"%{name}" in operations]
    weights = "\n".join(
        f'%{name} = top.weight() {{weight = "{name}"}} : '
        f"{TYPES.get(name, 'tensor<i1>' if name in ('yes', 'no') else 'tensor<f32>')}"
        for name in used
    )
    return f"func.func @main({arguments}) {{\n{weights}\n{operations}\ntop.return({returned})\n}}"


def unary(name: str, value: str, kind: str, more: str = "", kind_of: str = X) -> str:
    return f'{name} = top.unary({value}) {{{more}kind = "{kind}"}} : {kind_of}\n'


def binary(name: str, left: str, right: str, kind: str, kind_of: str = X) -> str:
    return f'{name} = top.binary({left}, {right}) {{kind = "{kind}"}} : {kind_of}\n'


def simplify(check, operations: str, returned: str = "%y", **more):
    text = body(operations, returned, **more)
    arrays = {name: array for name, array in CONSTANTS.items() if f'"{name}"' in text}
    return check(SimplifyArithmetic(), text, arrays)


@pytest.mark.parametrize(
    ("rule", "operations", "expected"),
    [
        (
            "cancel-pair",
            unary("%a", "%x", "neg") + unary("%y", "%a", "neg"),
            ["top.return(%x)"],
        ),
        (
            "apply-once",
            unary("%a", "%x", "relu") + unary("%y", "%a", "relu"),
            ['%a = top.unary(%x) {kind = "relu"} : tensor<4x6xf32>', "top.return(%a)"],
        ),
        (
            "apply-once",
            unary("%a", "%x", "floor") + unary("%y", "%a", "round"),
            ['%a = top.unary(%x) {kind = "floor"} : tensor<4x6xf32>', "top.return(%a)"],
        ),
        (
            "ignore-sign",
            unary("%a", "%x", "neg") + unary("%y", "%a", "abs"),
            ['%abs1 = top.unary(%x) {kind = "abs"} : tensor<4x6xf32>', "top.return(%abs1)"],
        ),
        (
            "subtract-instead",
            unary("%a", "%z", "neg") + binary("%y", "%x", "%a", "add"),
            ['%sub1 = top.binary(%x, %z) {kind = "sub"} : tensor<4x6xf32>', "top.return(%sub1)"],
        ),
        (
            "subtract-instead",
            unary("%a", "%z", "neg") + binary("%y", "%x", "%a", "sub"),
            ['%add1 = top.binary(%x, %z) {kind = "add"} : tensor<4x6xf32>', "top.return(%add1)"],
        ),
        (
            "subtract-instead",
            unary("%a", "%x", "neg") + binary("%y", "%a", "%z", "add"),
            ['%sub1 = top.binary(%z, %x) {kind = "sub"} : tensor<4x6xf32>', "top.return(%sub1)"],
        ),
        (
            "swap-difference",
            binary("%a", "%x", "%z", "sub") + unary("%y", "%a", "neg"),
            ['%sub1 = top.binary(%z, %x) {kind = "sub"} : tensor<4x6xf32>', "top.return(%sub1)"],
        ),
        (
            "negate-instead",
            binary("%y", "%x", "%minus_one", "mul"),
            ['%neg1 = top.unary(%x) {kind = "neg"} : tensor<4x6xf32>', "top.return(%neg1)"],
        ),
        (
            "negate-instead",
            binary("%y", "%zero", "%x", "sub"),
            ['%neg1 = top.unary(%x) {kind = "neg"} : tensor<4x6xf32>', "top.return(%neg1)"],
        ),
        (
            "invert-instead",
            binary("%y", "%one", "%x", "div"),
            [
                '%reciprocal1 = top.unary(%x) {kind = "reciprocal"} : tensor<4x6xf32>',
                "top.return(%reciprocal1)",
            ],
        ),
        (
            "divide-instead",
            unary("%a", "%z", "reciprocal") + binary("%y", "%x", "%a", "mul"),
            ['%div1 = top.binary(%x, %z) {kind = "div"} : tensor<4x6xf32>', "top.return(%div1)"],
        ),
        ("merge-equal-operands", binary("%y", "%x", "%x", "max"), ["top.return(%x)"]),
        (
            "constant-to-the-right",
            binary("%y", "%row", "%x", "mul"),
            ['%mul1 = top.binary(%x, %row) {kind = "mul"} : tensor<4x6xf32>', "top.return(%mul1)"],
        ),
        (
            "add-instead",
            binary("%y", "%x", "%row", "sub"),
            ['%add1 = top.binary(%x, %w1) {kind = "add"} : tensor<4x6xf32>', "top.return(%add1)"],
        ),
        (
            "merge-constants",
            binary("%a", "%x", "%two", "mul") + binary("%y", "%a", "%row", "mul"),
            ['%mul1 = top.binary(%x, %w1) {kind = "mul"} : tensor<4x6xf32>', "top.return(%mul1)"],
        ),
        (
            "merge-constants",
            binary("%a", "%x", "%row", "max") + binary("%y", "%a", "%two", "max"),
            ['%max1 = top.binary(%x, %w1) {kind = "max"} : tensor<4x6xf32>', "top.return(%max1)"],
        ),
        (
            "sign-to-constant",
            unary("%a", "%x", "neg") + binary("%y", "%a", "%row", "mul"),
            ['%mul1 = top.binary(%x, %w1) {kind = "mul"} : tensor<4x6xf32>', "top.return(%mul1)"],
        ),
        (
            "multiply-instead",
            binary("%y", "%x", "%three", "div"),
            ['%mul1 = top.binary(%x, %w1) {kind = "mul"} : tensor<4x6xf32>', "top.return(%mul1)"],
        ),
        (
            "multiply-by-itself",
            binary("%y", "%x", "%two", "pow"),
            ['%mul1 = top.binary(%x, %x) {kind = "mul"} : tensor<4x6xf32>', "top.return(%mul1)"],
        ),
        (
            "multiply-by-itself",
            binary("%y", "%x", "%three", "pow"),
            [
                '%mul1 = top.binary(%x, %x) {kind = "mul"} : tensor<4x6xf32>',
                '%mul2 = top.binary(%mul1, %x) {kind = "mul"} : tensor<4x6xf32>',
                "top.return(%mul2)",
            ],
        ),
        (
            "take-root",
            unary("%a", "%x", "abs") + binary("%y", "%a", "%half", "pow"),
            [
                '%a = top.unary(%x) {kind = "abs"} : tensor<4x6xf32>',
                '%sqrt1 = top.unary(%a) {kind = "sqrt"} : tensor<4x6xf32>',
                "top.return(%sqrt1)",
            ],
        ),
        (
            "take-root",
            unary("%a", "%x", "exp") + binary("%y", "%a", "%minus_half", "pow"),
            [
                '%a = top.unary(%x) {kind = "exp"} : tensor<4x6xf32>',
                '%sqrt1 = top.unary(%a) {kind = "sqrt"} : tensor<4x6xf32>',
                '%reciprocal1 = top.unary(%sqrt1) {kind = "reciprocal"} : tensor<4x6xf32>',
                "top.return(%reciprocal1)",
            ],
        ),
        (
            "invert-power",
            binary("%y", "%x", "%minus_one", "pow"),
            [
                '%reciprocal1 = top.unary(%x) {kind = "reciprocal"} : tensor<4x6xf32>',
                "top.return(%reciprocal1)",
            ],
        ),
        (
            "merge-clamps",
            unary("%a", "%x", "relu") + binary("%y", "%a", "%six", "min"),
            [
                '%clip1 = top.unary(%x) {alpha = 0.0, beta = 6.0, kind = "clip"} : tensor<4x6xf32>',
                "top.return(%clip1)",
            ],
        ),
        (
            "merge-clamps",
            binary("%a", "%x", "%two", "max") + binary("%y", "%a", "%six", "max"),
            ['%max1 = top.binary(%x, %w1) {kind = "max"} : tensor<4x6xf32>', "top.return(%max1)"],
        ),
        (
            "remove-clamp",
            unary("%a", "%x", "sigmoid") + unary("%y", "%a", "relu"),
            ['%a = top.unary(%x) {kind = "sigmoid"} : tensor<4x6xf32>', "top.return(%a)"],
        ),
        (
            "relu-instead",
            binary("%y", "%x", "%zero", "max"),
            ['%relu1 = top.unary(%x) {kind = "relu"} : tensor<4x6xf32>', "top.return(%relu1)"],
        ),
    ],
)
def test_a_rule_makes_the_program_simpler(check, rule, operations, expected):
    checked = simplify(check, operations)
    assert checked.lines == expected
    assert f"{rule} y" in checked.fired


@pytest.mark.parametrize(
    ("operations", "returned", "reason"),
    [
        (
            unary("%a", "%z", "neg") + binary("%y", "%x", "%a", "add"),
            "%y, %a",
            "subtract-instead y: a is needed elsewhere too",
        ),
        (
            binary("%a", "%x", "%z", "sub") + unary("%y", "%a", "neg"),
            "%y, %a",
            "swap-difference y: a is needed elsewhere too",
        ),
        (
            binary("%a", "%x", "%two", "mul") + binary("%y", "%a", "%row", "mul"),
            "%y, %a",
            "merge-constants y: a is needed elsewhere too",
        ),
        (
            unary("%a", "%x", "neg") + binary("%y", "%a", "%row", "mul"),
            "%y, %a",
            "sign-to-constant y: a is needed elsewhere too",
        ),
        (
            binary("%a", "%x", "%row", "mul") + binary("%y", "%a", "%column", "mul"),
            "%y",
            "merge-constants y: the merged constant would have 24 elements instead of 6 and 4",
        ),
        (
            binary("%a", "%x", "%magic", "add") + binary("%y", "%a", "%minus_magic", "add"),
            "%y",
            "merge-constants y: the constants cancel: the first addition rounds on purpose",
        ),
        (
            binary("%a", "%x", "%three", "div") + unary("%y", "%a", "round"),
            "%y",
            "multiply-instead a: y rounds the quotient: a tie could fall to the other side",
        ),
        (
            binary("%a", "%x", "%zero", "div") + binary("%y", "%a", "%z", "add"),
            "%y",
            "multiply-instead a: the inverse of a divisor is no normal number of the element type",
        ),
        (
            binary("%y", "%x", "%half", "pow"),
            "%y",
            "take-root y: what y takes the root of may be negative",
        ),
        (
            unary("%a", "%x", "relu") + binary("%y", "%a", "%six", "min"),
            "%y, %a",
            "merge-clamps y: a is needed elsewhere too",
        ),
    ],
)
def test_a_rule_declines_with_a_reason(check, operations, returned, reason):
    assert reason in simplify(check, operations, returned).declined


def test_a_power_of_two_is_exact_even_where_something_rounds_below(check):
    operations = binary("%a", "%x", "%two", "div") + unary("%y", "%a", "round")
    assert simplify(check, operations).fired == ["multiply-instead a", "erase-unused two"]


def test_a_factor_behind_an_offset_merges_with_the_one_before_it(check):
    operations = (
        binary("%a", "%x", "%row", "mul")
        + binary("%b", "%a", "%three", "add")
        + binary("%y", "%b", "%six", "mul")
    )
    checked = simplify(check, operations)
    assert checked.lines == [
        '%mul1 = top.binary(%x, %w1) {kind = "mul"} : tensor<4x6xf32>',
        '%add1 = top.binary(%mul1, %w2) {kind = "add"} : tensor<4x6xf32>',
        "top.return(%add1)",
    ]
    assert checked.fired[0] == "merge-scales y"
    np.testing.assert_array_equal(checked.weight("w1"), 6 * CONSTANTS["row"])
    assert checked.weight("w2") == 18


def test_an_inverse_that_is_broadcast_stays_a_product(check):
    column = "tensor<4x1xf32>"
    operations = unary("%a", "%c", "reciprocal", kind_of=column) + binary("%y", "%x", "%a", "mul")
    checked = simplify(check, operations, arguments=f"%x: {X}, %c: {column}")
    assert checked.declined == ["divide-instead y: a is broadcast: inverting it first is cheaper"]


@pytest.mark.parametrize(
    ("source", "between", "target", "merges"),
    [
        ("i32", "i64", "f32", True),
        ("f16", "f32", "f64", True),
        ("i8", "f32", "i32", True),
        ("f32", "f16", "f32", False),
        ("i64", "f64", "i32", False),
        ("f32", "i32", "i1", False),
    ],
)
def test_casts_merge_where_the_type_between_holds_every_number(
    check, source, between, target, merges
):
    text = f"""func.func @main(%x: tensor<8x{source}>) {{
      %a = top.cast(%x) {{to = {between}}} : tensor<8x{between}>
      %y = top.cast(%a) {{to = {target}}} : tensor<8x{target}>
      top.return(%y)
    }}"""
    checked = check(SimplifyArithmetic(), text)
    if merges:
        assert checked.lines[0] == (f"%cast1 = top.cast(%x) {{to = {target}}} : tensor<8x{target}>")
    else:
        assert checked.declined[0].startswith("merge-casts y: a rounds: 8 ")


def test_a_detour_over_a_wider_type_vanishes(check):
    text = """func.func @main(%x: tensor<8xi32>) {
      %a = top.cast(%x) {to = i64} : tensor<8xi64>
      %y = top.cast(%a) {to = i32} : tensor<8xi32>
      top.return(%y)
    }"""
    assert check(SimplifyArithmetic(), text).lines == ["top.return(%x)"]


def test_a_comparison_of_whole_numbers_is_negated_and_one_of_floats_is_not(check):
    def text(kind):
        return f"""func.func @main(%x: tensor<8x{kind}>, %z: tensor<8x{kind}>) {{
          %a = top.binary(%x, %z) {{kind = "less"}} : tensor<8xi1>
          %y = top.unary(%a) {{kind = "not"}} : tensor<8xi1>
          top.return(%y)
        }}"""

    whole = check(SimplifyArithmetic(), text("i32"))
    assert (
        whole.lines[0] == '%greater1 = top.binary(%x, %z) {kind = "greater_equal"} : tensor<8xi1>'
    )
    assert check(SimplifyArithmetic(), text("f32")).declined == [
        "negate-comparison y: a compares f32: not-a-number is in no order"
    ]


CONDITION = "%c: tensor<4x6xi1>"


@pytest.mark.parametrize(
    ("rule", "operations", "expected"),
    [
        ("choose-known", f"%y = top.select(%yes, %x, %z) : {X}", "top.return(%x)"),
        ("choose-known", f"%y = top.select(%no, %x, %z) : {X}", "top.return(%z)"),
        ("choose-equal", f"%y = top.select(%c, %x, %x) : {X}", "top.return(%x)"),
        (
            "swap-choices",
            unary("%n", "%c", "not", kind_of="tensor<4x6xi1>")
            + f"%y = top.select(%n, %x, %z) : {X}",
            f"%select1 = top.select(%c, %z, %x) : {X}",
        ),
        (
            "cast-condition",
            f"%y = top.select(%c, %one, %zero) : {X}",
            f"%cast1 = top.cast(%c) {{to = f32}} : {X}",
        ),
        ("known-truth", binary("%y", "%c", "%yes", "and", "tensor<4x6xi1>"), "top.return(%c)"),
        ("known-truth", binary("%y", "%c", "%no", "or", "tensor<4x6xi1>"), "top.return(%c)"),
        (
            "known-truth",
            binary("%y", "%c", "%yes", "xor", "tensor<4x6xi1>"),
            '%not1 = top.unary(%c) {kind = "not"} : tensor<4x6xi1>',
        ),
    ],
)
def test_conditions_that_are_known_or_that_a_cast_can_say(check, rule, operations, expected):
    checked = simplify(check, operations, arguments=f"%x: {X}, %z: {X}, {CONDITION}")
    assert checked.lines[0] == expected
    assert f"{rule} y" in checked.fired


def test_sources_of_merged_operations_are_all_kept(check):
    operations = unary("%a", "%x", "relu") + binary("%y", "%a", "%six", "min")
    checked = simplify(check, operations)
    assert checked.sources("clip1") == ("a", "y")
    assert checked.result.after.origins["clip1"].tensor == "y"


ROTATED = """
  %n = top.unary(%b) {kind = "neg"} : tensor<2x3x4xf32>
  %j = top.concat(%n, %a) {axis = 2} : tensor<2x3x8xf32>
  %c = top.weight() {weight = "c"} : tensor<SHAPExf32>
  %y = top.binary(%j, %c) {kind = "mul"} : tensor<2x3x8xf32>
"""


@pytest.mark.parametrize(("shape", "signed"), [("3x8", (3, 8)), ("8", (8,)), ("3x1", (3, 8))])
def test_the_sign_of_a_rotated_half_goes_into_the_constant(check, shape, signed):
    arguments = "%a: tensor<2x3x4xf32>, %b: tensor<2x3x4xf32>"
    checked = simplify(check, ROTATED.replace("SHAPE", shape), arguments=arguments)
    assert checked.lines == [
        "%concat1 = top.concat(%b, %a) {axis = 2} : tensor<2x3x8xf32>",
        '%mul1 = top.binary(%concat1, %w1) {kind = "mul"} : tensor<2x3x8xf32>',
        "top.return(%mul1)",
    ]
    assert checked.weight("w1").shape == signed


def test_a_rotated_half_that_is_needed_elsewhere_keeps_its_sign(check):
    arguments = "%a: tensor<2x3x4xf32>, %b: tensor<2x3x4xf32>"
    checked = simplify(check, ROTATED.replace("SHAPE", "8"), "%y, %n", arguments=arguments)
    assert checked.declined == ["move-signs y: j or what it joins is needed elsewhere too"]


@pytest.mark.parametrize(
    ("kind", "merges"), [("mul", False), ("add", False), ("max", True), ("div", False)]
)
def test_half_precision_is_not_rounded_otherwise_than_the_model_says(check, kind, merges):
    text = f"""func.func @main(%x: tensor<8xf16>) {{
      %c = top.weight() {{weight = "c"}} : tensor<8xf16>
      %d = top.weight() {{weight = "d"}} : tensor<8xf16>
      %a = top.binary(%x, %c) {{kind = "{kind}"}} : tensor<8xf16>
      %y = top.binary(%a, %d) {{kind = "{kind}"}} : tensor<8xf16>
      top.return(%y)
    }}"""
    arrays = {name: np.arange(1, 9).astype(np.float16) for name in "cd"}
    checked = check(SimplifyArithmetic(), text, arrays, tolerance=0.0)
    assert bool([f for f in checked.fired if not f.startswith("erase")]) == merges
    if not merges:
        assert "float16 has few digits" in checked.declined[0]


@pytest.mark.parametrize(
    ("source", "target", "is_exact"),
    [
        ("uint8", "float8_e5m2fnuz", False),
        ("int4", "float4_e2m1fn", False),
        ("int8", "bfloat16", True),
        ("int16", "bfloat16", False),
        ("int16", "float32", True),
        ("int64", "float64", False),
        ("float8_e4m3fn", "float16", True),
        ("float16", "bfloat16", False),
        ("float8_e8m0fnu", "float32", True),
        ("bool", "float8_e8m0fnu", False),
        ("uint8", "int16", True),
        ("uint8", "int8", False),
        ("float32", "float32", True),
    ],
)
def test_a_type_holds_another_where_every_number_comes_back(source, target, is_exact):
    assert holds_exactly(np.dtype(source), np.dtype(target)) == is_exact
