"""What operations of NPUs have in common, as layers and as instructions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, result_def, var_operand_def

from explorer.ir.operation import TopOperation


class NpuOperation(TopOperation):
    """What both forms have in common.

    inputs: how many operands are computed; constants follow them.
    part: set where the last one of these is what other layers have written of the result, in the
    same bytes.
    title, group, work: label, family and multiply-accumulates, for people.
    offset: where the result lies in global memory, in bytes, once that is planned.
    on_chip: where it lies in the scratchpad of activations instead, if it stays there.
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
    on_chip = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [self.output.type]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        raise NotImplementedError(f"{self.name} is executed by its backend")

    @property
    def data(self) -> tuple[SSAValue, ...]:
        """The operands that are computed; constants follow them."""
        return tuple(self.operands)[: self.get("inputs")]

    @property
    def is_part(self) -> bool:
        """Whether it writes some of a value that others have written to."""
        return self.part is not None

    @property
    def shared_input(self) -> SSAValue | None:
        """The value that the result shares its bytes with."""
        return self.data[-1] if self.is_part else None

    def macs(self) -> int:
        return self.get("work")

    def label(self) -> str:
        return self.get("title")

    def graph_family(self) -> str:
        return self.get("group")
