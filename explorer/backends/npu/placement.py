"""Which operations an NPU cannot run, why, and who does instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from explorer.backends.npu.lowered import LoweredLayers
from explorer.backends.npu.neighbours import layers_of, needed
from explorer.backends.records import Companion
from explorer.errors import BuildError
from explorer.ir.operation import TopOperation
from explorer.ir.types import QuantizedType, element_type_of, is_float_dtype, numpy_dtype
from explorer.ir.weights import Weights
from explorer.npu.layers.from_operations import view_problem
from explorer.npu.layers.fusion import is_read_through, stays
from explorer.npu.layers.layer import LayerError
from explorer.npu.layers.matrices import Transposition
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
        return needed(op, self.lowered, weights)

    def _reason(self, op: TopOperation, weights: Weights) -> str:
        if any(_is_float(value) for value in (*op.operands, *op.results)):
            return "it reads or makes floats"
        found: dict[bool, str] = {}
        try:
            if stays(op):
                return view_problem(op, self.machine)
            if is_read_through(op) and self._are_taken(op, weights):
                return ""
            for one in layers_of(op, self.lowered, weights):
                if one.problem:
                    found.setdefault(isinstance(one.read.layer, Transposition), one.problem)
        except LayerError as error:
            return error.message
        # What computes says more than what only turns its matrices.
        return found.get(False) or found.get(True, "")

    def _are_taken(self, op: TopOperation, weights: Weights) -> bool:
        """Whether all that reads through it is computed by the machine, too."""
        users = [use.operation for use in op.results[0].uses]
        return all(isinstance(user, TopOperation) and not self(user, weights) for user in users)
