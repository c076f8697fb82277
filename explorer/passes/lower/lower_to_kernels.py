"""Lowering to kernels: every operation of a device function becomes a launch of a kernel.

    %conv3 = top.conv(%x, %w, bias = %b) {...} : tensor<1x24x8x8xf32, block = 16>
 => %conv3 = kernel.launch(%x, %w, %b) {kernel = "conv_1", ...} : tensor<1x24x8x8xf32, block = 16>
    func.func @conv_1(%x: memref<1x3x10x10xf32>, ...) { linalg.generic ... }

The kernel is the operation's compute definition on its operands' buffers: channels rounded up to
whole blocks, halos included. Operations whose definitions are equal share one kernel: a definition
depends on the operation's properties and types only, so that most duplicates are found before it
is made, and the others (views of other shapes) by comparing definitions. A result with a halo gets
statements that fill it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Block, SSAValue

from explorer.errors import UnsupportedError
from explorer.ir.compute import KernelBuilder
from explorer.ir.dialects.kernel import LaunchOp
from explorer.ir.evaluation import entry_function
from explorer.ir.layout import haloed_shape, rounded_channels
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import Access, TopOperation, identity_of, set_identity
from explorer.ir.origins import sources_of
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.structure import own_functions, walk_blocks
from explorer.ir.top.data import ReturnOp, TransferOp, WeightOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.types import (
    Layout,
    element_type_from_numpy,
    element_type_of,
    layout_of,
    shape_of,
    static_shape,
    stored_type,
)
from explorer.ir.valid_length import length_of
from explorer.passes.lower.compiled_form import missing_form

CHANNELS = 1
SHORT_ROWS = range(2, 17)
"""Pixels of a row that is joined with the next one."""


@dataclass(frozen=True)
class LowerToKernels(Pass):
    """Operations become launches of kernels, each with its compute definition over buffers."""

    name = "lower-to-kernels"
    level = "kernels"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        entry = entry_function(rewriter.module)
        sizes, length = sizes_of_function(entry), length_of(entry)
        kept = [*(sizes.extents if sizes else ()), *([length.capacity] if length else ())]
        lowering = _Lowering(rewriter, events, frozenset(kept))
        for function in own_functions(rewriter.module):
            for op in list(function.body.block.ops):
                if isinstance(op, TopOperation) and not _stays(op):
                    lowering.lower(op)
        if lowering.problems:
            raise UnsupportedError(
                f"{len(lowering.problems)} operations have no compiled form",
                problems=lowering.problems,
                hint="leave them to the host (without --no-host), or run the model without "
                "compiling it: explorer run MODEL --interpret",
            )
        for kernel in lowering.kernels.values():
            rewriter.module.body.block.add_op(kernel)
        return events.rewrites


def _stays(op: TopOperation) -> bool:
    return isinstance(op, WeightOp | ReturnOp | TransferOp) or bool(op.parts())


@dataclass
class _Lowering:
    rewriter: RecordedRewriter
    events: EventLog
    kept: frozenset[int]
    """Sizes of axes that may be open; loops over them stay loops of their own."""
    known: dict[Hashable, str] = field(default_factory=dict)
    """Names of kernels by what their definitions were made from."""
    kernels: dict[Hashable, func.FuncOp] = field(default_factory=dict)
    """Kernels by their definition: equal ones share one."""
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def lower(self, op: TopOperation) -> None:
        try:
            kernel = self._kernel(op)
        except NotImplementedError as error:
            self.problems.append(f"{identity_of(op)} (from {', '.join(sources_of(op))}): {error}")
            return
        launch = LaunchOp.make(
            [[*self._operands(op), *self._constants(op)]],
            [r.type for r in op.results],
            kernel=kernel,
            operation=op.name,
            title=op.label(),
            group=op.graph_family(),
            work=op.macs(),
        )
        set_identity(launch, identity_of(op))
        with self.events.rewrite("lower", op, f"runs kernel {kernel}"):
            self.rewriter.replace(op, launch)

    def _kernel(self, op: TopOperation) -> str:
        """Name of the operation's kernel, which is made where no earlier one will do."""
        made_from = _made_from(op)
        if made_from not in self.known:
            kernel = define_kernel(op, self.kept)
            # Logically equal copies may go between different layouts: the scheduler packs them.
            layouts = tuple(layout_of(v) for v in (*op.operands, *op.results))
            key = (layouts, _definition(kernel))
            if key not in self.kernels:
                kernel.sym_name = StringAttr(self._name(kernel, op))
                _tag_statements(kernel)
                self.kernels[key] = kernel
            self.known[made_from] = self.kernels[key].sym_name.data
        return self.known[made_from]

    def _name(self, kernel: func.FuncOp, op: TopOperation) -> str:
        stem = "".join(c if c.isalnum() else "_" for c in op.label().split(" + ")[0])
        stem = "_".join(part for part in stem.split("_") if part)[:24] or "kernel"
        if not stem[0].isalpha():
            stem = f"k_{stem}"
        number = self.counts.get(stem, 0) + 1
        while f"{stem}_{number}" in self.rewriter.names.kernels:
            number += 1
        self.counts[stem] = number
        return f"{stem}_{number}"

    def _operands(self, op: TopOperation) -> list[SSAValue]:
        """The operands, weights padded with zeros where channels were rounded up."""
        operands = []
        for index, operand in enumerate(op.operands):
            owner = operand.owner
            shape = rounded_operand_shape(op, index)
            if isinstance(owner, WeightOp) and shape != static_shape(operand):
                array = self.rewriter.weights[owner.weight.data]
                widths = [(0, new - old) for old, new in zip(array.shape, shape, strict=True)]
                name = f"{owner.weight.data}.rounded"
                operand = self.rewriter.add_weight(
                    op, name, np.pad(array, widths), owner, element_type_of(operand)
                )
            operands.append(operand)
        return operands

    def _constants(self, op: TopOperation) -> list[SSAValue]:
        """The tables that the kernel reads beside the operands, as weights."""
        return [
            self.rewriter.add_weight(op, f"{identity_of(op)}.{name}", array, like=op)
            for name, array in op.kernel_constants()
        ]


def _made_from(op: TopOperation) -> Hashable:
    """All that a compute definition depends on, but for the operation itself."""
    return (
        op.name,
        frozenset(op.properties.items()),
        tuple((o.type, isinstance(o.owner, WeightOp)) for o in op.operands),
        tuple(r.type for r in op.results),
    )


def _definition(kernel: func.FuncOp) -> Hashable:
    """What a kernel computes, without its name: equal for equal definitions only."""
    numbers: dict[SSAValue | Block, int] = {}
    structure: list[Hashable] = [kernel.function_type, frozenset(kernel.attributes.items())]
    for argument in kernel.body.block.args:
        numbers[argument] = len(numbers)
    for op in walk_blocks(kernel.body.block):
        assert op.parent is not None
        inner = [region.block for region in op.regions]
        for value in (*inner, *(a for block in inner for a in block.args), *op.results):
            numbers[value] = len(numbers)
        structure.append(
            (
                op.name,
                numbers.get(op.parent),
                frozenset(op.properties.items()),
                frozenset(op.attributes.items()),
                tuple(numbers[o] for o in op.operands),
                tuple(r.type for r in op.results),
            )
        )
    return tuple(structure)


def define_kernel(op: TopOperation, kept: Collection[int] = ()) -> func.FuncOp:
    """The operation's compute definition on its buffers, as an unnamed kernel function.

    kept: sizes of axes that may be open.

    NotImplementedError where the operation has none.
    """
    problem = missing_form(op)
    if problem:
        raise NotImplementedError(problem)
    builder = KernelBuilder("kernel")
    layouts = [layout_of(v) for v in (*op.operands, *op.results)]
    shapes = [rounded_operand_shape(op, i) for i in range(len(op.operands))]
    output_shapes = [_rounded(result) for result in op.results]
    if output_shapes and _may_change_shapes(op, layouts):
        merged, output = op.kernel_shapes(shapes, output_shapes[0], kept)
        if not kept or _keeps(output_shapes[0], output, kept):
            shapes, output_shapes[0] = merged, output
    inputs = []
    for index, (operand, shape) in enumerate(zip(op.operands, shapes, strict=True)):
        role = "weight" if isinstance(operand.owner, WeightOp) else "input"
        inputs.append(_argument(builder, _argument_name(op, index), operand, shape, role))
    for name, array in op.kernel_constants():
        kind = element_type_from_numpy(array.dtype)
        buffer = builder.argument(name, array.shape, kind, "weight")
        inputs.append(Access(buffer, array.shape, (0,) * array.ndim))
    outputs = []
    for index, (result, shape) in enumerate(zip(op.results, output_shapes, strict=True)):
        name = "y" if index == 0 else f"y{index + 1}"
        outputs.append(_argument(builder, name, result, shape, "output"))
        _define_halo(builder, result, outputs[-1])
    kind = op.define(builder, inputs, *outputs)
    return builder.finish(kind, op.kernel_parameters())


def _keeps(before: tuple[int, ...], after: tuple[int, ...], kept: Collection[int]) -> bool:
    """Whether axes that may be open are the first ones of dimensions of another shape."""
    starts = {prod(after[axis:]) for axis in range(len(after))}
    return all(
        size not in kept or prod(before[axis:]) in starts or prod(before[:axis]) == 1
        for axis, size in enumerate(before)
    )


def _may_change_shapes(op: TopOperation, layouts: Sequence[Layout]) -> bool:
    """Whether the kernel may see its buffers under other shapes (`kernel_shapes`): plain ones, and
    blocks of channels where only short rows without a halo are joined.

    7 pixels fill no register tile, and 49 do; tasks of long rows are shared among threads as they
    are, so that neighbouring layers find them where they were made.
    """
    if all(layout.is_plain for layout in layouts):
        return True
    is_short = isinstance(op, ConvOp) and shape_of(op.output)[-1] in SHORT_ROWS
    return is_short and not any(any(layout.halo) or layout.pitch for layout in layouts)


def rounded_operand_shape(op: TopOperation, index: int) -> tuple[int, ...]:
    """Shape of an operand's buffer, logical order: channels rounded as the kernel needs them."""
    operand, result = op.operands[index], op.results[0]
    shape = static_shape(operand)
    if not isinstance(operand.owner, WeightOp):
        return _rounded(operand)
    layout = layout_of(result)
    if not layout.block or not shape:  # a single number is one for all channels
        return shape
    if isinstance(op, ConvOp):
        channels = rounded_channels(static_shape(result)[CHANNELS], layout)
        if len(shape) == 1:
            return (channels,)
        return (channels, _rounded_inner(op, shape[1]), *shape[2:])
    axis = len(shape) - 3
    if axis < 0 or shape[axis] == 1:
        return shape
    return (*shape[:axis], rounded_channels(shape[axis], layout), *shape[axis + 1 :])


def _rounded_inner(op: ConvOp, channels: int) -> int:
    """Input channels that filters are applied to: whole blocks, or those of a single one."""
    layout = layout_of(op.input)
    if op.get("group") != 1 or (op.sums is None and channels <= layout.block):
        return channels
    return rounded_channels(channels, layout)


def _rounded(value: SSAValue) -> tuple[int, ...]:
    shape, layout = static_shape(value), layout_of(value)
    if not layout.block:
        return shape
    return (shape[0], rounded_channels(shape[CHANNELS], layout), *shape[2:])


def _argument(
    k: KernelBuilder, name: str, value: SSAValue, shape: tuple[int, ...], role: str
) -> Access:
    """A kernel argument for a value: the buffer has the halo, the access knows where it ends."""
    layout = layout_of(value)
    buffer_shape = haloed_shape(shape, layout) if not layout.is_plain else shape
    element = stored_type(element_type_of(value))
    buffer = k.argument(name, buffer_shape or (1,), element, role)
    shift = [0] * len(shape)
    if layout.halo != (0, 0, 0, 0):
        shift[2], shift[3] = layout.halo[0], layout.halo[1]
    return Access(buffer, shape, tuple(shift))


def _argument_name(op: TopOperation, index: int) -> str:
    """x, w, b, r for convolution and matmul; x1, x2 ... otherwise."""
    definition = op.get_irdl_definition()
    present = [name for name, _ in definition.operands if isinstance(getattr(op, name), SSAValue)]
    short = {"input": "x", "weight": "w", "bias": "b", "residual": "r", "left": "x", "right": "w"}
    if len(present) == len(op.operands) and present[index] in short:
        return short[present[index]]
    return f"x{index + 1}"


def _define_halo(k: KernelBuilder, value: SSAValue, output: Access) -> None:
    """Statements that fill the halo of a result: above, below, left and right of every plane."""
    layout = layout_of(value)
    top, left, bottom, right = layout.halo
    n, c, _, width = output.buffer.type.get_shape() if any(layout.halo) else (0, 0, 0, 0)
    height = top + output.shape[2] + bottom if any(layout.halo) else 0
    borders = (
        (top, width, 0, 0),
        (bottom, width, height - bottom, 0),
        (height - top - bottom, left, top, 0),
        (height - top - bottom, right, top, width - right),
    )
    for rows, columns, first_row, first_column in borders:
        if not rows or not columns:
            continue
        d = k.dimensions(n=n, o=c, i=rows, j=columns)
        subscripts: Sequence = (
            d[0],
            d[1],
            d[2] + first_row if first_row else d[2],
            d[3] + first_column if first_column else d[3],
        )
        k.generic("halo", [], (output.buffer, subscripts), lambda s: s.constant(layout.fill))


def _tag_statements(kernel: func.FuncOp) -> None:
    """Every statement's location is its tag, `kernel/stage`: the link from lines of code back."""
    seen: dict[str, int] = {}
    for op in kernel.body.block.ops:
        attribute = op.attributes.get("loop.stage")
        stage = attribute.data if isinstance(attribute, StringAttr) else "nest"
        seen[stage] = seen.get(stage, 0) + 1
        suffix = "" if seen[stage] == 1 else str(seen[stage])
        tag = NameLoc(StringAttr(f"{kernel.sym_name.data}/{stage}{suffix}"), UnknownLoc())
        for inner in op.walk():
            inner.location = tag
