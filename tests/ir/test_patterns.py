"""The pattern language: what each part finds, what it says where it does not, and that it ends."""

import numpy as np
import pytest
from xdsl.ir import Operation

from explorer.ir.inspection.printing import parse
from explorer.ir.operation import identity_of
from explorer.ir.patterns import (
    Found,
    Pattern,
    PatternRule,
    about,
    clip,
    computed,
    concat,
    exp,
    is_nan,
    kept,
    log,
    match,
    maximum,
    neg,
    number,
    operation,
    optional,
    product,
    property_of,
    reduced,
    relu,
    repeated,
    select,
    shared,
    sigmoid,
    softmax,
    sqrt,
    tanh,
    transpose,
    unary,
    value,
    weight,
)
from explorer.ir.patterns.search import MAX_VISITS
from explorer.ir.rewriting import Declined
from explorer.ir.structure import operations
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.weights import Weights

SQUARE = "tensor<4x4xf32>"
NUMBERS = {"half": 0.5, "one": 1.0, "two": 2.0, "eight": 8.0, "third": 1 / 3}
BINARY = {"add", "sub", "mul", "div", "pow", "max", "min"}
x, z, c, d = value("x"), value("z"), number("c"), number("d")


class Program:
    """`y = mul x half` lines over two inputs %x and %z of 4x4 numbers, and named constants."""

    def __init__(self, steps: str, returned: str = "%y") -> None:
        lines = [f'%{name} = top.weight() {{weight = "{name}"}} : tensor<f32>' for name in NUMBERS]
        lines.append(f'%w = top.weight() {{weight = "w"}} : {SQUARE}')
        for step in steps.split(";"):
            name, _, kind, *operands = step.split()
            lines.append(self._line(name, kind, [f"%{operand}" for operand in operands]))
        text = "\n".join(lines)
        head = f"func.func @main(%x: {SQUARE}, %z: {SQUARE})"
        module = parse(f"{head} {{\n{text}\ntop.return({returned})\n}}")
        self.module = module  # operations live as long as their module
        self.operations = {identity_of(op): op for op in operations(module)}
        arrays = {name: np.array(n, np.float32) for name, n in NUMBERS.items()}
        self.weights = Weights({**arrays, "w": np.arange(16, dtype=np.float32).reshape(4, 4)})

    @staticmethod
    def _line(name: str, kind: str, operands: list[str]) -> str:
        given = ", ".join(operands)
        if kind in BINARY:
            return f'%{name} = top.binary({given}) {{kind = "{kind}"}} : {SQUARE}'
        if kind.startswith("sum"):
            axis = kind.removeprefix("sum")
            shape = {"0": "1x4", "1": "4x1"}[axis]
            properties = f'{{axes = [{axis}], keepdims = true, kind = "sum"}}'
            return f"%{name} = top.reduce({given}) {properties} : tensor<{shape}xf32>"
        others = {
            "matmul": "top.matmul({}) {{}}",
            "transpose": "top.transpose({}) {{permutation = [1, 0]}}",
            "softmax": "top.softmax({}) {{axis = 1, logarithm = false}}",
            "log_softmax": "top.softmax({}) {{axis = 1, logarithm = true}}",
            "clip": 'top.unary({}) {{alpha = 0.0, beta = 6.0, kind = "clip"}}',
        }
        text = others.get(kind, 'top.unary({}) {{kind = "' + kind + '"}}').format(given)
        return f"%{name} = {text.removesuffix(' {}')} : {SQUARE}"

    def match(self, pattern: Pattern, root: str = "y") -> Found | None:
        return match(pattern, self.operations[root], self.weights)

    def reason(self, pattern: Pattern, root: str = "y") -> str:
        with pytest.raises(Declined) as raised:
            self.match(pattern, root)
        return str(raised.value)


def names(steps: list[Operation]) -> list[str]:
    return [identity_of(step) for step in steps]


# -- what parts find -------------------------------------------------------------------------------


def test_a_match_gives_the_values_numbers_and_operations_that_parts_stand_for():
    program = Program("e = exp x;y = add e one")
    power = exp(x)
    found = program.match(power + c)
    assert found is not None
    assert found[x] is program.operations["e"].operands[0]
    assert found[c] == 1.0 and found[power] is program.operations["e"]
    assert found.value(c) is program.operations["one"].results[0]
    assert found.get(d) is None and d not in found
    assert found.root is program.operations["y"] and names(found.steps) == ["e"]


@pytest.mark.parametrize("steps", ["e = exp x;y = add e one", "e = exp x;y = add one e"])
def test_operands_of_commutative_operations_are_found_in_both_orders(steps):
    assert Program(steps).match(exp(x) + 1) is not None


def test_operands_of_the_others_are_not():
    program = Program("e = exp x;y = sub one e")
    assert program.match(1 - exp(x)) is not None
    assert program.match(exp(x) - 1) is None


def test_orders_are_tried_again_for_what_stands_further_out():
    """x may be either operand of the inner sum; only what stands outside says which."""
    program = Program("s = add z x;e = exp s;y = mul e x")
    found = program.match(exp(x + z) * x)
    assert found is not None and found[x].name_hint == "x" and found[z].name_hint == "z"


def test_a_part_that_stands_twice_is_the_same_value_twice():
    assert Program("s = sigmoid x;y = mul x s").match(x * sigmoid(x)) is not None
    assert Program("s = sigmoid z;y = mul x s").match(x * sigmoid(x)) is None
    square = exp(x)
    assert Program("e = exp x;y = mul e e").match(square * square) is not None
    assert Program("e = exp x;f = exp z;y = mul e f").match(square * square) is None


def test_two_parts_may_stand_for_the_same_value():
    found = Program("y = add x x").match(x + z)
    assert found is not None and found[x] is found[z]


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        (x * 0.5, True),
        (x * 2, False),
        (x * number("n", lambda n: n < 1), True),
        (x * number("n", lambda n: n > 1), False),
        (x * weight("n"), True),
        (computed("m") * computed("n"), False),
        (x / 0.5, False),
    ],
)
def test_constants_are_found_by_value_or_by_a_test(pattern, fits):
    assert (Program("y = mul x half").match(pattern) is not None) == fits


def test_a_constant_gives_its_array_and_is_no_number():
    matrix = weight("w")
    program = Program("y = mul x w")
    found = program.match(x * matrix)
    assert found is not None and found[matrix].shape == (4, 4)
    assert program.match(x * c) is None


def test_about_allows_for_the_rounding_of_constants():
    program = Program("y = mul x third")
    assert program.match(x * about(1 / 3)) is not None
    assert program.match(x * (1 / 3)) is None and program.match(x * about(0.3333)) is None


def test_a_number_that_stands_twice_may_be_two_weights_that_are_equal():
    pattern = exp(x * c) + c
    assert Program("m = mul x half;e = exp m;y = add e half").match(pattern) is not None
    assert Program("m = mul x half;e = exp m;y = add e two").match(pattern) is None


def test_properties_are_given_by_value_by_a_test_or_by_a_name():
    axes = property_of("axes")
    both = x - reduced("sum", x, axes) - reduced("sum", z, axes)
    program = Program("a = sum1 x;b = sum1 z;m = sub x a;y = sub m b")
    found = program.match(both)
    assert found is not None and found[axes] == (1,)
    assert Program("a = sum0 x;b = sum1 z;m = sub x a;y = sub m b").match(both) is None
    assert program.match(reduced("sum", x, lambda given: len(given) == 2), "a") is None
    assert program.match(operation(UnaryOp, x), "a") is None


def test_an_operation_may_be_asked_itself():
    program = Program("y = clip x")
    assert program.match(clip(x, 0, 6)) is not None
    assert program.match(clip(x, 0, 1)) is None


def test_any_number_of_operands_means_exactly_those_that_are_given():
    text = "%y = top.concat(%x, %z, %x) {axis = 0} : tensor<12x4xf32>"
    module = parse(f"func.func @main(%x: {SQUARE}, %z: {SQUARE}) {{\n{text}\ntop.return(%y)\n}}")
    (joined,) = (op for op in operations(module) if op.name == "top.concat")
    assert match(concat(x, z, x), joined, Weights()) is not None
    assert match(concat(x, z), joined, Weights()) is None
    assert match(concat(axis=0), joined, Weights()) is not None


def test_the_first_alternative_that_leads_to_a_match_is_taken():
    centred = x - reduced("sum", x)
    pattern = exp(centred | x)
    found = Program("s = sum1 x;d = sub x s;y = exp d").match(pattern)
    assert found is not None and centred in found and found[x].name_hint == "x"
    found = Program("s = sum1 z;d = sub x s;y = exp d").match(pattern)
    assert found is not None and centred not in found and found[x].name_hint == "d"


def test_an_optional_step_may_be_missing():
    pattern = log(optional(lambda inner: inner + c, exp(x)))
    found = Program("e = exp x;s = add e one;y = log s").match(pattern)
    assert found is not None and found[c] == 1.0 and names(found.steps) == ["s", "e"]
    found = Program("e = exp x;y = log e").match(pattern)
    assert found is not None and found.get(c) is None


def test_repeated_steps_bind_their_own_parts_each_time():
    pattern = exp(repeated(lambda inner: inner + number("n"), relu(x)))
    found = Program("r = relu x;a = add r one;b = add a two;y = exp b").match(pattern)
    assert found is not None
    assert found.all("n") == [1.0, 2.0] and names(found.steps) == ["b", "a", "r"]
    assert Program("r = relu x;y = exp r").match(pattern) is not None
    always_the_same = exp(repeated(lambda inner: inner + c, relu(x)))
    assert (
        Program("r = relu x;a = add r one;b = add a two;y = exp b").match(always_the_same) is None
    )
    at_most_once = exp(repeated(lambda inner: inner + number("n"), relu(x), most=1))
    assert Program("r = relu x;a = add r one;b = add a two;y = exp b").match(at_most_once) is None


@pytest.mark.parametrize(
    "steps",
    [
        "s = sigmoid x;m = mul x s;y = mul m half",
        "s = sigmoid x;h = mul half s;y = mul h x",
        "s = sigmoid x;h = mul x half;y = mul s h",
        "s = sigmoid x;m = mul x s;y = div m two",
    ],
)
def test_a_product_is_found_however_it_is_bracketed(steps):
    pattern = product(c, x, sigmoid(x))
    found = Program(steps).match(pattern)
    assert found is not None and found[pattern] == found[c] == 0.5
    assert len(found.steps) == 2


def test_a_scaled_value_gives_up_numbers_where_that_leads_to_a_match():
    pattern = product(c, x) * sigmoid(x)
    found = Program("m = mul x half;t = div m two;s = sigmoid x;y = mul t s").match(pattern)
    assert found is not None and found[c] == 0.25
    whole = Program("m = mul x half;s = sigmoid m;y = mul m s")
    found = whole.match(pattern)
    assert found is not None and found[c] == 1.0 and found[x].name_hint == "m"


def test_conditions_see_what_was_found_so_far():
    pattern = (x * c + d).where(lambda found: found[c] == found[d])
    assert Program("m = mul x half;y = add m half").match(pattern) is not None
    assert Program("m = mul x half;y = add m two").match(pattern) is None


def test_like_excludes_what_broadcasts():
    pattern = maximum(x, c).like(x)
    assert Program("y = max x half").match(pattern) is not None
    program = Program("s = sum1 x;y = sub s z")
    assert program.match((x - z).like(x)) is None
    assert program.match((x - z).like(z)) is not None


# -- uses ------------------------------------------------------------------------------------------

SOFTMAX = "e = exp x;t = sum1 e;y = div e t"


def test_what_a_match_reads_twice_itself_is_its_own():
    power = exp(x)
    found = Program(SOFTMAX).match(power / reduced("sum", power))
    assert found is not None and names(found.steps) == ["t", "e"]


def test_what_others_read_is_no_part_of_a_match_and_that_is_told():
    power = exp(x)
    pattern = power / reduced("sum", power)
    assert Program(SOFTMAX, "%y, %e").reason(pattern) == "e is needed elsewhere too"
    assert Program(SOFTMAX, "%y, %t").reason(pattern) == "t is needed elsewhere too"


def test_shared_steps_may_be_read_elsewhere_and_kept_ones_are_not_taken_over():
    program = Program("e = exp x;n = neg e;y = log n", "%y, %e")
    found = program.match(log(neg(shared(exp(x)))))
    assert found is not None and names(found.steps) == ["n", "e"]
    found = program.match(log(neg(kept(exp(x)))))
    assert found is not None and names(found.steps) == ["n"]
    assert program.match(shared(log(neg(exp(x))))) is not None
    both = Program("e = exp x;n = neg e;y = log n", "%y, %n")
    assert both.reason(log(neg(kept(exp(x))))) == "n is needed elsewhere too"


# -- near misses -----------------------------------------------------------------------------------

q, k, v = value("q"), value("k"), value("v")
ATTENTION = softmax(product(c, q @ transpose(k))).telling() @ v


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (
            "s = matmul x z;p = softmax s;y = matmul p z",
            "expected transpose(k), found the input z",
        ),
        (
            "t = transpose z;s = matmul x t;r = relu s;p = softmax r;y = matmul p z",
            "expected q @ transpose(k), found r (relu)",
        ),
        (
            "p = softmax x;y = matmul p z",
            "expected q @ transpose(k), found the input x",
        ),
    ],
)
def test_a_near_miss_says_which_part_failed_and_what_was_there(steps, reason):
    assert Program(steps).reason(ATTENTION) == reason


def test_without_a_telling_operation_there_is_no_candidate():
    program = Program("r = relu x;y = matmul r z")
    assert program.match(ATTENTION) is None
    quiet = softmax(q @ transpose(k)) @ v
    assert Program("p = softmax x;y = matmul p z").match(quiet) is None


def test_of_several_attempts_the_one_that_got_furthest_is_told():
    pattern = unary("neg", exp(x).telling() + relu(tanh(sqrt(z))))
    program = Program("e = exp x;t = tanh z;r = relu t;s = add r e;y = neg s")
    assert program.reason(pattern) == "expected sqrt(z), found the input z"


def test_alternatives_that_fail_at_the_same_place_are_told_together():
    pattern = exp(x).telling() / (reduced("sum", z) | relu(z))
    program = Program("e = exp x;n = neg z;y = div e n")
    assert program.reason(pattern) == "expected sum(z) or relu(z), found n (neg)"


@pytest.mark.parametrize(
    ("pattern", "steps", "reason"),
    [
        (
            sigmoid(x).telling() * x,
            "s = sigmoid x;y = mul s z",
            "expected the same x again, found the input z",
        ),
        (
            neg(softmax(x).telling()),
            "p = log_softmax x;y = neg p",
            "expected logarithm = False instead of True, found p (log softmax)",
        ),
        (
            exp(x).telling() + 1,
            "e = exp x;y = add e half",
            "expected 1 instead of 0.5, found half (a weight)",
        ),
        (
            exp(x).telling() + 1,
            "e = exp x;y = add e w",
            "expected a number 1, found w (a weight)",
        ),
        (
            exp(x).telling() + weight("bias"),
            "e = exp x;y = add e z",
            "expected a constant bias, found the input z",
        ),
        (
            relu(x).telling() + value("z", lambda given: False),
            "r = relu x;y = add r x",
            "expected z, found the input x",
        ),
        (
            (x * c).where(lambda found: found[c] < 0, "the factor is not negative"),
            "y = mul x half",
            "the factor is not negative",
        ),
    ],
)
def test_each_kind_of_part_says_what_it_expected(pattern, steps, reason):
    assert Program(steps).reason(pattern) == reason


def test_patterns_read_as_they_are_written():
    deviation = x - reduced("mean", x)
    assert str(deviation / sqrt(z + 1)) == "(x - mean(...)) / sqrt(add(...))"
    assert str(ATTENTION) == "softmax(c * matmul(...)) @ v"
    assert str(select(is_nan(x), 0, x)) == "select(is_nan(x), 0, x)"


# -- termination -----------------------------------------------------------------------------------


def test_a_hostile_graph_does_not_explode():
    """Sums of two sums on four levels have 2^15 orders, none of which passes the last condition."""
    lines = ["s0 = add x z", "t0 = add x x"]
    for i in range(1, 5):
        lines += [f"s{i} = add s{i - 1} t{i - 1}", f"t{i} = add t{i - 1} s{i - 1}"]

    def tree(depth: int) -> Pattern:
        return tree(depth - 1) + tree(depth - 1) if depth else value("leaf")

    pattern = tree(4).where(lambda found: False)
    assert Program(";".join([*lines, "y = add s3 t3"])).reason(pattern) == (
        f"the search from y was given up after {MAX_VISITS} comparisons"
    )


def test_long_chains_of_numbers_are_looked_at_for_a_bounded_length():
    chain = ";".join(f"m{i} = mul {'x' if i == 0 else f'm{i - 1}'} half" for i in range(300))
    program = Program(f"{chain};y = mul m299 half")
    found = program.match(product(c, q))
    assert found is not None and len(found.steps) <= 16
    assert program.match(product(c, x, sigmoid(x))) is None


# -- rules -----------------------------------------------------------------------------------------


def test_a_rule_looks_at_the_operations_that_its_pattern_may_begin_at():
    class Rewritten(PatternRule):
        """exp(x) / x or exp(-x)   =>   x"""

        pattern = exp(x) / x | exp(neg(x))

        def replacement(self, found, rewriter):
            return found[x]

    assert set(Rewritten.matches) == {BinaryOp, UnaryOp}
    with pytest.raises(TypeError, match="begins with an operation"):
        type("Wrong", (PatternRule,), {"pattern": x})
    assert operation(SoftmaxOp).roots() == {SoftmaxOp: None}
