"""The pass that lays out constants of layers as the array and the vector engine take them, once.

   %conv3 = npu.convolution(%x, %w, %b, ...) {constants = ["weights", ...], ...}
=> %conv3 = npu.convolution(%x, %w, %b, ..., %w9, %w10) {..., laid_out = ["weights", "constants"]}

Behind the arrays that say what the layer means stand the bytes that loads bring into scratchpads:
weights in blocks of rows and columns (`explorer/npu/tiling/layouts.py`), biases and factors by
column, tables, exponentials. Micro-operations are no part of them, for they follow from addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from explorer.backends.npu.lowered import LoweredLayers
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.functions.calls import functions_on
from explorer.ir.operation import identity_of, set_identity, to_attribute
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.npu.program.compiling import write_layer
from explorer.targets.npu.machine import Machine


@dataclass(frozen=True)
class LayOutConstants(Pass):
    """Weights, biases, factors and tables become the bytes that the machine reads."""

    machine: Machine
    lowered: LoweredLayers = field(compare=False, repr=False)

    name = "lay-out-constants"
    level = "tiled"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        for function in functions_on(rewriter.module, self.machine.name):
            for op in list(function.body.block.ops):
                if isinstance(op, LayerOp):
                    self._lay_out(op, rewriter, events)
        return events.rewrites

    def _lay_out(self, op: LayerOp, rewriter: RecordedRewriter, events: EventLog) -> None:
        found = write_layer(self.lowered.layer_of(op, rewriter.weights).tiled).constants()
        if not found:
            return
        text = ", ".join(f"{name} as {data.size:,} bytes" for name, data in found.items())
        with events.rewrite("lay out", op, text):
            identity = identity_of(op)
            bytes_of = [
                rewriter.add_weight(op, f"{identity}.{name}.laid_out", np.asarray(data), like=op)
                for name, data in found.items()
            ]
            laid_out = type(op).make(
                [[*op.operands, *bytes_of]],
                [op.output.type],
                **{**op.properties, "laid_out": to_attribute(tuple(found))},
            )
            set_identity(laid_out, identity)
            rewriter.replace(op, laid_out)
