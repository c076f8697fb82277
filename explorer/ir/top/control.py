"""Control flow: operations whose regions hold what may or may not run.

    %y = top.if(%condition) {
      %a = top.unary(%x) {kind = "relu"} : tensor<8xf32>
      top.return(%a)
    } {
      top.return(%x)
    } : tensor<8xf32>

Regions use values from outside as they are, and end with `top.return`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, region_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.top.data import ReturnOp
from explorer.ir.top.dimensions import UNKNOWN
from explorer.ir.types import Shape, element_type_of, format_type, shape_of, tensor_type


@irdl_op_definition
class IfOp(TopOperation):
    """Runs one of two regions: the first where the condition (one boolean) holds."""

    name = "top.if"
    FAMILY: ClassVar[str] = "control"

    condition = operand_def(TensorType)
    results_ = var_result_def(TensorType)
    then_region = region_def("single_block")
    else_region = region_def("single_block")

    @classmethod
    def make_with_regions(cls, condition: SSAValue, then_region: Region, else_region: Region):
        """An `if` whose result types follow from what its regions return."""
        result_types = merged_types(returned_types(then_region), returned_types(else_region))
        return cls.create(
            operands=[condition],
            result_types=result_types,
            regions=[then_region, else_region],
        )

    def infer_types(self) -> list[Attribute]:
        return merged_types(*[returned_types(region) for region in self.regions])

    def evaluate_regions(
        self, run_region: Callable[..., list[np.ndarray]], *operands: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        (condition,) = operands
        return tuple(run_region(0 if condition.item() else 1))

    def verify_(self) -> None:
        super().verify_()
        if element_type_of(self.condition) != i1:
            raise VerifyException(
                f"top.if {identity_of(self)}: the condition is {format_type(self.condition.type)}, "
                "a boolean is expected"
            )
        try:
            expected = self.infer_types()
        except ValueError as error:
            raise VerifyException(f"top.if {identity_of(self)}: {error}") from error
        if len(expected) != len(self.results):
            raise VerifyException(
                f"top.if {identity_of(self)} has {len(self.results)} results, but its regions "
                f"return {len(expected)}"
            )

    def define(self, k, inputs, output) -> str:
        raise NotImplementedError("control flow is no kernel: its regions hold kernels")


def returned_types(region: Region) -> list[Attribute]:
    """Types of what a region's `top.return` returns; ValueError where it does not end with one."""
    last = region.block.last_op
    if not isinstance(last, ReturnOp):
        raise ValueError(f"a region ends with {last.name if last else 'nothing'}, not top.return")
    return [value.type for value in last.operands]


def merged_types(first: Sequence[Attribute], second: Sequence[Attribute]) -> list[Attribute]:
    """Types that hold what either region returns: sizes that differ are unknown."""
    if len(first) != len(second):
        raise ValueError(f"one region returns {len(first)} values, the other {len(second)}")
    return [_merged(a, b) for a, b in zip(first, second, strict=True)]


def _merged(first: Attribute, second: Attribute) -> Attribute:
    a, b = shape_of(first), shape_of(second)
    if element_type_of(first) != element_type_of(second) or len(a) != len(b):
        raise ValueError(
            f"one region returns {format_type(first)} where the other returns {format_type(second)}"
        )
    shape: Shape = tuple(x if x == y else UNKNOWN for x, y in zip(a, b, strict=True))
    return tensor_type(element_type_of(first), shape)
