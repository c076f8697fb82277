"""Generated C for this processor: a shared library in a worker process.

What a kept program needs is imported with this module, the compiler when something is compiled.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from explorer.backends.interface import Backend
from explorer.backends.records import MeasuredOn, Opening
from explorer.errors import BuildError
from explorer.processor import lanes_of
from explorer.runtime.cache.c_programs import library_key, try_library
from explorer.runtime.cache.environment import compiler_on_disk
from explorer.runtime.cache.languages import SavedLanguage
from explorer.runtime.compilers import compiler_for, find_compiler
from explorer.runtime.core_at_hand import features_at_hand
from explorer.runtime.loading import lookup_of
from explorer.runtime.native.program import NativeProgram

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.func import FuncOp

    from explorer.ir.program import Snapshot
    from explorer.kernels.program.build import BuiltProgram, SharedBlock
    from explorer.kernels.schedules import Machine
    from explorer.results import MemoryPlan, Program
    from explorer.runtime.assembly.functions import Disassembly
    from explorer.runtime.cache import ProgramKey
    from explorer.runtime.cache.saved_programs import Startable
    from explorer.runtime.devices import DeviceRecord
    from explorer.runtime.executable import Executable
    from explorer.runtime.profiles import Peaks
    from explorer.targets import Target
    from explorer.targets.capabilities import Capabilities
    from explorer.targets.core_families import KnownCore

SPLITTING_LANES = 8
"""AVX2 has absolute values of bytes; others are printed for that multiply 16 bits as fast."""
WIDE_LANES = 16
"""Vectors of 512 bits are printed without pairs: processors with them mostly have VNNI."""
SMALL_TILE_REGISTERS = 8
"""Vector registers that tiles are made for where code has to be small: a tile is written out."""
DOT_PRODUCTS = frozenset({"avx512_vnni", "avx_vnni", "dotprod", "i8mm"})
"""Features that add four products of bytes to a sum of 32 bits at once."""

NEON_LANES = 4
BYTE_TILES = {"amx_int8": (16, "amx"), "i8mm": (4, "i8mm")}
PAIR_TILES = {"amx_bf16": (16, "amx"), "bf16": (NEON_LANES, "bfmmla")}
"""Features that multiply matrices of bytes, and of bfloat16: for vectors of so many, and what
schedules call it."""


class CBackend(Backend):
    name = "c"
    title = "C"
    suffix = "c"
    owns_threads = True
    runs_snapshots = True
    builds_libraries = True
    shares_memory = True
    shares_weights = True
    isolates = True
    kept = SavedLanguage(own={"compiler": compiler_on_disk}, try_binary=try_library)

    def devices(self, time_limit_seconds: float) -> list[DeviceRecord]:
        from explorer.runtime.devices import examine_processor

        return [examine_processor()]

    def peaks(self, device: DeviceRecord | None, threads: int, processor: str = "native") -> Peaks:
        from explorer.runtime.devices import first_usable
        from explorer.runtime.roofline import measure_processor

        found = device or first_usable(self.devices(0.0), "cpu")
        return measure_processor(found, threads, processor)

    def capabilities(self, target: Target, lanes: int) -> Capabilities:
        from explorer.targets.capabilities import Capabilities

        features = _features(target)
        multiplies_pairs = lanes < WIDE_LANES and not DOT_PRODUCTS & features
        has_bf16 = "avx512_bf16" in features or ("bf16" in features and lanes == NEON_LANES)
        return Capabilities(
            multiplies_pairs=multiplies_pairs,
            splits_signs=multiplies_pairs and lanes == SPLITTING_LANES,
            multiplies_blocks=lanes >= NEON_LANES,
            multiplies_bf16=has_bf16,
        )

    def machine(self, target: Target, device: DeviceRecord | None, lanes: int) -> Machine:
        from explorer.backends.kernel_path import processor_machine

        core = self.core(target)
        machine = processor_machine(self.name, core, lanes)
        return replace(
            machine,
            optimize=target.optimize,
            registers=min(machine.registers, SMALL_TILE_REGISTERS)
            if target.optimize == "size"
            else machine.registers,
            byte_tiles=_tiles(BYTE_TILES, core, lanes),
            pair_tiles=_tiles(PAIR_TILES, core, lanes),
            has_dual_products=target.dual_products,
        )

    @property
    def vector_widths(self) -> tuple[int, ...]:
        from explorer.targets import VECTOR_FLOATS

        return VECTOR_FLOATS

    def core(self, target: Target) -> KnownCore:
        from explorer.backends.cores import known_core

        return known_core(target, _features(target))

    def vector_floats(self, device: DeviceRecord | None, target: Target) -> int:
        return lanes_of(_features(target))

    def build(
        self,
        snapshot: Snapshot,
        function: FuncOp,
        plan: MemoryPlan,
        target: Target,
        inputs: Sequence[str],
        outputs: Sequence[str],
        block: SharedBlock | None = None,
    ) -> BuiltProgram:
        """Of a target without vectors, functions of the prelude replace those of the C library."""
        from explorer.backends.kernel_path import build_planned
        from explorer.kernels.printing.c import CLanguage, print_c
        from explorer.kernels.program.build import printed_in

        if target.vector_floats != 1:
            return super().build(snapshot, function, plan, target, inputs, outputs, block)
        own_math = CLanguage(has_own_math=True)
        text = printed_in("c", print_one=lambda _, k, name, chained: print_c(k, name, own_math))
        named = (target.name, text, inputs, outputs)
        return build_planned(snapshot, function, plan, *named, block=block)

    def open(
        self, built: BuiltProgram, device: DeviceRecord | None, opening: Opening
    ) -> Executable:
        library = opening.library
        return NativeProgram(
            built.program,
            built.weights if opening.weights is None else opening.weights,
            opening.isolated,
            opening.threads or 1,
            affinity=opening.affinity,
            build=None if library is None else lambda source: library,
            time_limit_seconds=opening.time_limit_seconds,
            name=opening.name,
            cache=opening.cache,
            arena=opening.arena,
        )

    def libraries_of(self, opened: Executable) -> Sequence[Path]:
        return (opened.library,) if isinstance(opened, NativeProgram) else ()

    def load_saved(self, found: Startable, opening: Opening) -> Executable:
        started = time.perf_counter()
        executable = NativeProgram(
            found.kept.program,
            found.weights,
            opening.isolated,
            opening.threads or 1,
            affinity=opening.affinity,
            binary=found.binary,
            name=opening.name,
            cache=opening.cache,
        )
        opening.cache.looked.append(lookup_of(found, time.perf_counter() - started))
        return executable

    def key(self, program: Program, device: DeviceRecord | None, name: str) -> ProgramKey:
        source = "\n".join(program.source.lines) + "\n"
        return library_key(source, compiler_for(program.processor), (), name)

    def measured_on(self, device: DeviceRecord | None, threads: int) -> MeasuredOn | None:
        try:
            key = library_key("", find_compiler(), (), "")
        except BuildError:
            return None
        compiler = f"{key.compiler} {' '.join(key.options)}"
        return MeasuredOn(device=key.device, compiler=compiler, threads=threads)

    def disassemble(
        self, program: Program, functions: Sequence[str], device: DeviceRecord | None
    ) -> Disassembly:
        from explorer.runtime.assembly.native import native_functions

        return native_functions(program, tuple(functions))


def _tiles(known: Mapping[str, tuple[int, str]], core: KnownCore, lanes: int) -> str:
    """The first that the core has for such vectors; empty where there is none."""
    names = (n for f, (width, n) in known.items() if f in core.features and width == lanes)
    return next(names, "")


def _features(target: Target) -> frozenset[str]:
    """What its code may use, by the compiler; where there is none, by what the system lists.

    Of a target that is another machine, what its family of cores has.
    """
    from explorer.runtime.features import features_of

    if target.package.triple:
        from explorer.targets.core_families import core_family

        return frozenset(core_family(target.core.family).features)
    try:
        compiler = compiler_for(target.processor)
    except BuildError:
        return features_at_hand()
    return features_of(compiler)


BACKEND = CBackend()
