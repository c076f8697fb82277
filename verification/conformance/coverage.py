"""Does all of a model run as generated code? Read off the compiled program, not off its promises.

    main:      transfer, call, transfer, return                          nothing else on the host
    main_host: not there                                                 no part on the host
    main_cpu:  weight, launch, launch, reshape (a view), return          every output from a launch
    program:   every launch names a kernel that has source text

A weight that was folded from the model's own constants is fine. An output that depends on an input
in the model, and on none in the program, is not, where inputs were compiled in as constants.
"""

from __future__ import annotations

from collections.abc import Set

from onnx import GraphProto, NodeProto
from xdsl.dialects import func
from xdsl.ir import BlockArgument, SSAValue

from explorer.compilation import Compilation
from explorer.importers.building.code_points import SUFFIX
from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.evaluation import entry_function, output_names, specialized_inputs
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.structure import device_of, functions, host_reason_of
from explorer.ir.top.data import ReturnOp, TransferOp, WeightOp

HOST_OPERATIONS = (TransferOp, ReturnOp, func.CallOp, WeightOp)
SHAPE_ONLY = ("Shape", "Size", "ConstantOfShape", "EyeLike")
"""ONNX operators whose inputs decide a shape and no number: a program is made for its shapes."""


def not_generated(compilation: Compilation, computed: Set[str]) -> tuple[str, str] | None:
    """(status, reason) of what does not run as generated code; None where everything does.

    `computed`: outputs that depend on what is in the inputs.
    """
    program = compilation.final.program
    device: func.FuncOp | None = None
    for function in functions(program):
        on_host = device_of(function) == "host"
        device = device if on_host else function
        for op in function.body.block.ops:
            if on_host and host_reason_of(op):
                return "host", f"{op.name} {identity_of(op)} runs on the host: {host_reason_of(op)}"
            allowed = isinstance(op, HOST_OPERATIONS) if on_host else _is_device_work(op)
            if not allowed:
                return "host", f"{op.name} {identity_of(op)} is left to the host"
    if device is None:
        return "host", "the program has no function for its device"
    launched = {launch.kernel for launch in compilation.program.launches}
    printed = {kernel.name for kernel in compilation.program.kernels if kernel.source.lines}
    if not launched <= printed:
        return "host", f"kernel {min(launched - printed)} has no source text"
    return _constant_output(compilation, device, computed)


def _is_device_work(op: object) -> bool:
    if isinstance(op, TopOperation) and op.parts():
        return True
    return isinstance(op, LaunchOp | WeightOp | ReturnOp)


def _constant_output(
    compilation: Compilation, device: func.FuncOp, needs_inputs: Set[str]
) -> tuple[str, str] | None:
    """An output that no launch writes, or one that lost its inputs."""
    imported = entry_function(compilation.passes[0].after.program)
    returned = device.body.block.last_op
    assert isinstance(returned, ReturnOp)
    frozen = specialized_inputs(imported)
    for name, value in zip(output_names(imported), returned.operands, strict=True):
        sources = _sources(value)
        if not any(isinstance(s.owner, LaunchOp) for s in sources):
            return "host", f"no generated code writes output {name}"
        has_input = any(isinstance(s, BlockArgument) for s in sources)
        if name.removesuffix(SUFFIX) in needs_inputs and not has_input and frozen:
            return "constant", f"output {name} is a constant: {', '.join(frozen)} was compiled in"
    return None


def _sources(value: SSAValue) -> set[SSAValue]:
    """A value and everything that it is computed from, in one function."""
    found: set[SSAValue] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            if not isinstance(current, BlockArgument):
                waiting.extend(current.owner.operands)  # pyright: ignore[reportAttributeAccessIssue]
    return found


def values_from_inputs(graph: GraphProto) -> set[str]:
    """Names of the values of a graph that depend on its inputs by more than their shapes."""
    constants = {t.name for t in graph.initializer}
    found = {i.name for i in graph.input if i.name not in constants}
    vectors = {i.name for i in graph.input if len(i.type.tensor_type.shape.dim) == 1}
    listed = {n.output[0] for n in graph.node if _is_listed_split(n, vectors)}
    for node in graph.node:
        is_counted = node.op_type == "SequenceLength" and node.input[0] in listed
        if node.op_type not in SHAPE_ONLY and not is_counted and found & read_by(node):
            found.update(name for name in node.output if name)
    return found


def _is_listed_split(node: NodeProto, vectors: Set[str]) -> bool:
    """Whether a sequence has one part for each element of a vector: its length is the vector's."""
    return node.op_type == "SplitToSequence" and len(node.input) > 1 and node.input[1] in vectors


def read_by(node: NodeProto) -> set[str]:
    """All names that a node reads, the graphs inside it included."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                names |= read_by(inner)
    return names
