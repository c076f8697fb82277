"""In which order the host writes an argument of a function, and reads a result of it.

steps, unfolding = arrangement_of(value)     ({reshape 1, 8, 8, 3}, {permute 0, 3, 1, 2}), None
arranged(x, steps)                           [1, 3, 8, 8]
restored(arranged(x, steps), steps, shape)   x, which has that shape
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from explorer.ir.dialects.npu_arranged import PermuteOp, UnfoldOp
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.types import static_shape
from explorer.ir.unfolding import Unfolding


@dataclass(frozen=True, kw_only=True)
class Step:
    """A reshape, or an order of axes: the other one is empty."""

    shape: tuple[int, ...] = ()
    permutation: tuple[int, ...] = ()

    def problem(self, shape: tuple[int, ...]) -> str:
        """Why nothing of that shape takes this step; empty where it does."""
        if bool(self.shape) == bool(self.permutation):
            return "a step is a reshape or an order of axes"
        if self.permutation:
            is_order = sorted(self.permutation) == list(range(len(shape)))
            return "" if is_order else f"no order of {len(shape)} axes"
        is_whole = np.prod(self.shape, dtype=object) == np.prod(shape, dtype=object)
        return "" if is_whole else "a reshape to another number of elements"

    def result(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.shape or tuple(shape[axis] for axis in self.permutation)


Steps = tuple[Step, ...]


def arranged(array: np.ndarray, steps: Steps) -> np.ndarray:
    for step in steps:
        if step.shape:
            array = array.reshape(step.shape)
        else:
            array = array.transpose(step.permutation)
    return array


def restored(array: np.ndarray, steps: Steps, shape: tuple[int, ...]) -> np.ndarray:
    """What has that shape, of what it is arranged as."""
    shapes = [shape]
    for step in steps:
        shapes.append(step.result(shapes[-1]))
    array = array.reshape(shapes.pop())
    for step in reversed(steps):
        before = shapes.pop()
        if step.shape:
            array = array.reshape(before)
        else:
            array = array.transpose(np.argsort(step.permutation))
    return array.reshape(shape)


def arranged_shape(shape: tuple[int, ...], steps: Steps) -> tuple[int, ...]:
    for step in steps:
        shape = step.result(shape)
    return shape


def arrangement_of(value: SSAValue | Attribute) -> tuple[Steps, Unfolding | None]:
    """Of an argument of a function, and of views of it, that views alone read: the steps to the
    last of them, and how the picture there is unfolded. Of views of what is computed, after
    an order of axes: the steps back to its operand. Nothing of other values."""
    if not isinstance(value, SSAValue):
        return (), None
    if not is_written_by_host(value):
        return _steps_back(value), None
    shape, steps = static_shape(value), list[Step]()
    while (user := _only_user(value)) is not None:
        if isinstance(user, UnfoldOp):
            return _merged(steps, shape), user.unfolding
        if not is_view_by_host(user):
            break
        if isinstance(user, PermuteOp):
            steps.append(Step(permutation=tuple(user.get("permutation"))))
        elif isinstance(user, ReshapeOp):
            steps.append(Step(shape=static_shape(user.output)))
        value = user.results[0]
    return _merged(steps, shape), None


def _steps_back(value: SSAValue) -> Steps:
    """To the operand of the first order of axes between what is computed and a view of it."""
    start, steps, count = static_shape(value), list[Step](), 0
    while isinstance(owner := value.owner, Operation) and is_view_by_host(owner):
        value = owner.operands[0]
        if isinstance(owner, PermuteOp):
            order = np.argsort(owner.get("permutation")).tolist()
            steps.append(Step(permutation=tuple(order)))
            count = len(steps)
        elif isinstance(owner, ReshapeOp):
            steps.append(Step(shape=static_shape(value)))
    is_computed = isinstance(value.owner, Operation)
    return _merged(steps[:count], start) if is_computed else ()


def is_written_by_host(value: SSAValue) -> bool:
    """Whether it is an argument of a function, or a view of one, that one operation reads."""
    while value.has_one_use():
        owner = value.owner
        if not isinstance(owner, Operation):
            is_argument = isinstance(value, BlockArgument)
            return is_argument and isinstance(value.block.parent_op(), func.FuncOp)
        if not is_view_by_host(owner):
            return False
        value = owner.operands[0]
    return False


def is_view_by_host(op: Operation) -> bool:
    """Whether what it makes of an argument is a matter of where the host writes each number."""
    return isinstance(op, BitcastOp | PermuteOp) or (isinstance(op, ReshapeOp) and op.is_view)


def _merged(steps: Sequence[Step], shape: tuple[int, ...]) -> Steps:
    """The same in fewer steps."""
    found: list[Step] = []
    for step in steps:
        if found and found[-1].shape and step.shape:
            found[-1] = step
        elif found and found[-1].permutation and step.permutation:
            before = found[-1].permutation
            found[-1] = Step(permutation=tuple(before[axis] for axis in step.permutation))
        else:
            found.append(step)
    if found and found[0].shape == shape:
        del found[0]
    return tuple(found)


def _only_user(value: SSAValue) -> Operation | None:
    users = [use.operation for use in value.uses]
    return users[0] if len(users) == 1 else None
