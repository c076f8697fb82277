"""Which constraints the operations of a program put on its symbolic dimensions.

    %y = top.binary(%x, %z) {kind = "add"}     x: (batch, a), z: (batch, b+1)   ->  a == b+1
    %y = top.conv(%x, %w)                      window of 5 over h, padding 1    ->  h >= 3
    %y = top.reshape(%x) {shape = [-1, 4]}     x: (s, 2)                        ->  2*s % 4 == 0
    %y = top.gather(%table, %range)            512 rows, range(0, s)            ->  s <= 512

Each operation says what it asks for (`interfaces.SizeConstrained`). Only operations of the function
itself: what stands in a region may never run. A size counts as 1
or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects import func

from explorer.ir.interfaces import SizeConstrained
from explorer.ir.operation import identity_of
from explorer.ir.origins import sources_of
from explorer.ir.sizes.constraints import Constraint
from explorer.ir.sizes.dimensions import are_equal
from explorer.ir.sizes.relations import Relation, simplified
from explorer.ir.sizes.symbols import is_one_of, parse
from explorer.ir.top.sizes import FoundContents
from explorer.ir.types import Shape, is_static, shape_of
from explorer.ir.weights import Weights


def requirements(
    function: func.FuncOp, weights: Weights, declared: Mapping[str, Shape] | None = None
) -> tuple[Constraint, ...]:
    """The constraints, in the order of the operations, each once.

    declared: shapes that the file gives to the results, by name, in order.
    """
    contents = FoundContents(weights)
    asked: list[tuple[Relation, str, tuple[str, ...]]] = []
    for op in function.body.block.ops:
        if not isinstance(op, SizeConstrained):
            continue
        if all(is_static(v) for v in (*op.operands, *op.results)):
            continue
        asked += [(r, identity_of(op), sources_of(op)) for r in op.size_relations(contents)]
    last = function.body.block.last_op
    inputs = {d for a in function.body.block.args for d in shape_of(a) if isinstance(d, str)}
    if declared and last is not None and len(last.operands) == len(declared):
        for (name, shape), value in zip(declared.items(), last.operands, strict=True):
            asked += [(r, name, (name,)) for r in _declared(shape, shape_of(value), inputs)]
    origins: dict[Relation, tuple[str, tuple[str, ...]]] = {}
    for relation, operation, nodes in asked:
        for plain in simplified([relation]):
            origins.setdefault(plain, (operation, nodes))
    return tuple(
        Constraint(kind, str(left), str(right), *origins[kind, left, right])
        for kind, left, right in simplified(origins)
    )


def _declared(declared: Shape, inferred: Shape, inputs: set[str]) -> Iterator[Relation]:
    """What the file calls a result's size; a name of an input's dimension is that size."""
    if len(declared) != len(inferred):
        return
    for named, found in zip(declared, inferred, strict=True):
        if isinstance(named, int) or are_equal(named, found) or isinstance(found, int):
            continue
        name = parse(named)
        known = set(name.names) <= inputs and not is_one_of(name, parse(found))
        yield "equal" if known else "named", found, named
