"""A person's own numbers for operations, to be shown on the graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OverlayColumn:
    title: str
    values: tuple[tuple[str, float], ...]
    """By the identity of an operation, of any pass, or the name of a source node."""


@dataclass(frozen=True, kw_only=True)
class Overlay:
    title: str
    """Where the numbers come from: a file's name, or what the caller says."""
    columns: tuple[OverlayColumn, ...]
