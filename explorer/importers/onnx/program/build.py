"""What converters of ONNX nodes build with: `building.build`, and what only ONNX has.

results = build.inline(graph, arguments)        a nested graph at the end of the current block
region, results = build.region(graph, types)    ... in a region of its own
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from onnx import GraphProto, NodeProto
from xdsl.ir import Attribute, Region

from explorer.importers.building import build as building
from explorer.importers.building.code_points import encoded, is_strings
from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.blocks import Blocks
from explorer.importers.onnx.program.node import Node
from explorer.importers.onnx.program.structures import Imported, StringTensor, tensors_of

Found = TypeVar("Found")


class GraphImporter(Protocol):
    """What imports nested graphs."""

    def inline(self, graph: GraphProto, arguments: Sequence[Imported] = ()) -> list[Imported]:
        """The graph's results, made at the end of the current block from its arguments."""
        ...

    def convert(self, node: Node) -> list[Imported | None]:
        """The results of a node whose operands are numbers, where those of another are not."""
        ...

    def maker(self, tensor: str) -> NodeProto | None:
        """The node, here or around, that makes a tensor; None for inputs and weights."""
        ...

    def blocks(self) -> Blocks:
        """Which tensors of the graph that is being imported are laid out in blocks of channels."""
        ...

    def attempt(self, build: Callable[[], Found]) -> Found | Exception:
        """What `build` returns; the exception, and no trace of it, where it is not possible."""
        ...


@dataclass
class Build(building.Build):
    """The block under construction. `graphs` imports nested graphs at its end."""

    graphs: GraphImporter = field(kw_only=True)

    def contents(self, array: np.ndarray, name: str = "") -> Expr | StringTensor:
        """A constant of numbers or strings."""
        if is_strings(array):
            return StringTensor(self.weight(encoded(array, name), name))
        return self.weight(array, name)

    def inline(self, graph: GraphProto, arguments: Sequence[Imported] = ()) -> list[Imported]:
        """A nested graph at the end of the current block."""
        return self.graphs.inline(graph, arguments)

    def region(
        self, graph: GraphProto, types: Sequence[Attribute] = ()
    ) -> tuple[Region, list[Imported]]:
        """A nested graph in a region of its own, which returns the tensors of the graph's results.

        types: of the region's arguments, which are the graph's inputs.
        """
        with self.inside(types) as block:
            results = self.inline(graph, self.arguments(block))
            region = self.end(block, [t for r in results for t in tensors_of(r)])
        return region, results
