"""What limits a loop of machine code, by `llvm-mca`: cycles of an iteration, line by line.

    vmovups (%rdx), %ymm1                 LoopAnalysis(cycles=4.1, bound=1.0,
    vfmadd231ps %ymm2, %ymm1, %ymm13  ->      bottleneck="a chain of instructions ...",
    jne .L74                                  lines=(LineCost(0.5, 8, 0.5, "load"), ...))

A model of the processor's ports, queues and latencies that knows neither caches nor branches that
go wrong (LLVM's command guide, "llvm-mca - LLVM Machine Code Analyzer"): what it says is a lower
bound. It runs on text, in a process with a time limit; nothing of the program is executed.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from explorer.errors import BuildError
from explorer.processor import processor_family
from explorer.runtime.processes import run_command
from explorer.runtime.scratch import own_folder

TIME_LIMIT_SECONDS = 20.0
MAX_LINES = 2000
"""Of a loop: what is longer is no loop that anybody reads."""
INSTALL_HINT = (
    "install llvm-mca (Debian: apt install llvm; macOS: brew install llvm) so that it is found on "
    "the PATH"
)
OLDER_FAMILIES = {
    "znver5": ("znver4", "icelake-server"),
    "znver4": ("znver3", "icelake-server"),
    "znver3": ("znver2", "icelake-server"),
    "sapphirerapids": ("icelake-server", "skylake-avx512"),
    "icelake-server": ("skylake-avx512",),
    "alderlake": ("skylake",),
    "neoverse-v2": ("neoverse-v1", "neoverse-n2", "neoverse-n1", "cortex-a57"),
    "neoverse-v1": ("neoverse-n1", "cortex-a57"),
    "neoverse-n2": ("neoverse-n1", "cortex-a57"),
    "neoverse-n1": ("cortex-a57",),
}
"""What stands in for a family that an older analyser does not know, the most alike first; the last
one knows every instruction."""
UNKNOWN_FAMILY = {"x86_64": ("skylake-avx512",), "aarch64": ("cortex-a57",)}
TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
CHAIN = "a chain of instructions that wait for each other's results"
FRONT = "the number of instructions that start in a cycle"
WAITING = 1.15
"""Cycles beyond the bound of the ports, as a factor, from which waiting is what limits."""
NEWEST_VERSION = 30
MODELS = {
    "HW": "haswell", "BW": "broadwell", "SKL": "skylake", "SKX": "skylake-avx512",
    "ICX": "icelake-server", "ADLP": "alderlake", "SPR": "sapphirerapids", "Zn": "znver1",
    "Zn2": "znver2", "Zn3": "znver3", "Zn4": "znver4", "A57": "cortex-a57", "N1": "neoverse-n1",
    "N2": "neoverse-n2", "V1": "neoverse-v1", "V2": "neoverse-v2", "Cy": "apple-a7",
    "A55": "cortex-a55",
}  # fmt: skip
"""Whose ports they are, by how LLVM's names of ports begin (llvm/lib/Target/*/*Sched*.td)."""
ALIKE = 0.95
"""Of the busiest port's work: ports with as much share what is to be done."""


@dataclass(frozen=True)
class LineCost:
    """Of one instruction; all zero where a line is none."""

    cycles: float
    """Of the port that it keeps busy the longest, per iteration."""
    latency: int
    """Cycles until its result is there."""
    throughput: float
    """Cycles between the starts of two of them that do not wait for each other."""
    port: str
    """The port that it keeps busy the longest."""
    is_bottleneck: bool
    """Whether no port has more to do than that one."""


@dataclass(frozen=True)
class LoopAnalysis:
    family: str
    """The processor that is modelled, as LLVM names it."""
    wanted_family: str
    """The processor of this machine; another one where the analyser doesn't know it."""
    cycles: float
    """Of one iteration, when the loop goes on."""
    bound: float
    """Cycles of one iteration if nothing waited."""
    instructions_per_cycle: float
    bottleneck: str
    lines: tuple[LineCost | None, ...]
    """For every line that was given; None for labels."""
    ports: tuple[tuple[str, float], ...] = ()
    """Cycles of an iteration for which every port is busy, the busiest first; those that are."""
    users: tuple[tuple[int, ...], ...] = ()
    """For every one of `ports` the lines that keep it busy, by their places among `lines`."""
    limit: str = "port"
    """chain, issue or port: which of these `bottleneck` says."""
    model: str = ""
    """The core whose ports were counted: an analyser may know a name and use an older core's."""


def find_analyser() -> str | None:
    """The path of the newest `llvm-mca`; None where LLVM's tools are not installed.

    Debian installs LLVM 19 beside its default one, as `llvm-mca-19`: newer ones know more cores.
    """
    names = (f"llvm-mca-{version}" for version in range(NEWEST_VERSION, 13, -1))
    return next(filter(None, map(shutil.which, (*names, "llvm-mca"))), None)


@lru_cache(maxsize=4)
def analyser_version(analyser: str | None = None) -> str:
    """`LLVM 19.1.7`; empty where there is none."""
    analyser = analyser or find_analyser()
    if analyser is None:
        return ""
    text = run_command((analyser, "--version"), seconds=TIME_LIMIT_SECONDS).output
    found = re.search(r"LLVM version (\S+)", text)
    return f"LLVM {found[1]}" if found else "llvm-mca"


def require_analyser() -> str:
    """The path of the analyser; BuildError with how to get one where there is none."""
    analyser = find_analyser()
    if analyser is None:
        raise BuildError("llvm-mca is not installed on this machine", hint=INSTALL_HINT)
    return analyser


def analyse_loop(
    lines: Sequence[str], analyser: str | None = None, machine: str = "", family: str = ""
) -> LoopAnalysis:
    """Instructions and labels of a loop's body, as assembly (AT&T syntax on x86).

    `machine` is an architecture as `platform.machine` names it, this one's by default.

    Raises:
        BuildError: where there is no analyser, or it does not understand the loop.
    """
    analyser = analyser or require_analyser()
    if not 0 < len(lines) <= MAX_LINES:
        raise BuildError(f"a loop of {len(lines)} lines is not analysed; {MAX_LINES} are the most")
    machine = machine or platform.machine()
    if machine not in TRIPLES:
        raise BuildError(f"llvm-mca is not asked about {machine}: there is no table of its names")
    own = processor_family() if machine == platform.machine() else ""
    wanted = family or own
    tried = [wanted, *OLDER_FAMILIES.get(wanted, UNKNOWN_FAMILY[machine])]
    problem = ""
    with tempfile.TemporaryDirectory(prefix="analysis-", dir=own_folder()) as folder:
        file = Path(folder, "loop.s")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for name in filter(None, tried):
            command = (
                analyser, f"-mtriple={TRIPLES[machine]}", f"-mcpu={name}", "-json", str(file),
            )  # fmt: skip
            finished = run_command(command, seconds=TIME_LIMIT_SECONDS)
            start = finished.output.find("{")
            is_unknown = "not a recognized processor" in finished.output
            if finished.status == 0 and start >= 0 and not is_unknown:
                return parse_analysis(finished.output[start:], lines, wanted)
            problem = finished.output
    first = next((line for line in problem.splitlines() if line.strip()), "it printed nothing")
    raise BuildError(f"llvm-mca does not understand this loop: {first}", log=problem)


def parse_analysis(text: str, lines: Sequence[str], wanted_family: str = "") -> LoopAnalysis:
    """What `llvm-mca -json` wrote about `lines`.

    Raises:
        BuildError: when it is not about as many instructions as there are.
    """
    found: dict[str, Any] = json.loads(text)
    region = found["CodeRegions"][0]
    summary, resources = region["SummaryView"], found["TargetInfo"]["Resources"]
    instructions = region["InstructionInfoView"]["InstructionList"]
    places = [index for index, line in enumerate(lines) if is_instruction(line)]
    if len(places) != len(instructions):
        raise BuildError(
            f"llvm-mca saw {len(instructions)} instructions where there are {len(places)}",
            hint="look at another loop",
        )
    usage: list[dict[int, float]] = [{} for _ in instructions]
    totals: defaultdict[int, float] = defaultdict(float)
    for entry in region["ResourcePressureView"]["ResourcePressureInfo"]:
        index, port, used = (
            entry["InstructionIndex"], entry["ResourceIndex"], entry["ResourceUsage"],
        )  # fmt: skip
        if index < len(usage):  # the last one is the sum
            usage[index][port] = used
            totals[port] += used
    busiest = max(totals, key=lambda port: totals[port], default=-1)
    cycles = summary["TotalCycles"] / summary["Iterations"]
    bound = float(summary["BlockRThroughput"])
    start = sum(i["NumMicroOpcodes"] for i in instructions) / summary["DispatchWidth"]
    costs: list[LineCost | None] = [None] * len(lines)
    for place, about, used in zip(places, instructions, usage, strict=True):
        port = max(used, key=lambda name: (used[name], totals[name]), default=-1)
        costs[place] = LineCost(
            cycles=float(used.get(port, 0.0)),
            latency=about["Latency"],
            throughput=float(about["RThroughput"]),
            port=_port(resources, port),
            is_bottleneck=port in totals and totals[port] >= ALIKE * totals[busiest],
        )
    busy = sorted(totals, key=lambda port: -totals[port])
    users = {
        port: tuple(p for p, u in zip(places, usage, strict=True) if port in u) for port in busy
    }
    # Of several ports that could take an instruction the analyser does not always choose the best.
    used_most = max(bound, totals.get(busiest, 0.0))
    limit, bottleneck = _bottleneck(cycles, used_most, start, _port(resources, busiest))
    return LoopAnalysis(
        family=found["TargetInfo"]["CPUName"],
        wanted_family=wanted_family or found["TargetInfo"]["CPUName"],
        cycles=cycles,
        bound=bound,
        instructions_per_cycle=summary["IPC"],
        bottleneck=bottleneck,
        lines=tuple(costs),
        ports=tuple((_port(resources, port), totals[port]) for port in busy),
        users=tuple(users.values()),
        limit=limit,
        model=_model(resources),
    )


def is_instruction(line: str) -> bool:
    """Not a label, a directive or an empty line."""
    text = line.strip()
    return bool(text) and not text.endswith(":") and not text.startswith((".", "#", "//"))


def _bottleneck(cycles: float, bound: float, start: float, port: str) -> tuple[str, str]:
    """Which kind of limit it is, and what to say of it."""
    if cycles > WAITING * bound:
        return "chain", CHAIN
    return ("issue", FRONT) if start >= bound else ("port", f"the port {port}")


def _model(resources: Sequence[str]) -> str:
    """`SKXPort0` is a port of skylake-avx512; empty for a core that is not known here."""
    found = re.match(r"(.*?)(Unit|Port|ALU|AGU|Divider|FP)", resources[0]) if resources else None
    return MODELS.get(found[1], "") if found else ""


def _port(resources: Sequence[str], index: int) -> str:
    """`Zn4Load.\\x01`, the second of several that are alike, is Zn4Load 1."""
    if index < 0:
        return ""
    name, _, number = resources[index].partition(".")
    return f"{name} {ord(number)}" if len(number) == 1 else name
