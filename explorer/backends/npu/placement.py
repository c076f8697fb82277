"""Which operations an NPU cannot run, why, and who does instead."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from hashlib import sha256
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from explorer.backends.records import Beside
from explorer.errors import BuildError
from explorer.ir.operation import TopOperation
from explorer.ir.types import QuantizedType, element_type_of, is_float_dtype, numpy_dtype
from explorer.ir.weights import Weights
from explorer.npu.layer import Layer, LayerError
from explorer.npu.matrices import Transposition
from explorer.npu.program import tile_layer
from explorer.npu.reading import is_read_through, read_operation, stays, view_problem
from explorer.runtime.compilers import find_compiler
from explorer.targets import Target, load_target
from explorer.targets.npu.machine import Machine

PROCESSOR = "cpu"
"""The target whose C functions stand beside an NPU's."""


def processor_beside(target: Target) -> Beside:
    """This processor; none where nothing compiles C for it."""
    if target.name == PROCESSOR:
        return Beside(missing=f"two devices would be called {PROCESSOR}")
    try:
        find_compiler()
    except BuildError as error:
        return Beside(missing=error.message)
    return Beside(target=load_target(PROCESSOR))


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
    cut: dict[bytes, str] = field(default_factory=dict, compare=False, repr=False)
    """And by what is in a layer: to cut one into tiles takes longest, and copies ask, too."""

    def __call__(self, op: TopOperation, weights: Weights) -> str:
        """Why the host has to run an operation; empty where instructions do."""
        if op not in self.known:
            self.known[op] = self._reason(op, weights)
        return self.known[op]

    def _reason(self, op: TopOperation, weights: Weights) -> str:
        if any(_is_float(value) for value in (*op.operands, *op.results)):
            return "it reads or makes floats"
        found: dict[bool, str] = {}
        try:
            if stays(op):
                return view_problem(op, self.machine)
            if is_read_through(op) and self._are_taken(op, weights):
                return ""
            for read in read_operation(op, weights, self.machine):
                if problem := self._problem(read.layer):
                    found.setdefault(isinstance(read.layer, Transposition), problem)
        except LayerError as error:
            return error.message
        # What computes says more than what only turns its matrices.
        return found.get(False) or found.get(True, "")

    def _problem(self, layer: Layer) -> str:
        """Why a layer cannot be cut into tiles; empty where it can."""
        key = sha256(pickle.dumps(layer)).digest()
        if key not in self.cut:
            try:
                tile_layer(layer, self.machine)
                self.cut[key] = ""
            except LayerError as error:
                self.cut[key] = error.message
        return self.cut[key]

    def _are_taken(self, op: TopOperation, weights: Weights) -> bool:
        """Whether all that reads through it is computed by the machine, too."""
        users = [use.operation for use in op.results[0].uses]
        return all(isinstance(user, TopOperation) and not self(user, weights) for user in users)
