"""Tensors of a graph by name, and those of the graphs around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from onnx import NodeProto, ValueInfoProto

from explorer.importers.onnx.program.blocks import Blocks
from explorer.importers.onnx.program.structures import (
    Imported,
)


@dataclass
class Scope:
    """Tensors of one graph by name. Constants become operations when they are first used."""

    arrays: Mapping[str, np.ndarray]
    outer: Scope | None = None
    values: dict[str, Imported] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Optional inputs of a function that its caller leaves out."""
    nodes: Sequence[NodeProto] = ()
    inputs: Collection[str] = ()
    declared: Sequence[ValueInfoProto] = ()
    """Types of tensors, as far as the file says them."""
    found_blocks: Blocks | None = None

    @cached_property
    def makers(self) -> dict[str, NodeProto]:
        """The graph's nodes by the tensors that they make."""
        return {name: node for node in self.nodes for name in node.output if name}

    def maker(self, name: str) -> NodeProto | None:
        found = self.makers.get(name)
        if found is not None or name in self.inputs or self.outer is None:
            return found
        return self.outer.maker(name)

    def is_absent(self, name: str) -> bool:
        if name in self.values:
            return False
        return name in self.absent or (self.outer is not None and self.outer.is_absent(name))

    def value(self, name: str) -> Imported | None:
        found = self.values.get(name)
        return self.outer.value(name) if found is None and self.outer is not None else found

    def array(self, name: str) -> np.ndarray | None:
        found = self.arrays.get(name)
        return self.outer.array(name) if found is None and self.outer is not None else found
