"""What a page asks about a kernel beyond its trace: another build of it, what limits a loop.

    asked/tools                           which compilers and analysers there are, how to get others
    asked/steps                           the steps that a schedule may be made of
    asked/build/3/zig/NEON/-O2            kernel 3 as zig makes it for NEON
    asked/analysis/3/70/98                lines 70 to 98 of its assembly, by llvm-mca
    asked/analysis/3/70/98/zig/NEON/-O2   of that other build's

Answers are JSON. What could not be done is an answer, too: {"error", "hint", "log"}. The questions
come from a page: whatever is none of these is refused.
"""

from __future__ import annotations

import importlib.util
import platform
import shlex
import shutil
from collections.abc import Callable
from typing import Any

from explorer.errors import BuildError, ExplorerError
from explorer.kernels.schedules.listing import described_steps
from explorer.processor import processor_family
from explorer.results import KernelRecord, PhaseRecord, SourceText
from explorer.runtime.assembly.analysis import (
    INSTALL_HINT,
    LoopAnalysis,
    analyse_loop,
    find_analyser,
)
from explorer.runtime.assembly.attribution import KernelAssembly
from explorer.runtime.assembly.cross_compilation import (
    COMPILERS,
    INSTALL,
    INSTRUCTION_SETS,
    LEVELS,
    Build,
    cross_compile,
)

READ_BY_COMPILERS = frozenset(("c",))
"""Languages of sources that gcc, clang and zig read."""
PREFIX = "asked/"
MAX_LOG_CHARACTERS = 20_000
"""Characters of a compiler's output that are shown."""

Json = Any  # what `json.dumps` takes
Chunk = Callable[[str], Json]
"""Gives a chunk of the trace (`explorer.views.trace_payload`) by its key."""


def answer(key: str, chunk: Chunk) -> Json:
    """What is asked for by a key; {"error": ...} where it cannot be had."""
    kind, *parts = key.removeprefix(PREFIX).split("/")
    try:
        if kind == "tools" and not parts:
            return tools()
        if kind == "steps" and not parts:
            return {name: [*about] for name, about in described_steps().items()}
        if kind == "build" and len(parts) == 4:
            return build_payload(_kernel(chunk, parts[0]), _prelude(chunk), Build(*parts[1:]))
        if kind == "analysis" and len(parts) in (3, 6):
            return _analysis(chunk, parts)
    except ExplorerError as error:
        log = error.log if isinstance(error, BuildError) else ""
        return {"error": error.message, "hint": error.hint or "", "log": log[-MAX_LOG_CHARACTERS:]}
    return {"error": f"{key[:200]!r} is no question about a kernel", "hint": "", "log": ""}


def tools() -> Json:
    """What there is on this machine, without running any of it."""
    found = {name: shutil.which(name) is not None for name in COMPILERS}
    found["zig"] = found["zig"] or importlib.util.find_spec("ziglang") is not None
    analyser = find_analyser()
    return {
        "machine": platform.machine(),
        "family": processor_family(),
        "compilers": [
            [name, found[name], "" if found[name] else INSTALL[name]] for name in COMPILERS
        ],
        "sets": list(INSTRUCTION_SETS),
        "levels": list(LEVELS),
        "analyser": analyser is not None,
        "analyserHint": "" if analyser else INSTALL_HINT,
    }


def build_payload(kernel: KernelRecord, prelude: tuple[str, ...], build: Build) -> Json:
    """Another build of a kernel in the form that a kernel's own assembly has."""
    built = cross_compile(prelude, kernel, build)
    text = built.assembly.text
    if text is None:
        raise BuildError(f"{built.compiler} made no code of it: {built.assembly.note}")
    return {
        "compiler": built.compiler,
        "command": shlex.join(built.command),
        "architecture": build.architecture,
        "family": processor_family() if build.architecture == platform.machine() else "",
        "note": built.assembly.note,
        "language": text.language,
        "lines": list(text.lines),
        "owners": [list(owners) for owners in text.owners],
        "assemblyLines": [list(lines) for lines in built.assembly.source_lines],
    }


def _analysis(chunk: Chunk, parts: list[str]) -> Json:
    number, first, last, *build = parts
    kernel = _kernel(chunk, number)
    if build:
        other = Build(build[0], build[1], build[2])
        assembly = cross_compile(_prelude(chunk), kernel, other).assembly
        machine = other.architecture
    else:
        assembly, machine = _assembly(chunk, number), platform.machine()
    lines = assembly.text.lines if assembly.text is not None else ()
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < len(lines)):
        raise BuildError(f"lines {first[:9]} to {last[:9]} are none of this kernel's assembly")
    shown = lines[int(first) : int(last) + 1]
    return {"first": int(first), **analysis_payload(analyse_loop(shown, machine=machine))}


def analysis_payload(found: LoopAnalysis) -> Json:
    return {
        "family": found.family,
        "wantedFamily": found.wanted_family,
        "cycles": round(found.cycles, 2),
        "bound": round(found.bound, 2),
        "instructionsPerCycle": round(found.instructions_per_cycle, 2),
        "bottleneck": found.bottleneck,
        "lines": [
            None
            if cost is None
            else [cost.cycles, cost.latency, cost.throughput, cost.port, cost.is_bottleneck]
            for cost in found.lines
        ],
    }


def _prelude(chunk: Chunk) -> tuple[str, ...]:
    return tuple(chunk("prelude"))


def _kernel(chunk: Chunk, number: str) -> KernelRecord:
    """What compiling needs of a kernel.

    Raises:
        BuildError: where there is no such kernel, or one that is not C.
    """
    raw = _raw_kernel(chunk, number)
    source = _text(raw["source"], raw["page"])
    if source.language not in READ_BY_COMPILERS:
        raise BuildError(
            f"{raw['name']} is written in {source.language}, for the compiler of its device",
            hint="compile the model for the target cpu to see other compilers' code",
        )
    return KernelRecord(
        name=raw["name"],
        kind=raw["kind"],
        operations=tuple(raw["operations"]),
        flops=raw["flops"],
        bytes_moved=raw["bytes"],
        steps=(),
        phases=tuple(PhaseRecord(name, tasks) for name, tasks in raw["phases"]),
        source=source,
    )


def _assembly(chunk: Chunk, number: str) -> KernelAssembly:
    raw = _raw_kernel(chunk, number)
    if raw["assembly"] is None:
        raise BuildError(f"{raw['name']} was not disassembled: {raw['assemblyNote']}")
    return KernelAssembly(_text(raw["assembly"], raw["page"]))


def _raw_kernel(chunk: Chunk, number: str) -> Json:
    try:
        return chunk(f"kernel/{int(number)}")
    except (KeyError, ValueError):
        raise BuildError(f"there is no kernel {number[:20]!r}") from None


def _text(raw: Json, page: Json) -> SourceText:
    """What `explorer.views.payload.text.LineTable` took apart, on one page."""
    places = [p for _, start, count in raw["runs"] for p in range(start, start + count)]
    lines = tuple(page["lines"][p] for p in places)
    owners = tuple(tuple(page["owners"][p]) for p in places)
    return SourceText(raw["language"], lines, owners)
