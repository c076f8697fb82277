"""The parts of a package: functions in C as one table, and between them what an NPU runs.

    main_cpu (C), main_tiny_8 (NPU), main_cpu_2 (C)
    ->  copy image; launches 0 to 1; run_npu(0); copy; launches 2 to 4

Each part has a region of the arena, in which what it made is there until the last part that reads
it has run; then other regions take its bytes. An NPU's region holds its inputs and outputs alone:
its memory is its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from pathlib import Path

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from explorer.backends.kernel_path import program_memories, value_memories
from explorer.compilation.compiled import Compiled
from explorer.ir.deferred import ArrayForm, Deferred
from explorer.ir.functions.calls import device_functions
from explorer.ir.structure import device_of
from explorer.ir.types import element_type_of, numpy_dtype, static_shape
from explorer.kernels.printing.c import CLanguage, print_c
from explorer.kernels.printing.languages import print_kernel
from explorer.kernels.printing.printer import PrintedKernel
from explorer.kernels.program.build import (
    ALIGNMENT_BYTES,
    BuiltProgram,
    KernelText,
    ProgramText,
    build_program,
)
from explorer.kernels.program.parts import build_parts, region_bases
from explorer.kernels.program.translation_unit import emit_program
from explorer.memory.planning import value_offsets
from explorer.packaging.source import Copy, NpuPart, PackagePart
from explorer.results import (
    KernelRecord,
    Launch,
    MemoryPlan,
    PlacedBuffer,
    Port,
    Program,
    SourceText,
)


@dataclass
class PackageBuilder:
    """Builds all parts of a compilation; kernels, their records and plans are collected."""

    compiled: Compiled
    is_stripped: bool
    printed: dict[str, PrintedKernel] = field(default_factory=dict)
    """By the kernel's name in the compilation; parts may share one."""
    records: dict[str, KernelRecord] = field(default_factory=dict)
    plans: dict[str, MemoryPlan] = field(default_factory=dict)
    """By the part's function; none of an NPU's."""
    types: dict[str, np.dtype] = field(default_factory=dict)
    """Of the weights' elements by name."""

    def build(self) -> BuiltProgram:
        """The whole program; of several parts their sum."""
        compiled = self.compiled
        snapshot, target = compiled.final, compiled.target.name
        names = compiled.port_names
        return build_parts(snapshot, target, self._part, *names, keeps_values=True)

    @property
    def c_compiled(self) -> Compiled:
        """Who compiles the functions in C: an NPU's neighbours are its companion's."""
        companion = self.compiled.companion
        return companion if companion is not None else self.compiled

    def _part(
        self, function: FuncOp, inputs: Sequence[str], outputs: Sequence[str]
    ) -> BuiltProgram:
        maker = self.c_compiled
        if device_of(function) != maker.target.name or maker.target.queues:
            return _npu_program(function, device_of(function), inputs, outputs)
        name = function.sym_name.data
        known = {f.sym_name.data: f for f in device_functions(maker.final.program)}
        plan = self.plans[name] = maker.plans[name]
        built = build_program(
            maker.final,
            value_offsets(plan),
            plan.peak_bytes,
            maker.target.name,
            self._text,
            inputs,
            outputs,
            function=known[name],
            memories=program_memories(plan),
            spaces=value_memories(plan),
        )
        for record in built.program.kernels:
            calls = maker.calls_of(record.name)
            kernel = self.printed[record.name]
            self.records[kernel.name] = replace(
                record, name=kernel.name, phases=kernel.phases, calls=calls
            )
        for slot in built.program.weights:
            self.types[slot.name] = maker.final.weights.form(slot.name).dtype
        launches = tuple(
            replace(launch, kernel=self.printed[launch.kernel].name)
            for launch in built.program.launches
        )
        return replace(built, program=replace(built.program, launches=launches))

    def _text(
        self, kernels: Mapping[str, FuncOp], launches: Sequence[Launch], size_offset: int | None
    ) -> ProgramText:
        for name, kernel in kernels.items():
            if name not in self.printed:
                new = f"k{len(self.printed)}" if self.is_stripped else name
                self.printed[name] = self._print(kernel, new)
        found = {name: self.printed[name] for name in kernels}
        texts = {name: KernelText(p.source, p.phases) for name, p in found.items()}
        return ProgramText(SourceText("c", (), ()), texts)

    def _print(self, kernel: FuncOp, name: str) -> PrintedKernel:
        """As the just-in-time program has it."""
        maker = self.c_compiled
        if maker.backend.name == "opencl":
            return print_kernel("opencl", kernel, name, is_chained=True)
        has_vectors = maker.target.vector_floats != 1
        return print_c(kernel, name, CLanguage(marks_unused=True, has_own_math=not has_vectors))

    @property
    def opencl_lines(self) -> tuple[str, ...]:
        """The text of all kernels in OpenCL C; empty for others."""
        if self.c_compiled.backend.name != "opencl":
            return ()
        return emit_program("opencl", list(self.printed.values()), []).source.lines

    # -- the order of the parts ------------------------------------------------------------------
    def parts(self, program: Program) -> tuple[PackagePart, ...]:
        """In the order in which they run; one for a program without parts."""
        if not program.parts:
            device = self.compiled.target.name
            npu = None if self.printed or program.launches else self._npu(0, device, program)
            every = (0, len(program.launches))
            return (PackagePart(function="main", launches=every, npu=npu),)
        programs = [part.program for part in program.parts if part.program is not None]
        bases = bases_of(program)
        ends = list(accumulate(len(each.launches) for each in programs))
        made = {port.name: port for port in program.inputs}
        found: list[PackagePart] = []
        npus = 0
        for part, own, base, end in zip(program.parts, programs, bases, ends, strict=True):
            copies = tuple(
                Copy(value, made[value].offset_bytes, base + port.offset_bytes, port.size_bytes)
                for value, port in zip(part.inputs, own.inputs, strict=True)
                if made[value].offset_bytes != base + port.offset_bytes
            )
            made |= {v: _moved(p, base) for v, p in zip(part.outputs, own.outputs, strict=True)}
            npu = None
            if part.device != self.c_compiled.target.name:
                npu = self._npu(npus, part.device, _moved_ports(own, base))
                npus += 1
            found.append(
                PackagePart(
                    function=part.function,
                    launches=(end - len(own.launches), end),
                    copies=copies,
                    npu=npu,
                )
            )
        return _inputs_first(found, {port.name for port in program.inputs})

    def _npu(self, number: int, device: str, program: Program) -> NpuPart:
        return NpuPart(number, device, program.inputs, program.outputs)

    def plan(self, program: Program) -> MemoryPlan:
        """Where every buffer lies, of all parts; launches are counted through all of them."""
        if len(self.plans) == 1 and not program.parts:
            return next(iter(self.plans.values()))
        placements: list[PlacedBuffer] = []
        first = 0
        for part, base in zip(program.parts, bases_of(program), strict=True):
            plan = self.plans.get(part.function)
            for place in plan.placements if plan else ():
                buffer = replace(
                    place.buffer, first=place.buffer.first + first, last=place.buffer.last + first
                )
                placements.append(PlacedBuffer(buffer, place.offset_bytes + base))
            first += len(part.program.launches) if part.program else 0
        return MemoryPlan(
            placements=tuple(placements),
            peak_bytes=program.arena_bytes,
            bound_bytes=max((plan.bound_bytes for plan in self.plans.values()), default=0),
            optimal=False,
            attempts=(),
            live_bytes=(),
            steps=tuple(launch.operation for launch in program.launches),
            total_bytes=sum(place.buffer.size_bytes for place in placements),
        )


def npu_files(compiled: Compiled, parts: Sequence[PackagePart]) -> dict[str, bytes]:
    """What `explorer compile --emit` writes for the NPU, by path; empty where there is none."""
    if not any(part.npu for part in parts):
        return {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "npu")
        compiled.backend.emit(compiled.passes, compiled.target, folder, 0)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


def bases_of(program: Program) -> list[int]:
    """Where the region of every part begins."""
    names = [port.name for port in program.inputs]
    return region_bases(program.parts, names, program.results)


def _inputs_first(parts: Sequence[PackagePart], inputs: set[str]) -> tuple[PackagePart, ...]:
    """Copies of the model's inputs come first: the first part that reads one overwrites it."""
    early = tuple(c for p in parts for c in p.copies if c.value in inputs)
    moved = [replace(p, copies=tuple(c for c in p.copies if c not in early)) for p in parts]
    return (replace(moved[0], copies=early + moved[0].copies), *moved[1:])


def _moved(port: Port, base: int) -> Port:
    return replace(port, offset_bytes=port.offset_bytes + base)


def _moved_ports(program: Program, base: int) -> Program:
    return replace(
        program,
        inputs=tuple(_moved(port, base) for port in program.inputs),
        outputs=tuple(_moved(port, base) for port in program.outputs),
    )


def _npu_program(
    function: FuncOp, device: str, inputs: Sequence[str], outputs: Sequence[str]
) -> BuiltProgram:
    """A part that something else runs: a region with its inputs and outputs, and no launch."""
    block = function.body.block
    assert block.last_op is not None
    end = 0
    ports: list[Port] = []
    values: list[SSAValue] = [*block.args, *block.last_op.operands]
    for name, value in zip((*inputs, *outputs), values, strict=True):
        shape, dtype = static_shape(value), numpy_dtype(element_type_of(value))
        size = prod(shape) * dtype.itemsize
        ports.append(
            Port(
                name=name,
                element_type=dtype.name,
                shape=shape,
                offset_bytes=end,
                size_bytes=size,
            )
        )
        end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    program = Program(
        target=device,
        source=SourceText("c", (), ()),
        kernels=(),
        launches=(),
        inputs=tuple(ports[: len(inputs)]),
        outputs=tuple(ports[len(inputs) :]),
        taps=(),
        weights=(),
        arena_bytes=max(end, ALIGNMENT_BYTES),
        weights_bytes=0,
    )
    nothing = Deferred(ArrayForm((0,), np.dtype(np.uint8)), lambda: np.zeros(0, np.uint8))
    return BuiltProgram(program, nothing)
