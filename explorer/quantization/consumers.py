"""What quantizing one tensor does to the operations that read it, in their NumPy meaning.

consumers = Consumers(weights, tensors)
consumers.keep(values, most_bytes)              for a few examples
consumers.error("relu3", Range(0, 5.1), 8)      mean squared error of what reads relu3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import constant
from explorer.ir.operation import TopOperation
from explorer.ir.structure import value_name
from explorer.ir.top.support.quantized_scalars import real_array, stored_array
from explorer.ir.types import QuantizedType
from explorer.ir.weights import Weights
from explorer.quantization.choosing import Tensor
from explorer.quantization.methods import Range

Values = Mapping[str, np.ndarray]


class Consumers:
    """The operations that read each tensor, and the operands that they had in some examples."""

    def __init__(self, weights: Weights, tensors: Sequence[Tensor]):
        self._weights = weights
        self._values = {tensor.name: tensor.value for tensor in tensors}
        self._examples: list[dict[str, np.ndarray]] = []
        self._bytes = 0
        self._measured: dict[tuple[str, Range], float] = {}
        self._needed = {
            value_name(operand)
            for value in self._values.values()
            for op in readers(value)
            for operand in op.operands
            if constant(operand, weights) is None
        }

    def keep(self, values: Values, most_bytes: int) -> None:
        """Another example, unless that takes more memory than allowed; the first is always kept."""
        found = {name: np.array(values[name]) for name in self._needed if name in values}
        size = sum(array.nbytes for array in found.values())
        if self._examples and self._bytes + size > most_bytes:
            return
        self._examples.append(found)
        self._bytes += size

    def errors(self, name: str, candidates: Sequence[Range], bits: int) -> list[float]:
        """For each range the mean squared error of the results of all that reads the tensor."""
        value = self._values[name]
        kinds = [quantized_type(chosen, bits) for chosen in candidates]
        totals, count = np.zeros(len(kinds)), 0
        for example in self._examples:
            real = example.get(value_name(value))
            if real is None:
                continue
            rounded = [
                real_array(stored_array(real, kind), kind).astype(real.dtype) for kind in kinds
            ]
            for op in readers(value):
                exact = self._evaluated(op, value, real, example)
                for place, array in enumerate(rounded):
                    difference = self._evaluated(op, value, array, example) - exact
                    totals[place] += np.vdot(difference, difference)
                count += exact.size
        errors = (totals / max(count, 1)).tolist()
        self._measured.update(((name, c), e) for c, e in zip(candidates, errors, strict=True))
        return errors

    def measured_error(self, name: str, chosen: Range) -> float | None:
        """What `errors` found of a range before; None where nobody asked."""
        return self._measured.get((name, chosen))

    def _evaluated(
        self, op: TopOperation, value: SSAValue, array: np.ndarray, example: Values
    ) -> np.ndarray:
        """The operation's result with an array in the place of a value."""
        arrays = []
        for operand in op.operands:
            stored = constant(operand, self._weights)
            if operand is value:
                arrays.append(array)
            else:
                arrays.append(example[value_name(operand)] if stored is None else stored)
        return np.asarray(op.evaluate(*arrays)[0]).astype(np.float64)


def readers(value: SSAValue) -> list[TopOperation]:
    """Operations without regions that read a value, each once."""
    users: list[Operation] = [use.operation for use in value.uses]
    found = [op for op in dict.fromkeys(users) if isinstance(op, TopOperation) and op.results]
    return [op for op in found if not op.regions]


def quantized_type(chosen: Range, bits: int) -> QuantizedType:
    """An unsigned type that represents a range; any scale where the range is only 0."""
    width = chosen.high - chosen.low
    highest = 2**bits - 1
    scale = width / highest if width else 1.0
    zero = int(np.clip(np.rint(-chosen.low / scale), 0, highest))
    storage = IntegerType(bits, Signedness.UNSIGNED)
    return QuantizedType.get(storage, [scale], [zero])
