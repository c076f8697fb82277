"""A whole program as one translation unit: prelude, kernels, and for C the table of launches.

    print_c(conv), print_c(relu), launches      // prelude: only what the kernels call
      conv_1: conv(x@0, w@0, y@256)        ->   static void conv_phase0(...) {...}
      relu_2: relu(y@256, z@512)                static void relu_phase0(...) {...}
                                                static const size_t offsets[] = {0, 0, 256, ...};
                                                static const struct Section sections[] = {...};
                                                int explorer_run(...) {...}

OpenCL's host enqueues the kernels with the same offsets as arguments; a table is only made of
those that run in a chain (`chains.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.errors import InputError
from explorer.kernels.printing.c import CLanguage
from explorer.kernels.printing.identifiers import comment_text
from explorer.kernels.printing.languages import language_named
from explorer.kernels.printing.prelude import driver_text, prelude_lines
from explorer.kernels.printing.printer import Parameter, PrintedKernel
from explorer.kernels.printing.source_lines import SourceLines
from explorer.kernels.program.dynamic_scheduling import (
    CLAIMS_PER_SECTION,
    phases_with_work,
    sections_together,
    tasks_per_claim,
)
from explorer.kernels.program.persistent_kernel import add_chain
from explorer.kernels.sections.locality import Rounds
from explorer.results.program import Argument, Chain, Launch
from explorer.results.source import SourceText

MAX_TASKS = 2**31 - 1
C_HEADERS = """
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
""".strip()
MIN_LINES_FOR_PARTS = 600
"""Of kernels: half a second of a compiler's work."""
SECTION_PARAMETERS = "char *arena, const char *weights, const size_t *offsets, long lo, long hi"
PARTS = """
// Several compilers can share the work: with -DPARTS=2 -DPART=0 one takes half of the kernels, and
// the driver. Without these all is one part. Parts take turns, to and fro, at the kernels by their
// length: 1 0 0 1 1 0 0 1 ... with two of them, so that part 0 has the shorter half.
#ifndef PARTS
#define PARTS 1
#define PART 0
#endif
#define TURN(n) ((n) % (2 * PARTS))
#define PART_OF(n) (TURN(n) < PARTS ? PARTS - 1 - TURN(n) : TURN(n) - PARTS)
#if PARTS > 1
#define SECTION __attribute__((visibility("hidden")))
#else
#define SECTION static
#endif

""".lstrip("\n")
EXPORTED = '#define EXPORTED __attribute__((visibility("default")))'


@dataclass(frozen=True)
class EmittedProgram:
    """A translation unit, and where in it each kernel stands."""

    source: SourceText
    kernel_lines: Mapping[str, range]
    """By the kernel's name: its lines, counted from 0."""
    chain: Chain | None = None
    """The kernel that runs short phases, where there are any (OpenCL)."""


def emit_program(
    language: str,
    kernels: Sequence[PrintedKernel],
    launches: Sequence[Launch],
    claims_per_section: int = CLAIMS_PER_SECTION,
    size_offset: int | None = None,
) -> EmittedProgram:
    """The whole program of one device.

    `language` is c or opencl. A phase's tasks are handed out in about `claims_per_section`
    portions (C only): fewer cost less, more balance better. `size_offset`: where in the arena the
    size of the open dimension lies (C only; OpenCL's host gives it as an argument).

    In the table of launches a line is owned by the launch's operation.

    Raises InputError when kernels and launches do not fit together.
    """
    form = language_named(language)
    by_name = _check_kernels(language, kernels)
    for launch in launches:
        _check_launch(launch, by_name)
    lines = SourceLines()
    if form.has_driver:
        _add_text(lines, C_HEADERS)
    for text in prelude_lines(form, [n for k in kernels for n in k.needs]):
        lines.add(0, text)
    parts = parts_of(kernels) if form.has_driver else {}
    if parts:
        _add_text(lines, PARTS)
    kernel_lines: dict[str, range] = {}
    for kernel in kernels:
        _open_part(lines, kernel, parts)
        start = len(lines.lines)
        for text, owners in zip(kernel.lines, kernel.owners, strict=True):
            lines.add(0, text, owners)
        kernel_lines[kernel.name] = range(start, len(lines.lines))
        _close_part(lines, parts)
        lines.add(0, "")
    if form.has_driver:
        _add_driver(lines, kernels, launches, by_name, claims_per_section, size_offset, parts)
    chain = add_chain(lines, launches, by_name)
    while lines.lines and not lines.lines[-1]:
        lines.lines.pop()
        lines.owners.pop()
    source = SourceText(language, tuple(lines.lines), tuple(lines.owners))
    return EmittedProgram(source, kernel_lines, chain)


# -- the driver's tables -----------------------------------------------------------------------


def _add_driver(
    lines: SourceLines,
    kernels: Sequence[PrintedKernel],
    launches: Sequence[Launch],
    by_name: Mapping[str, PrintedKernel],
    claims_per_section: int,
    size_offset: int | None,
    parts: Mapping[str, int],
) -> None:
    _add_text(lines, EXPORTED)
    lines.add(0, "")
    _add_text(lines, driver_text("types"))
    lines.add(0, "")
    for kernel in kernels:
        _open_part(lines, kernel, parts)
        _add_sections_of(lines, kernel, size_offset, "SECTION" if parts else "static")
        _close_part(lines, parts)
    if parts:
        _declare_sections(lines, kernels)
        lines.add(0, "#if PART == 0")
    lines.add(0, "// Where the arguments of every launch lie, in bytes from the arena or weights.")
    lines.add(0, "static const size_t offsets[] = {")
    for launch in launches:
        owner = (launch.operation,)
        lines.add(1, f"// {comment_text(launch.operation)}: {comment_text(launch.kernel)}", owner)
        for argument in launch.arguments:
            place = f"{argument.space} {comment_text(argument.name)}"
            lines.add(1, f"{argument.offset_bytes},  // {place}", owner)
    lines.add(1, "0")
    lines.add(0, "};")
    lines.add(0, "")
    phases = [phase for launch in launches for phase in by_name[launch.kernel].phases]
    lines.add(0, f"#define SECTION_COUNT {len(phases)}")
    lines.add(0, "")
    chunks = {
        phase.function: tasks_per_claim(phase.tasks, work, claims_per_section)
        for kernel in kernels
        for phase, work in phases_with_work(kernel)
    }
    shared = sum(
        work
        for launch in launches
        for phase, work in phases_with_work(by_name[launch.kernel])
        if chunks[phase.function] < phase.tasks
    )
    lines.add(0, "// Operations of all sections of which several threads can have a part.")
    lines.add(0, f"#define SHARED_OPERATIONS {shared}ull")
    lines.add(0, "")
    rounds = {
        phase.function: own
        for kernel in kernels
        for phase, own in zip(
            kernel.phases, kernel.rounds or (Rounds(),) * len(kernel.phases), strict=True
        )
    }
    lines.add(0, "// {function, offsets, tasks, tasks claimed at once, launch, sections together,")
    lines.add(0, "//  tasks before the first round of rows, tasks of a round}")
    lines.add(0, "static const struct Section sections[SECTION_COUNT + 1] = {")
    together = iter(sections_together([chunks[phase.function] < phase.tasks for phase in phases]))
    first_offset = 0
    for number, launch in enumerate(launches):
        for phase in by_name[launch.kernel].phases:
            chunk = chunks[phase.function]
            row = f"{phase.function}_section, &offsets[{first_offset}], {phase.tasks}, {chunk}"
            sources = comment_text(", ".join(launch.sources))
            note = f"  // {comment_text(launch.operation)}" + (f": {sources}" if sources else "")
            own = rounds[phase.function]
            place = f"{number}, {next(together)}, {own.first}, {own.rows}"
            lines.add(1, f"{{{row}, {place}}},{note}", (launch.operation,))
        first_offset += len(launch.arguments)
    lines.add(1, "{NULL, offsets, 0, 0, -1, 1, 0, 0}")
    lines.add(0, "};")
    lines.add(0, "")
    _add_text(lines, driver_text("run"))
    _close_part(lines, parts)


# -- parts ---------------------------------------------------------------------------------------


def parts_of(kernels: Sequence[PrintedKernel]) -> dict[str, int]:
    """A number for each kernel of a large program, the longest first; nothing for a small one.

    Compiled in parts, these take turns at the numbers, so that each has its share of the work.
    """
    if sum(len(kernel.lines) for kernel in kernels) < MIN_LINES_FOR_PARTS:
        return {}
    longest_first = sorted(kernels, key=lambda kernel: -len(kernel.lines))
    return {kernel.name: number for number, kernel in enumerate(longest_first)}


def _open_part(lines: SourceLines, kernel: PrintedKernel, parts: Mapping[str, int]) -> None:
    if parts:
        lines.add(0, f"#if PART_OF({parts[kernel.name]}) == PART")


def _close_part(lines: SourceLines, parts: Mapping[str, int]) -> None:
    if parts:
        lines.add(0, "#endif")


def _declare_sections(lines: SourceLines, kernels: Sequence[PrintedKernel]) -> None:
    """Those that stand in another part than the driver."""
    lines.add(0, "#if PARTS > 1")
    for kernel in kernels:
        for phase in kernel.phases:
            lines.add(0, f"SECTION void {phase.function}_section(")
            lines.add(1, f"{SECTION_PARAMETERS});")
    lines.add(0, "#endif")


def _add_sections_of(
    lines: SourceLines, kernel: PrintedKernel, size_offset: int | None, linkage: str
) -> None:
    """One wrapper per phase, which finds the arguments by a launch's offsets."""
    assert size_offset is not None or not kernel.size, f"{kernel.name} takes a size"
    sizes = [f"(long)*(const int64_t *)(arena + {size_offset})"] if kernel.size else []
    owners = tuple(tag for line_owners in kernel.owners for tag in line_owners)
    for phase in kernel.phases:
        lines.add(0, f"{linkage} void {phase.function}_section(", owners)
        lines.add(1, f"{SECTION_PARAMETERS})")
        lines.add(0, "{")
        lines.add(1, f"{phase.function}(", owners)
        places = [_place(parameter, i) for i, parameter in enumerate(kernel.parameters)]
        lines.add_list(2, [*places, *sizes, "lo", "hi"], ending=");")
        lines.add(0, "}")
        lines.add(0, "")


def _place(parameter: Parameter, number: int) -> str:
    constant = "" if parameter.is_written else "const "
    element = CLanguage().memory_name(parameter.element)
    return f"({constant}{element} *)({_space_of(parameter)} + offsets[{number}])"


def _space_of(parameter: Parameter) -> str:
    return "weights" if parameter.role == "weight" else "arena"


def _add_text(lines: SourceLines, text: str) -> None:
    for line in text.splitlines():
        lines.add(0, line)


# -- checks ------------------------------------------------------------------------------------


def _check_kernels(language: str, kernels: Sequence[PrintedKernel]) -> dict[str, PrintedKernel]:
    by_name: dict[str, PrintedKernel] = {}
    functions: dict[str, str] = {}
    for kernel in kernels:
        if kernel.language != language:
            raise InputError(
                f"kernel {kernel.name} is printed as {kernel.language}, not {language}"
            )
        if kernel.name in by_name:
            raise InputError(f"there are two kernels named {kernel.name}")
        if not kernel.phases:
            raise InputError(f"kernel {kernel.name} has no statement, so it cannot be launched")
        by_name[kernel.name] = kernel
        for phase in kernel.phases:
            other = functions.setdefault(phase.function, kernel.name)
            if other != kernel.name:
                raise InputError(
                    f"kernels {other} and {kernel.name} both make a function {phase.function}",
                    hint="give them names that differ in letters, digits or underscores",
                )
            if phase.tasks > MAX_TASKS:
                raise InputError(f"{phase.function} has {phase.tasks} tasks; at most {MAX_TASKS}")
    return by_name


def _check_launch(launch: Launch, by_name: Mapping[str, PrintedKernel]) -> None:
    kernel = by_name.get(launch.kernel)
    if kernel is None:
        raise InputError(
            f"launch of {launch.operation} names kernel {launch.kernel}, which was not printed",
            node=launch.operation,
            hint=f"the kernels are {', '.join(by_name)}",
        )
    if len(launch.arguments) != len(kernel.parameters):
        raise InputError(
            f"launch of {launch.operation} gives {len(launch.arguments)} arguments to kernel "
            f"{kernel.name}, which takes {len(kernel.parameters)}",
            node=launch.operation,
        )
    for argument, parameter in zip(launch.arguments, kernel.parameters, strict=True):
        _check_argument(launch, argument, parameter)


def _check_argument(launch: Launch, argument: Argument, parameter: Parameter) -> None:
    if (argument.space == "weights") != (_space_of(parameter) == "weights"):
        raise InputError(
            f"argument {argument.name} of {launch.operation} lies in the {argument.space}, but the "
            f"kernel's {parameter.argument} has the role {parameter.role}",
            node=launch.operation,
            hint="arguments of role weight lie in the weights, all others in the arena",
        )
    if argument.offset_bytes < 0 or argument.offset_bytes % parameter.element.size_bytes:
        raise InputError(
            f"argument {argument.name} of {launch.operation} lies at byte {argument.offset_bytes}",
            node=launch.operation,
            hint=f"offsets are multiples of the element's {parameter.element.size_bytes} bytes",
        )
