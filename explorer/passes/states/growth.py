"""Which values grow with a past, and along which axes.

    %past: tensor<1x4x?x16, dims = [.., "past", ..]>        grows along axis 2
    %scores = top.matmul(%q, %keys) : tensor<1x4x1x?>       grows along axis 3: "past+1"

Types say so before sizes are bound. What has no name in a type follows from the operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.evaluation import input_names
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import sources_of
from explorer.ir.sizes.constraints import constraints_of
from explorer.ir.sizes.dimensions import UNKNOWN
from explorer.ir.sizes.symbols import parse
from explorer.ir.structure import value_name
from explorer.ir.top.casting import CastOp
from explorer.ir.top.elementwise import BinaryOp, SelectOp, UnaryOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ExpandOp, ReshapeOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import Dim, shape_of, static_shape

ELEMENTWISE = (BinaryOp, UnaryOp, SelectOp, CastOp)


@dataclass(frozen=True)
class GrowingPair:
    """An input and the output that is longer by what a call adds."""

    input: str
    output: str
    axis: int


class Refused(UnsupportedError):
    def __init__(self, reason: str, op: Operation | None = None) -> None:
        where = "" if op is None else f" ({op.name} {identity_of(op)})"
        nodes = "" if op is None else ", ".join(sources_of(op))
        super().__init__(
            f"the past cannot be kept in a state with a capacity: {reason}{where}",
            problems=[reason],
            hint="compile it for one size of the past: --dim, without a capacity",
            **({"node": nodes} if nodes else {}),
        )


@dataclass(frozen=True)
class Growth:
    """What is known of sizes before they are bound."""

    symbols: frozenset[str]
    """Dimensions that grow one by one with the past."""
    sizes: Mapping[str, int]
    axes: dict[str, tuple[int, ...]]
    """Axes that grow with the past, by the value's name."""

    @classmethod
    def of(
        cls, function: func.FuncOp, pairs: Sequence[GrowingPair], sizes: Mapping[str, int]
    ) -> Growth:
        names = dict(zip(input_names(function), function.body.block.args, strict=True))
        pasts = {shape_of(names[pair.input])[pair.axis] for pair in pairs}
        if len(pasts) != 1 or not all(isinstance(past, str) for past in pasts):
            raise Refused("its size is not one dimension with a name")
        symbols = growing_symbols(function, {str(past) for past in pasts}, sizes)
        before = {name: size - (name in symbols) for name, size in sizes.items()}

        def grows(size: Dim, value: SSAValue) -> bool:
            if isinstance(size, int) or size == UNKNOWN:
                return False
            try:
                difference = parse(size).value(sizes) - parse(size).value(before)
            except KeyError:
                return False
            if difference not in (0, 1):
                raise Refused(f"{value_name(value)} grows by {difference} elements with each")
            return difference == 1

        axes: dict[str, tuple[int, ...]] = {}
        values = [*function.body.block.args]
        values += [result for op in function.body.block.ops for result in op.results]
        for value in values:
            found = tuple(a for a, size in enumerate(shape_of(value)) if grows(size, value))
            if found:
                axes[value_name(value)] = found
        return cls(frozenset(symbols), sizes, axes)

    def of_value(self, value: SSAValue) -> tuple[int, ...]:
        return self.axes.get(value_name(value), ())

    def give(self, new: SSAValue, axes: tuple[int, ...]) -> None:
        """Notes the axes of a value that takes the place of another one."""
        if axes:
            self.axes[value_name(new)] = axes

    def follow(self, op: TopOperation) -> None:
        """Notes the axes of a result the size of which was not known by name."""
        axes = self.of_value(op.operands[0]) if op.operands else ()
        if isinstance(op, ReshapeOp | ExpandOp) and axes:
            self.give(op.results[0], moved_axes(op, axes))
        elif isinstance(op, TransposeOp) and axes:
            order = list(op.get("permutation"))
            self.give(op.results[0], tuple(sorted(order.index(axis) for axis in axes)))
        elif isinstance(op, ELEMENTWISE):
            rank = len(shape_of(op.results[0]))
            found = {
                axis + rank - len(shape_of(operand))
                for operand in op.operands
                for axis in self.of_value(operand)
            }
            self.give(op.results[0], tuple(sorted(found)))
        elif isinstance(op, MatMulOp):
            self.give(op.results[0], self._product_axes(op))
        elif isinstance(op, GatherOp):
            own, more = op.get("axis"), len(shape_of(op.indices)) - 1
            kept = [axis + more * (axis > own) for axis in axes if axis != own]
            taken = [own + axis for axis in self.of_value(op.indices)]
            self.give(op.output, tuple(sorted([*kept, *taken])))

    def _product_axes(self, op: MatMulOp) -> tuple[int, ...]:
        rank, found = len(shape_of(op.results[0])), set()
        for operand, summed in zip(op.operands[:2], (1, 2), strict=True):
            own = len(shape_of(operand))
            if own < 2 or rank < 2:
                continue
            kept = (axis for axis in self.of_value(operand) if axis != own - summed)
            found |= {axis + rank - own for axis in kept}
        return tuple(sorted(found))


def growing_symbols(function: func.FuncOp, pasts: set[str], sizes: Mapping[str, int]) -> set[str]:
    """The dimensions of pasts, those that are equal to sizes which grow with them, and those of
    masks alone."""
    symbols = set(pasts) | mask_symbols(function, pasts)
    for _ in sizes:
        before = {name: size - (name in symbols) for name, size in sizes.items()}
        for found in constraints_of(function):
            if found.kind not in ("equal", "broadcast"):
                continue
            for side, other in ((found.left, found.right), (found.right, found.left)):
                is_free = side in sizes and side not in symbols
                expression = parse(other)
                if is_free and set(expression.names) <= sizes.keys():
                    difference = expression.value(sizes) - expression.value(before)
                    symbols |= {side} if difference == 1 else set()
    return symbols


def mask_symbols(function: func.FuncOp, pasts: set[str]) -> set[str]:
    """Dimensions that are the last ones of masks and of nothing else: a mask has a place for each
    valid row and each new one, unless the model compares it with sizes that do not grow."""
    last, others = set[Dim](), set[Dim]()
    for name, value in zip(input_names(function), function.body.block.args, strict=True):
        *first, size = shape_of(value) or (1,)
        is_mask = "mask" in name.lower()
        others.update(first if is_mask else (*first, size))
        last.update({size} if is_mask else ())
    found = {size for size in last - others if isinstance(size, str) and size != UNKNOWN}
    for constraint in constraints_of(function):
        if constraint.kind in ("equal", "broadcast", "fixed") and pasts.isdisjoint(
            constraint.names
        ):
            found -= set(constraint.names)
    return found


def moved_axes(op: ReshapeOp | ExpandOp, axes: Sequence[int]) -> tuple[int, ...]:
    """Where axes of the operand are in the result; without those that are joined with others."""
    before, after = static_shape(op.operands[0]), static_shape(op.results[0])
    if isinstance(op, ExpandOp):
        return tuple(axis + len(after) - len(before) for axis in axes)
    found = []
    for axis in axes:
        for place, size in enumerate(after):
            if size == before[axis] and prod(after[:place]) == prod(before[:axis]):
                found.append(place)
                break
    return tuple(found)
