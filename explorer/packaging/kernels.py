"""src/NAME_kernels.h: the prelude, and one function for each kernel.

    PrintedKernel conv_1      ->   // conv_1: convolution
                                   // nodes: /stage1/conv1, /stage1/relu1
                                   // steps: split(loop=j, into=jt jp, factors=[14]), ...
                                   static void conv_1_phase0(...) {...}
                                   static void run_conv_1(arena, weights, offsets) {...}

The text of a kernel is the just-in-time program's. What calls it runs all tasks of every phase.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.kernels.printing.c import CLanguage
from explorer.kernels.printing.identifiers import identifier
from explorer.kernels.printing.prelude import prelude_lines
from explorer.kernels.printing.printer import PrintedKernel
from explorer.packaging.memories import has_several, memories_of, place_function
from explorer.packaging.source import PackageSource
from explorer.packaging.text import comment_block
from explorer.results import KernelRecord, PhaseRecord

PARAMETERS = "const unsigned char *weights, const uint32_t *offsets"
MATH_HEADER = "#include <math.h>"
FROM_MATH = re.compile(
    r"\b(?:INFINITY|NAN|(?:a?(?:cos|sin|tan)h?|atan2|cbrt|ceil|copysign|erfc?|exp2?|expm1|fabs|fdim"
    r"|floor|fmax|fmin|fmod|hypot|isinf|isnan|l?l?rint|ldexp|lgamma|log(?:2|10|1p)?|l?l?round|pow"
    r"|nearbyint|remainder|sqrt|tgamma|trunc)f?\()"
)
SIZE_NAME = re.compile(r"\bsize_\w+")
"""The parameter that is called after the open dimension (`KernelPrinter.size_parameter`)."""
COMMENT = re.compile(r"\s*//.*$")


def kernels_text(source: PackageSource) -> str:
    """The file; without comments where the package is stripped."""
    lines: list[str] = []
    if source.is_small:
        lines += [f"#define SMALL_CODE {1 if source.has_vectors else 2}", ""]
    needs = [need for kernel in source.kernels for need in kernel.needs]
    lines += prelude_lines(CLanguage(), needs)
    lines += place_function(memories_of(source))
    for kernel in source.kernels:
        lines += comment_block(_description(source, source.records[kernel.name]))
        lines += [*kernel.lines, ""]
        lines += [*_runner(source, kernel), ""]
    if source.is_stripped:
        lines = [SIZE_NAME.sub("size", line) for line in without_comments(lines)]
    if not any(FROM_MATH.search(COMMENT.sub("", line)) for line in lines):
        lines.remove(MATH_HEADER)
    return "\n".join(lines).rstrip() + "\n"


def runner_parameters(source: PackageSource) -> str:
    """Of the function that runs all phases of a kernel; of several threads each calls it."""
    memory = "unsigned char *const *memories" if has_several(source) else "unsigned char *arena"
    team = f", struct {source.name}_team *team, int thread"
    return f"{memory}, {PARAMETERS}" + (team if source.threads > 1 else "")


def runner_name(kernel: str) -> str:
    """Of the function that runs all phases of a kernel."""
    return f"run_{identifier(kernel)}"


def without_comments(lines: Sequence[str]) -> list[str]:
    """The same code; lines that were comments are left out, and one of several empty ones stays."""
    found: list[str] = []
    for line in lines:
        code = COMMENT.sub("", line)
        if code or (not line and found and found[-1]):
            found.append(code)
    return found


def _description(source: PackageSource, record: KernelRecord) -> list[str]:
    launches = [launch for launch in source.program.launches if launch.kernel == record.name]
    nodes = dict.fromkeys(node for launch in launches for node in launch.sources)
    steps = [
        f"{call.step}({', '.join(f'{name}={value}' for name, value in call.arguments)})"
        for call in record.calls
    ]
    lines = [f"{record.name}: {record.kind}, {len(launches)} launches, {record.flops:,} operations"]
    if nodes:
        lines.append(f"nodes: {', '.join(nodes)}")
    if steps:
        lines += ["steps of the loop nest:", *(f"    {step}" for step in steps)]
    return lines


def _runner(source: PackageSource, kernel: PrintedKernel) -> list[str]:
    """All tasks of all phases, with the arguments of a launch."""
    size = source.program.size
    assert size is not None or not kernel.size, f"{kernel.name} takes a size"
    lines = [f"static void {runner_name(kernel.name)}(", f"    {runner_parameters(source)})", "{"]
    arena = "memories" if has_several(source) else "arena"
    spaces = {"weights" if p.role == "weight" else arena for p in kernel.parameters}
    spaces |= {arena} if kernel.size else set()
    lines += [f"    (void){name};" for name in (arena, "weights") if name not in spaces]
    lines += [] if kernel.parameters else ["    (void)offsets;"]
    pointers = [
        f"({'' if p.is_written else 'const '}{CLanguage().memory_name(p.element)} *)"
        f"({_place(source, p.role, f'offsets[{number}]')})"
        for number, p in enumerate(kernel.parameters)
    ]
    if kernel.size and size is not None:
        where = _place(source, "", str(size.offset_bytes))
        pointers.append(f"(long)*(const int64_t *)({where})")
    for phase in kernel.phases:
        lines += _phase_call(phase, pointers, source.threads)
    return [*lines, "}"]


def _phase_call(phase: PhaseRecord, pointers: Sequence[str], threads: int) -> list[str]:
    """All tasks of a phase, or the share of a thread, which then waits for the others."""
    if threads == 1:
        arguments, lines, indent = [*pointers, "0", str(phase.tasks)], [], "    "
    else:
        # A phase of one task has no loop: it is not called for an empty share.
        ends = [f"{phase.tasks}L * {end} / {threads}" for end in ("thread", "(thread + 1)")]
        arguments, indent = [*pointers, *ends], "        "
        lines = [f"    if ({ends[0]} < {ends[1]})"]
    lines.append(f"{indent}{phase.function}(")
    lines += [f"{indent}    {text}," for text in arguments[:-1]]
    lines.append(f"{indent}    {arguments[-1]});")
    return [*lines, *(["    wait_for_all(team);"] if threads > 1 else [])]


def _place(source: PackageSource, role: str, offset: str) -> str:
    if role == "weight":
        return f"weights + {offset}"
    return f"at(memories, {offset})" if has_several(source) else f"arena + {offset}"
