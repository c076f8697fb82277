"""A model before and after its import, and a model of which not everything can be imported."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from explorer.importers.building.decomposition import decomposition, explained, explanations
from explorer.importers.model import (
    ExaminedModel,
    OpenedProgram,
    SourceModel,
    check_dimension_names,
    symbolic_dimensions,
)
from explorer.importers.onnx import convert
from explorer.importers.onnx.converters import find_converter
from explorer.importers.onnx.file.reading import OnnxContent
from explorer.importers.onnx.source import source_program
from explorer.ir.dialects.source import NodeOp
from explorer.ir.operation import from_attribute

BY_DEFINITION = "Written out by ONNX's own definition of the operator in terms of others."


def open_program(
    model: SourceModel,
    dimensions: Mapping[str, int] | None = None,
    has_deferred_nodes: bool = False,
) -> OpenedProgram:
    """The model as it is, the imported program, and the rewrites between the two.

    `dimensions`, `has_deferred_nodes` and errors are those of `convert.convert`.
    """
    found = convert.convert(model, dimensions, has_deferred_nodes)
    assert found.module is not None
    source = source_program(model, found)
    rewrites = decomposition(source, found.module, found.microseconds, _explained)
    return OpenedProgram(source, found.module, found.weights, rewrites)


def examine(model: SourceModel, dimensions: Mapping[str, int] | None = None) -> ExaminedModel:
    """The model's nodes, with what of it cannot be imported, and why.

    Without dimensions, nodes that can be imported with symbolic dimensions, or at the
    sizes that they get by default, are no problem; nor are those that a run imports.
    """
    assert isinstance(model.content, OnnxContent)
    check_dimension_names(model, dimensions or {})
    found = convert.examine(model, dimensions)
    sizes = _default_sizes(model)
    if found.problems and sizes and not dimensions:
        sized = convert.examine(model, sizes)
        if len(sized.problems) < len(found.problems):
            found = sized
    if found.problems:
        late = convert.examine(model, dimensions or sizes, has_deferred_nodes=True)
        if len(late.problems) < len(found.problems):
            found = late
    problems = {**model.content.problems, **found.problems}
    source = source_program(model, found)
    words = explanations(source, _explained)
    if found.module is None or problems:
        return ExaminedModel(source, problems, explanations=words)
    rewrites = decomposition(source, found.module, found.microseconds, _explained)
    return ExaminedModel(source, problems, rewrites, words)


def _default_sizes(model: SourceModel) -> dict[str, int]:
    """1 for every symbolic dimension, as a batch has."""
    return dict.fromkeys(symbolic_dimensions(model), 1)


def _explained(node: NodeOp) -> tuple[str, str]:
    version = int(from_attribute(node.version))
    return _of_operator(node.operator.data, node.domain_name, version)


@cache
def _of_operator(operator: str, domain: str, version: int) -> tuple[str, str]:
    converter = find_converter(operator, domain, version)
    return ("", BY_DEFINITION) if converter is None else explained(converter.convert)
