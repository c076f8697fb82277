"""Einsum: `building.einsum` has what it becomes."""

from __future__ import annotations

from explorer.importers.building import einsum as building
from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node, converts


@converts("Einsum", since=12)
def einsum(node: Node, build: Build) -> Expr:
    """Two operands at a time, each pair as a matrix product."""
    return building.einsum(node.text("equation", ""), node.given())
