"""What importers of flat lists of nodes share: a format adds `load` and `graph`.

class ToyImporter(FlatImporter):
    def load(self, path, is_examined=False): ...
    def graph(self, model): return FlatGraph(nodes, converters)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp

from explorer.importers.building.flat import FlatGraph
from explorer.importers.format import Importer
from explorer.importers.model import ExaminedModel, OpenedProgram, SourceModel


class FlatImporter(Importer, Protocol):
    """See `Importer`; no node waits for what a run decides (`has_deferred_nodes`)."""

    def graph(self, model: SourceModel) -> FlatGraph:
        """The nodes of a model that `load` made, and what converts them."""
        ...

    def open_program(
        self,
        model: SourceModel,
        dimensions: Mapping[str, int] | None = None,
        has_deferred_nodes: bool = False,
    ) -> OpenedProgram:
        return self.graph(model).open_program(model, dimensions)

    def examine(
        self, model: SourceModel, dimensions: Mapping[str, int] | None = None
    ) -> ExaminedModel:
        return self.graph(model).examine(model, dimensions)

    def as_read(self, model: SourceModel) -> ModuleOp:
        return self.graph(model).as_read(model)
