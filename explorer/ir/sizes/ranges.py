"""A dimension that stays open within bounds: one program for all its sizes.

    func.func @main(%x: tensor<?x3x8x8xf32, ...>) attributes {
      range = #top.range<"batch", 1, 8, inputs = [1], outputs = [1]>}

Every buffer is as large as the largest size asks for. A tensor that grows with the dimension has
it in its first axis (behind axes of extent 1), so that a smaller size is the first part of the
buffer, and strides are the same for all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from explorer.ir.structure import functions
from explorer.ir.types import static_shape

RANGE = "range"


@dataclass(frozen=True)
class SizeRange:
    """Sizes of a dimension, both ends included."""

    name: str
    lowest: int
    highest: int

    def __str__(self) -> str:
        return f"{self.name} = {self.lowest}..{self.highest}"


@dataclass(frozen=True)
class OpenSize:
    """A range, and how many rows per unit of it each input and output of the function has.

    0 rows: the value does not grow with the dimension.
    """

    range: SizeRange
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def leading_axis(shape: Sequence[int]) -> int:
    """The first axis that is not 1; the last where all are. 0 for a scalar."""
    return next((a for a, size in enumerate(shape) if size != 1), max(len(shape) - 1, 0))


@irdl_attr_definition
class RangeAttr(ParametrizedAttribute):
    """An `OpenSize` in the IR."""

    name = "top.range"

    dimension: StringAttr
    lowest: IntAttr
    highest: IntAttr
    inputs: ArrayAttr[IntAttr]
    outputs: ArrayAttr[IntAttr]

    @staticmethod
    def get(size: OpenSize) -> RangeAttr:
        return RangeAttr(
            StringAttr(size.range.name),
            IntAttr(size.range.lowest),
            IntAttr(size.range.highest),
            ArrayAttr([IntAttr(n) for n in size.inputs]),
            ArrayAttr([IntAttr(n) for n in size.outputs]),
        )

    @property
    def size(self) -> OpenSize:
        return OpenSize(
            SizeRange(self.dimension.data, self.lowest.data, self.highest.data),
            tuple(n.data for n in self.inputs.data),
            tuple(n.data for n in self.outputs.data),
        )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.dimension.data)
            printer.print_string(f", {self.lowest.data}, {self.highest.data}, inputs = [")
            printer.print_string(", ".join(str(n.data) for n in self.inputs.data))
            printer.print_string("], outputs = [")
            printer.print_string(", ".join(str(n.data) for n in self.outputs.data) + "]")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            name = parser.parse_str_literal()
            parser.parse_punctuation(",")
            lowest = parser.parse_integer(allow_negative=False)
            parser.parse_punctuation(",")
            highest = parser.parse_integer(allow_negative=False)
            rows = []
            for key in ("inputs", "outputs"):
                parser.parse_punctuation(",")
                parser.parse_keyword(key)
                parser.parse_punctuation("=")
                rows.append(
                    parser.parse_comma_separated_list(
                        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_negative=False)
                    )
                )
        if not 1 <= lowest <= highest:
            parser.raise_error(f"a range from {lowest} to {highest} has no size of 1 or more")
        numbers = [ArrayAttr([IntAttr(n) for n in part]) for part in rows]
        return [StringAttr(name), IntAttr(lowest), IntAttr(highest), *numbers]


def open_size(function: func.FuncOp) -> OpenSize | None:
    """The dimension that a function leaves open, if it does."""
    attribute = function.attributes.get(RANGE)
    return attribute.size if isinstance(attribute, RangeAttr) else None


def open_size_of(function: func.FuncOp, module: ModuleOp) -> OpenSize | None:
    """The dimension that a device function leaves open: its own where the program has several, the
    entry function's where it has one."""
    found = open_size(function)
    if found is not None:
        return found
    return next((size for f in functions(module) if (size := open_size(f)) is not None), None)


def rows_of_values(function: func.FuncOp, size: OpenSize) -> dict[SSAValue, int]:
    """Rows per unit of the size, of every value of an entry function that grows with it; 0 where
    a value's first axis holds no whole number of them."""
    block = function.body.block
    grows: set[SSAValue] = {a for a, rows in zip(block.args, size.inputs, strict=True) if rows}
    for op in block.ops:
        if any(operand in grows for operand in op.operands):
            grows.update(op.results)
    return {value: _unit(value, size.range.highest) for value in grows}


def _unit(value: SSAValue, highest: int) -> int:
    shape = static_shape(value)
    rows = shape[leading_axis(shape)] if shape else 1
    return rows // highest if rows % highest == 0 else 0
