"""Passes that make a program in which quantization is simulated, to be switched while it runs.

    simulate-tensors    %y = top.conv(%x, %w)  =>  %s = top.simulate_quantization(%x)
                                                   %y = top.conv(%s, %w)
    simulate-weights    %y = top.conv(%s, %w)  =>  %y = top.conv(%s, %v), whose weight has the
                                                   operation's name and one writer

Two programs, one with rounded weights and one with those of the model, have the same code and the
same places of weights: what is copied from one to the other is quantized or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function
from explorer.ir.interfaces import Quantizable
from explorer.ir.operation import identity_of
from explorer.ir.program import Snapshot
from explorer.ir.rewriting import RecordedRewriter, Rewrite, RewriteOptions
from explorer.ir.rewriting.passes import EventLog, Pass
from explorer.ir.structure import value_name
from explorer.ir.top.casting import CastOp
from explorer.ir.top.quantization.simulated import SimulateQuantizationOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.support.quantized_scalars import real_array, stored_array
from explorer.ir.types import element_type_of
from explorer.quantization.choosing import moved_from, quantizable_tensors
from explorer.quantization.corrections.moments import Linear
from explorer.quantization.quantize_tensors import weight_type

SUFFIX = ".simulated"
"""Of names of weights that can be switched."""


@dataclass(frozen=True)
class SimulateTensors(Pass):
    """What reads a tensor that can be quantized reads it rounded, by parameters set later.

    returns_logits: whether what a softmax at the end reads is returned instead of its result, which
    says nothing of most errors: numbers near 0 and 1 hide them. integers_only: whether the target
    computes without floats, so that more tensors are quantized.
    """

    returns_logits: bool = False
    integers_only: bool = False

    name = "simulate-tensors"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        function = entry_function(rewriter.module)
        events = EventLog(self.name, rewriter)
        for tensor in quantizable_tensors(function, self.integers_only):
            owner = tensor.value.owner
            is_made = isinstance(owner, Operation)
            with events.rewrite("simulate", owner if is_made else function, tensor.name):
                readers = list(tensor.value.uses)
                anchor = owner.next_op if is_made else function.body.block.first_op
                assert anchor is not None
                op = SimulateQuantizationOp.make([tensor.value], tensor=tensor.name)
                rewriter.insert_before(anchor, op, like=owner if is_made else None)
                for use in readers:
                    rewriter.set_operand(use.operation, use.index, op.output)
        end = function.body.block.last_op
        assert end is not None
        for index, value in enumerate(end.operands):
            softmax = final_softmax(value)
            if self.returns_logits and softmax is not None:
                with events.rewrite("logits", softmax, "its operand is returned"):
                    rewriter.set_operand(end, index, softmax.input)
        return events.rewrites


def final_softmax(value: SSAValue) -> SoftmaxOp | None:
    """The softmax whose probabilities a result holds, maybe moved, in another float type, or
    rounded; None where it holds something else."""
    while True:
        value = moved_from(value)
        owner = value.owner
        if isinstance(owner, SoftmaxOp):
            return owner
        if not isinstance(owner, SimulateQuantizationOp | CastOp):
            return None
        if not all(isinstance(element_type_of(v), AnyFloat) for v in (owner.input, owner.output)):
            return None
        value = owner.input


@dataclass(frozen=True)
class SimulateWeights(Pass):
    """Constants beside a tensor that can be quantized get names, and the numbers of signed bytes.

    is_rounded: whether they are rounded; without, they only get names. floats: where corrections
    changed weights and biases for the rounding, a program without them, whose they are where
    nothing is rounded; biases can be switched then, too.
    """

    is_rounded: bool = False
    floats: Snapshot | None = None
    weight_bits: int = 8

    name = "simulate-weights"
    is_required = True

    def run(self, rewriter: RecordedRewriter, options: RewriteOptions) -> list[Rewrite]:
        events = EventLog(self.name, rewriter)
        switched = list(switched_weights(entry_function(rewriter.module)))
        for number, (op, index, axis, tensor) in enumerate(switched):
            array = constant(op.operands[index], rewriter.weights)
            if array is None:
                continue
            with events.rewrite("weights", op, "rounded" if self.is_rounded else "named"):
                kind = weight_type(array, axis, bits=self.weight_bits)
                rounded = real_array(stored_array(array, kind), kind).astype(array.dtype)
                plain = self._plain(number, tensor)
                chosen = rounded if self.is_rounded else self._float(plain, index, array)
                name = f"{identity_of(op)}{SUFFIX}"
                rewriter.set_operand(op, index, rewriter.add_weight(op, name, chosen, like=op))
                if plain is not None and isinstance(op, Linear):
                    self._set_bias(op, plain, f"{name}.bias", rewriter)
        return events.rewrites

    def _plain(self, number: int, tensor: str) -> Operation | None:
        """The same product without corrections: names may be others, the order is the same."""
        if self.floats is None:
            return None
        products = list(switched_weights(entry_function(self.floats.program)))
        plain, _, _, its_tensor = products[number]
        assert its_tensor == tensor
        return plain

    def _float(self, plain: Operation | None, index: int, array: np.ndarray) -> np.ndarray:
        """The weight that no correction rounded."""
        if plain is None or self.floats is None:
            return array
        own = constant(plain.operands[index], self.floats.weights)
        assert own is not None and own.shape == array.shape
        return own

    def _set_bias(
        self, op: Linear, plain: Operation, name: str, rewriter: RecordedRewriter
    ) -> None:
        """The corrected one, or that of the program without; zeros where that has none."""
        array = None if op.bias is None else constant(op.bias, rewriter.weights)
        if array is None:
            return
        if not self.is_rounded:
            array = self._float_bias(plain, array)
        index = next(place for place, operand in enumerate(op.operands) if operand is op.bias)
        rewriter.set_operand(op, index, rewriter.add_weight(op, name, array, like=op))

    def _float_bias(self, plain: Operation, array: np.ndarray) -> np.ndarray:
        assert self.floats is not None
        assert isinstance(plain, Linear)
        own = None if plain.bias is None else constant(plain.bias, self.floats.weights)
        return np.zeros_like(array) if own is None else np.broadcast_to(own, array.shape).copy()


def switched_weights(function: func.FuncOp) -> Iterator[tuple[Operation, int, int, str]]:
    """Products of a simulated tensor: the operation, the index and axis of its weight, the tensor.

    They are those whose weights `quantize-tensors` would store in integers.
    """
    for op in list(function.body.block.ops):
        place = op.quantized_weight() if isinstance(op, Quantizable) else None
        if place is None:
            continue
        index, axis = place
        tensor = simulated_tensor(next(o for i, o in enumerate(op.operands) if i != index))
        if tensor is not None:
            yield op, index, axis, tensor


def simulated_tensor(value: SSAValue) -> str | None:
    """The tensor whose simulated numbers a value holds, perhaps moved."""
    owner = moved_from(value).owner
    return owner.tensor.data if isinstance(owner, SimulateQuantizationOp) else None


def table_names(function: func.FuncOp) -> dict[str, str]:
    """By tensor, what the names of its tables in the program begin with."""
    return {
        op.tensor.data: value_name(op.output)
        for op in function.body.block.ops
        if isinstance(op, SimulateQuantizationOp)
    }
