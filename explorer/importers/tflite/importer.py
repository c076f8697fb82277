"""TFLite as one of the explorer's formats: see `explorer/importers/format.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from explorer.importers.building.flat import FlatGraph
from explorer.importers.format import Importer
from explorer.importers.model import ExaminedModel, OpenedProgram, SourceModel
from explorer.importers.tflite.families import family_of
from explorer.importers.tflite.file import reading
from explorer.importers.tflite.file.contents import TfliteContent
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.importers.tflite.operators.register import converters


class TfliteImporter(Importer):
    def load(self, path: Path, is_examined: bool = False) -> SourceModel:
        del is_examined
        return reading.load(path)

    def open_program(
        self,
        model: SourceModel,
        dimensions: Mapping[str, int] | None = None,
        has_late_nodes: bool = False,
    ) -> OpenedProgram:
        return self.graph(model).open_program(model, dimensions)

    def examine(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> ExaminedModel:
        return self.graph(model).examine(model, dimensions)

    def graph(self, model: SourceModel) -> FlatGraph:
        assert isinstance(model.content, TfliteContent), model.format
        return FlatGraph(_nodes(model.content), converters())


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
        )
        for operator in content.main.operators
    ]
