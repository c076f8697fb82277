"""Indices that data decided and that lie outside of what they index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OutsideIndex:
    """The first of the indices of one operation that lie outside; generated code clamps them."""

    tensor: str
    """The index tensor: its name in the source model, else that of its value in the program."""
    operation: str
    """Identity of the operation that indexes."""
    nodes: tuple[str, ...]
    """Nodes of the source model that it comes from."""
    element: tuple[int, ...]
    """Where the index stands in the tensor."""
    value: int
    axis: int
    extent: int
    """Elements of the axis that it is for: -extent to extent - 1 lie inside."""
    count: int
    """How many indices of the tensor lie outside."""
