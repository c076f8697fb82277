"""How much of every level of a trace is linked to an operation: for the program, and by kernel.

    level_coverages(trace)   -> LevelCoverage("source", "lines", linkable=412, linked=412), ...
    kernel_coverages(trace)  -> {"conv_3x3_1": (LevelCoverage("loops", "lines", 350, 350), ...)}

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
from collections.abc import Iterable, Mapping, Sequence

from explorer.results.kernels import KernelRecord
from explorer.results.linking import LevelCoverage
from explorer.results.source import SourceText
from explorer.results.trace import Trace

AIMS: Mapping[str, float] = {"top": 1.0, "loops": 1.0, "source": 0.95, "assembly": 0.9}
"""The share of each level that ought to be linked at least."""
UNITS: Mapping[str, str] = {
    "model": "nodes",
    "top": "lines",
    "loops": "lines",
    "source": "lines",
    "assembly": "instructions",
}
MAX_EXAMPLES = 5
# A function's or module's header or its closing brace holds no operation of its own; a return
# only names the values that the function gives back.
FRAME = re.compile(r"\s*(\}.*|(builtin\.module|func\.func)\b.*|(top|func)\.return\b.*)?$")
FUNCTION_FRAME = re.compile(r"(func\.func\b.*|\}|\s*func\.return)$")

Found = list[tuple[str, bool]]
"""Every line that can be linked, as a person finds it again, and whether it is."""


def level_coverages(trace: Trace) -> tuple[LevelCoverage, ...]:
    """The whole program, level by level in the order of the compilation.

    Levels of code are left out where the trace has none.
    """
    found = {"model": _model(trace), "top": _top(trace)}
    for levels in _kernels(trace).values():
        for level, lines in levels.items():
            found.setdefault(level, []).extend(lines)
    return tuple(_coverage(level, found[level]) for level in UNITS if level in found)


def kernel_coverages(trace: Trace) -> dict[str, tuple[LevelCoverage, ...]]:
    """Loops, source and assembly of every kernel, as far as there are."""
    return {
        name: tuple(_coverage(level, lines) for level, lines in levels.items())
        for name, levels in _kernels(trace).items()
    }


def _model(trace: Trace) -> Found:
    """A node is linked when some snapshot has an operation of it: passes may remove it later."""
    snapshots = {id(snapshot): snapshot for snapshot in trace.snapshots}.values()
    known = {
        source for snapshot in snapshots for node in snapshot.graph.nodes for source in node.sources
    }
    return [(name, name in known) for name, _, _ in trace.model.source_nodes]


def _top(trace: Trace) -> Found:
    index = max((i for i, p in enumerate(trace.passes) if p.level == "top"), default=0)
    snapshot = trace.snapshots[index]
    operations = {node.id for node in snapshot.graph.nodes}
    lines = _tagged_lines(snapshot.text, FRAME)
    return [(text, not operations.isdisjoint(tags)) for text, tags in lines]


def _kernels(trace: Trace) -> dict[str, dict[str, Found]]:
    statements = _known_statements(trace)
    return {kernel.name: _kernel(kernel, statements) for kernel in trace.kernels}


def _kernel(kernel: KernelRecord, statements: set[str]) -> dict[str, Found]:
    levels: dict[str, Found] = {
        "loops": [
            (f"{kernel.name}, {step.name}: {text}", not statements.isdisjoint(tags))
            for step in kernel.steps
            for text, tags in _tagged_lines(step.text, FUNCTION_FRAME)
        ],
        "source": [
            (f"{kernel.name}: {text}", not statements.isdisjoint(tags))
            for text, tags in zip(kernel.source.lines, kernel.source.owners, strict=True)
            if text.strip()
        ],
    }
    if kernel.assembly is not None:
        texts, owners = kernel.assembly.lines, kernel.assembly.owners
        levels["assembly"] = [
            (f"{kernel.name}: {text.strip()}", bool(lines) and not statements.isdisjoint(tags))
            for text, tags, lines in zip(texts, owners, kernel.assembly_lines, strict=True)
            if text.startswith("\t")
        ]
    return levels


def _known_statements(trace: Trace) -> set[str]:
    """Tags that lead to an operation: those of statements of kernels that something launches, and
    operations themselves, where what a kernel is made of has no statements (instructions)."""
    launched = {kernel.name for kernel in trace.kernels if kernel.operations}
    operations = {name for kernel in trace.kernels for name in kernel.operations}
    tags = {
        tag
        for kernel in trace.kernels
        for text in (kernel.source, *(step.text for step in kernel.steps))
        for line_tags in text.owners
        for tag in line_tags
    }
    return {tag for tag in tags if tag.rpartition("/")[0] in launched or tag in operations}


def _tagged_lines(
    text: SourceText, frame: re.Pattern[str]
) -> Iterable[tuple[str, tuple[str, ...]]]:
    for line, tags in zip(text.lines, text.owners, strict=True):
        if line.strip() and not frame.match(line):
            yield line.strip(), tags


def _coverage(level: str, found: Sequence[tuple[str, bool]]) -> LevelCoverage:
    missing = [name for name, is_linked in found if not is_linked]
    return LevelCoverage(
        level, UNITS[level], len(found), len(found) - len(missing), tuple(missing[:MAX_EXAMPLES])
    )
