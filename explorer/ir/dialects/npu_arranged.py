"""Views of arguments and results: the host writes or reads their numbers in another order."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from explorer.ir.operation import TopOperation, from_attribute, identity_of
from explorer.ir.types import element_type_of, is_static, static_shape, tensor_type
from explorer.ir.unfolding import Picture, Unfolding


class ArrangedOp(TopOperation):
    """A view of an argument, which the host writes in the order of the view, or of a result, which
    it reads in that order. Other views may lie between the two."""

    FAMILY: ClassVar[str] = "movement"
    KEEPS_FINITE: ClassVar[bool] = True
    TAKES_QUANTIZED: ClassVar[bool] = True

    @property
    def is_view(self) -> bool:
        """The bytes of the operand are those of the result."""
        return True

    def verify_(self) -> None:
        problem = self._problem() or self._problem_of_place()
        if problem:
            raise VerifyException(f"{self.name} {identity_of(self)}: {problem}")
        super().verify_()

    def _problem(self) -> str:
        """Of its fields and the shape of its operand."""
        raise NotImplementedError

    def _problem_of_place(self) -> str:
        return _problem_of_argument(self.operands[0])


@irdl_op_definition
class PermuteOp(ArrangedOp):
    """The axes of an argument, or of a result of the function, in another order: axis a of the
    result is axis permutation[a]."""

    name = "npu.permute"

    input = operand_def(TensorType)
    permutation = prop_def(DenseArrayBase)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape = static_shape(self.input)
        order = from_attribute(self.permutation)
        return [tensor_type(element_type_of(self.input), tuple(shape[axis] for axis in order))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.transpose(operands[0], self.get("permutation")),)

    def label(self) -> str:
        return f"permute {', '.join(map(str, self.get('permutation')))} by the host"

    def _problem(self) -> str:
        if not is_static(self.input):
            return "its operand is of no known size"
        order, rank = self.get("permutation"), len(static_shape(self.input))
        is_order = sorted(order) == list(range(rank))
        return "" if is_order else f"{list(order)} is no order of {rank} axes"

    def _problem_of_place(self) -> str:
        is_result = any(self.output.uses) and not readers_through_views(self)
        return "" if is_result else super()._problem_of_place()


@irdl_op_definition
class UnfoldOp(ArrangedOp):
    """Neighbouring positions of an argument are channels (`explorer.ir.unfolding.Unfolding`)."""

    name = "npu.unfold"

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

    def infer_types(self) -> list[Attribute]:
        shape = self.unfolding.shape(self._picture())
        return [tensor_type(element_type_of(self.input), (1, *shape))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (self.unfolding.apply(operands[0][0])[np.newaxis],)

    def label(self) -> str:
        rows, columns = self.unfolding.neighbours
        return f"unfold {rows} x {columns} by the host"

    def _problem(self) -> str:
        lengths = {"neighbours": 2, "strides": 2, "pads": 4}
        for name, count in lengths.items():
            if len(self.get(name)) != count:
                return f"{name} has {len(self.get(name))} numbers, expected {count}"
        shape = static_shape(self.input) if is_static(self.input) else ()
        if len(shape) != 4 or shape[0] != 1:
            return "its operand is no single picture of a known size"
        return self.unfolding.problem(self._picture())

    def _picture(self) -> Picture:
        _, channels, height, width = static_shape(self.input)
        return channels, height, width


def readers_through_views(op: Operation) -> list[Operation]:
    """What reads an operation, or views of it, and is neither a view nor the function's return."""
    found: list[Operation] = []
    for user in dict.fromkeys(use.operation for result in op.results for use in result.uses):
        if isinstance(user, TopOperation) and user.is_view:
            found += readers_through_views(user)
        elif user.name != "top.return":
            found.append(user)
    return found


def _problem_of_argument(value: SSAValue) -> str:
    """Why a value is no argument that one operation reads; empty where it is."""
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
