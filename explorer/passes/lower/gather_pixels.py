"""Pixels that a convolution's stride leaves over are copied together, where that pays.

    %y = top.conv(%x, %w) {strides = [2, 2], ...} : tensor<1x2048x7x7xf32>   %x: ..x1024x14x14
 => %s = top.slice(%x) {steps = [1, 1, 2, 2], ...} : tensor<1x1024x7x7xf32>
    %y = top.conv(%s, %w) {strides = [1, 1], ...} : tensor<1x2048x7x7xf32>

A window of one pixel with a stride reads some pixels of each row, once for every tile of output
channels, and its short rows fill no register tile. What is copied once lies together: whole lines
are used, and all rows become one (`lower-to-kernels`). Whether that is worth a copy says whoever
knows the processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import f32

from explorer.errors import InputError
from explorer.ir.rewriting import OVERRIDDEN, RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import KNOBS, EventLog, Pass
from explorer.ir.structure import own_functions
from explorer.ir.top.linear.convolution import ConvOp
from explorer.ir.top.movement.slices import SliceOp, slice_properties
from explorer.ir.types import (
    Layout,
    element_type_of,
    is_static,
    layout_of,
    static_shape,
    with_layout,
)
from explorer.passes.lower.lower_to_kernels import SHORT_ROWS
from explorer.results import Knob

RULE = "gather"
GATHERED = "the pixels that are read are copied together, once for all tiles of channels"


@dataclass(frozen=True, kw_only=True)
class StridedPixels:
    """A convolution with windows of one pixel, channels in blocks, and a stride."""

    input_channels: int
    output_channels: int
    height: int
    width: int
    """Of its output."""
    stride: int
    """Along a row."""
    block: int
    joins_rows: bool
    """Whether all rows of a picture become one, once their pixels lie together."""


class Judge(Protocol):
    """Who knows whether a copy pays."""

    def pays(self, pixels: StridedPixels) -> tuple[bool, str]:
        """And why, or why not."""
        ...


@dataclass(frozen=True)
class GatherPixels(Pass):
    """Convolutions of one pixel with a stride read their pixels from a copy, where that pays.

    The decision gather-pixels/gather/VALUE, true or false, is whether a convolution does.
    """

    judge: Judge

    name = "gather-pixels"

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        knobs: list[Knob] = []
        for function in own_functions(rewriter.module):
            for op in list(function.body.block.ops):
                if isinstance(op, ConvOp) and (pixels := strided_pixels(op)) is not None:
                    knobs.append(self._decide(op, pixels, events, options))
        rewriter.artifacts[KNOBS] = tuple(knobs)
        return events.rewrites

    def _decide(
        self, op: ConvOp, pixels: StridedPixels, events: EventLog, options: RewriteOptions
    ) -> Knob:
        address = events.address(RULE, op)
        asked = options.decision(address)
        if asked not in (None, True, False):
            raise InputError(f"{address} cannot be {asked!r}", hint="it is true or false")
        own, why = self.judge.pays(pixels)
        chosen = own if asked is None else bool(asked)
        if chosen:
            with events.rewrite(RULE, op, GATHERED):
                _gather(op, events.rewriter)
        else:
            events.decline(RULE, op, OVERRIDDEN if own else why, GATHERED)
        if chosen != own:
            why = f"an override; by itself it would be {str(own).lower()}: {why}"
        return Knob(address, chosen, (True, False), why)


def strided_pixels(op: ConvOp) -> StridedPixels | None:
    """The sizes of a convolution that may read from a copy; None for all others.

    Its rows can be joined then: it has windows of one pixel, blocks of channels, no halo behind it.
    """
    strides, shape = op.get("strides"), static_shape(op.weight)
    if len(shape) != 4 or shape[2:] != (1, 1) or set(strides) == {1} or any(op.get("pads")):
        return None
    if op.get("group") != 1 or element_type_of(op.input) != f32 or not is_static(op.input):
        return None
    read, written = layout_of(op.input), layout_of(op.output)
    if not read.block or read.block != written.block or any(written.halo):
        return None
    _, channels, height, width = static_shape(op.output)
    return StridedPixels(
        input_channels=shape[1],
        output_channels=channels,
        height=height,
        width=width,
        stride=strides[-1],
        block=written.block,
        joins_rows=width in SHORT_ROWS,
    )


def _gather(op: ConvOp, rewriter: RecordedRewriter) -> None:
    images, channels, height, width = static_shape(op.input)
    rows, columns = op.get("strides")
    taken = (range(images), range(channels), range(0, height, rows), range(0, width, columns))
    bounds = slice_properties(taken)
    copy = SliceOp.make(
        [op.input, None, None, None],
        starts=bounds["starts"],
        stops=bounds["stops"],
        steps=bounds["steps"],
    )
    rewriter.insert_before(op, copy, like=op)
    layout = Layout(layout_of(op.input).block)
    rewriter.set_type(copy.output, with_layout(copy.output.type, layout))
    new = op.altered(input=copy.output, strides=[1, 1])
    result = new.results[0]
    rewriter.replace(op, new)
    rewriter.set_type(result, with_layout(result.type, Layout(layout.block)))
