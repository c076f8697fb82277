"""From a model's node to machine instructions and back: the links of a trace, and their share.

    node conv1  ->  operation conv_1  ->  kernel conv_3x3_1  ->  source line 60  ->  3 instructions

    link_coverage(trace).levels
    -> LevelCoverage("source", "lines", linkable=412, linked=412), ...

What counts as linkable, level by level:

    model      every node of the source model
    top        every line with an operation in a function of the last snapshot on that level
    loops      every line within a loop nest, after every step of every schedule
    source     every line of a kernel that is not blank: comments and braces too
    assembly   every instruction in a kernel's functions

A line is linked when one of its tags leads to an operation, and an instruction when in addition
it has a line of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from explorer.errors import InputError
from explorer.results import KernelRecord, SourceText, Trace
from explorer.results.linking import KernelLinks, LevelCoverage, LinkCoverage, Relation

MOST_EXAMPLES = 5
# A function's or module's header or its closing brace holds no operation of its own; a return
# only names the values that the function gives back.
FRAME = re.compile(r"\s*(\}.*|(builtin\.module|func\.func)\b.*|(top|func)\.return\b.*)?$")
FUNCTION_FRAME = re.compile(r"(func\.func\b.*|\}|\s*func\.return)$")


def link_coverage(trace: Trace) -> LinkCoverage:
    """The links of a trace; for those of the assembly make it with `trace(with_assembly=True)`.

    Raises InputError for a trace without code.
    """
    if trace.program is None:
        raise InputError(
            "the trace holds no kernels, so there is nothing to link",
            hint="make it with Compilation.trace(with_code=True)",
        )
    levels = [_model_level(trace), _top_level(trace), _loop_level(trace), _source_level(trace)]
    if any(kernel.assembly is not None for kernel in trace.kernels):
        levels.append(_assembly_level(trace))
    return LinkCoverage(
        tuple(levels),
        _node_relation(trace),
        _relation((launch.operation, launch.kernel) for launch in trace.program.launches),
        tuple(_kernel_links(kernel) for kernel in trace.kernels),
    )


# -- coverage ----------------------------------------------------------------------------------


def _model_level(trace: Trace) -> LevelCoverage:
    """A node is linked when some snapshot has an operation of it: passes may remove it later."""
    nodes = [name for name, _, _ in trace.model.source_nodes]
    snapshots = {id(snapshot): snapshot for snapshot in trace.snapshots}.values()
    known = {
        source for snapshot in snapshots for node in snapshot.graph.nodes for source in node.sources
    }
    return _coverage("model", "nodes", [(name, name in known) for name in nodes])


def _top_level(trace: Trace) -> LevelCoverage:
    index = max((i for i, p in enumerate(trace.passes) if p.level == "top"), default=0)
    snapshot = trace.snapshots[index]
    operations = {node.id for node in snapshot.graph.nodes}
    lines = _tagged_lines(snapshot.text, FRAME)
    found = [(text, bool(operations.intersection(tags))) for text, tags in lines]
    return _coverage("top", "lines", found)


def _loop_level(trace: Trace) -> LevelCoverage:
    statements = _known_statements(trace)
    found = [
        (f"{kernel.name}, {step.name}: {text}", bool(statements.intersection(tags)))
        for kernel in trace.kernels
        for step in kernel.steps
        for text, tags in _tagged_lines(step.text, FUNCTION_FRAME)
    ]
    return _coverage("loops", "lines", found)


def _source_level(trace: Trace) -> LevelCoverage:
    statements = _known_statements(trace)
    found = [
        (f"{kernel.name}: {text}", bool(statements.intersection(tags)))
        for kernel in trace.kernels
        for text, tags in zip(kernel.source.lines, kernel.source.owners, strict=True)
        if text.strip()
    ]
    return _coverage("source", "lines", found)


def _assembly_level(trace: Trace) -> LevelCoverage:
    statements = _known_statements(trace)
    found = []
    for kernel in trace.kernels:
        if kernel.assembly is None:
            continue
        texts, owners = kernel.assembly.lines, kernel.assembly.owners
        for text, tags, lines in zip(texts, owners, kernel.assembly_lines, strict=True):
            if text.startswith("\t"):
                is_linked = bool(lines) and bool(statements.intersection(tags))
                found.append((f"{kernel.name}: {text.strip()}", is_linked))
    return _coverage("assembly", "instructions", found)


def _known_statements(trace: Trace) -> set[str]:
    """Tags that lead to an operation: those of kernels that something launches."""
    launched = {kernel.name for kernel in trace.kernels if kernel.operations}
    tags = {
        tag
        for kernel in trace.kernels
        for text in (kernel.source, *(step.text for step in kernel.steps))
        for line_tags in text.owners
        for tag in line_tags
    }
    return {tag for tag in tags if tag.rpartition("/")[0] in launched}


def _tagged_lines(
    text: SourceText, frame: re.Pattern[str]
) -> Iterable[tuple[str, tuple[str, ...]]]:
    for line, tags in zip(text.lines, text.owners, strict=True):
        if line.strip() and not frame.match(line):
            yield line.strip(), tags


def _coverage(level: str, unit: str, found: Sequence[tuple[str, bool]]) -> LevelCoverage:
    missing = [name for name, is_linked in found if not is_linked]
    return LevelCoverage(
        level, unit, len(found), len(found) - len(missing), tuple(missing[:MOST_EXAMPLES])
    )


# -- links -------------------------------------------------------------------------------------


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
