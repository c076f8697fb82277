"""Which operations an NPU cannot run, why, and who does instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from explorer.backends.npu.arranging import problem_of_argument
from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.neighbours import layers_of, needed
from explorer.backends.records import Companion
from explorer.errors import BuildError
from explorer.ir.operation import TopOperation
from explorer.ir.top.data import ReturnOp, TransferOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.types import QuantizedType, element_type_of, is_float_dtype, numpy_dtype
from explorer.ir.weights import Weights
from explorer.npu.layers.arrangement import is_view_by_host
from explorer.npu.layers.data_movement import MOVES
from explorer.npu.layers.from_operations import view_problem
from explorer.npu.layers.fusion import is_read_through, stays
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.matrices import Transposition
from explorer.npu.layers.value_layout import width_problem
from explorer.runtime.compilers import find_compiler
from explorer.targets import Target, load_target
from explorer.targets.npu.machine import Machine

PROCESSOR = "cpu"
"""The target of C functions that accompany an NPU's."""


def processor_companion(target: Target) -> Companion:
    """This processor; none where nothing compiles C for it."""
    if target.name == PROCESSOR:
        return Companion(missing=f"two devices would be called {PROCESSOR}")
    try:
        find_compiler()
    except BuildError as error:
        return Companion(missing=error.message)
    return Companion(target=load_target(PROCESSOR))


def _is_float(value: SSAValue) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    kind = element_type_of(value)
    return not isinstance(kind, QuantizedType) and is_float_dtype(numpy_dtype(kind))


@dataclass(frozen=True)
class RefusedLayers:
    """What of a program no layers of the machine compute."""

    machine: Machine
    known: WeakKeyDictionary[TopOperation, str] = field(
        default_factory=WeakKeyDictionary, compare=False, repr=False
    )
    """Answers so far, by operation."""
    lowered: LoweredLayers = field(init=False, compare=False, repr=False)
    """What was made to answer; the passes after placement take it over."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lowered", LoweredLayers(self.machine))

    def __call__(self, op: TopOperation, weights: Weights) -> str:
        """Why the host has to run an operation; empty where instructions do."""
        if op not in self.known:
            self.known[op] = self._reason(op, weights)
        return self.known[op]

    def needed(self, op: TopOperation, weights: Weights) -> list[TopOperation]:
        """What has to run on the machine, too, where an operation does."""
        return [] if self._is_arranged(op, weights) else needed(op, self.lowered, weights)

    def _reason(self, op: TopOperation, weights: Weights) -> str:
        if any(_is_float(value) for value in (*op.operands, *op.results)):
            return "it reads or makes floats"
        found: dict[bool, str] = {}
        try:
            if stays(op):
                return view_problem(op, self.machine)
            if self._is_arranged(op, weights):
                return width_problem(op.operands[0], self.machine)
            if is_read_through(op) and self._are_taken(op, weights):
                return ""
            for one in layers_of(op, self.lowered, weights):
                if one.problem:
                    found.setdefault(isinstance(one.read.layer, Transposition), one.problem)
        except LayerError as error:
            return error.message
        # What computes says more than what only turns its matrices.
        return found.get(False) or found.get(True, "")

    def _is_arranged(self, op: TopOperation, weights: Weights) -> bool:
        """Whether it is one of the views and transpositions of what the host writes, of which the
        machine computes something, or of what the machine computes, which the host reads."""
        if isinstance(op, TransposeOp):
            if self._is_read_by_host(op, weights):
                return True
            is_read = any(self._is_computed(use.operation, weights) for use in op.output.uses)
            return is_read and not problem_of_argument(op, partial(self._is_given, weights))
        if not is_view_by_host(op) or not op.operands[0].has_one_use():
            return False
        maker = op.operands[0].owner
        return isinstance(maker, TopOperation) and self._is_arranged(maker, weights)

    def _is_computed(self, op: Operation, weights: Weights) -> bool:
        """Whether the machine computes it, or what reads it through views."""
        if isinstance(op, TransposeOp) or is_view_by_host(op):
            users = [use.operation for result in op.results for use in result.uses]
            return any(self._is_computed(user, weights) for user in users)
        if not isinstance(op, TopOperation) or isinstance(op, ReturnOp | TransferOp):
            return False
        return not self(op, weights)

    def _is_read_by_host(self, op: TransposeOp, weights: Weights) -> bool:
        """Whether the machine computes what is transposed, perhaps after views, and reads nothing
        of the result."""
        if not self._is_end(op, weights):
            return False
        maker = op.input.owner
        while isinstance(maker, TransposeOp) or (
            isinstance(maker, Operation) and is_view_by_host(maker)
        ):
            maker = maker.operands[0].owner
        if not isinstance(maker, TopOperation) or isinstance(maker, (TransferOp, *MOVES)):
            return False
        return not self(maker, weights)

    def _is_end(self, op: Operation, weights: Weights) -> bool:
        """Whether the machine neither computes nor moves anything of its result."""
        users = [use.operation for result in op.results for use in result.uses]
        return bool(users) and all(
            self._is_end(user, weights)
            if isinstance(user, TransposeOp) or is_view_by_host(user)
            else not self._is_computed(user, weights)
            for user in users
        )

    def _is_given(self, weights: Weights, op: TransposeOp) -> bool:
        """Whether the host writes what is transposed, or moved before, for that reader alone."""
        reader: Operation = op
        value = op.input
        while isinstance(owner := value.owner, TopOperation):
            if isinstance(owner, TransferOp) or any(map(_is_float, owner.operands)):
                break
            is_moved = isinstance(owner, TransposeOp) or is_view_by_host(owner)
            if not is_moved or not value.has_one_use():
                return False
            reader, value = owner, owner.operands[0]
        others = {use.operation for use in value.uses} - {reader}
        return not any(
            isinstance(one, TransposeOp) or is_view_by_host(one)
            or self._is_computed(one, weights) for one in others
        )  # fmt: skip

    def _are_taken(self, op: TopOperation, weights: Weights) -> bool:
        """Whether all that reads through it is computed by the machine, too."""
        users = [use.operation for use in op.results[0].uses]
        return all(isinstance(user, TopOperation) and not self(user, weights) for user in users)
