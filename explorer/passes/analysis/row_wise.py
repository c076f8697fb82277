"""Which values grow row by row with a dimension: what one program for all its sizes needs.

    %x: (batch, 3, 8, 8)        rows of 1 per unit of batch
    %r = top.reshape(%x)        (batch*3, 64): 3 rows per unit
    %m = top.reduce(%r, axis 0) declined: each of its elements is made of all rows

An operation works row by row where the first rows of its result are computed from the first rows of
its operands alone. Then the program for the largest size, fed with fewer rows, computes what the
program for the smaller size computes, whatever stands in the rows behind. Everything here is
about the imported program, whose shapes say by name what depends on the dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from explorer.errors import RangeError
from explorer.ir.interfaces import SIZED, STATIC, NotRowWise, Rows, RowWise, Status
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.sizes.symbols import Expression, parse
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.shapes import ShapeOp
from explorer.ir.top.sizes import FoundContents
from explorer.ir.types import Dim, Shape, shape_of
from explorer.ir.weights import Weights

MAX_REASONS = 3
"""Reasons that an error lists."""


def analyse_rows(
    function: func.FuncOp, weights: Weights, name: str, sizes: Mapping[str, int]
) -> dict[SSAValue, Status]:
    """The status of every value of a function with symbolic shapes.

    sizes: of the other dimensions.

    RangeError names operations that do not work row by row, and why.
    """
    analysis = _Analysis(name, FoundContents(weights), sizes)
    for argument in function.body.block.args:
        try:
            analysis.found[argument] = analysis.status_of_shape(shape_of(argument))
        except NotRowWise as error:
            label = argument.name_hint or f"input {argument.index}"
            analysis.reasons.append(f"input {label}: {error}")
    if not analysis.reasons:
        for op in function.body.block.ops:
            analysis.visit(op)
    if analysis.reasons:
        listed = "; ".join(analysis.reasons[:MAX_REASONS])
        more = len(analysis.reasons) - MAX_REASONS
        raise RangeError(
            f"one program for a range of {name!r} is not possible: {listed}"
            + (f"; and {more} more" if more > 0 else ""),
            node=analysis.node,
            hint=f"give one size: --dim {name}=1; a session compiles for each size that comes",
        )
    return analysis.found


class _Analysis:
    def __init__(self, name: str, contents: FoundContents, sizes: Mapping[str, int]) -> None:
        self.name = name
        self.sizes = {known: size for known, size in sizes.items() if known != name}
        self.contents = contents
        self.found: dict[SSAValue, Status] = {}
        self.reasons: list[str] = []
        self.node = ""
        """Nodes of the first operation that is at fault."""

    def visit(self, op: Operation) -> None:
        if not isinstance(op, TopOperation):
            return
        if any(operand not in self.found for operand in op.operands):
            return  # it comes from an operation whose reason is listed already
        try:
            statuses = self.statuses(op)
        except NotRowWise as error:
            self.reasons.append(f"{op.name} {identity_of(op)}: {_of_host(op) or error}")
            self.node = self.node or ", ".join(sources_of(op))
            return
        self.found.update(zip(op.results, statuses, strict=True))

    def statuses(self, op: TopOperation) -> list[Status]:
        given = [self.found[operand] for operand in op.operands]
        if isinstance(op, ReturnOp):
            if SIZED in given:
                raise NotRowWise("an output is the size itself")
            return []
        if isinstance(op, ShapeOp):
            return [SIZED if self.mentions(op.sizes) else STATIC]
        if op.regions:
            inside = [v for inner in op.walk() for v in inner.operands if v in self.found]
            if any(self.found[v] != STATIC for v in inside):
                raise NotRowWise("control flow")
            return [STATIC for _ in op.results]
        results = [self.status_of_shape(shape_of(result)) for result in op.results]
        if all(status == STATIC for status in given):
            return results
        sizes_from = op.SIZES_FROM if isinstance(op, RowWise) else None
        if not any(isinstance(s, Rows) for s in given) and all(s == STATIC for s in results):
            if sizes_from and given[0] == STATIC:
                raise NotRowWise(f"its shape depends on {self.name!r}")
            return [SIZED for _ in results]
        if not isinstance(op, RowWise):
            raise NotRowWise("nothing is known about its rows")
        if SIZED in given[:sizes_from]:
            raise NotRowWise(f"it computes with the number {self.name!r} itself")
        for result in results:
            self._require_rows(op, given, result)
        return results

    def _require_rows(self, op: RowWise, given: Sequence[Status], result: Status) -> None:
        """NotRowWise unless a result of that status has the rows that the operands have."""
        rows = [(index, s) for index, s in enumerate(given) if isinstance(s, Rows)]
        if not isinstance(result, Rows):
            for index, own in rows:
                op.carried_axis(index, own.axis)  # it says over which dimension
            raise NotRowWise(f"its result does not have {self.name!r} rows")
        if any(op.carried_rows(index, own, result) != result for index, own in rows):
            raise NotRowWise("its operands' rows are not the same")
        op.check_rows(given, result, self.contents)

    def mentions(self, sizes: Sequence[Dim]) -> bool:
        return any(
            isinstance(d, str) and (d == UNKNOWN or self.name in self.expression(d).names)
            for d in sizes
        )

    def expression(self, size: Dim) -> Expression:
        """A size with the other dimensions' sizes put in."""
        return parse(str(size)).substituted(self.sizes)

    def status_of_shape(self, shape: Shape) -> Status:
        """Rows where one axis is a multiple of the size and all before it are 1."""
        sized = [axis for axis, size in enumerate(shape) if self.mentions([size])]
        if not sized:
            return STATIC
        axis = sized[0]
        size = shape[axis]
        factor = self.expression(size).multiple_of(self.name)
        if len(sized) > 1:
            raise NotRowWise(f"{self.name!r} is in several dimensions of {_text(shape)}")
        if factor is None or factor < 1:
            raise NotRowWise(f"dimension {axis} of {_text(shape)} is no multiple of {self.name}")
        if any(other != 1 for other in shape[:axis]):
            place = f"dimension {axis} of {_text(shape)}"
            raise NotRowWise(f"{self.name!r} is {place}, not the first")
        return Rows(axis, factor)


def _of_host(op: TopOperation) -> str:
    """Why the host would run an operation, where that is so; it reads whole arrays, and buffers
    of the largest size have rows that a smaller one never wrote."""
    shapes = [shape_of(result) for result in op.results]
    is_open = op.is_sized_by_contents and any(UNKNOWN in shape for shape in shapes)
    reason = "what it reads decides how large its result is" if is_open else op.missing_form()
    return f"{reason}; the host would run it, for a program of one size" if reason else ""


def _text(shape: Shape) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"
