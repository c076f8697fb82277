"""From a model's node to machine instructions and back: the links of a trace, and their share.

    node conv1  ->  operation conv_1  ->  kernel conv_3x3_1  ->  source line 60  ->  3 instructions

    link_coverage(trace).levels
    -> LevelCoverage("source", "lines", linkable=412, linked=412), ...

What counts as linkable and what as linked stands in `explorer/results/coverage.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.errors import InputError
from explorer.results import KernelRecord, Trace
from explorer.results.coverage import level_coverages
from explorer.results.linking import KernelLinks, LinkCoverage, Relation


def link_coverage(trace: Trace) -> LinkCoverage:
    """The links of a trace; for those of the assembly make it with `trace(with_assembly=True)`.

    Raises InputError for a trace without code.
    """
    if trace.program is None:
        raise InputError(
            "the trace holds no kernels, so there is nothing to link",
            hint="make it with Compilation.trace(with_code=True)",
        )
    return LinkCoverage(
        level_coverages(trace),
        _node_relation(trace),
        _relation((launch.operation, launch.kernel) for launch in trace.program.launches),
        tuple(_kernel_links(kernel) for kernel in trace.kernels),
    )


def _node_relation(trace: Trace) -> Relation:
    graph = trace.snapshots[-1].graph
    return _relation((source, node.id) for node in graph.nodes for source in node.sources)


def _relation(pairs: Iterable[tuple[str, str]]) -> Relation:
    forward: dict[str, dict[str, None]] = {}
    backward: dict[str, dict[str, None]] = {}
    for left, right in pairs:
        forward.setdefault(left, {})[right] = None
        backward.setdefault(right, {})[left] = None
    return Relation(
        tuple((left, tuple(rights)) for left, rights in forward.items()),
        tuple((right, tuple(lefts)) for right, lefts in backward.items()),
    )


def _kernel_links(kernel: KernelRecord) -> KernelLinks:
    assembly_of: list[list[int]] = [[] for _ in kernel.source.lines]
    for number, lines in enumerate(kernel.assembly_lines):
        for line in lines:
            assembly_of[line].append(number)
    return KernelLinks(
        kernel.name, tuple(tuple(lines) for lines in assembly_of), kernel.assembly_lines
    )
