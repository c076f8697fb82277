"""Copies of operations with all that they contain: what snapshots are made of.

As xDSL's `clone`, in one walk instead of three and so in half the time. It relies on what holds
for functions of tensor operations: every value is made before it is used, in a region too.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block, Operation, Region, SSAValue

AnyOperation = TypeVar("AnyOperation", bound=Operation)


def copy_operation(
    op: AnyOperation, values: dict[SSAValue, SSAValue] | None = None
) -> AnyOperation:
    """A detached copy. `values` leads from values that were copied before to their copies.

    Operands without a copy (of what stands outside) are kept.
    """
    known = {} if values is None else values
    copy = op.create(
        operands=[known.get(operand, operand) for operand in op.operands],
        result_types=[result.type for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
        regions=[_copy_region(region, known) for region in op.regions],
    )
    for old, new in zip(op.results, copy.results, strict=True):
        known[old] = new
        new.name_hint = old.name_hint
    return copy


def _copy_region(region: Region, values: dict[SSAValue, SSAValue]) -> Region:
    copy = Region()
    for block in region.blocks:
        new_block = Block(arg_types=[argument.type for argument in block.args])
        for old, new in zip(block.args, new_block.args, strict=True):
            values[old] = new
            new.name_hint = old.name_hint
        copy.add_block(new_block)
        for op in block.ops:
            new_block.add_op(copy_operation(op, values))
    return copy
