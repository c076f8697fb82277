"""`top.if`, `top.shape` and `top.range`: what they mean, and what they refuse."""

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32, f64, i1
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from explorer.ir.evaluation import evaluate_module
from explorer.ir.inspection.printing import dump, parse
from explorer.ir.operation import set_identity
from explorer.ir.top.control import IfOp, merged_types
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.elementwise import UnaryOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.types import element_type_from_numpy, shape_of, tensor_type
from explorer.ir.weights import Weights


def conditional_module() -> ModuleOp:
    """y = relu(x) where the condition holds, else x; both regions use x from outside."""
    outer = Block(arg_types=[tensor_type(i1, ()), tensor_type(f32, (3,))])
    condition, x = outer.args
    condition.name_hint, x.name_hint = "condition", "x"
    relu = UnaryOp.make([x], kind="relu")
    set_identity(relu, "relu")
    then_region = Region(Block([relu, ReturnOp.make([[relu.output]])]))
    else_region = Region(Block([ReturnOp.make([[x]])]))
    op = IfOp.make_with_regions(condition, then_region, else_region)
    set_identity(op, "y")
    outer.add_ops([op, ReturnOp.make([list(op.results)])])
    types = ([a.type for a in outer.args], [r.type for r in op.results])
    return ModuleOp([func.FuncOp("main", types, Region(outer))])


@pytest.mark.parametrize(("condition", "expected"), [(True, [0, 0, 2]), (False, [-1, 0, 2])])
def test_if_runs_one_region(condition, expected):
    module = conditional_module()
    module.verify()
    inputs = {"condition": np.array(condition), "x": np.array([-1, 0, 2], np.float32)}
    values = evaluate_module(module, Weights(), inputs)
    np.testing.assert_array_equal(values["y"], np.array(expected, np.float32))


def test_if_prints_both_regions_and_is_read_back():
    module = conditional_module()
    text = dump(module)
    assert "top.if(%condition)" in text
    assert dump(parse(text)) == text


def test_results_of_an_if_hold_what_either_region_returns():
    a, b = tensor_type(f32, ("n", 3, 4)), tensor_type(f32, ("n", 5, 4))
    (merged,) = merged_types([a], [b])
    assert shape_of(merged) == ("n", "?", 4)
    with pytest.raises(ValueError, match="one region returns 2 f32 where the other returns 2 f64"):
        merged_types([tensor_type(f32, (2,))], [tensor_type(f64, (2,))])
    with pytest.raises(ValueError, match="one region returns 1 values, the other 0"):
        merged_types([a], [])


def test_if_needs_a_boolean_and_regions_that_return():
    block = Block(arg_types=[tensor_type(f32, ())])
    regions = [Region(Block([ReturnOp.make([[]])])) for _ in range(2)]
    op = IfOp.make_with_regions(block.args[0], *regions)
    with pytest.raises(VerifyException, match="a boolean is expected"):
        op.verify_()
    with pytest.raises(ValueError, match=r"a region ends with nothing, not top\.return"):
        IfOp.make_with_regions(block.args[0], Region(Block()), Region(Block()))


def test_shape_is_a_vector_of_sizes(values, build, infer):
    x = values(2, 3, 4)
    np.testing.assert_array_equal(build(ShapeOp, [x]).evaluate(x)[0], [2, 3, 4])
    op = build(ShapeOp, [x], start=-2, end=3)
    np.testing.assert_array_equal(op.evaluate(x)[0], [3, 4])
    assert op.sizes == (3, 4)
    assert infer(ShapeOp, [("n", 3, "w")], start=1) == [(2,)]


@pytest.mark.parametrize(
    ("start", "limit", "delta", "dtype"),
    [(0, 5, 1, np.int64), (10, 4, -2, np.int32), (0, 1, 0.25, np.float32), (3, 3, 1, np.int64)],
)
def test_range(start, limit, delta, dtype, build, onnx_outputs):
    arrays = [np.array(n, dtype) for n in (start, limit, delta)]
    op = build(RangeOp, arrays)
    (expected,) = onnx_outputs("Range", arrays)
    (actual,) = op.evaluate(*arrays)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("start", "limit", "delta", "dtype"),
    [
        (2**64 - 4, 2**64 - 1, 1, np.uint64),
        (2**64 - 7, 2**64 - 1, 3, np.uint64),
        (2**63 - 4, 2**63 - 1, 1, np.int64),
        (-(2**63) + 5, -(2**63), -2, np.int64),
        (-(2**63), 2**63 - 1, 2**62, np.int64),
        (0, 2**53 + 1, 2**52, np.int64),
        (250, 255, 2, np.uint8),
        (-128, 127, 100, np.int8),
        (5, 2, 1, np.uint64),
    ],
)
def test_a_range_reaches_the_ends_of_its_type(start, limit, delta, dtype, build):
    arrays = [np.array(n, dtype) for n in (start, limit, delta)]
    (found,) = build(RangeOp, arrays).evaluate(*arrays)
    assert found.dtype == dtype
    assert found.tolist() == list(range(start, limit, delta))


@pytest.mark.parametrize(
    ("start", "delta", "dtype"), [(3, -2, np.int64), (1, 3, np.int32), (0.5, 0.25, np.float32)]
)
def test_a_range_of_known_length_is_compiled(start, delta, dtype, compiled):
    arrays = [np.array(n, dtype) for n in (start, start + 4 * delta, delta)]
    element = element_type_from_numpy(np.dtype(dtype))
    block = Block(arg_types=[tensor_type(element, ())] * 3)
    op = RangeOp.make(block.args, [tensor_type(element, (4,))])
    (expected,) = op.evaluate(*arrays)
    np.testing.assert_array_equal(compiled.run(op, arrays)[0], expected)


def test_range_refuses_what_has_no_end(build, infer):
    assert infer(RangeOp, [(), (), ()]) == [("?",)]
    with pytest.raises(ValueError, match="the start of a range is 1; a scalar expected"):
        infer(RangeOp, [(1,), (), ()])
    arrays = [np.array(n) for n in (0, 5, 0)]
    with pytest.raises(ValueError, match="a step of 0 has no end"):
        build(RangeOp, arrays).evaluate(*arrays)


def test_shapes_and_control_have_no_compiled_form(values, build, compiled):
    x = values(2, 3)
    with pytest.raises(NotImplementedError, match="a shape is no computation"):
        compiled.run(build(ShapeOp, [x]), [x])
