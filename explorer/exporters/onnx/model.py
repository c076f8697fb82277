"""A program of `top` operations as an ONNX model.

    model = model_of(c["quantize-tensors"].after, "net", {"explorer.table": "3f2a"})

Values have the names of the source model's tensors that they are, nodes those of the nodes that
they come from. What is quantized keeps its float name behind DequantizeLinear: tensors are compared
with the source's by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Literal, get_args

import numpy as np
import onnx
from onnx import helper, numpy_helper
from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, OpResult, SSAValue

from explorer.errors import InputError, UnsupportedError
from explorer.exporters.onnx.nodes import (
    OPSET,
    Names,
    Nodes,
    Unwritable,
    Write,
    is_quantized,
    value_info,
)
from explorer.ir.constants import constant
from explorer.ir.evaluation import entry_function, input_names, output_names
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.origins import origin_of, sources_of
from explorer.ir.program import Snapshot
from explorer.ir.top.data import ReturnOp, WeightOp

IR_VERSION = 10
"""The first that has the opset."""
FAMILIES = (
    "elementwise",
    "movement",
    "linear",
    "reductions",
    "selection",
    "quantization",
    "integers",
    "control",
)


WeightType = Literal["uint8", "int8"]
WEIGHTS: tuple[WeightType, ...] = get_args(WeightType)
"""How constant bytes that stand for numbers are stored. Those with a sign are what accelerators
want; without one onnxruntime multiplies them exactly on every processor
(`explorer/references/saturation.py`)."""
IntegerForm = Literal["pairs", "exact"]
INTEGERS: tuple[IntegerForm, ...] = get_args(IntegerForm)
"""How arithmetic on integers is written: as pairs of QuantizeLinear and DequantizeLinear around
floats, which runtimes fuse and round in their own way, or in whole numbers, to the bit."""


def model_of(
    snapshot: Snapshot,
    name: str,
    metadata: Mapping[str, str] | None = None,
    weights: WeightType = WEIGHTS[0],
    integers: IntegerForm = INTEGERS[0],
) -> onnx.ModelProto:
    """The program as a model of opset `OPSET`, its constants inside; see `WEIGHTS`, `INTEGERS`.

    Raises:
        UnsupportedError: for operations that ONNX does not have; it names all of them.
    """
    if weights not in WEIGHTS:
        raise InputError(f"weights cannot be {weights!r}", hint=" or ".join(WEIGHTS))
    if integers not in INTEGERS:
        raise InputError(f"integers cannot be {integers!r}", hint=" or ".join(INTEGERS))
    function = entry_function(snapshot.program)
    assert isinstance(function, func.FuncOp)
    writing = _Writing(snapshot, weights, integers == "exact")
    graph = writing.graph(function, name)
    if writing.problems:
        raise UnsupportedError(
            f"{len(writing.problems)} operations cannot be written as ONNX",
            problems=writing.problems,
            hint="write the program as it is after an earlier pass, before `compute-in-integers`",
        )
    read = set(_read_names(graph))
    graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), key)
        for key, array in writing.constants.items()
        if key in read
    )
    model = helper.make_model(
        graph,
        producer_name="explorer",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(model, dict(metadata or {}))
    return model


def _read_names(graph: onnx.GraphProto) -> Iterator[str]:
    """What nodes read, those of graphs inside too."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _read_names(attribute.g)


@cache
def _writers() -> dict[type[TopOperation], Write]:
    from explorer.exporters.onnx.nodes import Writer

    modules = [import_module(f"explorer.exporters.onnx.{family}") for family in FAMILIES]
    found = [v for module in modules for v in vars(module).values() if isinstance(v, Writer)]
    return {writer.kind: writer.write for writer in found}


class _Writing:
    """One model: its names, its constants, and what cannot be written."""

    def __init__(self, snapshot: Snapshot, weights: str, is_exact: bool):
        self.names, self.node_names = Names(), Names()
        self.constants: dict[str, np.ndarray] = {}
        self.problems: list[str] = []
        self._weights, self._bytes = snapshot.weights, weights
        self._is_exact = is_exact
        self._stored: dict[str, str] = {}
        self._reals: set[SSAValue] = set()
        self._values: dict[SSAValue, str] = {}

    def graph(self, function: func.FuncOp, name: str) -> onnx.GraphProto:
        block = function.body.block
        inputs, outputs = input_names(function), output_names(function)
        for taken in dict.fromkeys((*inputs, *outputs)):
            self.names.new(taken)
        self._values.update(zip(block.args, inputs, strict=True))
        return self._graph(block, name, list(zip(inputs, block.args, strict=True)), outputs)

    def region(self, block: Block, outer: Nodes, before: Sequence[str]) -> onnx.GraphProto:
        """A region's block. `before`: conditions that it lacks and ONNX wants, behind its number.

        They are passed on as they came.
        """
        names = [
            self.names.new(f"{identity_of(_owner(block))}.{i}") for i in range(len(block.args))
        ]
        self._values.update(zip(block.args, names, strict=True))
        last = block.last_op
        assert isinstance(last, ReturnOp)
        outputs = [self.names.new(f"{identity_of(_owner(block))}.out") for _ in last.operands]
        graph = self._graph(block, "region", list(zip(names, block.args, strict=True)), outputs)
        for condition in before:
            taken, given = self.names.new(condition), self.names.new(condition)
            flag = helper.make_tensor_value_info
            graph.input.insert(1, flag(taken, onnx.TensorProto.BOOL, []))
            graph.node.append(helper.make_node("Identity", [taken], [given]))
            graph.output.insert(0, flag(given, onnx.TensorProto.BOOL, []))
        return graph

    def _graph(
        self,
        block: Block,
        name: str,
        inputs: Sequence[tuple[str, SSAValue]],
        outputs: Sequence[str],
    ) -> onnx.GraphProto:
        last = block.last_op
        assert isinstance(last, ReturnOp)
        returned = list(zip(outputs, last.operands, strict=True))
        wanted = self._wanted(block, returned)
        out = Nodes(
            names=self.names,
            node_names=self.node_names,
            values=self._values,
            wanted=wanted,
            constants=self.constants,
            stored=lambda value: constant(value, self._weights),
            weights=self._bytes,
            is_exact=self._is_exact,
            write_region=self.region,
            reals=self._reals,
        )
        for op in block.ops:
            if isinstance(op, WeightOp):
                self._values[op.output] = self._weight(op)
            elif isinstance(op, TopOperation) and op is not last:
                self._write(op, out)
        out.current = last
        for output, value in returned:
            if self._values.get(value) != output:
                out.made.append(
                    helper.make_node("Identity", [self._values.get(value, "")], [output])
                )
        ends = {*(n for n, _ in inputs), *outputs}
        between = [
            value_info(self._values[value], value, value in self._reals)
            for value in wanted
            if isinstance(value.type, TensorType) and self._values.get(value) == wanted[value]
        ]
        return helper.make_graph(
            out.made,
            name,
            [value_info(n, v) for n, v in inputs],
            [value_info(n, v) for n, v in returned],
            value_info=[info for info in between if info.name not in ends],
        )

    def _write(self, op: TopOperation, out: Nodes) -> None:
        write = _writers().get(type(op))
        out.current = op
        first = len(out.made)
        try:
            if write is None:
                raise Unwritable("opset 21 has no such operator")
            out.finish(op, write(op, out), first)
        except Unwritable as error:
            sources = ", ".join(sources_of(op))
            place = f"{identity_of(op)} (node {sources})" if sources else identity_of(op)
            self.problems.append(f"{op.name} {place}: {error}")
            for result in op.results:  # what reads them is looked at, too
                self._values[result] = out.wanted[result]

    def _weight(self, op: WeightOp) -> str:
        """The name of a constant; what several operations read is stored once."""
        stored = op.weight.data
        if stored not in self._stored:
            self._stored[stored] = self.names.new(stored)
            self.constants[self._stored[stored]] = self._weights[stored]
        return self._stored[stored]

    def _wanted(
        self, block: Block, returned: Sequence[tuple[str, SSAValue]]
    ) -> dict[SSAValue, str]:
        """Names of all results: outputs', then those of source tensors, then the operations'."""
        made = [
            result
            for op in block.ops
            if isinstance(op, TopOperation) and not isinstance(op, WeightOp)
            for result in op.results
        ]
        own = set(made)
        found: dict[SSAValue, str] = {}
        for name, value in returned:
            if value in own:
                found.setdefault(value, name)
        for value in made:
            origin = origin_of(value)
            if value in found or origin is None or origin.steps or is_quantized(value):
                continue
            if origin.tensor not in self.names.taken:
                found[value] = self.names.new(origin.tensor)
        for value in made:
            if value not in found:
                found[value] = self.names.new(_fallback(value))
        return found


def _fallback(value: SSAValue) -> str:
    """Of what is no tensor of the source as it stands."""
    owner = value.owner
    assert isinstance(owner, TopOperation)
    origin = origin_of(value)
    if origin is not None and is_quantized(value) and not origin.steps:
        return f"{origin.tensor}.quantized"
    assert isinstance(value, OpResult)
    index = value.index
    return identity_of(owner) + (f".{index}" if index else "")


def _owner(block: Block) -> TopOperation:
    parent = block.parent_op()
    assert isinstance(parent, TopOperation)
    return parent
