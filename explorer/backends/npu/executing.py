"""Executing snapshots that layers and instructions of an NPU stand in.

tiled          layers in NumPy, each as a whole, whatever its tiles
addressed      the same through an image of global memory, at the planned addresses
instructions   the simulator

Functions of another device keep their operations, which mean what they mean in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.backends.npu.network import ValueAt, argument_offsets, network_of, space_bytes
from explorer.backends.npu.planning import kept_offsets
from explorer.ir.dialects.npu import LayerOp
from explorer.ir.functions.executing import run_parts
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.operation import TopOperation
from explorer.ir.program import Snapshot
from explorer.ir.structure import device_of, value_name
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.weights import Weights
from explorer.npu.layers.value_layout import stored_form
from explorer.npu.program.ir_layers import layer_in, run_layer
from explorer.runtime.npu import activation_bytes
from explorer.targets.npu.machine import Machine

Values = dict[str, np.ndarray]


def execute(
    machine: Machine,
    snapshot: Snapshot,
    inputs: Mapping[str, np.ndarray],
    replaced: Mapping[str, np.ndarray],
) -> Values:
    """All values by name, as `Snapshot.run` has them."""

    def run_device(
        function: func.FuncOp, given: Sequence[np.ndarray], replaced: Mapping[str, np.ndarray]
    ) -> tuple[list[np.ndarray], Values]:
        if device_of(function) != machine.name:
            return HostFunction(function, snapshot.weights).evaluate(given, replaced)
        if snapshot.level == "instructions":
            network = network_of(function, snapshot.weights, machine)
            if replaced:
                values = network.run_by_layers(given, replaced)
            else:
                values, _ = network.run(given)
        else:
            values = run_layers(function, snapshot.weights, machine, given, replaced)
        last = function.body.block.last_op
        assert isinstance(last, ReturnOp)
        names = [value_name(value) for value in last.operands]
        made = [replaced.get(name, values[name]) for name in names]
        return made, values

    return run_parts(snapshot, inputs, replaced, run_device)


def run_layers(
    function: func.FuncOp,
    weights: Weights,
    machine: Machine,
    given: Sequence[np.ndarray],
    replaced: Mapping[str, np.ndarray],
) -> Values:
    """All values of a function of level tiled or addressed."""
    memory = _Memory(function, machine)
    values: Values = {}
    for argument, array in zip(function.body.block.args, given, strict=True):
        memory.write(argument, array)
        values[value_name(argument)] = array
    for op in function.body.block.ops:
        if isinstance(op, WeightOp | ReturnOp):
            continue
        assert isinstance(op, TopOperation)
        operands = op.data if isinstance(op, LayerOp) else op.operands
        read = [replaced.get(value_name(v), memory.read(v)) for v in operands]
        (result,) = op.results
        if isinstance(op, LayerOp):
            memory.write(result, run_layer(op, layer_in(op, weights), read))
        else:  # a view: the same bytes
            (shown,) = op.evaluate(*read)
            memory.show(result, op.operands[0], shown)
        values[value_name(result)] = memory.read(result)
    return values


class _Memory:
    """Values by name; at planned addresses, where there are some, in an image of global memory."""

    def __init__(self, function: func.FuncOp, machine: Machine) -> None:
        self.machine = machine
        self.image = np.zeros(space_bytes(function), np.uint8)
        self.chip = np.zeros(activation_bytes(machine), np.uint8)
        kept = kept_offsets(function) if space_bytes(function) else {}
        self.arrays: Values = {}
        names = [value_name(argument) for argument in function.body.block.args]
        self.offsets = dict(zip(names, argument_offsets(function), strict=False))
        for op in function.body.block.ops:
            if isinstance(op, LayerOp) and op.offset is not None:
                self.offsets[value_name(op.output)] = op.get("offset")
        self.offsets |= kept
        self.on_chip = frozenset(kept)

    def write(self, value: SSAValue, array: np.ndarray) -> None:
        name = value_name(value)
        if name in self.offsets:
            place = self._place(value)
            place.write(self.chip if place.on_chip else self.image, array, self.machine)
        if name not in self.offsets or stored_form(value).unfolding is not None:
            self.arrays[name] = array

    def show(self, view: SSAValue, shown: SSAValue, array: np.ndarray) -> None:
        """A value that is another one's bytes, and the array that these mean."""
        name, other = value_name(view), value_name(shown)
        if other in self.offsets:
            self.offsets[name] = self.offsets[other]
        if name not in self.offsets or stored_form(view).unfolding is not None:
            self.arrays[name] = array

    def read(self, value: SSAValue) -> np.ndarray:
        name = value_name(value)
        if name in self.arrays:  # numbers that an unfolded picture lacks are there only
            return self.arrays[name]
        place = self._place(value)
        memory = self.chip if place.on_chip else self.image
        return place.read(memory[place.offset_bytes :], self.machine)

    def _place(self, value: SSAValue) -> ValueAt:
        name = value_name(value)
        return ValueAt(
            stored=stored_form(value, name), offset_bytes=self.offsets[name],
            on_chip=name in self.on_chip,
        )  # fmt: skip
