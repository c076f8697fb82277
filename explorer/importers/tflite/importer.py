"""TFLite as one of the explorer's formats: see `explorer/importers/format.py`."""

from __future__ import annotations

from pathlib import Path

from explorer.importers.building.build import Unsupported
from explorer.importers.building.flat import FlatGraph
from explorer.importers.building.flat_importer import FlatImporter
from explorer.importers.model import SourceModel
from explorer.importers.tflite.families import family_of
from explorer.importers.tflite.file import reading
from explorer.importers.tflite.file.contents import Subgraph, Tensor, TfliteContent
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.importers.tflite.operators.register import converters
from explorer.ir.types import QuantizedType


class TfliteImporter(FlatImporter):
    def load(self, path: Path, is_examined: bool = False) -> SourceModel:
        del is_examined
        return reading.load(path)

    def graph(self, model: SourceModel) -> FlatGraph:
        assert isinstance(model.content, TfliteContent), model.format
        main = model.content.main
        return FlatGraph(_nodes(model.content), converters(), _kinds(main))


def _nodes(content: TfliteContent) -> list[TfliteNode]:
    flows = content.states.flows
    return [
        TfliteNode(
            name=operator.name,
            operator=operator.kind,
            inputs=flows[operator.name].inputs,
            outputs=flows[operator.name].outputs,
            settings=operator.options,
            family=family_of(operator.kind),
            version=operator.version,
            file=operator,
            results=flows[operator.name].results,
            graphs=content.subgraphs,
        )
        for operator in content.main.operators
    ]


def _kinds(graph: Subgraph) -> dict[str, QuantizedType]:
    """Of constants that are operands beside quantized ones; floats times bytes have a scale that is
    known in a run only."""
    found: dict[str, QuantizedType] = {}
    others: set[str] = set()
    for operator in graph.operators:
        tensors = [tensor for tensor in operator.inputs if tensor is not None]
        is_quantized = any(t.data is None and _kind(t) is not None for t in tensors)
        for tensor in tensors:
            kind = _kind(tensor)
            if tensor.data is None or kind is None:
                continue
            if is_quantized:
                found[tensor.name] = kind
            else:
                others.add(tensor.name)
    return {name: kind for name, kind in found.items() if name not in others}


def _kind(tensor: Tensor) -> QuantizedType | None:
    try:
        return kind_of(tensor)
    except Unsupported:  # which the converter of its operator says
        return None
