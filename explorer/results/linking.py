"""How much of every level is linked to the levels around it, and the links from both sides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LevelCoverage:
    """Of what can be linked on a level, how much is."""

    level: str
    """model, top, loops, source or assembly."""
    unit: str
    """What is counted: nodes, lines or instructions."""
    linkable: int
    linked: int
    missing: tuple[str, ...] = ()
    """The first few that are not linked, as a person finds them again."""

    @property
    def share(self) -> float:
        """From 0 to 1; 1 where there is nothing to link."""
        return self.linked / self.linkable if self.linkable else 1.0


@dataclass(frozen=True)
class Relation:
    """Which names of one level belong to which of the next, from both sides: N to M."""

    forward: tuple[tuple[str, tuple[str, ...]], ...]
    backward: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class KernelLinks:
    """Lines of a kernel's source and lines of its assembly, both counted from 0."""

    kernel: str
    assembly_of: tuple[tuple[int, ...], ...]
    """For every line of the source."""
    source_of: tuple[tuple[int, ...], ...]
    """For every line of the assembly."""


@dataclass(frozen=True)
class LinkCoverage:
    levels: tuple[LevelCoverage, ...]
    """In the order of the compilation; without assembly where none was made."""
    nodes: Relation
    """Nodes of the source model and operations of the last snapshot."""
    kernels: Relation
    """Operations and the kernels that they launch."""
    lines: tuple[KernelLinks, ...]
