"""Text with, for every line, what it belongs to: the link between the levels of a compilation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.results.displayed import Displayed


@dataclass(frozen=True, repr=False)
class SourceText(Displayed):
    """Lines of IR, C, OpenCL C or assembly.

    `owners[i]` holds the tags that line i (from 0) comes from; empty when it belongs to nothing.
    In IR of whole functions a tag is an operation's identity ("conv_3"). In kernels, which several
    operations may share, a tag is "kernel/statement" ("conv_1/main"); `KernelRecord.operations`
    leads from the kernel to the operations.
    """

    language: str
    """mlir, c, opencl, assembly or ptx."""
    lines: tuple[str, ...]
    owners: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SourcePlace:
    """A line of the author's program that was running when a node was made."""

    file: str
    """The last two parts of its path: the rest is the author's."""
    line: int
    text: str


@dataclass(frozen=True)
class SourceLine:
    """A line of the author's program, with all nodes of the model that it made."""

    place: SourcePlace
    nodes: tuple[str, ...]
    """Those that it made itself."""
    called: tuple[str, ...]
    """Those of the lines that it calls."""


def source_lines(
    nodes: Iterable[tuple[str, tuple[SourcePlace, ...]]],
) -> tuple[SourceLine, ...]:
    """The program as far as nodes came from it: files by their first use, lines from the top.

    `nodes`: each with the lines that were running, from the outermost call to its own.
    """
    found: dict[SourcePlace, tuple[list[str], list[str]]] = {}
    for name, places in nodes:
        for place in dict.fromkeys(places):
            own, below = found.setdefault(place, ([], []))
            (own if place == places[-1] else below).append(name)
    order = {file: index for index, file in enumerate(dict.fromkeys(p.file for p in found))}
    return tuple(
        SourceLine(place, *map(tuple, found[place]))
        for place in sorted(found, key=lambda place: (order[place.file], place.line))
    )
