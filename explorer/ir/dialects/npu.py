"""The `npu` dialect: what a function holds that instructions of an NPU compute.

    tiled         %y = npu.convolution(%x, %w, %b) {strides = [2, 2], tiles = {rows = 7, ...}, ...}
                  %y = npu.convolution(%x, %w, %b, %w1, %w2) {..., laid_out = ["weights", ...]}
    addressed     ... {offset = 4096, places = {weights = [8192, 2304]}, scratchpads = {...}}
    instructions  %y = npu.instructions(%x, %constants) {lines = ["load activations ..."], ...}

Tensors are still values; where each lies in global memory says `offset`. Layers are typed
operations (`npu_layers.py`): npu.convolution, npu.matmul, npu.elementwise, npu.window, npu.softmax,
npu.normalize, npu.transpose, npu.partition. An argument that the host writes with its
axes in another order is read by `npu.permute`, which makes results that it reads so, too; one with
neighbouring positions as channels is read by `npu.unfold` (`npu_arranged.py`). Both are views.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Dialect
from xdsl.irdl import AnyOf, BaseAttr, irdl_op_definition, prop_def

from explorer.ir.dialects.npu_arranged import PermuteOp, UnfoldOp
from explorer.ir.dialects.npu_layers import LAYER_OPERATIONS, LayerOp, field_properties
from explorer.ir.dialects.npu_operation import NpuOperation
from explorer.ir.operation import LinesAttr, from_attribute

ARGUMENT_OFFSETS = "npu.argument_offsets"
"""Attribute of an addressed function: where its arguments lie in global memory, in bytes."""
SPACE_BYTES = "npu.space_bytes"
"""Attribute of an addressed function: bytes of global memory, from its first one on."""


@irdl_op_definition
class InstructionsOp(NpuOperation):
    """A layer as instructions, the text of each on a line of its own; `LinesAttr` holds those that
    the compiler made, so that nothing reads their text back.

    Its one constant operand are the bytes that it reads: weights as the array takes them, and
    micro-operations. constants_offset: where these lie in global memory.
    """

    name = "npu.instructions"
    LINES: ClassVar[tuple[str, ...]] = ("lines",)

    lines = prop_def(AnyOf((BaseAttr(ArrayAttr), BaseAttr(LinesAttr))))
    constants_offset = prop_def(IntegerAttr)

    @property
    def texts(self) -> tuple[str, ...]:
        """The instructions as text."""
        return from_attribute(self.lines)

    def graph_attributes(self) -> tuple[tuple[str, str], ...]:
        return (
            ("instructions", str(len(self.texts))),
            *(
                (name, str(self.get(name)))
                for name in ("offset", "on_chip")
                if name in self.properties
            ),
            ("constants_offset", str(self.get("constants_offset"))),
        )


Npu = Dialect("npu", [*LAYER_OPERATIONS.values(), PermuteOp, UnfoldOp, InstructionsOp], [])

__all__ = [
    "ARGUMENT_OFFSETS",
    "LAYER_OPERATIONS",
    "SPACE_BYTES",
    "InstructionsOp",
    "LayerOp",
    "Npu",
    "NpuOperation",
    "PermuteOp",
    "UnfoldOp",
    "field_properties",
]
