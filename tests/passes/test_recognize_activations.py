"""Activations that a model spells out are found however they are bracketed."""

import numpy as np
import pytest

from explorer.passes.recognize.recognize_activations import RecognizeActivations

X = "tensor<4x8xf32>"
NUMBERS = {
    "zero": 0.0,
    "one": 1.0,
    "half": 0.5,
    "three": 3.0,
    "six": 6.0,
    "sixth": 1 / 6,
    "root": 2**0.5,
    "inverse_root": 0.5**0.5,
    "cubic": 0.044715,
    "outer": (2 / np.pi) ** 0.5,
    "slope": 0.1,
    "quick": 1.702,
    "outer_twice": 2 * (2 / np.pi) ** 0.5,
    "minus_inverse_root": -(0.5**0.5),
}
ARRAYS = {name: np.array(value, np.float32) for name, value in NUMBERS.items()}

# gelu and its kin take ten roundings instead of one: some units in the last place.
TOLERANCE = 2e-6


def spelled(steps: str, returned: str = "%y") -> str:
    """`y = mul x s` lines as IR; numbers by name, unary kinds with one operand."""
    lines = [f'%{n} = top.weight() {{weight = "{n}"}} : tensor<f32>' for n in NUMBERS]
    for step in steps.strip().split("\n"):
        name, _, kind, *operands = step.split()
        operator = "binary" if len(operands) == 2 else "unary"
        properties = f'kind = "{kind}"'
        if kind == "clip":
            properties += ", alpha = 0.0, beta = 6.0"
        if kind == "hard_sigmoid":
            properties += ", alpha = 0.16666667163372040, beta = 0.5"
        arguments = ", ".join(f"%{o}" for o in operands)
        lines.append(f"%{name} = top.{operator}({arguments}) {{{properties}}} : {X}")
    joined = "\n".join(lines)
    return f"func.func @main(%x: {X}) {{\n{joined}\ntop.return({returned})\n}}"


CASES = {
    "relu": ("y = max x zero", 'kind = "relu"'),
    "leaky relu": ("y = prelu x slope", 'alpha = 0.10000000149011612, kind = "leaky_relu"'),
    "silu": ("s = sigmoid x\ny = mul x s", 'kind = "silu"'),
    "silu the other way round": ("s = sigmoid x\ny = mul s x", 'kind = "silu"'),
    "hard sigmoid": (
        "a = add x three\nc = clip a\ny = div c six",
        'alpha = 0.16666666666666666, beta = 0.5, kind = "hard_sigmoid"',
    ),
    "hard swish": ("h = hard_sigmoid x\ny = mul x h", 'kind = "hard_swish"'),
    "hard swish in full": (
        "a = add three x\nc = clip a\np = mul x c\ny = div p six",
        'kind = "hard_swish"',
    ),
    "hard swish with the division first": (
        "a = add x three\nc = clip a\nd = mul c sixth\ny = mul d x",
        'kind = "hard_swish"',
    ),
    "gelu": (
        "d = div x root\ne = erf d\na = add e one\np = mul x a\ny = mul p half",
        'kind = "gelu"',
    ),
    "gelu with half of x first": (
        "h = mul half x\nd = mul x inverse_root\ne = erf d\na = add one e\ny = mul h a",
        'kind = "gelu"',
    ),
    "gelu with tanh": (
        "q = mul x x\nr = mul q x\nc = mul r cubic\ns = add x c\nt = mul s outer\nu = tanh t\n"
        "a = add u one\nh = mul x half\ny = mul h a",
        'kind = "gelu_tanh"',
    ),
    "gelu with tanh and a power": (
        "r = pow x three\nc = mul cubic r\ns = add x c\nt = mul outer s\nu = tanh t\n"
        "a = add one u\np = mul x a\ny = mul half p",
        'kind = "gelu_tanh"',
    ),
    "silu of a multiple": (
        "t = mul x quick\ns = sigmoid t\ny = mul x s",
        'alpha = 1.7020000219345093, kind = "silu"',
    ),
    "mish": ("s = softplus x\nt = tanh s\ny = mul t x", 'kind = "mish"'),
    "gelu with halves": (
        "d = mul x inverse_root\ne = erf d\nh = mul e half\na = add h half\ny = mul x a",
        'kind = "gelu"',
    ),
    "gelu with the complement": (
        "d = mul x minus_inverse_root\ne = erf d\na = sub one e\nh = mul half x\ny = mul h a",
        'kind = "gelu"',
    ),
    "gelu with tanh of a product": (
        "q = mul x x\nc = mul q cubic\ns = add one c\no = mul outer x\nt = mul o s\nu = tanh t\n"
        "a = add u one\nh = mul x half\ny = mul h a",
        'kind = "gelu_tanh"',
    ),
    "gelu with a sigmoid": (
        "q = mul x x\nr = mul q x\nc = mul r cubic\ns = add x c\nt = mul s outer_twice\n"
        "u = sigmoid t\ny = mul u x",
        'kind = "gelu_tanh"',
    ),
}


@pytest.mark.parametrize(("steps", "expected"), CASES.values(), ids=CASES)
def test_it_is_found(check, steps, expected):
    checked = check(RecognizeActivations(), spelled(steps), ARRAYS, tolerance=TOLERANCE)
    (found, _) = checked.lines
    name, operation = found.split(" = ", 1)
    assert operation == f"top.unary(%x) {{{expected}}} : {X}"
    assert checked.result.after.origins[name.removeprefix("%")].tensor == "y"


@pytest.mark.parametrize(
    "steps",
    [
        "s = sigmoid x\nt = tanh x\ny = mul t s",
        "a = add x three\nc = clip a\ny = div c three",
        "d = div x half\ne = erf d\na = add e one\np = mul x a\ny = mul p half",
        "d = div x root\ne = erf d\na = add e one\ny = mul x a",
        "s = sigmoid x\ny = div x s",
        "t = tanh x\ns = softplus t\ny = mul x s",
        "d = mul x inverse_root\ne = erf d\nh = mul e half\na = add h one\ny = mul x a",
        "d = mul x inverse_root\ne = erf d\na = sub one e\nh = mul half x\ny = mul h a",
        "q = mul x x\nr = mul q x\nc = mul r cubic\ns = add x c\nt = mul s outer\nu = tanh t\n"
        "z = mul u zero\na = add z zero\ny = mul x a",
    ],
)
def test_what_only_resembles_it_stays(check, steps):
    assert not check(RecognizeActivations(), spelled(steps), ARRAYS).result.changed


def test_a_step_that_others_read_is_not_computed_twice(check):
    text = spelled("s = sigmoid x\ny = mul x s", "%y, %s")
    assert check(RecognizeActivations(), text, ARRAYS).declined == [
        "recognize-silu y: s is needed elsewhere too"
    ]


def test_silu_of_a_product_is_a_silu(check):
    """x * quick is what both the product and the sigmoid read: no factor of the silu."""
    text = spelled("t = mul x quick\ns = sigmoid t\ny = mul t s")
    checked = check(RecognizeActivations(), text, ARRAYS, tolerance=TOLERANCE)
    assert checked.lines[1] == f'%silu1 = top.unary(%t) {{kind = "silu"}} : {X}'


def test_a_gelu_of_another_multiple_says_so(check):
    text = spelled("d = div x half\ne = erf d\na = add e one\np = mul x a\ny = mul p half")
    checked = check(RecognizeActivations(), text, ARRAYS)
    assert checked.declined == [
        f"recognize-gelu {site}: erf is taken of no x / sqrt(2)" for site in ("p", "y")
    ]
