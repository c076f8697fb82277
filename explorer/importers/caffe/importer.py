"""Caffe as one of the explorer's formats: see `explorer/importers/format.py`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from explorer.importers.building.flat import FlatGraph
from explorer.importers.building.flat_importer import FlatImporter
from explorer.importers.caffe.families import family_of
from explorer.importers.caffe.file import reading
from explorer.importers.caffe.file.reading import CaffeContent
from explorer.importers.caffe.layers.node import CaffeNode
from explorer.importers.caffe.layers.register import converters
from explorer.importers.model import SourceModel


class CaffeImporter(FlatImporter):
    def load(self, path: Path, is_examined: bool = False) -> SourceModel:
        del is_examined
        return reading.load(path)

    def load_both(self, path: Path, weights: Path, is_examined: bool = False) -> SourceModel:
        del is_examined
        return reading.load_both(path, weights)

    def files_of(self, model: SourceModel) -> Iterable[str]:
        assert isinstance(model.content, CaffeContent), model.format
        return model.content.files

    def graph(self, model: SourceModel) -> FlatGraph:
        assert isinstance(model.content, CaffeContent), model.format
        nodes = [
            CaffeNode(
                name=flow.layer.name,
                operator=flow.layer.kind,
                inputs=flow.inputs,
                outputs=flow.outputs,
                settings=_shown(flow),
                family=family_of(flow.layer.kind),
                layer=flow.layer,
            )
            for flow in model.content.flows
        ]
        if model.content.weights:
            return FlatGraph(nodes, converters())
        return FlatGraph(nodes, converters(), hint=_NO_WEIGHTS)


_NO_WEIGHTS = (
    "there is no caffemodel: put it beside the prototxt under the same name, or name it "
    "(--weights FILE, explorer.load(path, weights=FILE), or both files in one zip file)"
)


def _shown(flow: reading.Flow) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name, value in flow.layer.settings.flat():
        found.setdefault(name, []).append(value)
    return {name: " ".join(values) for name, values in found.items()}
