"""Rotary embeddings that are spelled out, in the forms that exporters write."""

import numpy as np
import pytest

from explorer.passes import RECOGNITION, SIMPLIFICATION
from explorer.passes.recognize.recognize_attention import RecognizeAttentions

X, HALF, TABLE = "tensor<2x5x8xf32>", "tensor<2x5x4xf32>", "tensor<5x8xf32>"
ARGUMENTS = f"%x: {X}, %c: {TABLE}, %s: {TABLE}"


def cut(name: str, start: int, stop: int, step: int = 1, of: str = "%x") -> str:
    return (
        f"%{name} = top.slice({of}) {{starts = [0, 0, {start}], stops = [2, 5, {stop}], "
        f"steps = [1, 1, {step}]}} : {HALF}\n"
    )


def unary(name: str, kind: str, value: str, shape: str = HALF) -> str:
    return f'%{name} = top.unary({value}) {{kind = "{kind}"}} : {shape}\n'


def binary(name: str, kind: str, left: str, right: str, shape: str = X) -> str:
    return f'%{name} = top.binary({left}, {right}) {{kind = "{kind}"}} : {shape}\n'


HALVES = cut("a", 0, 4) + cut("b", 4, 8)
EVEN_AND_ODD = cut("a", 0, 8, 2) + cut("b", 1, 8, 2)
NEGATED = unary("n", "neg", "%b")
JOINED = f"%r = top.concat(%n, %a) {{axis = 2}} : {X}\n"
TURNED = binary("p", "mul", "%x", "%c") + binary("q", "mul", "%r", "%s")
SUM = binary("y", "add", "%p", "%q")


def stacked(result: str, first: str, second: str) -> str:
    kind = "tensor<2x5x4x1xf32>"
    return (
        f"%e = top.reshape({first}) {{shape = [2, 5, 4, 1]}} : {kind}\n"
        f"%o = top.reshape({second}) {{shape = [2, 5, 4, 1]}} : {kind}\n"
        "%j = top.concat(%e, %o) {axis = 3} : tensor<2x5x4x2xf32>\n"
        f"%{result} = top.reshape(%j) {{shape = [2, 5, 8]}} : {X}\n"
    )


def recognize(check, operations, arguments=ARGUMENTS, returned="%y", arrays=None):
    text = f"func.func @main({arguments}) {{\n{operations}\ntop.return({returned})\n}}"
    return check(RecognizeAttentions(), text, arrays)


def test_halves_are_recognized(check):
    checked = recognize(check, HALVES + NEGATED + JOINED + TURNED + SUM)
    assert checked.lines == [f"%rotary1 = top.rotary(%x, %c, %s) : {X}", "top.return(%rotary1)"]
    assert {"n", "r", "p", "q", "y"} <= set(checked.sources("rotary1"))


def test_neighbours_are_recognized(check):
    checked = recognize(check, EVEN_AND_ODD + NEGATED + stacked("r", "%n", "%a") + TURNED + SUM)
    assert checked.lines[0] == f"%rotary1 = top.rotary(%x, %c, %s) {{interleaved = true}} : {X}"


def test_the_signs_may_be_in_a_constant(check):
    sine = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    operations = (
        f'%s = top.weight() {{weight = "s"}} : {TABLE}\n'
        + HALVES
        + f"%r = top.concat(%b, %a) {{axis = 2}} : {X}\n"
        + TURNED
        + SUM
    )
    checked = recognize(check, operations, f"%x: {X}, %c: {TABLE}", arrays={"s": sine})
    assert checked.lines[0].startswith("%rotary1 = top.rotary(%x, %c, %w1)")
    assert np.array_equal(checked.weight("w1"), sine * ([-1.0] * 4 + [1.0] * 4))
    computed = recognize(check, operations.split("\n", 1)[1])
    assert not computed.fired


def turned_pairs(cosine="%c", sine="%s") -> str:
    return (
        binary("ac", "mul", "%a", cosine, HALF)
        + binary("bs", "mul", "%b", sine, HALF)
        + binary("bc", "mul", "%b", cosine, HALF)
        + binary("as", "mul", "%a", sine, HALF)
        + binary("f", "sub", "%ac", "%bs", HALF)
        + binary("g", "add", "%as", "%bc", HALF)
    )


HALF_TABLES = f"%x: {X}, %c: tensor<5x4xf32>, %s: tensor<5x4xf32>"


def test_pairs_that_are_turned_one_by_one_are_recognized(check):
    joined = f"%y = top.concat(%f, %g) {{axis = 2}} : {X}\n"
    checked = recognize(check, HALVES + turned_pairs() + joined, HALF_TABLES)
    assert checked.lines == [
        f"%concat1 = top.concat(%c, %c) {{axis = 1}} : {TABLE}",
        f"%concat2 = top.concat(%s, %s) {{axis = 1}} : {TABLE}",
        f"%rotary1 = top.rotary(%x, %concat1, %concat2) : {X}",
        "top.return(%rotary1)",
    ]


def test_so_are_neighbours_and_tables_of_weights_are_doubled_at_once(check):
    angles = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    constants = "".join(
        f'%{n} = top.weight() {{weight = "{n}"}} : tensor<5x4xf32>\n' for n in ("c", "s")
    )
    operations = constants + EVEN_AND_ODD + turned_pairs() + stacked("y", "%f", "%g")
    arrays = {"c": np.cos(angles), "s": np.sin(angles)}
    checked = recognize(check, operations, f"%x: {X}", arrays=arrays)
    assert checked.lines[0] == f"%rotary1 = top.rotary(%x, %w1, %w2) {{interleaved = true}} : {X}"
    assert np.array_equal(checked.weight("w1"), np.repeat(arrays["c"], 2, axis=1))


def test_an_axis_of_pairs_is_as_good_as_a_step_of_two(check):
    split = "%w = top.reshape(%x) {shape = [2, 5, 4, 2]} : tensor<2x5x4x2xf32>\n"
    for name, place in (("a", 0), ("b", 1)):
        split += (
            f"%{name}1 = top.slice(%w) {{starts = [0, 0, 0, {place}], stops = [2, 5, 4, "
            f"{place + 1}], steps = [1, 1, 1, 1]}} : tensor<2x5x4x1xf32>\n"
            f"%{name} = top.reshape(%{name}1) {{shape = [2, 5, 4]}} : {HALF}\n"
        )
    checked = recognize(check, split + turned_pairs() + stacked("y", "%f", "%g"), HALF_TABLES)
    assert "{interleaved = true}" in checked.lines[-2]
    assert checked.lines[-2].split(" = ", 1)[1].startswith("top.rotary(%x, ")


def test_a_part_of_the_axis_may_be_turned(check):
    wide = "tensor<2x5x12xf32>"
    part = f"%y = top.concat(%f, %g) {{axis = 2}} : {X}\n"
    checked = recognize(
        check,
        cut("a", 2, 6) + cut("b", 6, 10) + turned_pairs() + part,
        HALF_TABLES.replace(X, wide),
    )
    assert "starts = [0, 0, 2], steps = [1, 1, 1], stops = [2, 5, 10]" in "".join(checked.lines)
    assert "top.rotary(%slice1, " in checked.lines[-2]


@pytest.mark.parametrize(
    ("operations", "returned", "reason"),
    [
        (HALVES + NEGATED + JOINED + TURNED + SUM, "%y, %r", "r is needed elsewhere too"),
        (HALVES + NEGATED + JOINED + TURNED + SUM, "%y, %q", "q is needed elsewhere too"),
    ],
)
def test_steps_that_others_need_stay(check, operations, returned, reason):
    checked = recognize(check, operations, returned=returned)
    assert not checked.fired and checked.declined == [f"recognize-rotary y: {reason}"]


def test_one_angle_for_all_pairs_is_no_table(check):
    joined = f"%y = top.concat(%f, %g) {{axis = 2}} : {X}\n"
    arguments = f"%x: {X}, %c: tensor<5x1xf32>, %s: tensor<5x1xf32>"
    checked = recognize(check, HALVES + turned_pairs() + joined, arguments)
    assert checked.declined == ["recognize-turned-pairs y: y turns all pairs by one angle"]


def test_parts_that_are_no_pairs_are_left_alone_and_said_to_be_none(check):
    crossed = cut("a", 0, 4) + cut("b", 3, 7)
    checked = recognize(check, crossed + NEGATED + JOINED + TURNED + SUM)
    assert not checked.fired
    assert checked.declined == [
        "recognize-rotary y: what is turned are no pairs of what the cosines multiply"
    ]


@pytest.mark.parametrize("parts", [HALVES, EVEN_AND_ODD])
def test_the_passes_before_leave_it_recognizable(check_pipeline, make_program, parts):
    """The sign goes into a constant table first, and slices and reshapes take other forms."""
    angles = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    constants = "".join(f'%{n} = top.weight() {{weight = "{n}"}} : {TABLE}\n' for n in ("c", "s"))
    joined = JOINED if parts is HALVES else stacked("r", "%n", "%a")
    text = f"func.func @main(%x: {X}) {{\n{constants}{parts}{NEGATED}{joined}{TURNED}{SUM}"
    arrays = {"c": np.cos(angles), "s": np.sin(angles)}
    working = make_program(text + "top.return(%y)\n}", arrays)
    x = np.random.default_rng(1).normal(size=(2, 5, 8)).astype(np.float32)
    passes = [kind() for kind in (*SIMPLIFICATION, *RECOGNITION)]
    last = check_pipeline(working, passes, {"x": x})[-1].after
    computed = [op.name for op in last.operations.values() if op.name != "top.weight"]
    assert computed == ["top.rotary", "top.return"]
