"""Chains: what costs less than a launch runs behind one another in one work-item (OpenCL, CPUs).

    enqueue relu_phase0 (12 tasks)      enqueue chain (1 work-item: steps 0 to 2)
    enqueue add_phase0 (12 tasks)   ->      for step: switch (which phase): for task: phase(task)
    enqueue mean_phase0 (1 task)

A launch in a row takes PoCL about 7 microseconds, in which one core executes some twenty
thousand operations. The chain is one kernel with a table of steps, like the driver of generated C,
so that each phase is compiled once however often it is launched; the host says from which step to
which. A work-item sees what it wrote before, so that steps need no barriers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import func

from explorer.kernels.identifiers import comment_text
from explorer.kernels.printer import PrintedKernel
from explorer.kernels.source_lines import SourceLines
from explorer.kernels.work import operation_count
from explorer.results.program import Chain, Launch

MOST_OPERATIONS = 60_000
"""Of a kernel in a chain (`work.py`): 3 to 20 microseconds on one core, and half of it on two."""

FUNCTION = "chain"


def is_short(function: func.FuncOp) -> bool:
    """Whether a kernel of loop nests costs less than handing it to several cores would."""
    return operation_count(function.body.block.ops) <= MOST_OPERATIONS


def add_chain(
    lines: SourceLines, launches: Sequence[Launch], kernels: Mapping[str, PrintedKernel]
) -> Chain | None:
    """Adds the chain's tables and kernel; None where no launched kernel is printed for one."""
    steps: list[tuple[int, int]] = []
    cases: dict[str, int] = {}
    places: list[int] = []
    offsets: list[int] = []
    for number, launch in enumerate(launches):
        kernel = kernels[launch.kernel]
        if not kernel.is_chained:
            continue
        for position, phase in enumerate(kernel.phases):
            cases.setdefault(phase.function, len(cases))
            steps.append((number, position))
            places.append(len(offsets))
        offsets += [argument.offset_bytes for argument in launch.arguments]
    if not steps:
        return None
    numbers = [
        cases[kernels[launches[launch].kernel].phases[position].function]
        for launch, position in steps
    ]
    lines.add(0, "// Steps of the chain: which phase, and where its arguments' offsets begin.")
    _add_table(lines, "int", "chain_phases", numbers)
    _add_table(lines, "int", "chain_places", places)
    _add_table(lines, "ulong", "chain_offsets", [*offsets, 0])
    lines.add(0, "")
    lines.add(0, f"__kernel void {FUNCTION}(")
    lines.add(1, "__global char *arena, __global const char *weights,")
    lines.add(1, "const int first, const int last)")
    lines.add(0, "{")
    lines.add(1, "for (int step = first; step < last; step++) {")
    lines.add(2, "__constant const ulong *offsets = chain_offsets + chain_places[step];")
    lines.add(2, "switch (chain_phases[step]) {")
    for kernel in {launch.kernel: kernels[launch.kernel] for launch in launches}.values():
        for phase in kernel.phases:
            if phase.function in cases:
                _add_case(lines, cases[phase.function], kernel, phase.function, phase.tasks)
    lines.add(2, "}")
    lines.add(1, "}")
    lines.add(0, "}")
    return Chain(FUNCTION, tuple(steps))


def _add_case(
    lines: SourceLines, case: int, kernel: PrintedKernel, function: str, tasks: int
) -> None:
    given = [f"offsets[{number}]" for number in range(len(kernel.parameters))]
    lines.add(2, f"case {case}:  // {comment_text(kernel.name)}")
    lines.add(3, f"for (int task = 0; task < {tasks}; task++) {{")
    lines.add(4, f"{function}_task(")
    lines.add_list(5, ["arena", "weights", *given, "task"], ending=");")
    lines.add(3, "}")
    lines.add(3, "break;")


def _add_table(lines: SourceLines, element: str, name: str, values: Sequence[int]) -> None:
    lines.add(0, f"__constant {element} {name}[] = {{")
    lines.add_list(1, [str(value) for value in values], ending="")
    lines.add(0, "};")
