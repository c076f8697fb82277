"""Chains: one OpenCL kernel that runs all phases of a program on a processor, as the C driver does.

    enqueue conv_1_phase0 (224 tasks)   enqueue chain (a work-item per core: steps 0 to 2)
    enqueue relu_2_phase0 (12 tasks)  ->  for step: claim some tasks; switch (which phase): run them
    enqueue conv_3_phase0 (448 tasks)               wait until the claims of others are done

A launch in a row takes PoCL 7 to 30 microseconds, and every kernel that is launched is compiled for
its work-group once more. The chain is compiled once, and handed over once per run. Its work-items
are groups of their own, which PoCL gives to its threads; they walk the table of steps together and
claim the next tasks by compare-and-swap (`claims.py`). Nobody waits for a work-item that holds no
claim, so a run ends even where all groups are run by one thread, one after the other.

Values in between are read from a second program of the same source: with the macro PHASES every
phase is a kernel of its own, and the chain is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.kernels.printing.identifiers import comment_text
from explorer.kernels.printing.opencl import OpenCLLanguage
from explorer.kernels.printing.printer import Parameter, PrintedKernel
from explorer.kernels.printing.source_lines import SourceLines
from explorer.kernels.program.dynamic_scheduling import (
    phases_with_work,
    sections_together,
    tasks_per_claim,
)
from explorer.results.kernels import PhaseRecord
from explorer.results.program import Chain, Launch

FUNCTION = "chain"
MIN_SHARED_OPERATIONS = 600_000
"""Of a program: below that one core is done when PoCL's other threads have woken up."""
BUFFERS = "__global char *arena, __global const char *weights"


@dataclass(frozen=True)
class PhaseStep:
    """One phase of one launch."""

    launch: int
    position: int
    phase: PhaseRecord
    work: int
    first_offset: int
    """Where the offsets of its launch begin in the table."""

    @property
    def chunk(self) -> int:
        return tasks_per_claim(self.phase.tasks, self.work)

    @property
    def is_shared(self) -> bool:
        return self.chunk < self.phase.tasks

    @property
    def claims(self) -> int:
        """Of a shared step; what is not shared is one claim."""
        return max(1, -(-self.phase.tasks // self.chunk))


def add_chain(
    lines: SourceLines, launches: Sequence[Launch], kernels: Mapping[str, PrintedKernel]
) -> Chain | None:
    """Adds the chain's tables and kernel; None where no launched kernel is printed for one."""
    steps: list[PhaseStep] = []
    offsets: list[int] = []
    for number, launch in enumerate(launches):
        kernel = kernels[launch.kernel]
        if not kernel.is_chained:
            continue
        for position, (phase, work) in enumerate(phases_with_work(kernel)):
            steps.append(PhaseStep(number, position, phase, work, len(offsets)))
        offsets += [argument.offset_bytes for argument in launch.arguments]
    if not steps:
        return None
    chained = [k for k in {n.kernel: kernels[n.kernel] for n in launches}.values() if k.is_chained]
    size = next((kernel.size for kernel in chained if kernel.size), "")
    lines.add(0, "#ifndef PHASES")
    _add_tables(lines, steps, offsets, chained)
    _add_switch(lines, chained, bool(size))
    _add_kernel(lines, bool(size))
    lines.add(0, "#endif")
    shared = sum(step.work for step in steps if step.is_shared)
    return Chain(
        FUNCTION,
        tuple((step.launch, step.position) for step in steps),
        is_shared=shared >= MIN_SHARED_OPERATIONS,
    )


def _add_tables(
    lines: SourceLines,
    steps: Sequence[PhaseStep],
    offsets: Sequence[int],
    chained: Sequence[PrintedKernel],
) -> None:
    cases = {p.function: case for case, p in enumerate(p for k in chained for p in k.phases)}
    lines.add(0, "// Steps of the chain: which phase, and where its arguments' offsets begin.")
    _add_table(lines, "int", "chain_phases", [cases[step.phase.function] for step in steps])
    _add_table(lines, "int", "chain_places", [step.first_offset for step in steps])
    _add_table(lines, "ulong", "chain_offsets", [*offsets, 0])
    lines.add(0, "// Their tasks, claims of these, and steps that are one claim together.")
    _add_table(lines, "int", "chain_tasks", [step.phase.tasks for step in steps])
    _add_table(lines, "int", "chain_claims", [step.claims for step in steps])
    _add_table(lines, "int", "chain_together", _together(steps))
    lines.add(0, "")


def _together(steps: Sequence[PhaseStep]) -> list[int]:
    """Only steps of one dispatch are together: launches that are not in the chain part them."""
    counts: list[int] = []
    begin = 0
    for end in range(1, len(steps) + 1):
        if end == len(steps) or steps[end].launch > steps[end - 1].launch + 1:
            counts += sections_together([step.is_shared for step in steps[begin:end]])
            begin = end
    return counts


def _add_switch(lines: SourceLines, chained: Sequence[PrintedKernel], has_size: bool) -> None:
    lines.add(0, "static __attribute__((noinline)) void chain_run(")
    lines.add(1, f"{BUFFERS},")
    lines.add(1, f"const int step, const int lo, const int hi{_declared_size(has_size)})")
    lines.add(0, "{")
    lines.add(1, "__constant const ulong *offsets = chain_offsets + chain_places[step];")
    lines.add(1, "switch (chain_phases[step]) {")
    case = 0
    for kernel in chained:
        for phase in kernel.phases:
            owners = tuple(tag for line_owners in kernel.owners for tag in line_owners)
            given = [
                _place(parameter, number) for number, parameter in enumerate(kernel.parameters)
            ]
            given += ["size"] if kernel.size else []
            lines.add(1, f"case {case}:  // {comment_text(kernel.name)}", owners)
            lines.add(2, "for (int task = lo; task < hi; task++)")
            lines.add(3, f"{phase.function}_task(", owners)
            lines.add_list(4, [*given, "task"], ending=");")
            lines.add(2, "break;")
            case += 1
    lines.add(1, "}")
    lines.add(0, "}")
    lines.add(0, "")


def _place(parameter: Parameter, number: int) -> str:
    constant = "" if parameter.is_written else "const "
    base = "weights" if parameter.role == "weight" else "arena"
    element = OpenCLLanguage("int").memory_name(parameter.element)
    return f"(__global {constant}{element} *)({base} + offsets[{number}])"


def _add_kernel(lines: SourceLines, has_size: bool) -> None:
    size = ", size" if has_size else ""
    for depth, text in (
        (0, f"__kernel void {FUNCTION}("),
        (1, f"{BUFFERS},"),
        (1, "volatile __global uint *progress, const int first, const int last,"),
        (1, f"const uint run{_declared_size(has_size)})"),
        (0, "{"),
        (1, "if (get_num_groups(0) == 1) {"),
        (2, "for (int step = first; step < last; step++)"),
        (3, f"chain_run(arena, weights, step, 0, chain_tasks[step]{size});"),
        (2, "return;"),
        (1, "}"),
        (1, "for (int step = first; step < last; step += chain_together[step]) {"),
        (2, "const int tasks = chain_tasks[step];"),
        (2, "const int claims = chain_claims[step];"),
        (2, "const int chunk = (tasks + claims - 1) / claims;"),
        (2, "const uint begin = run * (uint)claims;"),
        (2, "volatile __global uint *const taken = progress + PROGRESS_UINTS * step;"),
        (2, "volatile __global uint *const done = taken + PROGRESS_UINTS / 2;"),
        (2, "for (;;) {"),
        (3, "const int claim = (int)chain_claim(taken, begin, (uint)claims);"),
        (3, "if (claim == claims)"),
        (4, "break;"),
        (3, "if (claims > 1) {"),
        (4, "const int lo = claim * chunk;"),
        (4, f"chain_run(arena, weights, step, lo, min(lo + chunk, tasks){size});"),
        (3, "} else {"),
        (4, "for (int one = step; one < step + chain_together[step]; one++)"),
        (5, f"chain_run(arena, weights, one, 0, chain_tasks[one]{size});"),
        (3, "}"),
        (3, "atomic_inc(done);"),
        (2, "}"),
        (2, "chain_wait(done, begin, (uint)claims);"),
        (1, "}"),
        (0, "}"),
    ):
        lines.add(depth, text)


def _declared_size(has_size: bool) -> str:
    return ", const long size" if has_size else ""


def _add_table(lines: SourceLines, element: str, name: str, values: Sequence[int]) -> None:
    lines.add(0, f"__constant {element} {name}[] = {{")
    lines.add_list(1, [str(value) for value in values], ending="")
    lines.add(0, "};")
