"""Single operations on quantized tensors: built, and run as generated code."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness
from xdsl.ir import Attribute, Block, Region

from explorer.ir.inspection.printing import dump, parse
from explorer.ir.operation import TopOperation, set_identity
from explorer.ir.top.data import ReturnOp
from explorer.ir.types import QuantizedType, numpy_dtype, tensor_type
from explorer.kernels.loops.lowering import lower_to_loops
from explorer.kernels.schedules import Machine, schedule_kernel
from explorer.passes.lower.lower_to_kernels import define_kernel

U8 = IntegerType(8, Signedness.UNSIGNED)
RUNNERS = ["run_c", pytest.param("run_opencl", marks=pytest.mark.opencl)]


def quantized(storage: Attribute, scale: float, zero: int = 0) -> QuantizedType:
    assert isinstance(storage, IntegerType)
    return QuantizedType.get(storage, [scale], [zero])


def build(
    op_class: type[TopOperation],
    operands: Sequence[tuple[Attribute, Sequence[int]] | None],
    **properties: object,
) -> TopOperation:
    """The operation on arguments of these element types and shapes, in a module that verifies."""
    block = Block(arg_types=[tensor_type(*o) for o in operands if o is not None])
    arguments = iter(block.args)
    values = [None if o is None else next(arguments) for o in operands]
    op = op_class.make(values, **properties)  # pyright: ignore[reportArgumentType]
    set_identity(op, "y")
    block.add_op(op)
    block.add_op(ReturnOp.make([list(op.results)]))
    types = ([a.type for a in block.args], [r.type for r in op.results])
    module = ModuleOp([func.FuncOp("main", types, Region(block))])
    module.verify()
    text = dump(module)
    assert dump(parse(text)) == text
    return op


def run_kernel(
    op: TopOperation, arrays: Sequence[np.ndarray], run, choices: dict | None = None
) -> np.ndarray:
    """The operation's compute definition as generated code; scheduled, where there are choices."""
    kernel = define_kernel(op)
    if choices is not None:
        scheduled = schedule_kernel(kernel, Machine(vector_floats=8, language="c"), {}, choices)
        kernel = scheduled.function
    names = [n.data for n in kernel.attributes["kernel.names"].data]  # pyright: ignore
    given = [*arrays, *(array for _, array in op.kernel_constants())]
    buffers: dict[str, np.ndarray] = {}
    for name, argument in zip(names, kernel.body.block.args, strict=True):
        kind = argument.type
        shape = kind.get_shape()  # pyright: ignore[reportAttributeAccessIssue]
        dtype = numpy_dtype(kind.element_type)  # pyright: ignore[reportAttributeAccessIssue]
        position = len(buffers)
        is_given = position < len(given)
        buffers[name] = given[position].reshape(shape) if is_given else np.zeros(shape, dtype)
    function = lower_to_loops(kernel) if choices is None else kernel
    return run(function, buffers)["y"]


def integers(shape: Sequence[int], kind: QuantizedType, seed: int = 0) -> np.ndarray:
    dtype = numpy_dtype(kind)
    low, high = (0, 255) if dtype == np.uint8 else (-128, 127)
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(dtype)
