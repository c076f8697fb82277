"""An operation that no pass has heard of is treated as those that are there.

`DistanceOp` is what a family's file would hold and nothing else: it is elementwise, and so it is
moved, reshaped, blocked, kept open over a range, bound by its sizes and compiled, without an edit
anywhere. `MirrorOp` declares its interfaces one by one, and `BraidOp` those of a concat.
"""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.errors import InputError
from explorer.importers.building.build import Build
from explorer.importers.building.knowledge import Knowledge
from explorer.ir.compute import KernelBuilder
from explorer.ir.evaluation import entry_function, evaluate_function
from explorer.ir.gradients import GradientBuild, Term
from explorer.ir.interfaces import (
    AlongAxis,
    Blockable,
    Differentiable,
    JoinsPieces,
    MixesAxes,
    Parameterized,
    Piece,
)
from explorer.ir.operation import Access, set_identity
from explorer.ir.origins import Origin, set_origins
from explorer.ir.rewriting import Names, RewriteOptions
from explorer.ir.rewriting.passes import Working, run_pass
from explorer.ir.sizes.ranges import SizeRange, open_size
from explorer.ir.structure import value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.requirements import requirements
from explorer.ir.top.support.broadcasting import ElementwiseOperation, broadcast_shapes, iteration
from explorer.ir.types import (
    Layout,
    element_type_of,
    layout_of,
    shape_of,
    static_shape,
    tensor_type,
)
from explorer.ir.weights import Weights
from explorer.passes.lower.assign_layouts import AssignLayouts
from explorer.passes.lower.join_in_place import JoinInPlace
from explorer.passes.lower.lower_to_kernels import define_kernel
from explorer.passes.lower.place_on_device import PlaceOnDevice
from explorer.passes.simplify.fold_constants import FoldConstants
from explorer.passes.simplify.push_transposes import PushTransposes
from explorer.passes.sizes.keep_range import KeepRange
from explorer_extras.onnx.gradient import gradients_of

BLOCK = 8


@irdl_op_definition
class DistanceOp(Differentiable, Parameterized, ElementwiseOperation):
    """(left - right)², broadcast as NumPy does."""

    name = "top.distance"
    KEEPS_FINITE: ClassVar[bool] = True

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape = broadcast_shapes(shape_of(self.left), shape_of(self.right))
        return [tensor_type(element_type_of(self.left), shape)]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        left, right = operands
        return ((left - right) ** 2,)

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        slope = (Term(build, self.left) - Term(build, self.right)) * (2 if index == 0 else -2)
        return (Term(build, g) * slope).value

    def macs(self) -> int:
        return prod(static_shape(self.output))

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        reads = [access.broadcast(d) for access in inputs]
        k.generic("plain", reads, output.at(*d), lambda s, a, b: (a - b) * (a - b))
        return "elementwise"


@irdl_op_definition
class MirrorOp(Differentiable, AlongAxis, MixesAxes, Blockable):
    """The elements along an axis in the opposite order."""

    name = "top.mirror"

    input = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    output = result_def(TensorType)

    def mixed_axes(self) -> Sequence[int]:
        return (self.get("axis"),)

    def infer_types(self) -> list[Attribute]:
        return [self.input.type]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.flip(operands[0], self.get("axis")),)

    def operand_gradient(self, index: int, g: SSAValue, build: GradientBuild) -> SSAValue:
        return build.slices(g, {self.get("axis"): (-1, -1, -1)})


@irdl_op_definition
class BraidOp(JoinsPieces):
    """The second of two tensors and then the first, along the first axis."""

    name = "top.braid"
    KEEPS_FINITE: ClassVar[bool] = True

    first = operand_def(TensorType)
    second = operand_def(TensorType)
    in_place = opt_prop_def(BoolAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        (n, *rest), (m, *_) = static_shape(self.first), static_shape(self.second)
        return [tensor_type(element_type_of(self.first), (n + m, *rest))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.concatenate(operands[::-1]),)

    def pieces(self) -> Sequence[Piece]:
        behind = static_shape(self.second)[0]
        return [
            Piece(self.output, self.first, 0, behind),
            Piece(self.output, self.second, 0, 0),
        ]


class Program:
    """A program built of operations; every value is its own origin, as after the import."""

    def __init__(self, *shapes: Sequence[int | str]):
        self.block = Block(arg_types=[tensor_type(f32, shape) for shape in shapes])
        self.weights = Weights()
        for index, argument in enumerate(self.block.args):
            argument.name_hint = f"x{index}"

    def add(self, name: str, kind: type, operands: Sequence, **properties: object) -> SSAValue:
        op = kind.make(operands, **properties)
        self._append(op, name)
        set_origins(op, [Origin(name)])
        return op.results[0]

    def weight(self, name: str, array: np.ndarray) -> SSAValue:
        array = np.asarray(array, np.float32)
        stored = self.weights.add(name, array)
        op = WeightOp.make([], [tensor_type(f32, array.shape)], weight=stored)
        return self._append(op, name)

    def _append(self, op, name: str) -> SSAValue:
        set_identity(op, name)
        self.block.add_op(op)
        return op.results[0]

    def returning(self, value: SSAValue) -> Working:
        self.block.add_op(ReturnOp.make([[value]]))
        types = ([a.type for a in self.block.args], [value.type])
        module = ModuleOp([func.FuncOp("main", types, Region(self.block))])
        module.verify()
        return Working(module=module, weights=self.weights, names=Names.of(module))


def run(pass_, working: Working):
    """The pass's result; every value that is left has the numbers that it had."""
    before = working.snapshot
    function = entry_function(before.module)
    random = np.random.default_rng(0)
    inputs = {
        str(a.name_hint): random.normal(size=shape_of(a)).astype(np.float32)  # pyright: ignore
        for a in function.body.block.args
    }
    expected = before.run(inputs)
    result = run_pass(pass_, working, RewriteOptions())
    actual = result.after.run(inputs)
    for name, origin in result.after.origins.items():
        if origin.tensor in expected:
            np.testing.assert_array_equal(actual[name], origin.apply(expected[origin.tensor]))
    return result


def operations(result) -> list[str]:
    function = entry_function(result.after.module)
    return [op.name for op in function.body.block.ops if not isinstance(op, WeightOp)]


@pytest.mark.parametrize(
    ("kind", "properties", "expected"),
    [(DistanceOp, {}, None), (MirrorOp, {"axis": 3}, 1)],
)
def test_transposes_around_it_cancel(kind, properties, expected):
    program = Program((1, 3, 4, 5))
    (x,) = program.block.args
    t = program.add("t", TransposeOp, [x], permutation=[0, 2, 3, 1])
    others = [program.weight("c", np.arange(3))] if kind is DistanceOp else []
    y = program.add("y", kind, [t, *others], **properties)
    back = program.add("back", TransposeOp, [y], permutation=[0, 3, 1, 2])
    result = run(PushTransposes(), program.returning(back))
    assert operations(result) == [kind.name, "top.return"]
    (op,) = (o for o in result.after.operations.values() if isinstance(o, kind))
    assert op.get("axis") == expected


@pytest.mark.parametrize(
    ("kind", "properties", "expected"), [(DistanceOp, {}, None), (MirrorOp, {"axis": 2}, 1)]
)
def test_a_reshape_before_it_goes_behind_it(kind, properties, expected):
    program = Program((6, 4))
    (x,) = program.block.args
    r = program.add("r", ReshapeOp, [x, None], shape=[2, 3, 4])
    others = [program.weight("c", np.arange(4))] if kind is DistanceOp else []
    y = program.add("y", kind, [r, *others], **properties)
    result = run(PushTransposes(), program.returning(y))
    assert operations(result) == [kind.name, "top.reshape", "top.return"]
    (op,) = (o for o in result.after.operations.values() if isinstance(o, kind))
    assert op.get("axis") == expected


@pytest.mark.parametrize(("kind", "properties"), [(DistanceOp, {}), (MirrorOp, {"axis": 3})])
def test_behind_a_convolution_it_is_blocked_by_channels(kind, properties):
    program = Program((1, 16, 6, 6))
    (x,) = program.block.args
    filters = np.random.default_rng(1).normal(size=(16, 16, 1, 1))
    window = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1}
    c = program.add("c", ConvOp, [x, program.weight("w", filters)], **window)
    others = [c] if kind is DistanceOp else []
    y = program.add("y", kind, [c, *others], **properties)
    working = program.returning(y)
    run_pass(PlaceOnDevice("cpu"), working, RewriteOptions())
    result = run_pass(AssignLayouts(BLOCK), working, RewriteOptions())
    assert layout_of(result.after.operations["y"].results[0]) == Layout(BLOCK)


def test_a_dimension_stays_open_through_it():
    program = Program(("n", 4))
    (x,) = program.block.args
    d = program.add("d", DistanceOp, [x, program.weight("c", np.arange(4))])
    y = program.add("y", MirrorOp, [d], axis=1)
    keep = KeepRange(SizeRange("n", 1, 4))
    result = run_pass(keep, program.returning(y), RewriteOptions())
    found = open_size(entry_function(result.after.module))
    assert found is not None and found.outputs == (1,)


def test_what_mixes_the_rows_is_refused_by_name():
    program = Program(("n", 4))
    (x,) = program.block.args
    working = program.returning(program.add("y", MirrorOp, [x], axis=0))
    with pytest.raises(InputError, match=r"top.mirror y: it mixes the elements of dimension 0"):
        run_pass(KeepRange(SizeRange("n", 1, 4)), working, RewriteOptions())


def test_its_sizes_are_constrained():
    program = Program(("a", 4), ("b", 4))
    y = program.add("y", DistanceOp, list(program.block.args))
    working = program.returning(y)
    found = requirements(entry_function(working.module), working.weights)
    assert [(c.kind, {c.left, c.right}) for c in found] == [("broadcast", {"a", "b"})]


def test_its_kernel_has_as_few_loops_as_can_be():
    program = Program((2, 3, 4, 5))
    (x,) = program.block.args
    y = program.add("y", DistanceOp, [x, x])
    program.returning(y)
    kernel = define_kernel(y.owner)
    assert [len(a.type.get_shape()) for a in kernel.body.block.args] == [1, 1, 1]


def test_what_it_joins_is_written_where_its_result_has_it():
    program = Program((16, 4))
    (x,) = program.block.args
    a, b = (program.add(n, DistanceOp, [x, x]) for n in "ab")
    working = program.returning(program.add("y", BraidOp, [a, b]))
    run_pass(PlaceOnDevice("cpu"), working, RewriteOptions())
    result = run_pass(JoinInPlace(), working, RewriteOptions())
    op = result.after.operations["y"]
    assert op.get("in_place") is True
    assert [(value_name(p.value), p.offset_bytes) for p in op.parts()] == [("a", 256), ("b", 0)]


def test_its_cost_is_counted_and_its_constants_are_folded():
    program = Program((1, 3))
    (x,) = program.block.args
    small = program.weight("small", np.arange(3))
    shape = [2**16, 3]  # more than a value that is no parameter may grow
    grown = program.add("grown", ExpandOp, [small, None], shape=shape)
    y = program.add("y", DistanceOp, [program.add("xs", ExpandOp, [x, None], shape=shape), grown])
    result = run(FoldConstants(), program.returning(y))
    assert operations(result) == ["top.expand", "top.distance", "top.return"]
    assert result.after.macs == 3 * 2**16


def test_its_gradient_is_found_backwards():
    program = Program((2, 3))
    (x,) = program.block.args
    centre = program.weight("c", np.array([1, 2, 3]))
    d = program.add("d", DistanceOp, [x, centre])
    y = program.add("y", MirrorOp, [d], axis=1)
    z = program.add("z", DistanceOp, [y, program.weight("goal", np.arange(3))])
    build = Build(program.weights, Knowledge(program.weights), program.block)
    operations = [value.owner for value in (d, y, z)]
    (slope,) = gradients_of(build.expr(z), [build.expr(x)], operations, build)  # pyright: ignore[reportArgumentType]
    working = program.returning(slope.value)
    point = np.array([[0.5, 3, 1], [2, 2, 7]], np.float32)
    entry = entry_function(working.module)
    (found,), _ = evaluate_function(entry, working.weights, [point])
    distance = (point - [1, 2, 3]) ** 2
    expected = 2 * (distance - [2, 1, 0]) * 2 * (point - [1, 2, 3])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
