"""Loops: iterations, conditions, rows, text, what is remembered and what is refused."""

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32, i1, i64
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from explorer.errors import PassError
from explorer.ir.evaluation import EvaluationCache, evaluate_module
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.operation import set_identity
from explorer.ir.top.control import LoopOp
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.elementwise import BinaryOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.types import shape_of, tensor_type
from explorer.ir.weights import Weights

VECTOR = tensor_type(f32, (2,))
NUMBER, FLAG = tensor_type(i64, ()), tensor_type(i1, ())


def loop_module(*, trip_count=None, has_count=False, has_condition=False):
    """state + x again and again, every sum a row, perhaps as long as max(sum) < limit.

    Arguments: x, and those of count, go and limit that the loop needs.
    """
    outer = Block(arg_types=[VECTOR])
    x = outer.args[0]
    x.name_hint = "x"
    count = outer.insert_arg(NUMBER, len(outer.args)) if has_count else None
    go = outer.insert_arg(FLAG, len(outer.args)) if has_condition else None
    limit = outer.insert_arg(tensor_type(f32, ()), len(outer.args)) if has_condition else None
    for name, argument in (("count", count), ("go", go), ("limit", limit)):
        if argument is not None:
            argument.name_hint = name
    inner = Block(arg_types=[NUMBER, *([FLAG] if has_condition else []), VECTOR])
    for name, argument in zip(
        ["i", "goes_on"] if has_condition else ["i"], inner.args, strict=False
    ):
        argument.name_hint = name
    inner.args[-1].name_hint = "state"
    total = BinaryOp.make([inner.args[-1], x], kind="add")
    set_identity(total, "total")
    inner.add_op(total)
    returned = [total.output, total.output]
    if limit is not None:
        first = greatest(inner, total.output)
        less = BinaryOp.make([first, limit], kind="less")
        set_identity(less, "less")
        inner.add_op(less)
        returned.insert(0, less.output)
    inner.add_op(ReturnOp.make([returned]))
    loop = LoopOp.make_with_body(
        Region(inner), [x], 1, trip_count=trip_count, count=count, condition=go
    )
    set_identity(loop, "loop")
    outer.add_ops([loop, ReturnOp.make([list(loop.results)])])
    types = ([a.type for a in outer.args], [r.type for r in loop.results])
    return ModuleOp([func.FuncOp("main", types, Region(outer))])


def greatest(block, value):
    """The greatest element of a vector as a scalar."""
    op = ReduceOp.make([value], kind="max", axes=[0], keepdims=False)
    set_identity(op, "first")
    block.add_op(op)
    return op.output


def run(module, cache=None, **inputs):
    module.verify()
    return evaluate_module(module, Weights(), {"x": np.float32([1, 2]), **inputs}, cache)


def test_a_loop_hands_states_on_and_collects_rows():
    values = run(loop_module(trip_count=3))
    np.testing.assert_array_equal(values["loop"], [4, 8])
    np.testing.assert_array_equal(values["loop.1"], [[2, 4], [3, 6], [4, 8]])


@pytest.mark.parametrize("count", [0, 1, 4])
def test_the_number_of_iterations_may_be_an_operand(count):
    values = run(loop_module(has_count=True), count=np.array(count))
    np.testing.assert_array_equal(values["loop"], np.float32([1, 2]) * (count + 1))
    assert values["loop.1"].shape == (count, 2)


@pytest.mark.parametrize(("limit", "expected"), [(4.5, 2), (100.0, 5), (0.0, 1)])
def test_a_condition_ends_a_loop(limit, expected):
    module = loop_module(trip_count=5, has_condition=True)
    flags = {"go": np.array(True), "limit": np.array(limit, np.float32)}
    assert run(module, **flags)["loop.1"].shape == (expected, 2)
    assert run(module, **{**flags, "go": np.array(False)})["loop.1"].shape == (0, 2)


def test_rows_have_as_many_as_iterations_where_their_number_is_known():
    def shapes(**form):
        module = loop_module(**form)
        (loop,) = [op for op in module.walk() if isinstance(op, LoopOp)]
        return [shape_of(result) for result in loop.results]

    assert shapes(trip_count=3) == [(2,), (3, 2)]
    assert shapes(has_count=True) == [(2,), ("?", 2)]
    assert shapes(trip_count=3, has_condition=True) == [(2,), ("?", 2)]


@pytest.mark.parametrize(
    "form",
    [{"trip_count": 3}, {"has_count": True}, {"has_count": True, "has_condition": True}],
)
def test_a_loop_prints_its_body_and_is_read_back(form):
    text = dump(loop_module(**form))
    assert "top.loop(" in text
    assert dump(parse(text)) == text


def test_nothing_of_single_iterations_is_remembered():
    cache = EvaluationCache()
    run(loop_module(trip_count=100), cache)
    assert not cache.results


def test_a_loop_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr("explorer.ir.top.control.LONGEST_LOOP", 50)
    module = loop_module(has_condition=True)
    flags = {"go": np.array(True), "limit": np.array(np.inf, np.float32)}
    with pytest.raises(PassError, match="a loop still runs after 50 iterations"):
        run(module, **flags)


def test_a_loop_needs_an_end_and_a_body_that_fits():
    block = Block(arg_types=[VECTOR])

    def loop(values, **form):
        body = Block(arg_types=[NUMBER, VECTOR])
        body.add_op(ReturnOp.make([[body.args[1]] * values]))
        return LoopOp.make_with_body(Region(body), block.args, 1, **form)

    with pytest.raises(ValueError, match="the body returns 3 values for 1 states and 1 rows"):
        loop(3, trip_count=2)
    with pytest.raises(VerifyException, match="has no end: a trip count or a condition expected"):
        loop(2).verify_()
    loop(2, trip_count=2).verify_()
