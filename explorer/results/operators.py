"""The operators of a model as its file has them, and what each of them became."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OperatorRecord:
    """All nodes of one operator in one version of its operator set."""

    domain: str
    """Empty for the format's own operators."""
    operator: str
    version: int
    family: str
    """As `GraphNode.family`."""
    nodes: tuple[str, ...]
    """Identities of the nodes in the program before the first pass, in its order."""
    made: tuple[tuple[str, int], ...]
    """(operation, how many) that the import made of them all, the most frequent first; empty
    where nothing was made, or nothing could be."""
    parameters: int
    """Elements of the constants that the nodes take."""
    problems: tuple[tuple[str, str], ...] = ()
    """(identity of a node, why it cannot be imported)."""
    explanation: str = ""
    """What the import makes of such a node, in words; empty where nothing converts it."""

    @property
    def name(self) -> str:
        return f"{self.domain}.{self.operator}" if self.domain else self.operator
