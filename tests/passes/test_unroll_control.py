"""Loops of known length and branches become straight lines with the same numbers."""

import numpy as np
import pytest

from explorer.passes.lower.legalize import Legalize
from explorer.passes.simplify.fold_constants import FoldConstants

LOOP = """
func.func @main(%x: tensor<2xf32>) {
  %s, %rows = top.loop(%x) attributes {trip_count = 2, scans = 1} {
  ^bb0(%i: tensor<i64>, %state: tensor<2xf32>):
    %n = top.unary(%state) {kind = "exp"} : tensor<2xf32>
    top.return(%n, %state)
  } : tensor<2xf32>, tensor<2x2xf32>
  top.return(%s, %rows)
}
"""


def test_a_loop_of_known_length_is_written_out(check):
    assert check(FoldConstants(), LOOP).lines == [
        '%n1 = top.unary(%x) {kind = "exp"} : tensor<2xf32>',
        '%n2 = top.unary(%n1) {kind = "exp"} : tensor<2xf32>',
        "%reshape1 = top.reshape(%x) {shape = [1, 2]} : tensor<1x2xf32>",
        "%reshape2 = top.reshape(%n1) {shape = [1, 2]} : tensor<1x2xf32>",
        "%concat1 = top.concat(%reshape1, %reshape2) {axis = 0} : tensor<2x2xf32>",
        "top.return(%n2, %concat1)",
    ]


def test_a_loop_that_never_runs_returns_its_states(check):
    checked = check(
        FoldConstants(),
        LOOP.replace("trip_count = 2", "trip_count = 0").replace("2x2xf32", "0x2xf32"),
    )
    assert checked.lines == ["top.return(%x, %w1)"]
    assert checked.weight("w1").shape == (0, 2)


def test_a_loop_that_would_be_too_long_stays(check):
    text = LOOP.replace("trip_count = 2", "trip_count = 5000").replace("2x2xf32", "5000x2xf32")
    assert check(FoldConstants(), text).declined == [
        "unroll-loop s: s would become 5000 operations"
    ]


ROWS_OF_ANY_SIZE = """
func.func @main(%x: tensor<2xf32>) {
  %s, %rows = top.loop(%x) attributes {trip_count = 2, scans = 1} {
  ^bb0(%i: tensor<i64>, %state: tensor<2xf32>):
    %n = top.unary(%state) {kind = "exp"} : tensor<2xf32>
    %found = top.nonzero(%state) : tensor<1x?xi64>
    top.return(%n, %found)
  } : tensor<2xf32>, tensor<2x1x?xi64>
  top.return(%s, %rows)
}
"""


def test_rows_whose_size_is_not_known_are_joined_as_they_turn_out(check):
    assert check(FoldConstants(), ROWS_OF_ANY_SIZE).fired[0] == "unroll-loop s"


def test_a_loop_that_never_runs_and_whose_rows_are_of_any_size_stays_as_it_is(check):
    text = ROWS_OF_ANY_SIZE.replace("trip_count = 2", "trip_count = 0").replace("2x1x?", "0x1x?")
    checked = check(FoldConstants(), text)
    assert checked.fired == []
    assert checked.declined == [
        "unroll-loop s: s never runs, and the size of its rows is not known"
    ]


def test_a_loop_whose_length_depends_on_data_stays(check):
    text = """
    func.func @main(%x: tensor<2xf32>, %n: tensor<i64>) {
      %s = top.loop(%x, count = %n) attributes {scans = 0} {
      ^bb0(%i: tensor<i64>, %state: tensor<2xf32>):
        %next = top.unary(%state) {kind = "neg"} : tensor<2xf32>
        top.return(%next)
      } : tensor<2xf32>
      top.return(%s)
    }
    """
    assert check(FoldConstants(), text).declined == [
        "unroll-loop s: how often s runs depends on data"
    ]


IF = """
func.func @main(%x: tensor<4xf32>, %c: tensor<1xi1>) {
  %y = top.if(%c) {
    %a = top.unary(%x) {kind = "neg"} : tensor<4xf32>
    top.return(%a)
  } {
    top.return(%x)
  } : tensor<4xf32>
  top.return(%y)
}
"""


def test_both_branches_are_computed_and_one_is_selected(check):
    assert check(Legalize(), IF).lines == [
        '%a1 = top.unary(%x) {kind = "neg"} : tensor<4xf32>',
        "%reshape1 = top.reshape(%c) {shape = []} : tensor<i1>",
        "%select1 = top.select(%reshape1, %a1, %x) : tensor<4xf32>",
        "top.return(%select1)",
    ]


def test_a_branch_that_may_divide_by_zero_is_left_alone(check):
    text = IF.replace("f32", "i32").replace(
        'top.unary(%x) {kind = "neg"}', 'top.binary(%x, %x) {kind = "div"}'
    )
    assert check(Legalize(), text, inputs=None).declined == [
        "compute-both-branches y: a in a branch may divide by zero"
    ]


WHILE = """
func.func @main(%x: tensor<f32>, %c: tensor<i1>, %limit: tensor<f32>) {
  %s = top.loop(%x, condition = %c) attributes {trip_count = 2, scans = 0} {
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %state: tensor<f32>):
    %n = top.unary(%state) {kind = "exp"} : tensor<f32>
    %less = top.binary(%n, %limit) {kind = "less"} : tensor<i1>
    top.return(%less, %n)
  } : tensor<f32>
  top.return(%s)
}
"""


def started(go: bool, limit: float) -> dict[str, np.ndarray]:
    numbers = {"x": np.array(0.5, np.float32), "limit": np.array(limit, np.float32)}
    return {**numbers, "c": np.array(go)}


def test_a_loop_that_data_end_selects_the_states_of_its_last_iteration(check):
    assert check(Legalize(), WHILE, inputs=started(True, 2)).lines == [
        '%n1 = top.unary(%x) {kind = "exp"} : tensor<f32>',
        '%less1 = top.binary(%n1, %limit) {kind = "less"} : tensor<i1>',
        "%select1 = top.select(%c, %less1, %c) : tensor<i1>",
        "%select2 = top.select(%c, %n1, %x) : tensor<f32>",
        '%n2 = top.unary(%select2) {kind = "exp"} : tensor<f32>',
        '%less2 = top.binary(%n2, %limit) {kind = "less"} : tensor<i1>',
        "%select3 = top.select(%select1, %less2, %select1) : tensor<i1>",
        "%select4 = top.select(%select1, %n2, %select2) : tensor<f32>",
        "top.return(%select4)",
    ]


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_a_masked_loop_ends_where_the_loop_does(check, limit):
    check(Legalize(), WHILE, inputs=started(True, limit))
    check(Legalize(), WHILE, inputs=started(False, limit))


def test_a_loop_without_a_limit_is_left_to_the_interpreter(check):
    text = WHILE.replace("trip_count = 2, ", "")
    assert check(Legalize(), text, inputs=started(True, 2)).declined == [
        "mask-iterations s: the most iterations of s are not known"
    ]
