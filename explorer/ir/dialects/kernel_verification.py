"""Verification of kernels: thousands of operations, few of which differ in form.

Whether an operation of the arithmetic and loop dialects is valid depends on its class, the types
that it takes and gives, and its properties. These are immutable objects, which a step that splits,
clones or moves loops hands on, so that a form which was valid once is known by the objects:

    affine.for 0 to 56   affine.for 0 to 56   arith.addf f32, f32   ...   two verified, then known

Where an operation stands is looked at each time: its block and the end of that block.
"""

from __future__ import annotations

from xdsl.dialects import affine, func
from xdsl.ir import Block, Operation
from xdsl.ir.core import ErasedSSAValue
from xdsl.irdl import IRDLOperation

FORMED = ("affine", "arith", "math", "vector")
"""Dialects whose verifiers read nothing but types, properties and a loop's own arguments."""

Form = tuple[object, ...]


class KernelVerifier:
    """Verifies kernels, one after the other, and remembers the forms that were valid."""

    def __init__(self) -> None:
        self._valid: dict[Form, tuple[object, ...]] = {}
        """By the identities of the objects in a form: these objects, which keep them in memory."""
        self._is_formed: dict[type[Operation], bool] = {}

    def verify(self, kernel: func.FuncOp) -> None:
        """As `kernel.verify()`: VerifyException or ValueError for the first invalid operation."""
        for region in kernel.regions:
            for block in region.blocks:
                if block.parent is not region:
                    raise ValueError("Parent pointer of block does not refer to containing region")
                self._verify_block(block)
        kernel.verify(verify_nested_ops=False)

    def _verify_block(self, block: Block) -> None:
        if block.last_op is None:
            block.verify()  # it may be that none has to be there
        for op in block.ops:
            if op.parent is not block:
                raise ValueError("Parent pointer of operation does not refer to containing region")
            for region in op.regions:
                for inner in region.blocks:
                    if inner.parent is not region:
                        raise ValueError(
                            "Parent pointer of block does not refer to containing region"
                        )
                    self._verify_block(inner)
            self._verify_operation(op, is_last=op is block.last_op)

    def _verify_operation(self, op: Operation, is_last: bool) -> None:
        """The operation itself; what it holds is verified already."""
        kind = type(op)
        if kind not in self._is_formed:
            self._is_formed[kind] = _is_formed(kind)
        # The end of a block is a terminator, and nothing else is one.
        has_form = self._is_formed[kind] and is_last == (kind is affine.YieldOp)
        if not has_form or any(type(operand) is ErasedSSAValue for operand in op.operands):
            op.verify(verify_nested_ops=False)
            return
        parts = _parts_of(op)
        form = (kind, *map(id, parts))
        if form in self._valid:
            return
        op.verify(verify_nested_ops=False)
        self._valid[form] = parts


def _is_formed(kind: type[Operation]) -> bool:
    if kind.name.split(".")[0] not in FORMED or not issubclass(kind, IRDLOperation):
        return False
    definition = kind.get_irdl_definition()
    has_blocks = bool(definition.regions) and kind is not affine.ForOp
    return not (has_blocks or definition.successors or definition.attributes)


def _parts_of(op: Operation) -> tuple[object, ...]:
    """What its validity depends on, besides its class and place; marks keep the parts apart."""
    parts: list[object] = [operand.type for operand in op.operands]
    parts.append("->")
    parts += [result.type for result in op.results]
    for name, attribute in op.properties.items():
        parts += (name, attribute)
    for region in op.regions:
        parts.append("region")
        for block in region.blocks:
            parts.append("block")
            parts += [argument.type for argument in block.args]
    return tuple(parts)
