"""The `kernel` dialect: what a device function holds after lowering.

    %conv3 = kernel.launch(%x, %w, %b) {kernel = "conv_64_3x3"} : tensor<...>

Tensors are still values (a launch's result lies in a buffer that the memory plan chooses); the
kernel itself is a `func.func` over memrefs in the same module.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from explorer.ir.operation import TopOperation


@irdl_op_definition
class LaunchOp(TopOperation):
    """Runs a kernel. Operands are its input and weight arguments in order.

    operation, label, macs: what the launch stands for, for people.
    offset: where the result lies in the arena, in bytes, once memory is planned.
    """

    name = "kernel.launch"
    FAMILY: ClassVar[str] = "convolution"

    operands_ = var_operand_def(TensorType)
    kernel = prop_def(StringAttr)
    operation = prop_def(StringAttr)
    title = prop_def(StringAttr)
    group = prop_def(StringAttr)
    work = prop_def(IntegerAttr)
    offset = opt_prop_def(IntegerAttr)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [r.type for r in self.results]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        raise NotImplementedError("a launch is executed through its kernel's code")

    def macs(self) -> int:
        return self.get("work")

    def label(self) -> str:
        return self.get("title")


Kernel = Dialect("kernel", [LaunchOp], [])
