"""Which kernels work row by row: each row they store is made of the same row of what they read.

    func @relu_1(%x: memref<8x64xf32>, ...)   =>   func @relu_1(...) attributes {
                                                     kernel.size = "batch", kernel.rows = [1, 1]}

`kernel.rows` are the rows per unit of the size, by argument; 0 where an argument has none. Found on
textbook nests, whose subscripts say it, from the last launch to the first: what reads other rows
(after a pass that moved something) runs whole, and so does all that it reads from. Every launch of
a kernel must agree. `clipping.py` then ends the loops of the scheduled kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.dialects.kernel import LaunchOp, kernel_arguments
from explorer.ir.operation import TopOperation
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.sizes.ranges import OpenSize, leading_axis, open_size_of
from explorer.ir.structure import kernel_functions, own_functions
from explorer.ir.top.data import WeightOp
from explorer.ir.types import layout_of, static_shape
from explorer.kernels.loops.nest import LinearForm, accesses_in, is_store, subscripts

ROWS = "kernel.rows"
SIZE = "kernel.size"


def size_of_kernel(function: func.FuncOp) -> str:
    """The dimension whose size a kernel may take as an argument; empty where it takes none."""
    attribute = function.attributes.get(SIZE)
    return attribute.data if isinstance(attribute, StringAttr) else ""


def rows_of_kernel(function: func.FuncOp) -> tuple[int, ...]:
    """Rows per unit of the size, by argument; empty where the kernel is not row by row."""
    attribute = function.attributes.get(ROWS)
    return tuple(attribute.get_values()) if isinstance(attribute, DenseArrayBase) else ()


@dataclass(frozen=True)
class FindRows(Pass):
    """Kernels that work row by row on an open dimension are marked, with their buffers' rows."""

    name = "find-rows"
    level = "loops"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        kernels = kernel_functions(rewriter.module)
        by_kernel: dict[str, list[tuple[LaunchOp, _Rows]]] = {}
        for function in own_functions(rewriter.module):
            size = open_size_of(function, rewriter.module)
            if size is None:
                continue
            rows = _Rows(function, kernels, size)
            for op in function.body.block.ops:
                if isinstance(op, LaunchOp):
                    by_kernel.setdefault(op.kernel.data, []).append((op, rows))
        for name, launches in by_kernel.items():
            _mark(kernels[name], launches, rewriter, events)
        return events.rewrites


def _mark(
    kernel: func.FuncOp,
    launches: list[tuple[LaunchOp, _Rows]],
    rewriter: RecordedRewriter,
    events: EventLog,
) -> None:
    if all(launch in rows.independent for launch, rows in launches):
        return
    units = {rows.units(launch) for launch, rows in launches}
    reasons = [rows.whole[launch] for launch, rows in launches if launch in rows.whole]
    if reasons or len(units) != 1:
        explanation = "loops over rows end with the size at run time"
        reason = reasons[0] if reasons else "its launches have different rows"
        events.decline("rows", kernel, reason, explanation)
        return
    name = launches[0][1].size.range.name
    with events.rewrite("rows", kernel, f"its rows grow with {name}"):
        marked = kernel.clone()
        marked.attributes[SIZE] = StringAttr(name)
        marked.attributes[ROWS] = DenseArrayBase.from_list(i64, next(iter(units)))
        rewriter.replace_function(kernel, marked)


class _Rows:
    """Which values of a device function grow with the size, and which launches run whole."""

    def __init__(
        self, function: func.FuncOp, kernels: Mapping[str, func.FuncOp], size: OpenSize
    ) -> None:
        self.size = size
        self.kernels = kernels
        self.grows: set[SSAValue] = set()
        self.independent: set[LaunchOp] = set()
        """Launches that compute the same for every size."""
        self.whole: dict[LaunchOp, str] = {}
        arguments = function.body.block.args
        self.grows.update(a for a, n in zip(arguments, size.inputs, strict=True) if n)
        operations = [op for op in function.body.block.ops if isinstance(op, TopOperation)]
        for op in operations:
            if any(operand in self.grows for operand in op.operands):
                self.grows.update(op.results)
            elif isinstance(op, LaunchOp):
                self.independent.add(op)
        self._find_whole(operations)

    def units(self, launch: LaunchOp) -> tuple[int, ...]:
        """Rows per unit of every argument of the launch's kernel; 0 where it has none."""
        inputs, outputs = iter(launch.operands), iter(launch.results)
        found = []
        for argument in kernel_arguments(self.kernels[launch.kernel.data]):
            if argument.role == "scratch":
                # Of no value: rows of the kernel's own, which count if all else does.
                found.append(self._unit(memref_shape(argument.type)))
                continue
            value = next(outputs if argument.role == "output" else inputs)
            has_rows = value in self.grows
            found.append(self._unit(memref_shape(argument.type)) if has_rows else 0)
        return tuple(found)

    def _unit(self, shape: tuple[int, ...]) -> int:
        """Rows of a buffer for each unit of the size; 0 where its rows are not whole ones."""
        rows = shape[leading_axis(shape)] if shape else 1
        highest = self.size.range.highest
        return rows // highest if rows % highest == 0 else 0

    def _find_whole(self, operations: list[TopOperation]) -> None:
        """Launches whose results are needed in all their rows, from the last to the first."""
        needed: set[SSAValue] = set()
        for op in reversed(operations):
            is_needed = any(result in needed for result in op.results)
            if isinstance(op, LaunchOp):
                reason = "what reads it needs all rows" if is_needed else self._obstacle(op)
                if reason and op not in self.independent:
                    self.whole[op] = reason
                    needed.update(op.operands)
            elif is_needed or not self._keeps_rows(op):
                needed.update(o for o in op.operands if not isinstance(o.owner, WeightOp))

    def _keeps_rows(self, op: TopOperation) -> bool:
        """A view keeps the first part of a buffer the first part, where both have whole rows."""
        if not op.results:
            return True
        values = [v for v in (*op.operands, *op.results) if v in self.grows]
        return all(self._unit(static_shape(value)) for value in values)

    def _obstacle(self, launch: LaunchOp) -> str:
        """Why a row of the results is not made of the same row of the operands; empty if it is."""
        kernel = self.kernels[launch.kernel.data]
        values = [*launch.operands, *launch.results]
        if any(not layout_of(v).is_plain and static_shape(v)[:1] == (1,) for v in values):
            return "blocks of channels stand before the rows"
        units = self.units(launch)
        roles = [argument.role for argument in kernel_arguments(kernel)]
        for value, unit in zip(_arguments(launch, roles), units, strict=True):
            if value is not None and value in self.grows and not unit:
                return "a buffer of it has no whole number of rows"
        rows: dict[SSAValue, int] = dict(zip(kernel.body.block.args, units, strict=True))
        tops = [op for op in kernel.body.block.ops if op.regions]
        if not all(_is_row_by_row(top, rows) for top in tops):
            return "rows of its result are made of other rows"
        return ""


def memref_shape(kind: Attribute) -> tuple[int, ...]:
    assert isinstance(kind, MemRefType)
    return kind.get_shape()


def _arguments(launch: LaunchOp, roles: list[str]) -> Iterator[SSAValue | None]:
    inputs, outputs = iter(launch.operands), iter(launch.results)
    for role in roles:
        if role == "scratch":
            yield None
        else:
            yield next(outputs if role == "output" else inputs)


def _is_row_by_row(top: Operation, rows: Mapping[SSAValue, int]) -> bool:
    """Whether all accesses below an operation, to buffers that have rows, are of one unit."""
    found: list[LinearForm | tuple[LinearForm, int]] = []
    units: set[int] = set()
    for access in accesses_in(top):
        unit = rows.get(access.memref)
        if isinstance(access.memref.owner, memref.AllocaOp) or unit == 0:
            if is_store(access) and unit == 0:
                return False  # a result without rows of its own
            continue
        assert unit is not None and isinstance(access.memref.type, MemRefType)
        form = subscripts(access)[leading_axis(access.memref.type.get_shape())]
        if form is None:
            return False
        quotient = _quotient(form, unit)
        units.add(unit)
        found.append((form, unit) if quotient is None else quotient)
    return all(other == found[0] for other in found)


def _quotient(form: LinearForm, unit: int) -> LinearForm | None:
    """form // unit as a form: what is left of the division stays below the unit."""
    terms = {i: c // unit for i, c in form.terms.items() if c % unit == 0}
    rest = LinearForm({i: c for i, c in form.terms.items() if c % unit}, form.constant % unit)
    bounds = rest.range()
    if bounds is None or bounds[0] < 0 or bounds[1] >= unit:
        return None
    return LinearForm(terms, form.constant // unit)
