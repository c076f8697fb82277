"""Which operations an NPU cannot run, and why."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.types import QuantizedType, element_type_of, is_float_dtype, numpy_dtype
from explorer.ir.weights import Weights
from explorer.npu.layer import LayerError
from explorer.npu.program import tile_layer
from explorer.npu.reading import is_read_through, read_operation, stays
from explorer.targets.npu.machine import Machine


def _is_float(value: SSAValue) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    kind = element_type_of(value)
    return not isinstance(kind, QuantizedType) and is_float_dtype(numpy_dtype(kind))


@dataclass(frozen=True)
class RefusedLayers:
    """What of a program no layers of the machine compute."""

    machine: Machine

    def __call__(self, op: TopOperation, weights: Weights) -> str:
        """Why the host has to run an operation; empty where instructions do."""
        if any(_is_float(value) for value in (*op.operands, *op.results)):
            return "it reads or makes floats"
        if stays(op) or (is_read_through(op) and self._are_taken(op, weights)):
            return ""
        try:
            for read in read_operation(op, weights):
                tile_layer(read.layer, self.machine)
        except LayerError as error:
            return error.message
        return ""

    def _are_taken(self, op: TopOperation, weights: Weights) -> bool:
        """Whether all that reads through it is computed by the machine, too."""
        users = [use.operation for use in op.results[0].uses]
        return all(isinstance(user, TopOperation) and not self(user, weights) for user in users)
