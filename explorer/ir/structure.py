"""The structure of a module as plain data: what diffs, rewrite events and replays are made of.

An `OperationRecord` is an operation without its place in memory: operands are named by the
identity of what makes them. Attributes are immutable, so that making one is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from explorer.ir.operation import IDENTITY, TopOperation, from_attribute, identity_of
from explorer.ir.types import format_type

DEVICE = "device"
"""Attribute of a function: what it runs on."""
COMPANION = "companion"
"""Attribute of a function that is compiled by a run of its own, for another device."""
HOST = "host"
"""The device that runs the entry function, and what no other one can run."""
HOST_REASON = "host.reason"
"""Attribute of an operation: why the host runs it, by its NumPy meaning."""
SIZED = "sized"
"""Attribute of a function of the host: the device that it can be compiled for once the sizes of
its arguments are known."""


@dataclass(frozen=True)
class OperationRecord:
    identity: str
    name: str
    operands: tuple[str, ...]
    properties: tuple[tuple[str, Attribute], ...]
    types: tuple[Attribute, ...]

    def text(self) -> str:
        """One readable line: `top.conv(%x, %w) {pads = (1, 1, 1, 1)} : 1x8x8x8 f32`."""
        properties = ", ".join(f"{k} = {from_attribute(v)}" for k, v in self.properties)
        operands = ", ".join(f"%{o}" for o in self.operands)
        types = ", ".join(format_type(t) for t in self.types)
        return f"{self.name}({operands}) {{{properties}}} : {types}"


def record(op: Operation, names: Mapping[SSAValue, str] | None = None) -> OperationRecord:
    """The operation as data; `names` of values that are known already."""
    properties = [pair for pair in op.properties.items() if pair[0] != "operandSegmentSizes"]
    if len(properties) > 1:
        properties.sort()
    if names:
        operands = [names.get(o) or value_name(o) for o in op.operands]
    else:  # as for every change of a long concat
        operands = [value_name(o) for o in op.operands]
    return OperationRecord(
        identity_of(op),
        op.name,
        tuple(operands),
        tuple(properties),
        tuple([r.type for r in op.results]),
    )


def value_name(value: SSAValue) -> str:
    """Identity of the operation that makes it (`name.1` for a second result), or the argument."""
    if isinstance(value, OpResult):
        identity = identity_of(value.op)
        return identity if value.index == 0 else f"{identity}.{value.index}"
    assert isinstance(value, BlockArgument)
    return value.name_hint or f"arg{value.index}"


def functions(module: ModuleOp) -> list[func.FuncOp]:
    """The module's functions of tensor operations (kernels over memrefs are left out)."""
    return [
        op
        for op in module.ops
        if isinstance(op, func.FuncOp) and "kernel.kind" not in op.attributes
    ]


def kernel_functions(module: ModuleOp) -> dict[str, func.FuncOp]:
    """The module's kernels by name."""
    return {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, func.FuncOp) and "kernel.kind" in op.attributes
    }


def device_of(function: func.FuncOp) -> str:
    """Device that a function runs on; `host` before placement."""
    attribute = function.attributes.get(DEVICE)
    return attribute.data if isinstance(attribute, StringAttr) else HOST


def own_functions(module: ModuleOp) -> list[func.FuncOp]:
    """The functions that the passes after placement are about: neither the host's nor those of
    another device, which are compiled by a run of their own."""
    return [
        function
        for function in functions(module)
        if device_of(function) != HOST and COMPANION not in function.attributes
    ]


def host_reason_of(op: Operation) -> str:
    """Why the host runs an operation; empty where it was not placed there."""
    attribute = op.attributes.get(HOST_REASON)
    return attribute.data if isinstance(attribute, StringAttr) else ""


def blocks_around(op: Operation) -> Iterator[Block]:
    """The block in which an operation stands, then those around it."""
    found: Operation | None = op
    while found is not None and found.parent is not None:
        yield found.parent
        found = found.parent_op()


def outermost(op: Operation, block: Block) -> Operation:
    """The operation of a block that is, or contains, an operation that stands somewhere in it."""
    while op.parent is not block:
        outer = op.parent_op()
        assert outer is not None
        op = outer
    return op


def read_values(op: Operation) -> list[SSAValue]:
    """All that an operation reads, what its regions take from outside included."""
    if not op.regions:
        return list(op.operands)
    inside = {v for o in op.walk() for region in o.regions for b in region.blocks for v in b.args}
    inside |= {result for inner in op.walk() if inner is not op for result in inner.results}
    read = dict.fromkeys(operand for inner in op.walk() for operand in inner.operands)
    return [value for value in read if value not in inside]


def operations(module: ModuleOp) -> Iterator[TopOperation]:
    """All tensor operations in program order, those in nested regions included."""
    for function in functions(module):
        for op in walk_inside(function):
            if isinstance(op, TopOperation):
                yield op


def walk_blocks(block: Block) -> Iterator[Operation]:
    """Operations of a block and of the regions nested in it, outer before inner."""
    for op in block.ops:
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from walk_blocks(inner)


def walk_inside(root: Operation) -> list[Operation]:
    """The operation and all that it contains, outer before inner.

    As `root.walk()`, several times faster: xDSL's passes every operation on through all levels.
    """
    found: list[Operation] = []
    pending = [root]
    while pending:
        op = pending.pop()
        found.append(op)
        for region in reversed(op.regions):
            block = region.last_block
            while block is not None:
                inner = block.last_op
                while inner is not None:
                    pending.append(inner)
                    inner = inner.prev_op
                block = block.prev_block
    return found


def index_operations(found_in: ModuleOp | Sequence[TopOperation]) -> dict[str, OperationRecord]:
    """Every identified operation by identity: of a module, or of what a walk over one found."""
    walked = operations(found_in) if isinstance(found_in, ModuleOp) else found_in
    names: dict[SSAValue, str] = {}
    found = {}
    for op in walked:
        if IDENTITY in op.attributes:
            made = record(op, names)
            found[made.identity] = made
            for number, result in enumerate(op.results):
                names[result] = f"{made.identity}.{number}" if number else made.identity
    return found
