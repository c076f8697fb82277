"""Programs of torch.export as one of the explorer's formats: see `explorer/importers/format.py`."""

from __future__ import annotations

from pathlib import Path

from explorer.importers.building.flat import FlatGraph
from explorer.importers.building.flat_importer import FlatImporter
from explorer.importers.model import SourceModel
from explorer.importers.pytorch.families import family_of
from explorer.importers.pytorch.file import reading
from explorer.importers.pytorch.file.program import references
from explorer.importers.pytorch.file.reading import PytorchContent
from explorer.importers.pytorch.file.text import place_of, settings_of
from explorer.importers.pytorch.operators.node import AtenNode
from explorer.importers.pytorch.operators.register import for_flat_graphs


class PytorchImporter(FlatImporter):
    def load(self, path: Path, is_examined: bool = False) -> SourceModel:
        del is_examined
        return reading.load(path)

    def graph(self, model: SourceModel) -> FlatGraph:
        assert isinstance(model.content, PytorchContent), model.format
        content = model.content
        types = content.graph.types
        results = {r for step in content.steps for r in step.call.results if r}
        numbers = {n for n in results if n not in types} | {
            value.name for value in model.inputs if value.name not in types
        }
        used = {name for step in content.steps for name in step.inputs}
        used |= {name for argument in content.returned for name in references(argument)}
        nodes = [
            AtenNode(
                name=step.call.name,
                operator=step.call.target,
                inputs=step.inputs,
                outputs=step.outputs,
                settings=settings_of(step.call),
                family=family_of(step.call.target),
                place=place_of(step.call),
                step=step,
                types={name: types[name] for name in step.call.results if name in types},
                numbers=frozenset(numbers),
                complexes=content.complexes,
                used=frozenset(used),
            )
            for step in content.steps
        ]
        return FlatGraph(nodes, for_flat_graphs([step.call for step in content.steps]))
