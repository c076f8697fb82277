"""The `kernel` dialect: what a device function holds after lowering.

    %conv3 = kernel.launch(%x, %w, %b) {kernel = "conv_64_3x3"} : tensor<...>

Tensors are still values (a launch's result lies in a buffer that the memory plan chooses); the
kernel itself is a `func.func` over memrefs in the same module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)

from explorer.ir.operation import TopOperation


@irdl_op_definition
class LaunchOp(TopOperation):
    """Runs a kernel. Operands are its input and weight arguments in order, results its outputs.

    operation, label, macs: what the launch stands for, for people.
    offset: where the (first) result lies in the arena, in bytes, once memory is planned;
    other_offsets: where the others lie, if there are several;
    over: the operand in the place of which the only result is written.
    """

    name = "kernel.launch"
    FAMILY: ClassVar[str] = "convolution"
    TAKES_QUANTIZED: ClassVar[bool] = True

    operands_ = var_operand_def(TensorType)
    kernel = prop_def(StringAttr)
    operation = prop_def(StringAttr)
    title = prop_def(StringAttr)
    group = prop_def(StringAttr)
    work = prop_def(IntegerAttr)
    offset = opt_prop_def(IntegerAttr)
    other_offsets = opt_prop_def(DenseArrayBase)
    over = opt_prop_def(IntegerAttr)
    outputs = var_result_def(TensorType)

    @property
    def output(self) -> SSAValue:
        """The result, or the first of several."""
        return self.results[0]

    @property
    def offsets(self) -> tuple[int | None, ...]:
        """Where the results lie, in bytes; None before memory is planned."""
        others = self.get("other_offsets") or (None,) * (len(self.results) - 1)
        return (self.get("offset"), *others)

    @property
    def overwritten(self) -> SSAValue | None:
        """The operand in the buffer of which the result is written."""
        place = self.get("over")
        return None if place is None else self.operands[place]

    def infer_types(self) -> list[Attribute]:
        return [r.type for r in self.results]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        raise NotImplementedError("a launch is executed through its kernel's code")

    def macs(self) -> int:
        return self.get("work")

    def label(self) -> str:
        return self.get("title")

    def graph_family(self) -> str:
        return self.get("group")


SHARED = "kernel.shared"
"""Attribute of a kernel: names of arguments that lie in the same bytes, with other elements."""


@dataclass(frozen=True)
class KernelArgument:
    """One argument of a kernel function; `role` is one of `compute.ROLES`."""

    name: str
    role: str
    type: Attribute


def kernel_arguments(kernel: func.FuncOp) -> list[KernelArgument]:
    """The arguments of a kernel function in order."""
    names, roles = kernel.attributes["kernel.names"], kernel.attributes["kernel.roles"]
    assert isinstance(names, ArrayAttr) and isinstance(roles, ArrayAttr)
    return [
        KernelArgument(n.data, r.data, a.type)
        for n, r, a in zip(names.data, roles.data, kernel.body.block.args, strict=True)
        if isinstance(n, StringAttr) and isinstance(r, StringAttr)
    ]


def shared_arguments(kernel: func.FuncOp) -> frozenset[str]:
    """Names of the arguments that share their bytes."""
    names = kernel.attributes.get(SHARED)
    if not isinstance(names, ArrayAttr):
        return frozenset()
    return frozenset(name.data for name in names if isinstance(name, StringAttr))


Kernel = Dialect("kernel", [LaunchOp], [])
