"""What a host writes otherwise than a program means it, as an operation."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from explorer.ir.operation import TopOperation, from_attribute, identity_of
from explorer.ir.types import element_type_of, is_static, static_shape, tensor_type
from explorer.ir.unfolding import Picture, Unfolding


@irdl_op_definition
class UnfoldOp(TopOperation):
    """Neighbouring positions of an argument are channels: the host writes it so, and nothing is
    moved (`explorer.ir.unfolding.Unfolding`). Views may lie between the two."""

    name = "npu.unfold"
    FAMILY: ClassVar[str] = "movement"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    input = operand_def(TensorType)
    neighbours = prop_def(DenseArrayBase)
    strides = prop_def(DenseArrayBase)
    pads = prop_def(DenseArrayBase)
    padding = prop_def(IntegerAttr)
    output = result_def(TensorType)

    @property
    def unfolding(self) -> Unfolding:
        return Unfolding(
            neighbours=from_attribute(self.neighbours),
            strides=from_attribute(self.strides),
            pads=from_attribute(self.pads),
            padding=self.get("padding"),
        )

    @property
    def is_view(self) -> bool:
        """The bytes of the argument are those of the result."""
        return True

    def infer_types(self) -> list[Attribute]:
        shape = self.unfolding.shape(self._picture())
        return [tensor_type(element_type_of(self.input), (1, *shape))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (self.unfolding.apply(operands[0][0])[np.newaxis],)

    def label(self) -> str:
        rows, columns = self.unfolding.neighbours
        return f"unfold {rows} x {columns}"

    def verify_(self) -> None:
        problem = self._problem()
        if problem:
            raise VerifyException(f"{self.name} {identity_of(self)}: {problem}")
        super().verify_()

    def _problem(self) -> str:
        lengths = {"neighbours": 2, "strides": 2, "pads": 4}
        for name, count in lengths.items():
            if len(self.get(name)) != count:
                return f"{name} has {len(self.get(name))} numbers, expected {count}"
        shape = static_shape(self.input) if is_static(self.input) else ()
        if len(shape) != 4 or shape[0] != 1:
            return "its operand is no single picture of a known size"
        return self.unfolding.problem(self._picture()) or self._problem_of_argument()

    def _problem_of_argument(self) -> str:
        value = self.input
        while value.has_one_use():
            owner = value.owner
            if isinstance(value, BlockArgument):
                parent = value.block.parent_op()  # None while the function is being parsed
                is_given = parent is None or isinstance(parent, func.FuncOp)
                return "" if is_given else "its operand is no argument of a function"
            if not (isinstance(owner, Operation) and isinstance(owner, TopOperation)):
                break
            if not owner.is_view:
                return f"its operand is made by {identity_of(owner)}, not by the host"
            value = owner.operands[0]
        return "its argument is read by another operation, too"

    def _picture(self) -> Picture:
        _, channels, height, width = static_shape(self.input)
        return channels, height, width
