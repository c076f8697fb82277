"""Operations that change nothing vanish; movements in a row become one."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.passes.simplify.remove_no_ops import RemoveNoOps

X = "tensor<2x1x3x4xf32>"


def body(operations: str, returned: str = "%y", argument: str = X) -> str:
    return f"""
    func.func @main(%x: {argument}) {{
      {operations}
      top.return({returned})
    }}
    """


@pytest.mark.parametrize(
    ("rule", "operations"),
    [
        ("remove-reshape", "%y = top.reshape(%x) {shape = [2, 1, -1, 4]}"),
        ("remove-transpose", "%y = top.transpose(%x) {permutation = [0, 1, 2, 3]}"),
        (
            "remove-slice",
            "%y = top.slice(%x) {starts = [0, 0, 0, 0], stops = [2, 1, 9, 4], "
            "steps = [1, 1, 1, 1]}",
        ),
        (
            "remove-pad",
            "%y = top.pad(%x) {low = [0, 0, 0, 0], high = [0, 0, 0, 0], "
            "interior = [0, 0, 0, 0], value = 0.0}",
        ),
        ("remove-cast", "%y = top.cast(%x) {to = f32}"),
        ("remove-expand", "%y = top.expand(%x) {shape = [2, 1, 1, 4]}"),
        ("remove-concat", "%y = top.concat(%x) {axis = 1}"),
    ],
)
def test_an_operation_that_returns_its_operand_vanishes(check, rule, operations):
    checked = check(RemoveNoOps(), body(f"{operations} : {X}"))
    assert checked.lines == ["top.return(%x)"]
    assert checked.fired == [f"{rule} y"]


def test_a_clip_without_bounds_vanishes(check):
    # Infinity has no shorter notation in MLIR than its bits.
    text = body(
        f'%y = top.unary(%x) {{kind = "clip", alpha = 0xFFF0000000000000 : f64, '
        f"beta = 0x7FF0000000000000 : f64}} : {X}"
    )
    assert check(RemoveNoOps(), text).lines == ["top.return(%x)"]
    bounded = text.replace("alpha = 0xFFF0000000000000 : f64", "alpha = 0.0")
    assert not check(RemoveNoOps(), bounded).result.changed


@pytest.mark.parametrize(
    ("kind", "operands", "number", "vanishes"),
    [
        ("add", "%x, %c", 0, True),
        ("add", "%c, %x", 0, True),
        ("mul", "%c, %x", 1, True),
        ("div", "%x, %c", 1, True),
        ("sub", "%x, %c", 0, True),
        ("sub", "%c, %x", 0, False),
        ("div", "%c, %x", 1, False),
        ("add", "%x, %c", 1, False),
    ],
)
def test_neutral_elements_vanish_on_the_side_where_they_are_neutral(
    check, kind, operands, number, vanishes
):
    text = body(
        f"""%c = top.weight() {{weight = "c"}} : tensor<1x1xf32>
        %y = top.binary({operands}) {{kind = "{kind}"}} : {X}"""
    )
    checked = check(RemoveNoOps(), text, arrays={"c": np.full((1, 1), number, np.float32)})
    assert checked.result.changed is vanishes


def test_adding_a_zero_that_broadcasts_the_other_stays(check):
    text = body(
        """%c = top.weight() {weight = "c"} : tensor<1x1x1xf32>
        %y = top.binary(%x, %c) {kind = "add"} : tensor<1x2x3xf32>""",
        argument="tensor<2x3xf32>",
    )
    checked = check(RemoveNoOps(), text, arrays={"c": np.zeros((1, 1, 1), np.float32)})
    assert not checked.result.changed


def test_two_reshapes_become_one(check):
    text = body(
        """%a = top.reshape(%x) {shape = [24]} : tensor<24xf32>
        %y = top.reshape(%a) {shape = [4, -1]} : tensor<4x6xf32>"""
    )
    checked = check(RemoveNoOps(), text)
    assert checked.lines[0] == "%reshape1 = top.reshape(%x) {shape = [4, -1]} : tensor<4x6xf32>"
    assert checked.sources("reshape1") == ("a", "y")


def test_transposes_that_cancel_vanish_though_the_first_has_another_use(check):
    text = body(
        f"""%a = top.transpose(%x) {{permutation = [3, 1, 0, 2]}} : tensor<4x1x2x3xf32>
        %y = top.transpose(%a) {{permutation = [2, 1, 3, 0]}} : {X}""",
        returned="%y, %a",
    )
    checked = check(RemoveNoOps(), text)
    assert checked.lines[-1] == "top.return(%x, %a)"


def test_a_transpose_that_moves_only_single_elements_is_a_reshape(check):
    text = body("%y = top.transpose(%x) {permutation = [0, 2, 3, 1]} : tensor<2x3x4x1xf32>")
    assert check(RemoveNoOps(), text).lines[0] == (
        "%reshape1 = top.reshape(%x) {shape = [2, 3, 4, 1]} : tensor<2x3x4x1xf32>"
    )


def test_an_operation_that_broadcasts_reads_what_was_expanded(check):
    text = body(
        f"""%c = top.weight() {{weight = "c"}} : tensor<4xf32>
        %e = top.expand(%c) {{shape = [2, 1, 3, 4]}} : {X}
        %y = top.binary(%e, %x) {{kind = "sub"}} : {X}"""
    )
    checked = check(RemoveNoOps(), text)
    assert checked.lines[-2] == f'%y = top.binary(%c, %x) {{kind = "sub"}} : {X}'


SIZES = (2, 1, 3, 4)
MOVES = st.lists(
    st.one_of(
        st.permutations(range(4)).map(lambda p: ("transpose", tuple(p))),
        st.permutations(SIZES).map(lambda s: ("reshape", tuple(s))),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(moves=MOVES)
def test_any_chain_of_movements_keeps_its_numbers_and_leaves_no_two_alike(check, moves):
    lines, shape, value = [], SIZES, "%x"
    for index, (kind, numbers) in enumerate(moves):
        shape = tuple(shape[p] for p in numbers) if kind == "transpose" else numbers
        name = "permutation" if kind == "transpose" else "shape"
        dimensions = "x".join(map(str, shape))
        lines.append(
            f"%m{index} = top.{kind}({value}) {{{name} = {list(numbers)}}} "
            f": tensor<{dimensions}xf32>"
        )
        value = f"%m{index}"
    checked = check(RemoveNoOps(), body("\n".join(lines), value))
    left = [line.split(" = top.")[1].split("(")[0] for line in checked.lines[:-1]]
    assert all(a != b for a, b in pairwise(left))
    assert len(left) <= len(moves)
    assert math.prod(shape) == 24
