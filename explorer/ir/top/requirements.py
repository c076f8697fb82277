"""Which constraints the operations of a program put on its symbolic dimensions.

    %y = top.binary(%x, %z) {kind = "add"}     x: (batch, a), z: (batch, b+1)   ->  a == b+1
    %y = top.conv(%x, %w)                      window of 5 over h, padding 1    ->  h >= 3
    %y = top.reshape(%x) {shape = [-1, 4]}     x: (s, 2)                        ->  2*s % 4 == 0
    %y = top.gather(%table, %range)            512 rows, range(0, s)            ->  s <= 512

Only operations of the function itself: what stands in a region may never run. A size counts as 1
or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd

from xdsl.dialects import func
from xdsl.ir import OpResult, SSAValue

from explorer.ir.constraints import Constraint
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.symbols import Expression, number, parse
from explorer.ir.top.dimensions import are_equal, dimension_of, product
from explorer.ir.top.elementwise import BinaryOp, CastOp, SelectOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.linear import ConvOp, MatMulOp
from explorer.ir.top.movement import ConcatOp, ExpandOp, ReshapeOp, SliceOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reduction import TopKOp
from explorer.ir.top.relations import Relation, simplified
from explorer.ir.top.shapes import RangeOp
from explorer.ir.top.sizes import SizeContents
from explorer.ir.types import Shape, is_static, shape_of
from explorer.ir.weights import Weights


def requirements(
    function: func.FuncOp, weights: Weights, declared: Mapping[str, Shape] | None = None
) -> tuple[Constraint, ...]:
    """The constraints, in the order of the operations, each once.

    declared: shapes that the file gives to the results, by name, in order.
    """
    contents = SizeContents(weights)
    asked: list[tuple[Relation, str, tuple[str, ...]]] = []
    for op in function.body.block.ops:
        rule = _RULES.get(type(op))
        if rule is None or not isinstance(op, TopOperation):
            continue
        if all(is_static(v) for v in (*op.operands, *op.results)):
            continue
        asked += [(r, identity_of(op), sources_of(op)) for r in rule(op, contents)]
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


# -- rules -----------------------------------------------------------------------------------------


def _broadcast(shapes: Sequence[Shape]) -> Iterator[Relation]:
    """Sizes at one axis, counted from the right, are equal or 1."""
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [s[-axis] for s in shapes if len(s) >= axis and s[-axis] != 1]
        numbers = [s for s in sizes if isinstance(s, int)]
        for size in sizes[1:]:
            yield "broadcast", sizes[0], size
        if numbers and sizes[0] != numbers[0]:
            yield "broadcast", sizes[0], numbers[0]


def _elementwise(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    yield from _broadcast([shape_of(o) for o in op.operands])


def _matmul(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    a, b = (shape_of(o) for o in op.operands[:2])
    yield "equal", a[-1], b[-2]
    yield from _broadcast([a[:-2], b[:-2]])


def _concat(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    shapes, joined = [shape_of(o) for o in op.operands], op.get("axis")
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        if axis != joined:
            for size in sizes[1:]:
                yield "equal", sizes[0], size


def _window(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    """Every axis has room for one window; channels are what the weights say."""
    assert isinstance(op, ConvOp | PoolOp)
    x = shape_of(op.operands[0])
    rank = len(x) - 2
    widths = op.get("window") if isinstance(op, PoolOp) else shape_of(op.operands[1])[2:]
    pads, dilations = op.get("pads"), op.get("dilations")
    for axis in range(rank):
        width = widths[axis]
        if isinstance(width, int):
            reach = (width - 1) * dilations[axis] + 1
            yield "at least", x[2 + axis], reach - pads[axis] - pads[rank + axis]
    if isinstance(op, ConvOp):
        channels = shape_of(op.operands[1])[1]
        if isinstance(channels, int):
            yield "equal", x[1], channels * op.get("group")


def _reshape(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    """As many elements before as after; what is left for a size of -1 is a whole number."""
    assert isinstance(op, ReshapeOp)
    before = product(shape_of(op.input))
    target = list(op.get("shape", ())) if op.target is None else contents.sizes(op.target)
    if before is None or target is None:
        return
    copies = op.target is not None and not op.get("allow_zero", False)
    source = shape_of(op.input)
    sizes = [
        source[a] if copies and t == 0 and a < len(source) else t for a, t in enumerate(target)
    ]
    after = product([s for s in sizes if s != -1])
    if after is None or not after.terms:
        return
    if -1 not in sizes:
        yield _same_count(before, after)
    elif after.is_number:
        yield from _divisible(before, after.constant)


def _same_count(before: Expression, after: Expression) -> Relation:
    """Factors that stand on both sides are left out: 3*batch == 3 says batch == 1."""
    for whole, part in ((before, after), (after, before)):
        if part.is_number and len(whole.terms) == 1:
            ((names, factor),) = whole.terms
            if part.constant % factor == 0:
                return "equal", dimension_of(Expression(((names, 1),))), part.constant // factor
        found = whole.quotient(part)
        if found is not None:
            return "equal", dimension_of(found), 1
    return "equal", dimension_of(before), dimension_of(after)


def _divisible(whole: Expression, divisor: int) -> Iterator[Relation]:
    rest = whole - whole.divided(divisor) * divisor
    if rest.is_number and rest.constant == 0:
        return
    if len(whole.terms) == 1:
        ((names, factor),) = whole.terms
        divisor //= gcd(factor, divisor)
        whole = Expression(((names, 1),))
    yield "multiple", dimension_of(whole), divisor


def _expand(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    assert isinstance(op, ExpandOp)
    target = op.get("shape") if op.target is None else contents.sizes(op.target)
    if target is not None:
        yield from _broadcast([shape_of(op.input), tuple(target)])


def _slice(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    """A computed start is no negative number, and a computed stop lies inside of the axis."""
    assert isinstance(op, SliceOp)
    shape = shape_of(op.input)
    if op.is_static_slice:
        axes = tuple(range(len(shape)))
        starts, stops = op.get("starts"), op.get("stops")
        steps = op.get("steps")
    else:
        axes = op.get("axes")
        starts, stops = contents.sizes(op.starts_value), contents.sizes(op.stops_value)
        steps = [1] * len(axes) if op.steps_value is None else contents.sizes(op.steps_value)
    if starts is None or stops is None or steps is None:
        return
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        size = shape[axis]
        if not isinstance(step, int) or step < 0:
            continue
        if isinstance(start, str):
            yield "at least", start, 0
        if isinstance(stop, str):
            yield "at most", stop, size


def _gather(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    """A table has a row for each index that is constant, or that is counted up to a size."""
    assert isinstance(op, GatherOp)
    rows = shape_of(op.input)[op.get("axis")]
    if isinstance(rows, str):
        known = contents.stored(op.indices)
        if known is not None and known.size:
            yield "at least", rows, max(int(known.max()) + 1, -int(known.min()))
    end = _end_of_indices(op.indices, contents)
    if end is not None:
        yield "at most", dimension_of(end), rows


def _end_of_indices(value: SSAValue, contents: SizeContents) -> Expression | None:
    """One more than the highest of indices that count up from a number to a size."""
    added = number(0)
    while isinstance(value, OpResult):
        op = value.op
        if isinstance(op, ReshapeOp | ExpandOp | CastOp):
            value = op.operands[0]
        elif isinstance(op, BinaryOp) and op.get("kind") == "add":
            offsets = [contents.array(o) for o in op.operands]
            constant = next(
                (i for i, o in enumerate(offsets) if o is not None and o.size == 1), None
            )
            if constant is None:
                return None
            offset = offsets[constant]
            assert offset is not None
            added = added + offset.reshape(-1)[0]
            value = op.operands[1 - constant]
        elif isinstance(op, RangeOp):
            limit, step = contents.array(op.limit), contents.array(op.delta)
            if limit is None or step is None or step.reshape(-1)[0] != number(1):
                return None
            return limit.reshape(-1)[0] + added
        else:
            return None
    return None


def _top_k(op: TopOperation, contents: SizeContents) -> Iterator[Relation]:
    yield "at least", shape_of(op.operands[0])[op.get("axis")], op.get("k")


def _declared(declared: Shape, inferred: Shape, inputs: set[str]) -> Iterator[Relation]:
    """What the file calls a result's size; a name of an input's dimension is that size."""
    if len(declared) != len(inferred):
        return
    for named, found in zip(declared, inferred, strict=True):
        if isinstance(named, int) or are_equal(named, found) or isinstance(found, int):
            continue
        known = set(parse(named).names) <= inputs
        yield "equal" if known else "named", found, named


_RULES: Mapping[type, Callable[[TopOperation, SizeContents], Iterator[Relation]]] = {
    BinaryOp: _elementwise,
    SelectOp: _elementwise,
    MatMulOp: _matmul,
    ConcatOp: _concat,
    ConvOp: _window,
    PoolOp: _window,
    ReshapeOp: _reshape,
    ExpandOp: _expand,
    SliceOp: _slice,
    GatherOp: _gather,
    TopKOp: _top_k,
}
