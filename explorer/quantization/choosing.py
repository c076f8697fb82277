"""Which tensors of a program are quantized: those that its integer operations read and write.

    tensors = quantizable_tensors(function, weights)
    [t.name for t in tensors]          names as in tables: of the source model's tensors

A tensor is one of them where an operation that has a form in integers makes it or reads it, also
through operations that only move numbers. A concat of several tensors is one, for they need one
type behind it, and what only it reads is none then. What a clamp reads is none: it stays a sum
until the clamp saturates it. Results that only floats read are none either: sums are as good. Where
nothing is to be computed in floats, results of all but products are quantized, too. What was
dequantized has a type already, which is the file's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from explorer.ir.constants import is_constant
from explorer.ir.evaluation import input_names
from explorer.ir.interfaces import Moving, Quantizable
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.quantization.quantized import DequantizeOp
from explorer.ir.types import element_type_of, is_static, static_shape

F32 = Float32Type()


@dataclass(frozen=True)
class Tensor:
    """A tensor that can be quantized: its name in tables, and its value."""

    name: str
    value: SSAValue


def quantizable_tensors(function: func.FuncOp, integers_only: bool = False) -> list[Tensor]:
    """In program order, inputs first.

    integers_only: whether nothing is to be computed in floats; what normalizations and all
    functions read and make is quantized then, too.
    """
    names = dict(zip(function.body.block.args, input_names(function), strict=True))
    found: list[Tensor] = []
    taken: set[str] = set()
    for value in _values(function):
        if not is_wanted(value, integers_only):
            continue
        name = names[value] if isinstance(value, BlockArgument) else name_of(value)
        if name in taken:  # two values of one source tensor
            name = identity_of(value.owner) if isinstance(value.owner, Operation) else name
        if name not in taken:
            taken.add(name)
            found.append(Tensor(name, value))
    return found


def name_of(value: SSAValue) -> str:
    """The source tensor that a result is, be it with factors per channel; where it is none as it
    stands, the operation's name."""
    owner = value.owner
    assert isinstance(owner, Operation)
    origin = origin_of(value)
    return origin.tensor if origin is not None and origin.only_scaled else identity_of(owner)


def is_wanted(value: SSAValue, integers_only: bool = False) -> bool:
    """Whether the value itself gets a quantized type; moved numbers have that of what was moved."""
    if element_type_of(value) != F32 or is_constant(value) or not is_static(value):
        return False
    if isinstance(moved_from(value).owner, DequantizeOp):
        return False
    readers = [use.operation for use in value.uses]
    is_read = any(reads_quantized(reader, value, integers_only) for reader in readers)
    if not is_read and not (integers_only and _is_result(value)):
        return False
    if isinstance(value.owner, Moving) and moves(value.owner) and not joins(value.owner):
        # A table of embeddings has no type that what is gathered from it could have.
        return integers_only and is_constant(moved_from(value))
    return not all(_clamps(reader) for reader in readers)


def reads_quantized(op: Operation, value: SSAValue, integers_only: bool = False) -> bool:
    """Whether an operation computes with integers of this operand, at once or after a move."""
    if has_integer_form(op, integers_only):
        return True
    # What joins several tensors gets a type of its own, with which its parts are made.
    if isinstance(op, Moving) and moves(op) and value in op.moved_operands() and not joins(op):
        readers = ((use.operation, result) for result in op.results for use in result.uses)
        return any(reads_quantized(reader, moved, integers_only) for reader, moved in readers)
    return False


def _is_result(value: SSAValue) -> bool:
    """Whether something that is no product makes a result of the model, which has no type else."""
    op = value.owner
    if not isinstance(op, Quantizable) or not op.has_integer_form:
        return False
    return op.quantized_weight() is None and _is_returned(value)


def _is_returned(value: SSAValue) -> bool:
    """Whether the model returns it, maybe moved."""
    readers = [use.operation for use in value.uses]
    moved = [r for r in readers if isinstance(r, Moving) and moves(r)]
    return any(isinstance(reader, ReturnOp) for reader in readers) or any(
        _is_returned(result) for reader in moved for result in reader.results
    )


def has_integer_form(op: Operation, integers_only: bool = False) -> bool:
    if not isinstance(op, Quantizable):
        return False
    return op.is_quantizable or (integers_only and op.has_integer_form)


def moves(op: Moving) -> bool:
    """Whether it takes integers as they are: an average is no move."""
    return op.keeps_numbers


def joins(op: Moving) -> bool:
    """Whether it puts the numbers of several tensors into one."""
    return len({moved_from(operand) for operand in op.moved_operands()}) > 1


def joined_parts(op: Moving) -> list[tuple[Operation, int]]:
    """Where the parts of such a result are read: operations and places of operands, as far up as
    what reads a part is read by nothing else.

    What others read, too, is rounded once more on the way here: where there are fewest numbers, of
    half of what was split that half.
    """
    found: list[tuple[Operation, int]] = []
    for index, operand in enumerate(op.operands):
        if operand not in op.moved_operands():
            continue
        maker = operand.owner
        above = None
        if isinstance(maker, Moving) and moves(maker) and operand.has_one_use():
            above = joined_parts(maker)
        if above is None or _is_rounded_apart(above, maker, operand):
            found.append((op, index))
        else:
            found += above
    return found


def _is_rounded_apart(
    above: list[tuple[Operation, int]], maker: Operation | Block, value: SSAValue
) -> bool:
    """Whether parts are better quantized as the moved value that is read here: nothing makes them
    for it alone, and they are no fewer numbers, or the same ones in another shape."""
    parts = [part.operands[index] for part, index in above]
    if not all(map(is_static, (*parts, value))) or any(map(_is_computed_for_one, parts)):
        return False
    numbers, here = sum(prod(static_shape(part)) for part in parts), prod(static_shape(value))
    is_view = isinstance(maker, TopOperation) and maker.is_view and above == [(maker, 0)]
    return here < numbers or (here == numbers and is_view)


def _is_computed_for_one(value: SSAValue) -> bool:
    """Whether one operation reads what no move makes."""
    is_moved = isinstance(value.owner, Moving) and moves(value.owner)
    return value.has_one_use() and not is_moved


def moved_from(value: SSAValue) -> SSAValue:
    """What a value's numbers were before moves of a single operand."""
    while isinstance(value.owner, Moving) and moves(value.owner):
        moved = value.owner.moved_operands()
        if len(moved) != 1:
            return value
        value = moved[0]
    return value


def _clamps(op: Operation) -> bool:
    return isinstance(op, Quantizable) and op.clamps


def _values(function: func.FuncOp) -> Iterator[SSAValue]:
    yield from function.body.block.args
    for op in function.body.block.ops:
        if isinstance(op, TopOperation):
            yield from op.results
