"""The `npu` dialect: what a function holds that instructions of an NPU compute.

    tiled         %y = npu.layer(%x, %w, %b) {kind = "Convolution", tiles = {rows = 7, ...}, ...}
                  %y = npu.layer(%x, %w, %b, %w1, %w2) {..., laid_out = ["weights", "constants"]}
    addressed     ... {offset = 4096, places = {weights = [8192, 2304]}, scratchpads = {...}}
    instructions  %y = npu.instructions(%x, %constants) {lines = ["load activations ..."], ...}

Tensors are still values; where each lies in global memory says `offset`. What a layer means is
known to whoever has its kinds (`explorer.npu`), not to the IR.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyOf,
    BaseAttr,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from explorer.ir.operation import LinesAttr, TopOperation, from_attribute

ARGUMENT_OFFSETS = "npu.argument_offsets"
"""Attribute of an addressed function: where its arguments lie in global memory, in bytes."""
SPACE_BYTES = "npu.space_bytes"
"""Attribute of an addressed function: bytes of global memory, from its first one on."""


class NpuOperation(TopOperation):
    """What both forms have in common.

    inputs: how many operands are computed; behind them stand constants.
    part: set where the last one of these is what other layers have written of the result, in the
    same bytes.
    title, group, work: label, family and multiply-accumulates, for people.
    offset: where the result lies in global memory, in bytes, once that is planned.
    """

    FAMILY: ClassVar[str] = "convolution"
    TAKES_QUANTIZED: ClassVar[bool] = True

    operands_ = var_operand_def(TensorType)
    inputs = prop_def(IntegerAttr)
    part = opt_prop_def(IntegerAttr)
    title = prop_def(StringAttr)
    group = prop_def(StringAttr)
    work = prop_def(IntegerAttr)
    offset = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [self.output.type]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        raise NotImplementedError(f"{self.name} is executed by its backend")

    @property
    def data(self) -> tuple[SSAValue, ...]:
        """The operands that are computed; behind them stand constants."""
        return tuple(self.operands)[: self.get("inputs")]

    @property
    def is_part(self) -> bool:
        """Whether it writes some of a value that others have written to."""
        return self.part is not None

    @property
    def shared_input(self) -> SSAValue | None:
        """The value in whose bytes the result lies."""
        return self.data[-1] if self.is_part else None

    def macs(self) -> int:
        return self.get("work")

    def label(self) -> str:
        return self.get("title")

    def graph_family(self) -> str:
        return self.get("group")


@irdl_op_definition
class LayerOp(NpuOperation):
    """A layer, cut into tiles.

    kind, fields, constants: which one, its numbers, and what its constant operands are.
    laid_out: what the operands behind these are: bytes of constants as the machine reads them.
    tiles: sizes of its tiles. places: of its constants in global memory, offset and size in bytes.
    scratchpads: of each of its buffers the address in elements of its content.
    """

    name = "npu.layer"

    kind = prop_def(StringAttr)
    fields = prop_def(DictionaryAttr)
    constants = opt_prop_def(ArrayAttr)
    laid_out = opt_prop_def(ArrayAttr)
    tiles = prop_def(DictionaryAttr)
    places = opt_prop_def(DictionaryAttr)
    scratchpads = opt_prop_def(DictionaryAttr)

    def graph_attributes(self) -> tuple[tuple[str, str], ...]:
        found = [("kind", self.kind.data)]
        for name in ("tiles", "fields", "scratchpads", "places"):
            attribute = self.properties.get(name)
            if isinstance(attribute, DictionaryAttr):
                found += [(key, _words(value)) for key, value in attribute.data.items()]
        if self.offset is not None:
            found.append(("offset", str(self.get("offset"))))
        return tuple(found)


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
            ("offset", str(self.get("offset"))),
            ("constants_offset", str(self.get("constants_offset"))),
        )


def _words(attribute: Attribute) -> str:
    value = from_attribute(attribute)
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


Npu = Dialect("npu", [LayerOp, InstructionsOp], [])
