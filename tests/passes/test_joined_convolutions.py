"""Convolutions of one input that end in transposes alike become one."""

import pytest

from explorer.passes.simplify.push_transposes import PushTransposes

IMAGE = "tensor<1x4x6x5xf32>"
PLAIN = "dilations = [1, 1], group = 1, pads = [0, 0, 0, 0], strides = [1, 1]"
TO_NHWC = "{permutation = [0, 2, 3, 1]}"


def head(name: str, channels: int, properties: str = PLAIN, window: str = "1x1", bias=False) -> str:
    """`%tNAME`, the channels-last result of the convolution `%NAME` of %x."""
    given = f", bias = %b{name}" if bias else ""
    more = f'%b{name} = top.weight() {{weight = "b{name}"}} : tensor<{channels}xf32>\n'
    return (
        f'%w{name} = top.weight() {{weight = "w{name}"}} : tensor<{channels}x4x{window}xf32>\n'
        + (more if bias else "")
        + f"%{name} = top.conv(%x, %w{name}{given}) {{{properties}}} "
        f": tensor<1x{channels}x6x5xf32>\n"
        f"%t{name} = top.transpose(%{name}) {TO_NHWC} : tensor<1x6x5x{channels}xf32>\n"
    )


def body(operations: str, returned: str = "%ta, %tb") -> str:
    return f"func.func @main(%x: {IMAGE}) {{\n{operations}\ntop.return({returned})\n}}"


@pytest.mark.parametrize("bias", [False, True])
def test_two_heads_of_a_map_are_one_convolution_and_one_transpose(check, bias):
    checked = check(PushTransposes(), body(head("a", 2, bias=bias) + head("b", 3, bias=bias)))
    given = ", bias = %w2" if bias else ""
    assert checked.lines[:2] == [
        f"%a1 = top.conv(%x, %w1{given}) {{{PLAIN}}} : tensor<1x5x6x5xf32>",
        f"%transpose1 = top.transpose(%a1) {TO_NHWC} : tensor<1x6x5x5xf32>",
    ]
    for line, start, stop in zip(checked.lines[2:4], (0, 2), (2, 5), strict=True):
        assert f"starts = [0, 0, 0, {start}]" in line and f"stops = [1, 6, 5, {stop}]" in line
    assert checked.rewritten == ["join-convolutions a"]
    assert checked.sources("a1") == ("a", "b")
    assert checked.sources("transpose1") == ("ta", "tb")


def test_heads_of_reshapes_join_as_well(check):
    rows = (
        "%ra = top.reshape(%ta) {shape = [1, -1, 1]} : tensor<1x60x1xf32>\n"
        "%rb = top.reshape(%tb) {shape = [1, -1, 3]} : tensor<1x30x3xf32>"
    )
    checked = check(PushTransposes(), body(head("a", 2) + head("b", 3) + rows, "%ra, %rb"))
    assert sum("top.transpose" in line for line in checked.lines) == 1


def test_three_heads_join_at_once(check):
    text = body(head("a", 2) + head("b", 3) + head("c", 1), "%tc, %ta, %tb")
    checked = check(PushTransposes(), text)
    assert checked.rewritten == ["join-convolutions a"]
    assert checked.lines[0].endswith("tensor<1x6x6x5xf32>")


@pytest.mark.parametrize(
    "other",
    [
        head("b", 3, bias=True),
        head("b", 3, PLAIN.replace("pads = [0, 0, 0, 0]", "pads = [1, 1, 1, 1]"), "3x3"),
        head("b", 3).replace(TO_NHWC, "{permutation = [0, 3, 2, 1]}").replace("1x6x5x3", "1x5x6x3"),
    ],
    ids=["a bias", "another window", "another order"],
)
def test_convolutions_that_differ_stay(check, other):
    checked = check(PushTransposes(), body(head("a", 2) + other))
    assert not checked.rewritten
    assert checked.declined[0] == (
        "join-convolutions a: no other convolution of a's input is like it"
    )


def test_a_convolution_that_others_read_stays(check):
    checked = check(PushTransposes(), body(head("a", 2) + head("b", 3), "%ta, %tb, %b"))
    assert not checked.rewritten


def test_transposes_that_can_go_on_come_first(check):
    """Two branches of one map, each of which is transposed back: no transpose is left to join."""
    back = "{permutation = [0, 3, 1, 2]}"
    rest = "".join(
        f'%r{n} = top.unary(%t{n}) {{kind = "relu"}} : tensor<1x6x5x{c}xf32>\n'
        f"%y{n} = top.transpose(%r{n}) {back} : tensor<1x{c}x6x5xf32>\n"
        for n, c in (("a", 2), ("b", 3))
    )
    checked = check(PushTransposes(), body(head("a", 2) + head("b", 3) + rest, "%ya, %yb"))
    assert not any("transpose" in line for line in checked.lines)
    assert sum("top.conv" in line for line in checked.lines) == 2
