"""Layout assignment: which tensors are blocked by channels, and which carry a halo.

    %y = top.conv(%x, %w) {pads = [1, 1, 1, 1]} : tensor<1x24x8x8xf32>
 => %c = top.convert_layout(%x) : tensor<1x3x8x8xf32, halo = [1, 1, 1, 1]>
    %y = top.conv(%c, %w) {pads = [1, 1, 1, 1]} : tensor<1x24x8x8xf32, block = 16>

Convolutions write blocks of channels as wide as the machine's vectors (NCHW16c), and what follows
them stays in that form as long as it can. The padding that a window reads around its input is
part of the input's buffer, so that no kernel needs border code. Meaning and logical shapes do not
change; only encodings do, and `top.convert_layout` copies where two forms meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeGuard

from xdsl.dialects import func
from xdsl.ir import BlockArgument, OpResult, SSAValue

from explorer.errors import InputError
from explorer.ir.evaluation import entry_function
from explorer.ir.interfaces import CHANNELS, Blockable, Windowed
from explorer.ir.open_sizes import sizes_of_function
from explorer.ir.operation import TopOperation
from explorer.ir.origins import origin_of, set_origins, sources_of
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import own_functions, value_name
from explorer.ir.top.data import ConvertLayoutOp, ReturnOp, WeightOp
from explorer.ir.top.elementwise import SelectOp
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.operation import MovementOperation
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import (
    PLAIN,
    Layout,
    is_static,
    layout_of,
    shape_of,
    static_shape,
    with_layout,
)
from explorer.results import Knob

MANY_CHANNELS = 16
"""From here on a convolution's plain input is worth copying into blocks. With fewer channels (a
picture has three) rounding them up to a block costs more than it brings."""
MANY_TAPS = 9
"""Uses of each element by a window, from which on a copy of the input costs little."""
Halo = tuple[int, int, int, int]
NO_HALO: Halo = (0, 0, 0, 0)


@dataclass(frozen=True)
class AssignLayouts(Pass):
    """Channels are blocked by vectors around convolutions, and padding becomes a halo.

    block: channels per block (0 keeps everything plain but for halos).

    Decisions, all of them channels per block (0: plain):

    assign-layouts/block            of everything
    assign-layouts/block/FUNCTION   of one function
    assign-layouts/blocked/VALUE    of one value; true and false: its function's block, and plain

    And assign-layouts/residual-halo/VALUE, true or false: whether a result gets the halo of the
    residual that it reads last, so that it can be written over it.
    """

    block: int

    name = "assign-layouts"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        for function in own_functions(rewriter.module):
            assignment = _Assignment(self, function, rewriter, events, options)
            assignment.run()
            knobs += assignment.knobs
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites


@dataclass
class _Assignment:
    options: AssignLayouts
    function: func.FuncOp
    rewriter: RecordedRewriter
    events: EventLog
    driver: RewriteOptions
    converted: dict[tuple[SSAValue, Layout], SSAValue] = field(default_factory=dict)
    knobs: list[Knob] = field(default_factory=list)

    def run(self) -> None:
        self.is_open = sizes_of_function(entry_function(self.rewriter.module)) is not None
        block = self._function_block()
        for op in list(self.function.body.block.ops):
            if isinstance(op, TopOperation) and not isinstance(op, WeightOp):
                self._assign_blocks(op, block)
        for op in list(self.function.body.block.ops):
            if isinstance(op, Windowed) and needs_halo(op) != NO_HALO:
                self._give_halo(op)
        for op in list(self.function.body.block.ops):
            if isinstance(op, SelectOp) and self.is_open:
                self._mask_in_place(op)
        for op in list(self.function.body.block.ops):
            if isinstance(op, ConvOp) and op.residual is not None:
                self._share_halo(op, op.residual)
        for op in list(self.function.body.block.ops):
            if isinstance(op, ReturnOp) or (isinstance(op, TopOperation) and op.is_view):
                self._read_plain(op)
                self._copy_weights(op)

    @property
    def _name(self) -> str:
        return self.function.sym_name.data

    # -- decisions -----------------------------------------------------------------------------
    def _function_block(self) -> int:
        """Channels per block of the function: the target's, or an override."""
        address = f"{self.options.name}/block/{self._name}"
        legal = (*LEGAL_BLOCKS, *({self.options.block} - {*LEGAL_BLOCKS}))
        asked = self.driver.decision(address)
        block = self.options.block if asked is None else _checked(address, asked, legal)
        why = "as many channels as a vector of the target holds" if block else PLAIN_TARGET
        if asked is not None and block != self.options.block:
            why = f"an override; the target asks for {self.options.block}"
        self.knobs.append(Knob(address, block, legal, why))
        return block

    def _value_block(self, op: TopOperation, block: int) -> tuple[int, str]:
        """Channels per block of an operation's result, and the reason if it is plain."""
        address = self.events.address("blocked", op)
        asked = self.driver.decision(address)
        legal = tuple(b for b in LEGAL_BLOCKS if not b or not why_not_blocked(op, Layout(b)))
        if block and block not in legal and not why_not_blocked(op, Layout(block)):
            legal = (*legal, block)
        if len(legal) == 1:  # whatever is asked for: it stays plain
            return 0, why_not_blocked(op, Layout(block or LEGAL_BLOCKS[-1]))
        own = block if block in legal else 0
        chosen = own
        if asked is not None and asked is not True:
            chosen = _checked(address, 0 if asked is False else asked, legal)
        why = BLOCKED if own else why_not_blocked(op, Layout(block))
        if chosen != own:
            why = f"an override; by itself it would be {own}: {why}"
        self.knobs.append(Knob(address, chosen, legal, why))
        if chosen:
            return chosen, ""
        return 0, OVERRIDDEN if own else why

    # -- blocks --------------------------------------------------------------------------------
    def _assign_blocks(self, op: TopOperation, block: int) -> None:
        chosen, reason = self._value_block(op, block)
        if not chosen:
            if isinstance(op, Windowed) or reason == OVERRIDDEN:
                self.events.decline("blocked", op, reason, BLOCKED)
            if not isinstance(op, ReturnOp):
                self._read_plain(op)
            return
        layout = Layout(block=chosen)
        with self.events.rewrite("blocked", op, BLOCKED):
            for index, operand in enumerate(op.operands):
                if must_share_blocks(op, index) and layout_of(operand).block != layout.block:
                    wanted = Layout(operand_block(op, index, chosen))
                    self.rewriter.set_operand(op, index, self._convert(operand, wanted, op))
            self.rewriter.set_type(op.results[0], with_layout(op.results[0].type, layout))

    def _read_plain(self, op: TopOperation) -> None:
        for index, operand in enumerate(op.operands):
            layout = layout_of(operand)
            if op.READS_ANY_LAYOUT and not op.is_view:
                continue
            if op.is_view and layout == layout_of(op.results[0]) and not any(layout.halo):
                continue  # the same bytes, in blocks
            if layout.block or (layout.halo != NO_HALO and reads_whole_buffer(op)):
                with self.events.rewrite("read-plain", op, PLAIN_REASON):
                    self.rewriter.set_operand(op, index, self._convert(operand, PLAIN, op))

    def _copy_weights(self, op: TopOperation) -> None:
        """What is returned, or seen as another shape, lies in the arena: weights do not."""
        for index, operand in enumerate(op.operands):
            if isinstance(operand.owner, WeightOp):
                with self.events.rewrite("copy-weight", op, COPY_REASON):
                    self.rewriter.set_operand(op, index, self._convert(operand, PLAIN, op))

    # -- halos ---------------------------------------------------------------------------------
    def _give_halo(self, op: Windowed) -> None:
        halo, fill = needs_halo(op), op.padding_fill
        value = op.operands[0]
        present = layout_of(value)
        if _covers(present.halo, halo) and present.fill == fill:
            return
        is_free = present.halo == NO_HALO or present.fill == fill
        merged: Halo = tuple(map(max, zip(present.halo, halo, strict=True)))  # pyright: ignore
        with self.events.rewrite("halo", op, HALO):
            if is_free and _may_carry_halo(value):
                layout = Layout(present.block, merged, fill)
                self.rewriter.set_type(value, with_layout(value.type, layout))
                # A copy that got a halo is no longer the one that was made for its layout.
                self.converted = {k: v for k, v in self.converted.items() if v is not value}
            else:
                layout = Layout(present.block, halo, fill)
                self.rewriter.set_operand(op, 0, self._convert(value, layout, op))

    def _mask_in_place(self, op: SelectOp) -> None:
        """What is masked at the end of a call's sizes gets the halo of the result, where it dies:
        then only what is beyond those sizes has to be written."""
        own, value = layout_of(op.output), op.if_true
        present = layout_of(value)
        is_same = present.block == own.block and shape_of(value) == shape_of(op.output)
        if not is_same or present.halo != NO_HALO or own.halo == NO_HALO:
            return
        if not _may_carry_halo(value):  # a copy of it may
            with self.events.rewrite("mask-halo", op, OVER_MASKED):
                self.rewriter.set_operand(op, 1, self._convert(value, own, op))
            return
        readers = [use.operation for use in value.uses]
        is_last = all(r is op or r.is_before_in_block(op) for r in readers)
        is_whole = any(isinstance(r, TopOperation) and reads_whole_buffer(r) for r in readers)
        if not is_last or is_whole:
            return
        with self.events.rewrite("mask-halo", op, OVER_MASKED):
            self.rewriter.set_type(value, with_layout(value.type, own))

    def _share_halo(self, op: ConvOp, residual: SSAValue) -> None:
        """The halo of a residual that dies here, where it is the larger one."""
        own, other = layout_of(op.output), layout_of(residual)
        is_free = own.halo == NO_HALO or own.fill == other.fill
        if own.block != other.block or own.halo == other.halo or not is_free:
            return
        if not _covers(other.halo, own.halo) or not _may_carry_halo(residual):
            return
        readers = [use.operation for use in residual.uses]
        is_last = all(r is op or r.is_before_in_block(op) for r in readers)
        users = [use.operation for use in op.output.uses]
        if not is_last or any(isinstance(u, TopOperation) and reads_whole_buffer(u) for u in users):
            return
        address = self.events.address(RESIDUAL_HALO, op)
        asked = self.driver.decision(address) is True
        self.knobs.append(Knob(address, asked, (True, False), OVER_RESIDUAL))
        if asked:
            with self.events.rewrite(RESIDUAL_HALO, op, OVER_RESIDUAL):
                layout = Layout(own.block, other.halo, other.fill)
                self.rewriter.set_type(op.output, with_layout(op.output.type, layout))

    def _convert(self, value: SSAValue, layout: Layout, user: TopOperation) -> SSAValue:
        """The value in another layout: one copy per layout, made where it is first needed.

        A transpose that nobody else reads copies already, and writes that layout itself.
        """
        if writes_itself(value, layout):
            return self.rewriter.set_type(value, with_layout(value.type, layout))
        key = (value, layout)
        if key not in self.converted:
            copy = ConvertLayoutOp.make([value], [with_layout(value.type, layout)])
            set_origins(copy, [origin_of(value)])
            self.rewriter.insert_before(user, copy, stem="layout", sources=self._sources(value))
            self.converted[key] = copy.output
        return self.converted[key]

    def _sources(self, value: SSAValue) -> tuple[str, ...]:
        """What a value comes from: its maker's sources, or those of what an argument is given."""
        if isinstance(value, OpResult):
            return sources_of(value.op)
        assert isinstance(value, BlockArgument)
        for op in self.rewriter.module.walk():
            if isinstance(op, func.CallOp) and op.callee.string_value() == self._name:
                given = op.operands[value.index].owner
                if isinstance(given, TopOperation):
                    return sources_of(given)
        return (value_name(value),)


LEGAL_BLOCKS = (0, 4, 8, 16)
"""Channels per block that generated code has vectors for; 0 is plain."""
PLAIN_TARGET = "the target wants plain tensors"
BLOCKED = (
    "channels in blocks of one vector: a kernel computes a whole block of output channels with "
    "vector instructions and contiguous loads"
)
HALO = (
    "the padding that the window reads is part of its input's buffer, filled once by whoever "
    "writes that: no kernel needs border code"
)
RESIDUAL_HALO = "residual-halo"
OVER_RESIDUAL = (
    "with the halo of its residual, which nobody reads afterwards, it can be written over that"
)
OVER_MASKED = "with the halo of what it masks, it changes only what is beyond a call's sizes"
PLAIN_REASON = "this operation reads its operand in plain order"
COPY_REASON = "what is returned or reshaped lies in the arena, and a weight does not"


def _checked(address: str, asked: object, legal: tuple[int, ...]) -> int:
    """An override as a number of channels; InputError where it is not legal."""
    if isinstance(asked, bool) or not isinstance(asked, int) or asked not in legal:
        raise InputError(
            f"{address} cannot be {asked!r}: it is channels per block",
            hint=f"one of {', '.join(map(str, legal))}; 0 is plain",
        )
    return asked


def why_not_blocked(op: TopOperation, layout: Layout) -> str:
    """Empty if the operation's result should be blocked, else the reason against it."""
    if not layout.block:
        return "blocking is off"
    if len(op.results) != 1 or not is_static(op.results[0]):
        return "it has no single result of static shape"
    shape = static_shape(op.results[0])
    if len(shape) != 4:
        return "only four-dimensional tensors are blocked"
    if not isinstance(op, Blockable):
        return f"{op.name} has no blocked form"
    if not op.HAS_BLOCKED_TABLES and any(len(table) > 1 for _, table in op.kernel_constants()):
        return "it has a scale for each slice"
    return op.why_not_blocked(layout.block) or _why_not_worth(op, layout)


def _why_not_worth(op: TopOperation, layout: Layout) -> str:
    """Blocks begin at windows that gain by them; all others follow what they read."""
    if isinstance(op, ConvOp) and _fills_pixels_better(op, layout):
        return "its few output channels leave blocks mostly empty; its rows fill vectors"
    if isinstance(op, PoolOp) and not layout_of(op.input).block and not _is_worth_blocks(op):
        return "its input is not blocked"
    if isinstance(op, Windowed):
        return ""
    given = [o for o in op.operands if not isinstance(o.owner, WeightOp)]
    if isinstance(op, MovementOperation):
        given = list(op.moved_operands())
    blocked = [o for o in given if layout_of(o).block]
    if not blocked:
        return "none of its inputs is blocked" if len(given) > 1 else "its input is not blocked"
    if isinstance(op, MovementOperation) and 2 * _elements(blocked) < _elements(given):
        return "most of its inputs are not blocked"
    return ""


def _elements(values: Sequence[SSAValue]) -> int:
    return sum(prod(static_shape(value)) for value in values)


def _fills_pixels_better(op: ConvOp, layout: Layout) -> bool:
    """Are vectors of pixels fuller than those of channels, and pixels contiguous in the input?

    A blocked input has to be copied for it, which pays where each element is used often.
    """
    channels, width = static_shape(op.output)[CHANNELS], static_shape(op.output)[-1]
    if op.sums is not None or op.get("group") != 1 or op.get("strides")[-1] != 1:
        return False
    if not layout_of(op.input).block and static_shape(op.input)[CHANNELS] < MANY_CHANNELS:
        return 2 * channels <= layout.block <= width
    return 4 * channels <= layout.block <= width and prod(static_shape(op.weight)[2:]) >= MANY_TAPS


def _is_worth_blocks(op: PoolOp) -> bool:
    """Is a pool of many channels, so much faster in vectors, worth a copy of its plain input?"""
    window, kind = op.get("window"), op.get("kind")
    return kind != "max_position" and prod(window) > 1 and _channels(op) >= MANY_CHANNELS


def _channels(op: PoolOp) -> int:
    return static_shape(op.input)[CHANNELS]


def writes_itself(value: SSAValue, layout: Layout) -> bool:
    """Is the value made for one reader by a plain transpose, which may as well be blocked?"""
    op = value.owner
    if not isinstance(op, TransposeOp) or op.is_view or layout_of(value) != PLAIN:
        return False
    return (not layout.block or len(static_shape(value)) == 4) and value.has_one_use()


def must_share_blocks(op: TopOperation, index: int) -> bool:
    """Does a blocked operation need this operand blocked too?

    By its index: a value that is an input may be a residual, too, which lies as the result does.
    """
    operand = op.operands[index]
    if isinstance(operand.owner, WeightOp):
        return False
    shape = static_shape(operand)
    if isinstance(op, ConvOp) and len(shape) < 4:
        return False  # a zero point or a scale that is known at run time only
    if _is_input(op, index) and not op.is_depthwise:
        block = layout_of(operand).block
        return not block and (shape[CHANNELS] >= MANY_CHANNELS or op.sums is not None)
    return not isinstance(op, Blockable) or op.shares_blocks(index)


def operand_block(op: TopOperation, index: int, block: int) -> int:
    """Channels per block that an operand is copied into: as the result, or as many as fit.

    A dot product of bytes takes 4 channels at once, so that few channels want a narrow block.
    """
    if _is_input(op, index) and op.sums is not None and not op.is_depthwise:
        channels = static_shape(op.input)[CHANNELS]
        return next((b for b in LEGAL_BLOCKS[1:] if channels <= b < block), block)
    return block


def _is_input(op: TopOperation, index: int) -> TypeGuard[ConvOp]:
    """Is this operand what the windows of a convolution read?"""
    return isinstance(op, ConvOp) and index == 0


def needs_halo(op: TopOperation) -> Halo:
    """Rows and columns that the operation's window reads around its input."""
    if not isinstance(op, Windowed) or len(static_shape(op.operands[0])) != 4:
        return NO_HALO
    top, left, bottom, right = op.padding if op.reads_padding else NO_HALO
    return (top, left, bottom, right)


def reads_whole_buffer(op: TopOperation) -> bool:
    """Operations that take a buffer as it is, halo included: they need a plain one."""
    return isinstance(op, ReturnOp) or op.is_view


def _may_carry_halo(value: SSAValue) -> bool:
    owner = value.owner
    if not isinstance(value, OpResult) or not isinstance(owner, TopOperation):
        return False
    return not owner.is_view and not isinstance(owner, WeightOp)


def _covers(present: Halo, needed: Halo) -> bool:
    return all(p >= n for p, n in zip(present, needed, strict=True))
