"""What limits every hot loop of a compilation on its core, by an analyser of machine code.

    ports_of(program, functions, target, core, lanes=8)
    -> PortsRecord(core="haswell", model="haswell", loops=(LoopPorts(...), ...))

The program is compiled for the core, to assembly only; nothing of it runs, so that the core may be
another one than this machine's. Each innermost loop of the machine code is matched with the loop of
the source that it was made of, and what `llvm-mca` says of it stands beside what the cost model
says, both for one iteration of the source's loop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.affine import ForOp
from xdsl.dialects.func import FuncOp

from explorer.backends import backend_of
from explorer.backends.cores import cost_machine_of
from explorer.errors import BuildError, InputError
from explorer.kernels.cost import CostMachine
from explorer.kernels.cost.loops import LoopCost, loop_costs
from explorer.kernels.cost.rules import parts_of
from explorer.kernels.steps.matrix_tiles import is_matrix_tile
from explorer.processor import processor_family
from explorer.results import KernelRecord, Program
from explorer.results.runs.ports import CHAIN, ISSUE, LoopPorts, PortsRecord
from explorer.runtime.assembly.analysis import (
    LoopAnalysis,
    analyse_loop,
    analyser_version,
    require_analyser,
)
from explorer.runtime.assembly.attribution import KernelAssembly, assign, wanted_functions
from explorer.runtime.assembly.core_builds import build_as_here, build_for, name_of_processor
from explorer.runtime.assembly.fitting import fitting_family
from explorer.runtime.assembly.loops import reader_of, with_writeback_apart
from explorer.runtime.assembly.matching import MatchedLoop, match_loops
from explorer.runtime.assembly.native import functions_with_lines
from explorer.targets import Target
from explorer.targets.core_families import (
    CoreFamily,
    KnownCore,
    architecture_here,
    core_family,
    registers_of,
)

HOT = 0.1
"""Of its kernel's cycles: a loop with less is none that anybody waits for."""
MAX_MERGED = 64
"""Iterations that a compiler writes into one; more are a loop that was not recognized."""
LOAD_PORT = re.compile(
    r"(HW|BW|SKL|SKX)Port[23]$|ICXPort[23]$|(SPR|ADLP)Port(02|03|11)$"
    r"|Zn[1-5]?\w*(Load|AGU|LSU|FP45)|\w+UnitL"
)
STORE_PORT = re.compile(
    r"(HW|BW|SKL|SKX)Port[47]$|ICXPort[4789]$|(SPR|ADLP)Port(04|07|08|09)$"
    r"|Zn[1-5]?\w*(Store|FPSt)|A57UnitS"
)
"""LLVM's names of the ports that move data (llvm/lib/Target/X86/X86Sched*.td and AArch64's)."""
MAX_SPILLS = 0.3
"""Of a loop's moves; with more of them it is spilling that keeps the ports busy."""


def ports_of(
    program: Program,
    functions: Mapping[str, FuncOp],
    target: Target,
    core: KnownCore,
    lanes: int,
) -> PortsRecord:
    """Every hot loop of a program in C on a core; takes a compilation by the C compiler.

    `functions`: scheduled kernels by name; `lanes`: float32 in a vector of theirs.

    Raises:
        BuildError: where there is no compiler for the core, or no analyser.
        InputError: where the program is none for a processor.
    """
    if not backend_of(target).builds_libraries:
        raise InputError(
            f"ports are counted of programs in C, and {target.name} has none",
            hint="compile the model for the target cpu",
        )
    require_analyser()
    machine = cost_machine_of(core, target, lanes)
    return _Ports(program, functions, core, machine, target.core.family == "auto").record()


def target_for_core(target: Target, core: str) -> Target:
    """The target for cores of a family (`sapphire_rapids`, or with a hyphen) in place of its own.

    With the vectors and registers of that family, and the instructions that this machine's compiler
    makes for it by name; such a program may not run here. InputError where there is no such family.
    """
    family = core_family(core.replace("-", "_").lower())
    fields: dict[str, int | str] = {
        "core.family": family.name,
        "core.vector_registers": registers_of(family, family.features),
        "vector_floats": vector_floats_of(family),
    }
    if family.architecture == architecture_here() and (name := name_of_processor(family)):
        fields["processor"] = name
    return target.with_(**fields)


def vector_floats_of(family: CoreFamily) -> int:
    """float32 in the vectors that its instructions have; `explorer.processor` for this machine."""
    if "avx512" in family.features:
        return 16
    return 8 if {"avx2", "fma"} <= set(family.features) else 4


@dataclass(frozen=True)
class _Found:
    """A loop of machine code with the loop of the source that it is."""

    matched: MatchedLoop
    cost: LoopCost
    merged: int
    text: tuple[str, ...]
    kinds: tuple[str, ...]
    """One for every line of `text`."""
    spills: int


class _Ports:
    def __init__(
        self,
        program: Program,
        functions: Mapping[str, FuncOp],
        core: KnownCore,
        machine: CostMachine,
        is_own: bool,
    ):
        """`is_own`: whether it is this machine's processor, as its compiler sees it."""
        self.program = program
        self.functions = functions
        self.core = core
        self.machine = machine
        self.is_own = is_own
        self.build = build_as_here(program.processor) if is_own else build_for(core.family)
        self.fitting = fitting_family(
            self.wanted,
            core.family.architecture,
            machine.vector_floats,
            core.core.arithmetic_units / self.parts,
        )
        self.left_out: list[tuple[str, str]] = []
        self.models: Counter[str] = Counter()

    def record(self) -> PortsRecord:
        costs = {name: loop_costs(f, self.machine) for name, f in self.functions.items()}
        launches = Counter(launch.kernel for launch in self.program.launches)
        cycles = {name: _top_cycles(found) for name, found in costs.items()}
        whole = sum(cycles[name] * max(launches[name], 1) for name in cycles) or 1.0
        loops: list[LoopPorts] = []
        for kernel, assembly in self._assembled():
            name = kernel.name
            if name not in costs or assembly.text is None:
                self.left_out.append((name, assembly.note or "it has no schedule"))
                continue
            if any(
                isinstance(op, ForOp) and is_matrix_tile(op) for op in self.functions[name].walk()
            ):
                self.left_out.append((name, "its sums are matrix instructions, in a function"))
                continue
            weight = max(launches[name], 1) / whole
            loops += self._kernel(kernel, assembly, costs[name], cycles[name], weight)
        loops.sort(key=lambda loop: -loop.share)
        return PortsRecord(
            core=self.core.family.name,
            model=max(self.models, key=lambda name: self.models[name], default=""),
            analyser=analyser_version(),
            compiler=self.build.title,
            note="; ".join(filter(None, (self.build.note, self.fitting.note, self._stand_in()))),
            loops=tuple(loops),
            left_out=tuple(self.left_out),
        )

    def _stand_in(self) -> str:
        """What to say where the analyser counted another core's ports."""
        others = sorted(set(self.models) - set(self.core.family.families) - {self.fitting.family})
        if not others:
            return ""
        return f"ports of {', '.join(others)} where it does not know an instruction"

    @property
    def parts(self) -> int:
        """How many times a unit is taken by a vector."""
        return parts_of(4 * self.machine.vector_floats, self.machine)

    @property
    def wanted(self) -> str:
        """LLVM's name of the core."""
        names = self.core.family.families
        return processor_family() if self.is_own or not names else names[0]

    def _assembled(self) -> Iterator[tuple[KernelRecord, KernelAssembly]]:
        """All kernels with the code for the core; programs of several parts one after another."""
        parts = [p.program for p in self.program.parts if p.program is not None]
        for part in [part for part in parts if part.kernels] or [self.program]:
            wanted = wanted_functions(part)
            found = assign(part, functions_with_lines(part, wanted, self.build.compiler))
            for kernel in part.kernels:
                yield kernel, found[kernel.name]

    def _kernel(
        self,
        kernel: KernelRecord,
        assembly: KernelAssembly,
        costs: Sequence[LoopCost],
        cycles: float,
        weight: float,
    ) -> Iterator[LoopPorts]:
        found = list(self._loops(kernel, assembly, costs))
        hot = [f for f in found if f.cost.iterations * f.cost.cycles >= HOT * cycles > 0]
        if not hot:
            self.left_out.append((kernel.name, "no innermost loop of its code is hot"))
        for loop in hot:
            try:
                analysis = analyse_loop(
                    loop.text, machine=self.core.family.architecture, family=self.fitting.family
                )
            except BuildError as error:
                self.left_out.append((kernel.name, error.message))
                continue
            self.models[analysis.model or analysis.family] += 1
            yield self._ports(kernel.name, loop, analysis, weight)

    def _loops(
        self, kernel: KernelRecord, assembly: KernelAssembly, costs: Sequence[LoopCost]
    ) -> Iterator[_Found]:
        """Of every loop of the source the longest piece of code."""
        assert assembly.text is not None
        reader = reader_of(assembly.text.lines, self.core.family.architecture == "aarch64")
        matched = match_loops(kernel.source.lines, assembly)
        longest: dict[int, MatchedLoop] = {}
        for loop in matched:
            other = longest.get(loop.number)
            if other is None or len(loop.place) > len(other.place):
                longest[loop.number] = loop
        for number, loop in longest.items():
            if number >= len(costs) or costs[number].has_branches or loop.has_call:
                continue
            text = tuple(with_writeback_apart([assembly.text.lines[n] for n in loop.place]))
            kinds = tuple(reader.kind(line) for line in text)
            spills = sum(reader.is_spill(line) for line in text)
            merged = _merged(kinds, costs[number])
            if merged <= MAX_MERGED:
                yield _Found(
                    matched=loop,
                    cost=costs[number],
                    merged=merged,
                    text=text,
                    kinds=kinds,
                    spills=spills,
                )

    def _ports(self, kernel: str, loop: _Found, analysis: LoopAnalysis, weight: float) -> LoopPorts:
        merged, cost = loop.merged, loop.cost
        counts = Counter(kind for kind in loop.kinds if kind)
        multiply_adds = counts["multiply-add"] / merged
        return LoopPorts(
            kernel=kernel,
            loop=cost.names,
            lines=(loop.matched.lines.start, loop.matched.lines.stop - 1),
            text=loop.text,
            share=cost.iterations * cost.cycles * weight,
            merged=merged,
            cycles=analysis.cycles / merged,
            bound=analysis.bound / merged,
            limit=_limit(loop, analysis),
            ports=tuple((name, used / merged) for name, used in analysis.ports),
            counts=tuple((kind, count / merged) for kind, count in counts.most_common()),
            spills=loop.spills / merged,
            predicted_cycles=cost.cycles,
            predicted_bound=cost.bound,
            peak_cycles=multiply_adds * self.parts / self.machine.core.arithmetic_units,
        )


def _top_cycles(costs: Sequence[LoopCost]) -> float:
    """Of all loops of a kernel that stand in no other one."""
    least = min((len(cost.names) for cost in costs), default=0)
    return sum(cost.iterations * cost.cycles for cost in costs if len(cost.names) == least)


def _merged(kinds: Sequence[str], cost: LoopCost) -> int:
    """Iterations of the source's loop in one of the code's, by what both of them count."""
    counts = Counter(kinds)
    arithmetic = counts["multiply-add"] + counts["arithmetic"]
    pairs = (
        (counts["multiply-add"], cost.multiply_adds),
        (counts["store"], cost.stores),
        (arithmetic, cost.arithmetic),
    )
    for found, expected in pairs:
        if found and expected:
            return max(1, round(found / expected))
    return 1


def _limit(loop: _Found, analysis: LoopAnalysis) -> str:
    """The kind of instruction that the busiest port executes, or what else it waits for."""
    if analysis.limit != "port":
        return CHAIN if analysis.limit == "chain" else ISSUE
    name, _ = analysis.ports[0]
    moves = sum(kind in ("load", "store", "spill") for kind in loop.kinds)
    if LOAD_PORT.match(name) or STORE_PORT.match(name):
        if moves and loop.spills >= MAX_SPILLS * moves:
            return "spill"
        return "load" if LOAD_PORT.match(name) else "store"
    used: Counter[str] = Counter()
    for place in analysis.users[0]:
        kind = loop.kinds[place]
        used[kind if kind not in ("load", "store", "spill") else "integer"] += 1
    return used.most_common(1)[0][0] if used else ISSUE
