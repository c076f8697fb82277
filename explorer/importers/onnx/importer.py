"""ONNX as one of the explorer's formats; `explorer/importers/format.py` says what each must do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from explorer.importers.format import Importer
from explorer.importers.model import ExaminedModel, OpenedProgram, SourceModel
from explorer.importers.onnx import convert, opening
from explorer.importers.onnx.data_dependent import DataDependentNode
from explorer.importers.onnx.file import reading, string_inputs
from explorer.importers.onnx.file.external_files import external_files
from explorer.importers.onnx.file.randomize import has_constant_weights, randomize_constant_weights
from explorer.importers.onnx.file.structured_inputs import flattened
from explorer.importers.onnx.file.tensors import read_tensor
from explorer.importers.onnx.program import host_values
from explorer.importers.onnx.source import source_program
from explorer.ir.top.data_dependent import Meaning
from explorer.ir.weights import Weights

_KEEP_INDICES = ("Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze")
"""Operators whose result holds the indices that its first operand holds."""


class OnnxImporter(Importer):
    def load(self, path: Path, is_examined: bool = False) -> SourceModel:
        return reading.load(path, is_examined)

    def load_for(self, path: Path, inputs: Mapping[str, Any]) -> SourceModel:
        return reading.load(path, inputs=inputs)

    def open_program(
        self,
        model: SourceModel,
        dimensions: Mapping[str, int] | None = None,
        has_deferred_nodes: bool = False,
    ) -> OpenedProgram:
        return opening.open_program(model, dimensions, has_deferred_nodes)

    def examine(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> ExaminedModel:
        return opening.examine(model, dimensions)

    def as_read(self, model: SourceModel) -> ModuleOp:
        return source_program(model, convert.NOTHING)

    def to_top(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> tuple[ModuleOp, Weights]:
        return convert.to_top(model, dimensions)

    def files_of(self, model: SourceModel) -> list[str]:
        return list(external_files(_proto(model)))

    def index_limits(self, model: SourceModel) -> dict[str, int]:
        """Of inputs that are the indices of a Gather, directly or after a cast."""
        limits: dict[str, int] = {}
        source = {value.name: value.name for value in model.inputs}
        for node in _proto(model).graph.node:
            if node.op_type in _KEEP_INDICES:
                if node.input[0] in source:
                    source[node.output[0]] = source[node.input[0]]
            elif node.op_type == "Gather" and node.input[1] in source:
                table = model.constants.get(node.input[0])
                axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
                if table is not None and table.ndim > axis >= 0:
                    name = source[node.input[1]]
                    limits[name] = min(limits.get(name, table.shape[axis]), table.shape[axis])
        return limits

    def compared_values(self, model: SourceModel) -> dict[str, tuple[int, ...]]:
        """Of inputs that an Equal compares, directly or after what keeps their number."""
        source = {
            value.name: value.name
            for value in model.inputs
            if "int" in value.element_type and all(size == 1 for size in value.shape or ())
        }
        constants = dict(model.constants)
        found: dict[str, list[int]] = {}
        for node in reading.walk(_proto(model).graph):
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                constants[node.output[0]] = read_tensor(node.attribute[0].t, None)
            elif node.op_type == "Constant" and node.attribute[0].name == "value_int":
                constants[node.output[0]] = np.array(node.attribute[0].i)
            elif node.op_type in _KEEP_INDICES and node.input[0] in source:
                source[node.output[0]] = source[node.input[0]]
            elif node.op_type == "Equal":
                one, other = node.input if node.input[0] in source else reversed(node.input)
                array = constants.get(other)
                if one in source and array is not None and array.size == 1:
                    found.setdefault(source[one], []).append(int(array.reshape(())))
        return {name: tuple(dict.fromkeys(numbers)) for name, numbers in found.items()}

    def program_inputs(
        self, model: SourceModel, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
    ) -> dict[str, np.ndarray]:
        known = {v.name for v in model.inputs}
        inputs = {
            tensor: array
            for name, value in inputs.items()
            for tensor, array in (
                flattened(name, value)
                if name not in known and (value is None or isinstance(value, list | tuple))
                else [(name, value)]
            )
        }
        last = {v.name: v.shape[-1] for v in model.inputs if v.shape}
        places = {
            name: sizes[size]
            for name, size in last.items()
            if isinstance(size, str) and size in sizes
        }
        return string_inputs.program_inputs(known, inputs, places)

    def host_values(self, model: SourceModel, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return host_values.host_values(_proto(model), outputs)

    def host_arrays(
        self, model: SourceModel, outputs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        return host_values.host_arrays(_proto(model), outputs)

    def read_meaning(self, name: str, content: str) -> Meaning:
        return DataDependentNode.read(name, content, convert.to_top)

    def with_random_weights(self, model: SourceModel, seed: int) -> SourceModel:
        proto = _proto(model)
        if not has_constant_weights(proto):
            return model
        random = randomize_constant_weights(proto, seed)
        return reading.from_proto(random, model.name, model.path)


def _proto(model: SourceModel) -> ModelProto:
    assert isinstance(model.content, reading.OnnxContent)
    return model.content.proto
