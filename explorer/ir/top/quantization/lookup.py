"""Functions of one quantized number as tables: `top.lookup`.

    %y = top.lookup(%x) {function = "gelu", table = array<i32: ...>, to = !top.quantized<...>}

    bytes        an entry for each number that the storage holds, in the order of numbers:
                 y = table[x - lowest], the real result correctly rounded
    wider        entries for every 2^s-th number, with f bits behind the point, and a straight line
                 between two of them (`step_bits` s, `fraction_bits` f):
                 y = round((table[i] * (2^s - r) + table[i + 1] * r) / 2^(s + f)),
                 i = (x - lowest) >> s, r the bits that were shifted out
                 where a line is no match for the function (a root near 0), an entry for each number
                 of a range (`exact`, the first for lowest + `exact_from`), as for bytes

Entries of wider numbers hold what is stored (the zero point added), so that nothing is left but to
clip it. Source of the second form: TensorFlow Lite's 16-bit tables, which have 513 entries; here
their number follows from the function (`table_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access
from explorer.ir.requantization import integer_limits, rounding_shift
from explorer.ir.top.arithmetic import in_arithmetic_types
from explorer.ir.top.definitions import load_element
from explorer.ir.top.support.broadcasting import ElementwiseOperation, iteration
from explorer.ir.top.support.quantized_scalars import I32, I64, Tables
from explorer.ir.types import QuantizedType, element_type_of, numpy_dtype, shape_of, tensor_type

BYTE_BITS = 8
FRACTION_BITS = 12
"""Behind the point of entries that are interpolated: with 17 bits before it they fit into 32."""
FEWEST_STEP_BITS = 3
MAX_STEP_BITS = 8
"""Numbers of 16 bits have 257 entries then."""
MAX_EXACT_ENTRIES = 1 << 13
"""Numbers that have an entry each beside the lines."""

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class FunctionTable:
    """The entries, and how many bits lie between two of them and behind their point; those of
    single numbers, from which on."""

    entries: np.ndarray
    step_bits: int = 0
    fraction_bits: int = 0
    exact: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    exact_from: int = 0

    @property
    def size(self) -> int:
        """Entries of both kinds."""
        return len(self.entries) + len(self.exact)

    def at(self, stored: np.ndarray, lowest: int) -> np.ndarray:
        """Entries or interpolated numbers for stored ones, as i64, not clipped."""
        entries = self.entries.astype(np.int64)
        offset = stored.astype(np.int64) - lowest
        if not self.step_bits:
            return entries[offset]
        index, rest = offset >> self.step_bits, offset & ((1 << self.step_bits) - 1)
        line = entries[index] * ((1 << self.step_bits) - rest) + entries[index + 1] * rest
        shift = np.array(self.step_bits + self.fraction_bits)
        found = rounding_shift(line, shift, "nearest_up")
        if not len(self.exact):
            return found
        place = offset - self.exact_from
        inside = (place >= 0) & (place < len(self.exact))
        return np.where(inside, self.exact[np.clip(place, 0, len(self.exact) - 1)], found)


def table_of(
    function: Function,
    source: QuantizedType,
    to: QuantizedType,
    occurring: tuple[int, int] | None = None,
) -> FunctionTable:
    """The function (of f64) between two quantized types.

    Of bytes exact; of wider numbers the smallest table within one step of the rounded result for
    every number. occurring: the least and the largest stored number that there may be; beyond them
    the function need not be defined. ValueError where it is not, or even the largest table is not
    within a step.
    """
    lowest, highest = integer_limits(source.storage)
    zero, low_high = int(to.zero_point_array[0]), integer_limits(to.storage)

    def real(numbers: np.ndarray) -> np.ndarray:
        counted = np.clip(numbers, *(occurring or (lowest, highest + 1)))
        x = (counted - source.zero_point_array[0]) * source.double_scales[0]
        with np.errstate(all="ignore"):
            result = np.asarray(function(x.astype(np.float64)), np.float64)
        if np.isnan(result).any():
            raise ValueError("it is not defined for all numbers that its operand may be")
        return np.clip(result / to.double_scales[0] + zero, -(2.0**17), 2.0**17)

    numbers = np.arange(lowest, highest + 1, dtype=np.int64)
    wanted = np.clip(np.rint(real(numbers)), *low_high).astype(np.int64)
    if source.storage.width.data <= BYTE_BITS:
        return FunctionTable(wanted)
    tables: list[FunctionTable] = []
    for step_bits in range(MAX_STEP_BITS, FEWEST_STEP_BITS - 1, -1):
        places = np.arange(lowest, highest + 2, 1 << step_bits, dtype=np.int64)
        entries = np.rint(real(places) * 2.0**FRACTION_BITS).astype(np.int64)
        table = FunctionTable(entries, step_bits, FRACTION_BITS)
        found = np.clip(table.at(numbers, lowest), *low_high)
        (off,) = np.nonzero(np.abs(found - wanted) > 1)
        if off.size:
            exact = wanted[off[0] : off[-1] + 1]
            table = replace(table, exact=exact, exact_from=int(off[0]))
        tables.append(table)
    smallest = min(tables, key=lambda table: table.size)
    if len(smallest.exact) > MAX_EXACT_ENTRIES:
        raise ValueError(
            f"lines between entries are more than a step off for {len(smallest.exact)} numbers"
        )
    return smallest


@irdl_op_definition
class LookupOp(ElementwiseOperation):
    """y = table[x]: a function of quantized numbers, one scale per tensor, without arithmetic."""

    name = "top.lookup"
    FAMILY: ClassVar[str] = "elementwise"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True
    HAS_BLOCKED_TABLES: ClassVar[bool] = True

    input = operand_def(TensorType)
    function = prop_def(StringAttr)
    table = prop_def(DenseArrayBase)
    to = prop_def(QuantizedType)
    step_bits = opt_prop_def(IntegerAttr)
    fraction_bits = opt_prop_def(IntegerAttr)
    exact = opt_prop_def(DenseArrayBase)
    exact_from = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    @property
    def source(self) -> QuantizedType:
        kind = element_type_of(self.input)
        if not isinstance(kind, QuantizedType):
            raise ValueError(f"{self.name} takes quantized numbers, not {kind}")
        return kind

    @property
    def entries(self) -> FunctionTable:
        return FunctionTable(
            np.array(self.get("table"), np.int64),
            self.get("step_bits", 0),
            self.get("fraction_bits", 0),
            np.array(self.get("exact", ()), np.int64),
            self.get("exact_from", 0),
        )

    def infer_types(self) -> list[Attribute]:
        source, entries = self.source, self.entries
        if not source.is_per_tensor or not self.to.is_per_tensor:
            raise ValueError(f"{self.name} knows one scale per tensor, not one per slice")
        bits = source.storage.width.data - entries.step_bits
        count = 2**bits + (entries.step_bits > 0)
        if source.storage.width.data > 16 or len(entries.entries) != count:
            raise ValueError(
                f"a table of {source.storage} has {count} entries, not {len(entries.entries)}"
            )
        last = entries.exact_from + len(entries.exact)
        if entries.exact_from < 0 or last > 2**source.storage.width.data:
            raise ValueError(f"entries {entries.exact_from} to {last} are of no {source.storage}")
        return [tensor_type(self.to, shape_of(self.input))]

    @in_arithmetic_types
    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        found = self.entries.at(operands[0], integer_limits(self.source.storage)[0])
        limited = np.clip(found, *integer_limits(self.to.storage))
        return (limited.astype(numpy_dtype(self.to)),)

    def kernel_constants(self) -> Tables:
        entries = self.entries
        dtype = np.int32 if entries.step_bits else numpy_dtype(self.to)
        tables = [("table", entries.entries.astype(dtype))]
        if len(entries.exact):
            tables.append(("exact", entries.exact.astype(numpy_dtype(self.to))))
        return tables

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        x, *tables = inputs
        d = k.dimensions(**iteration(output.shape))
        k.generic("plain", [x.at(*d)], output.at(*d), lambda s, x: self._entry(s, x, *tables))
        return "explicit"

    def _entry(
        self, s: ScalarBuilder, stored: Scalar, table: Access, exact: Access | None = None
    ) -> Scalar:
        """As `FunctionTable.at`, clipped."""
        offset = stored.convert(I32) - integer_limits(self.source.storage)[0]
        step = self.get("step_bits", 0)
        if not step:
            return load_element(s, table, [offset.convert(IndexType())])
        index = offset.shift_right(step).convert(IndexType())
        rest = offset.logical_and((1 << step) - 1).convert(I64)
        first = load_element(s, table, [index]).convert(I64)
        second = load_element(s, table, [index + s.index(1)]).convert(I64)
        shift = step + self.get("fraction_bits", 0)
        line = first * (rest.constant(1 << step) - rest) + second * rest
        rounded = (line + (1 << (shift - 1))).shift_right(shift)
        low, high = integer_limits(self.to.storage)
        found = rounded.maximum(low).minimum(high).convert(I32).convert(self.to.storage)
        if exact is None:
            return found
        place, last = offset - self.get("exact_from", 0), len(self.entries.exact) - 1
        kept = place.maximum(0).minimum(last)
        own = load_element(s, exact, [kept.convert(IndexType())])
        return place.compare("eq", kept).select(own, found)

    def label(self) -> str:
        return f"{self.function.data.replace('_', ' ')} table"
