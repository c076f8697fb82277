"""Which values grow row by row with a dimension: what one program for all its sizes needs.

    %x: (batch, 3, 8, 8)        rows of 1 per unit of batch
    %r = top.reshape(%x)        (batch*3, 64): 3 rows per unit
    %m = top.reduce(%r, axis 0) declined: each of its elements is made of all rows

An operation is separable where the first rows of its result are computed from the first rows of
its operands alone. Then the program for the largest size, fed with fewer rows, computes what the
program for the smaller size computes, whatever stands in the rows behind. Everything here is
about the imported program, whose shapes say by name what depends on the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from explorer.errors import InputError
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.symbols import Expression, parse
from explorer.ir.top.attention import AttentionOp
from explorer.ir.top.broadcasting import ElementwiseOperation
from explorer.ir.top.cumulative import CumulativeOp
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.determinant import DeterminantOp
from explorer.ir.top.dimensions import UNKNOWN
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.interpolation import InterpolateOp
from explorer.ir.top.linear import ConvOp, MatMulOp
from explorer.ir.top.movement import (
    ConcatOp,
    ExpandOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from explorer.ir.top.normalization import (
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
    LocalResponseNormOp,
    SoftmaxOp,
)
from explorer.ir.top.pooling import PoolOp
from explorer.ir.top.reduction import ArgOp, ReduceOp, TopKOp
from explorer.ir.top.shapes import RangeOp, ShapeOp
from explorer.ir.top.sizes import SizeContents
from explorer.ir.types import Dim, Shape, shape_of
from explorer.ir.weights import Weights

MOST_REASONS = 3
"""Reasons that an error lists."""


@dataclass(frozen=True)
class Rows:
    """A value with `factor` rows along `axis` for each unit of the dimension."""

    axis: int
    factor: int


STATIC = "static"
"""The same for all sizes."""
SIZED = "sized"
"""A small tensor of numbers that are computed from the size."""

Status = Rows | str


class NotSeparable(Exception):
    """Why rows of an operation's result need more than the rows of its operands."""


def analyse_rows(
    function: func.FuncOp, weights: Weights, name: str, sizes: Mapping[str, int]
) -> dict[SSAValue, Status]:
    """The status of every value of a function with symbolic shapes.

    sizes: of the other dimensions.

    InputError names operations that do not work row by row, and why.
    """
    analysis = _Analysis(name, SizeContents(weights), sizes)
    for argument in function.body.block.args:
        try:
            analysis.found[argument] = analysis.status_of_shape(shape_of(argument))
        except NotSeparable as error:
            label = argument.name_hint or f"input {argument.index}"
            analysis.reasons.append(f"input {label}: {error}")
    if not analysis.reasons:
        for op in function.body.block.ops:
            analysis.visit(op)
    if analysis.reasons:
        listed = "; ".join(analysis.reasons[:MOST_REASONS])
        more = len(analysis.reasons) - MOST_REASONS
        raise InputError(
            f"one program for a range of {name!r} is not possible: {listed}"
            + (f"; and {more} more" if more > 0 else ""),
            node=analysis.node,
            hint=f"give one size: --dim {name}=1",
        )
    return analysis.found


class _Analysis:
    def __init__(self, name: str, contents: SizeContents, sizes: Mapping[str, int]) -> None:
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
        except NotSeparable as error:
            self.reasons.append(f"{op.name} {identity_of(op)}: {error}")
            self.node = self.node or ", ".join(sources_of(op))
            return
        self.found.update(zip(op.results, statuses, strict=True))

    def statuses(self, op: TopOperation) -> list[Status]:
        given = [self.found[operand] for operand in op.operands]
        if isinstance(op, ReturnOp):
            if SIZED in given:
                raise NotSeparable("an output is the size itself")
            return []
        if isinstance(op, ShapeOp):
            return [SIZED if self.mentions(op.sizes) else STATIC]
        if op.regions:
            inside = [v for inner in op.walk() for v in inner.operands if v in self.found]
            if any(self.found[v] != STATIC for v in inside):
                raise NotSeparable("control flow")
            return [STATIC for _ in op.results]
        if all(status == STATIC for status in given):
            return [self.status_of_shape(shape_of(result)) for result in op.results]
        results = [self.status_of_shape(shape_of(result)) for result in op.results]
        rows = [status for status in given if isinstance(status, Rows)]
        if not rows and all(status == STATIC for status in results):
            if isinstance(op, ReshapeOp | ExpandOp | SliceOp) and given[0] == STATIC:
                raise NotSeparable(f"its shape depends on {self.name!r}")
            return [SIZED for _ in results]
        rule = next((rule for kind, rule in _RULES.items() if isinstance(op, kind)), None)
        if rule is None:
            raise NotSeparable("nothing is known about its rows")
        if SIZED in given and not isinstance(op, _SHAPED):
            raise NotSeparable(f"it computes with the number {self.name!r} itself")
        if SIZED in given[:1] and not isinstance(op, RangeOp):
            raise NotSeparable(f"it computes with the number {self.name!r} itself")
        if isinstance(op, ReduceOp | ArgOp) and STATIC in results:
            rule(self, op, given, [])  # it says over which dimension
        for result in results:
            if not isinstance(result, Rows):
                raise NotSeparable(f"its result does not have {self.name!r} rows")
        rule(self, op, given, [r for r in results if isinstance(r, Rows)])
        return results

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
            raise NotSeparable(f"{self.name!r} is in several dimensions of {_text(shape)}")
        if factor is None or factor < 1:
            raise NotSeparable(f"dimension {axis} of {_text(shape)} is no multiple of {self.name}")
        if any(other != 1 for other in shape[:axis]):
            place = f"dimension {axis} of {_text(shape)}"
            raise NotSeparable(f"{self.name!r} is {place}, not the first")
        return Rows(axis, factor)


def _text(shape: Shape) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


# -- rules: each raises NotSeparable ---------------------------------------------------------------

Rule = Callable[[_Analysis, TopOperation, Sequence[Status], Sequence[Rows]], None]


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise NotSeparable(reason)


def _aligned(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """Broadcasting: every operand has its rows where the result has them, or none at all."""
    (result,) = results
    rank = len(shape_of(op.results[0]))
    for operand, status in zip(op.operands, given, strict=True):
        if isinstance(status, Rows):
            axis = status.axis + rank - len(shape_of(operand))
            _require(Rows(axis, status.factor) == result, "its operands' rows are not the same")


def _along_axes(axes_of: Callable[[TopOperation], tuple[Sequence[int], bool]]) -> Rule:
    """Operations that mix the elements along some axes; those go where they are not kept."""

    def rule(
        analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
    ) -> None:
        own = given[0]
        assert isinstance(own, Rows)
        axes, keeps = axes_of(op)
        _require(own.axis not in axes, f"it mixes the elements of dimension {own.axis}")
        _require(all(s == STATIC for s in given[1:]), "its parameters depend on the size")
        gone = 0 if keeps else sum(a < own.axis for a in axes)
        for result in results:
            _require(result == Rows(own.axis - gone, own.factor), "its rows are others")

    return rule


def _reduced_axes(op: TopOperation) -> tuple[Sequence[int], bool]:
    rank = len(shape_of(op.operands[0]))
    axes = [a % rank for a in op.get("axes")] or list(range(rank))
    return axes, bool(op.get("keepdims"))


def _one_axis(op: TopOperation) -> tuple[Sequence[int], bool]:
    rank = len(shape_of(op.operands[0]))
    return [op.get("axis") % rank], not isinstance(op, ArgOp) or bool(op.get("keepdims"))


def _trailing_axes(op: TopOperation) -> tuple[Sequence[int], bool]:
    rank = len(shape_of(op.operands[0]))
    return list(range(op.get("axis") % rank, rank)), True


def _all_but_first(op: TopOperation) -> tuple[Sequence[int], bool]:
    return list(range(1, len(shape_of(op.operands[0])))), True


def _last_two(op: TopOperation) -> tuple[Sequence[int], bool]:
    rank = len(shape_of(op.operands[0]))
    return [rank - 2, rank - 1], False


def _matmul(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """Rows of the left matrices, or one matrix of a batch for each row."""
    (result,) = results
    left, right = shape_of(op.operands[0]), shape_of(op.operands[1])
    rank = len(shape_of(op.results[0]))
    if isinstance(given[0], Rows):
        _require(given[0].axis < len(left) - 1, "it sums over the rows")
        moved = Rows(given[0].axis + rank - len(left), given[0].factor)
        _require(moved == result, "its rows are others")
    if isinstance(given[1], Rows):
        _require(given[1].axis < len(right) - 2, "every element is made of all rows")
        moved = Rows(given[1].axis + rank - len(right), given[1].factor)
        _require(moved == result, "its rows are others")
        in_batch = not isinstance(given[0], Rows) or given[0].axis < len(left) - 2
        _require(in_batch, "every element is made of all rows")
    _require(all(s == STATIC for s in given[2:]), "what is added depends on the size")


def _transpose(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    own = given[0]
    assert isinstance(own, Rows)
    axis = list(op.get("permutation")).index(own.axis)
    _require(results[0] == Rows(axis, own.factor), "its rows are others")


def _reshape(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """Rows come first in both shapes: the first part of one is the first part of the other."""
    _require(isinstance(given[0], Rows), "its shape depends on the size, its elements do not")


def _concat(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    (result,) = results
    _require(op.get("axis") != result.axis, "it joins along the rows")
    _require(all(status == result for status in given), "its operands' rows are not the same")


def _slice(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """All rows, from the first on; a constant cut to the size keeps its first rows."""
    assert isinstance(op, SliceOp)
    (result,) = results
    own = given[0]
    if isinstance(own, Rows):
        _require(own == result, "it takes some of the rows")
    axis = result.axis
    if op.is_static_slice:
        start, step = op.get("starts")[axis], op.get("steps")[axis]
    elif axis in op.get("axes"):
        place = list(op.get("axes")).index(axis)
        starts = analysis.contents.sizes(op.starts_value)
        steps = [1] * (place + 1)
        if op.steps_value is not None:
            steps = analysis.contents.sizes(op.steps_value)
        _require(starts is not None and steps is not None, "its bounds are not known")
        assert starts is not None and steps is not None
        start, step = starts[place], steps[place]
    else:
        start, step = 0, 1
    _require((start, step) == (0, 1), "it takes some of the rows")
    others = [s for a, s in enumerate(shape_of(op.results[0])) if a != axis]
    _require(not analysis.mentions(others), "its bounds depend on the size")


def _pad(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    assert isinstance(op, PadOp)
    _require(given[0] == results[0], "it adds rows")
    _require(op.amounts is None, "its amounts are computed")
    axis = results[0].axis
    _require(op.get("low")[axis] == 0 and op.get("high")[axis] == 0, "it adds rows")


def _expand(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """A constant repeated for every row, or rows that stay where they are."""
    (result,) = results
    shape, rank = shape_of(op.operands[0]), len(shape_of(op.results[0]))
    axis = result.axis - rank + len(shape)
    if isinstance(given[0], Rows):
        _require(Rows(axis, result.factor) == given[0], "its rows are others")
    else:
        _require(axis < 0 or shape[axis] == 1, "it repeats rows")


def _gather(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """The same places of every row, or for every row of indices what they name in a constant."""
    (result,) = results
    axis = op.get("axis")
    source, indices = given
    if isinstance(source, Rows):
        _require(indices == STATIC, "both its table and its indices have rows")
        _require(source.axis != axis, "it takes rows by their number")
        added = len(shape_of(op.operands[1])) - 1
        moved = source.axis if source.axis < axis else source.axis + added
        _require(result == Rows(moved, source.factor), "its rows are others")
    else:
        assert isinstance(indices, Rows)
        _require(result == Rows(axis + indices.axis, indices.factor), "its rows are others")


def _range(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """Numbers from the same start in the same steps, as many as there are rows."""
    _require((given[0], given[2]) == (STATIC, STATIC), "it starts or counts by the size")


def _attention(
    analysis: _Analysis, op: TopOperation, given: Sequence[Status], results: Sequence[Rows]
) -> None:
    """Rows are whole examples: each attends to its own keys."""
    (result,) = results
    rank = len(shape_of(op.results[0]))
    _require(all(s == result for s in given[:3]), "queries, keys and values have other rows")
    _require(result.axis < rank - 3, "every row attends to all others")
    for operand, status in zip(op.operands[3:], given[3:], strict=True):
        if isinstance(status, Rows):
            moved = Rows(status.axis + rank - len(shape_of(operand)), status.factor)
            _require(moved == result, "its mask has other rows")


_SHAPED = (ReshapeOp, ExpandOp, SliceOp, RangeOp)
"""Operations whose operands may say a shape."""

_RULES: Mapping[type, Rule] = {
    ElementwiseOperation: _aligned,
    ReduceOp: _along_axes(_reduced_axes),
    ArgOp: _along_axes(_one_axis),
    TopKOp: _along_axes(_one_axis),
    CumulativeOp: _along_axes(_one_axis),
    InterpolateOp: _along_axes(_one_axis),
    SoftmaxOp: _along_axes(_one_axis),
    LayerNormOp: _along_axes(_trailing_axes),
    BatchNormOp: _along_axes(_all_but_first),
    InstanceNormOp: _along_axes(_all_but_first),
    LocalResponseNormOp: _along_axes(_all_but_first),
    PoolOp: _along_axes(_all_but_first),
    ConvOp: _along_axes(_all_but_first),
    DeterminantOp: _along_axes(_last_two),
    MatMulOp: _matmul,
    TransposeOp: _transpose,
    ReshapeOp: _reshape,
    ConcatOp: _concat,
    SliceOp: _slice,
    PadOp: _pad,
    ExpandOp: _expand,
    GatherOp: _gather,
    RangeOp: _range,
    AttentionOp: _attention,
}
