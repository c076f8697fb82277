"""Activations from exponentials, maxima and halves, in the forms that exporters write."""

import numpy as np
import pytest

from explorer.ir.top.elementwise import UnaryOp
from explorer.passes.recognize.recognize_activations import RecognizeActivations

X = "tensor<4x8xf32>"
ONE = '%one = top.weight() {weight = "one"} : tensor<f32>\n'
EXPONENTIAL = (
    ONE
    + f"""%n = top.unary(%x) {{kind = "neg"}} : {X}
%e = top.unary(%n) {{kind = "exp"}} : {X}
%s = top.binary(%e, %one) {{kind = "add"}} : {X}
"""
)
NUMBERS = {
    "one": np.float32(1),
    "slope": np.float32(0.1),
    "steep": np.float32(1.5),
    "fifth": np.float32(0.2),
    "half": np.float32(0.5),
}


def recognize(check, operations: str, returned: str = "%y", arguments: str = f"%x: {X}"):
    names = [n for n in NUMBERS if f"%{n}" in operations and f"%{n} =" not in operations]
    weights = "".join(f'%{n} = top.weight() {{weight = "{n}"}} : tensor<f32>\n' for n in names)
    text = f"func.func @main({arguments}) {{\n{weights}{operations}\ntop.return({returned})\n}}"
    arrays = {n: array for n, array in NUMBERS.items() if f'"{n}"' in text}
    return check(RecognizeActivations(), text, arrays)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (
            EXPONENTIAL + f'%y = top.unary(%s) {{kind = "reciprocal"}} : {X}',
            f'%sigmoid1 = top.unary(%x) {{kind = "sigmoid"}} : {X}',
        ),
        (
            EXPONENTIAL + f'%y = top.binary(%x, %s) {{kind = "div"}} : {X}',
            f'%silu1 = top.unary(%x) {{kind = "silu"}} : {X}',
        ),
        (
            ONE
            + f"""%e = top.unary(%x) {{kind = "exp"}} : {X}
            %s = top.binary(%one, %e) {{kind = "add"}} : {X}
            %y = top.unary(%s) {{kind = "log"}} : {X}""",
            f'%softplus1 = top.unary(%x) {{kind = "softplus"}} : {X}',
        ),
        (
            f"""%p = top.binary(%x, %slope) {{kind = "mul"}} : {X}
            %y = top.binary(%p, %x) {{kind = "max"}} : {X}""",
            f'%leaky1 = top.unary(%x) {{alpha = 0.10000000149011612, kind = "leaky_relu"}} : {X}',
        ),
        (
            f"""%p = top.binary(%x, %fifth) {{kind = "mul"}} : {X}
            %a = top.binary(%p, %half) {{kind = "add"}} : {X}
            %y = top.unary(%a) {{alpha = 0.0, beta = 1.0, kind = "clip"}} : {X}""",
            "%hard1 = top.unary(%x) {alpha = 0.20000000298023224, beta = 0.5, "
            f'kind = "hard_sigmoid"}} : {X}',
        ),
    ],
    ids=["sigmoid", "silu", "softplus", "leaky relu", "hard sigmoid"],
)
def test_an_activation_is_recognized_from_its_pieces(check, operations, expected):
    checked = recognize(check, operations)
    assert checked.lines[0].split(" = ", 1)[1] == expected.split(" = ", 1)[1]
    assert len(checked.lines) == 2


@pytest.mark.parametrize(("kind", "bounds"), [("max", (0.1, np.inf)), ("min", (-np.inf, 0.1))])
def test_a_maximum_with_a_number_is_a_clip_with_one_bound(check, kind, bounds):
    checked = recognize(check, f'%y = top.binary(%x, %slope) {{kind = "{kind}"}} : {X}')
    assert checked.fired == ["recognize-bound y"]
    clip = checked.result.after.operations["clip1"]
    assert isinstance(clip, UnaryOp) and clip.parameters == pytest.approx(bounds)


def test_a_prelu_in_the_form_of_keras(check):
    checked = recognize(
        check,
        f"""%c = top.weight() {{weight = "c"}} : tensor<8xf32>
        %p = top.unary(%x) {{kind = "relu"}} : {X}
        %n = top.unary(%x) {{kind = "neg"}} : {X}
        %q = top.unary(%n) {{kind = "relu"}} : {X}
        %m = top.binary(%q, %c) {{kind = "mul"}} : {X}
        %y = top.binary(%p, %m) {{kind = "add"}} : {X}""",
    )
    assert checked.lines[0] == f'%prelu1 = top.binary(%x, %w1) {{kind = "prelu"}} : {X}'
    assert checked.fired == ["recognize-prelu y"]


@pytest.mark.parametrize(
    ("operations", "returned", "reason"),
    [
        (
            EXPONENTIAL + f'%y = top.unary(%s) {{kind = "reciprocal"}} : {X}',
            "%y, %e",
            "recognize-sigmoid y: e is needed elsewhere too",
        ),
        (
            f"""%p = top.binary(%x, %steep) {{kind = "mul"}} : {X}
            %y = top.binary(%p, %x) {{kind = "max"}} : {X}""",
            "%y",
            "recognize-leaky-maximum y: the slope 1.5 of y is not between 0 and 1",
        ),
    ],
)
def test_it_declines_with_a_reason(check, operations, returned, reason):
    assert recognize(check, operations, returned).declined == [reason]
