"""Lowering: every statement of a kernel becomes the textbook loop nest.

    linalg.generic {loop.dims = ["o=8", "c=3"],          affine.for %o = 0 to 8 {
        loop.stage = "main"}                        ->     affine.for %c = 0 to 3 {
      ins(%x[c], %w[o, c]) outs(%y[o])                       y[o] = y[o] + x[c] * w[o, c]
      ^(x, w, y): yield y + x * w

Loop names are unique within a kernel, so that a step can address a loop by its name: the main
statement (or the first, where there is no main one) keeps the names of its dimensions, those of
the others start with their stage (`init_o`, `epilogue_o`). Every operation carries the location
"kernel/stage" of its statement, which later links lines of code to statements.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import affine, func
from xdsl.dialects.builtin import AffineMapAttr, NameLoc, NoneAttr, StringAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Operation, SSAValue

from explorer.ir.compute import statement_dimensions
from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import (
    body_of,
    index_of,
    name_of,
    nest_loops,
    new_loop,
    rename,
    stage_of,
)


def lower_to_loops(function: func.FuncOp) -> func.FuncOp:
    """A clone of a kernel in which every `linalg.generic` is an affine loop nest."""
    lowered = function.clone()
    kernel = lowered.sym_name.data
    block = lowered.body.block
    statements = [op for op in block.ops if isinstance(op, GenericOp | affine.ForOp)]
    tag_statements(statements, kernel)
    stages = [stage_of(statement) for statement in statements]
    plain = "main" if "main" in stages else next(iter(stages), "")
    for statement, stage in zip(statements, stages, strict=True):
        prefix = "" if stage == plain else f"{stage}_"
        if isinstance(statement, GenericOp):
            block.insert_op_before(_lower_generic(statement, prefix), statement)
            block.erase_op(statement)
        else:
            _prefix_loops(statement, prefix)
    return lowered


def tag_statements(statements: Sequence[Operation], kernel: str) -> None:
    """Gives statements without a location the tag "kernel/stage", with a number from 2 on."""
    counts: dict[str, int] = {}
    for statement in statements:
        stage = statement.attributes.get("loop.stage")
        base = stage.data if isinstance(stage, StringAttr) else "plain"
        counts[base] = counts.get(base, 0) + 1
        if not isinstance(statement.location, NameLoc):
            suffix = str(counts[base]) if counts[base] > 1 else ""
            tag = StringAttr(f"{kernel}/{base}{suffix}")
            statement.location = NameLoc(tag, NoneAttr())
        for op in walk_inside(statement):
            op.location = statement.location


def _lower_generic(statement: GenericOp, prefix: str) -> affine.ForOp:
    loops = [
        new_loop(d.extent, prefix + d.name, statement) for d in statement_dimensions(statement)
    ]
    indices = [index_of(loop) for loop in loops]
    operations: list[Operation] = []
    values: dict[SSAValue, SSAValue] = {}
    buffers = [*statement.inputs, *statement.outputs]
    maps = list(statement.indexing_maps)
    for buffer, access_map, argument in zip(buffers, maps, statement.body.block.args, strict=True):
        if argument.first_use is None:
            continue
        load = affine.LoadOp(buffer, *_operands(access_map, indices))
        load.result.name_hint = buffer.name_hint
        operations.append(load)
        values[argument] = load.result
    for op in statement.body.block.ops:
        if isinstance(op, YieldOp):
            value = values.get(op.operands[0], op.operands[0])
            operations.append(affine.StoreOp(value, buffers[-1], *_operands(maps[-1], indices)))
        else:
            operations.append(op.clone(values))
    for op in operations:
        op.location = statement.location
    return nest_loops(loops, operations)


def _operands(
    access_map: AffineMapAttr, indices: list[SSAValue]
) -> tuple[list[SSAValue], AffineMapAttr]:
    """Only the indices that a map uses, and the map over those."""
    used = sorted(access_map.data.used_dims())
    if len(used) == len(indices):
        return indices, access_map
    kept = tuple(position in used for position in range(access_map.data.num_dims))
    compact = access_map.data.drop_dims(tuple(not k for k in kept))
    return [indices[position] for position in used], AffineMapAttr(compact)


def _prefix_loops(top: affine.ForOp, prefix: str) -> None:
    for op in walk_inside(top):
        if isinstance(op, affine.ForOp):
            name = name_of(op) or "i"
            # A kernel that was lowered before has its prefixes already.
            rename(op, name if name.startswith(prefix) else prefix + name)


def innermost_operations(top: affine.ForOp) -> list[Operation]:
    """The body of the innermost loop of a textbook nest."""
    current = top
    while True:
        body = body_of(current)
        if len(body) != 1 or not isinstance(body[0], affine.ForOp):
            return body
        current = body[0]
