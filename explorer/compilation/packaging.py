"""What a package is made of, collected from a compilation: `Compilation.package`.

The vectors of the self-test are run by the just-in-time program; their outputs are compared with
the source model's where its reference is at hand.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from explorer.accuracy.known_values import known_values
from explorer.accuracy.oracle import reference
from explorer.compilation.compiled import Compiled
from explorer.compilation.packaged_parts import PackageBuilder, npu_files
from explorer.compilation.settings.capacity import require_any_mask
from explorer.errors import ExplorerError, InputError, MemoryBudgetError, UnsupportedError
from explorer.importers import SourceModel
from explorer.ir.evaluation import entry_function
from explorer.ir.padding import padded
from explorer.ir.structure import HOST, operations
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.data import ReturnOp
from explorer.ir.types import QuantizedType, element_type_of
from explorer.packaging.names import package_name
from explorer.packaging.sizes import caller_ports
from explorer.packaging.source import STORAGES, PackagePort, PackageSource, Storage, Vector
from explorer.quantization.table import write_modes, write_thresholds
from explorer.results import Port, Program
from explorer.results.names import near_name
from explorer.runtime.parts import PartsProgram
from explorer.targets import Target, load_target

THRESHOLDS, MODES = "quantization.table", "quantization.modes"
"""Files of a package with what quantized its model."""
MAX_THREADS = 64
MAX_VECTORS = 2
MAX_VECTOR_BYTES = 1 << 16
"""Of all numbers of the vectors together; a larger model has one."""


def package_source(
    compiled: Compiled,
    name: str | None = None,
    weights: str = "array",
    strip: bool = False,
    threads: int = 1,
) -> PackageSource:
    """All that the package of a compilation is made of; nothing is written.

    Raises InputError for a name or a storage that is not legal and for a target whose code is no
    C, UnsupportedError for operations that only the host can run.
    """
    if weights not in STORAGES:
        raise InputError(
            f"weights cannot be stored as {weights!r}", hint=near_name(weights, STORAGES)
        )
    storage: Storage = "file" if weights == "file" else "array"
    if storage == "file" and compiled.backend.name == "opencl":
        raise InputError("a package for OpenCL has its weights in arrays", hint="leave it out")
    own_name = package_name(name, compiled.model.name, strip)
    _require_c(compiled)
    require_any_mask(compiled.passes[0].after.program, "a package")
    _require_threads(compiled, threads)
    if strip and compiled.target.queues:
        raise InputError(
            f"the files of {compiled.target.name} have names of the model",
            hint="leave --strip out (strip=False)",
        )
    builder = PackageBuilder(compiled, strip)
    built = builder.build()
    program = replace(built.program, sizes=compiled.program.sizes)
    _require_arena(compiled, program)
    parts = builder.parts(program)
    binary = None
    if compiled.backend.name == "opencl":
        from explorer.runtime.opencl.binaries import binary_for

        assert compiled.device is not None
        binary = binary_for(builder.opencl_lines, compiled.device)
    vectors = _vectors(compiled)
    inputs, outputs = _quantizations(compiled)
    return PackageSource(
        name=own_name,
        model=compiled.model.name,
        model_digest=_digest(compiled.model),
        device=compiled.target.name,
        target=_c_target(builder.c_compiled.target),
        program=program,
        weights=built.weights,
        weight_types=builder.types,
        kernels=tuple(builder.printed.values()),
        records=builder.records,
        plan=builder.plan(program),
        parts=parts,
        npu_files=npu_files(compiled, parts),
        opencl_lines=builder.opencl_lines,
        opencl_binary=binary,
        inputs=_ports(caller_ports(program), inputs),
        outputs=_ports(program.outputs, outputs),
        vectors=vectors,
        settings=_settings(compiled),
        table_files={} if strip else _table_files(compiled),
        accuracy=_accuracy(compiled, vectors, strip),
        storage=storage,
        is_stripped=strip,
        threads=threads,
    )


def _c_target(target: Target) -> Target:
    """The target of the kernels; this processor's where an NPU runs all of the model."""
    return load_target("cpu") if target.queues else target


def _require_c(compiled: Compiled) -> None:
    """Every part has to be C, or instructions of an NPU."""
    if compiled.backend.name not in ("c", "opencl") and not compiled.target.queues:
        raise InputError(
            f"a package is C, and the target {compiled.target.name} is not programmed in C",
            hint="`explorer targets` lists the targets; cpu, x86-64 and cortex-m4 are C",
        )
    if compiled.program.sizes is not None and compiled.program.parts:
        raise InputError(
            "a package of several parts has one open dimension, of which every operation works "
            "row by row",
            hint="give one size: --dim NAME=SIZE (dimensions=)",
        )
    if compiled.backend.name == "opencl" and compiled.settings.open_ranges:
        raise InputError(
            "a package for OpenCL has no size that is left open",
            hint="give one size: --dim NAME=SIZE (dimensions=)",
        )
    found = [
        (operation, reason)
        for operation, device, reason in compiled.placed_elsewhere
        if device == HOST
    ]
    if found:
        named = "; ".join(f"{operation}: {reason}" for operation, reason in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise UnsupportedError(
            f"a package has no host that runs what has no form in C: {named}{more}",
            node=found[0][0],
            hint="docs/host-parts.md says which operations the host runs",
        )


def _require_arena(compiled: Compiled, program: Program) -> None:
    """InputError for several parts in several memories. MemoryBudgetError where the arena of
    several parts, in which what goes between them lies, too, is larger than the budget."""
    targets = (compiled.target, *(each.target for each in compiled.companions.values()))
    several = next((target for target in targets if len(target.arenas) > 1), None)
    if program.parts and several is not None:
        names = ", ".join(memory.name for memory in several.arenas)
        raise InputError(
            f"a package of {len(program.parts)} {'parts' if len(program.parts) > 1 else 'part'} "
            f"has one arena, and the target {several.name} has several memories: {names}",
            hint=f"a target with one memory of kind arena for activations, or {several.name} alone",
        )
    budget = compiled.settings.budget_bytes
    if budget is not None and program.parts and program.arena_bytes > budget:
        raise MemoryBudgetError(
            f"the package's arena takes {program.arena_bytes} bytes with what goes between its "
            f"{len(program.parts)} parts, and the budget is {budget}",
            budget_bytes=budget,
            needed_bytes=program.arena_bytes,
            hint=f"a budget of at least {program.arena_bytes} bytes",
        )


def _require_threads(compiled: Compiled, threads: int) -> None:
    """InputError for a count that is none, and for a target without threads."""
    if not 1 <= threads <= MAX_THREADS:
        raise InputError(f"{threads} threads cannot share a run", hint=f"1 to {MAX_THREADS}")
    if threads == 1:
        return
    if compiled.backend.name == "opencl":
        raise InputError(
            "the driver shares a package for OpenCL out", hint="leave --threads out (threads=1)"
        )
    if not compiled.target.package.threads or not compiled.program.launches:
        raise InputError(
            f"{compiled.target.name} has no threads that could share a run",
            hint="leave --threads out (threads=1)",
        )


def _digest(model: SourceModel) -> str | None:
    """SHA-256 of the file; of several its own."""
    path = model.path
    if path is None or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _settings(compiled: Compiled) -> dict[str, Any]:
    """Arguments that replay the compilation in the package's folder.

    `explorer.compile(model, target, **settings)`
    """
    settings = compiled.settings
    ranges = {size.name: [size.lowest, size.highest] for size in settings.open_ranges}
    table = settings.quantization
    return {
        "decisions": compiled.decisions(),
        "dimensions": {**settings.dimensions, **ranges},
        "disable": list(settings.disable),
        "fuel": settings.fuel,
        "capacity": settings.capacity,
        "budget_bytes": settings.budget_bytes,
        "flash_bytes": settings.flash_bytes,
        "quantization": None if table is None else THRESHOLDS,
        "modes": None if table is None or not table.modes else MODES,
    }


def _table_files(compiled: Compiled) -> dict[str, bytes]:
    """The table that quantized the model with its modes and corrections; empty without one."""
    table = compiled.settings.quantization
    if table is None:
        return {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_thresholds(folder / THRESHOLDS, table)
        if table.modes:
            write_modes(folder / MODES, table.modes)
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# -- ports ---------------------------------------------------------------------------------------


def _ports(
    ports: Sequence[Port], quantized: Sequence[QuantizedType | None]
) -> tuple[PackagePort, ...]:
    found = []
    kinds = [*quantized, *[None] * len(ports)]  # a valid length comes after the model's inputs
    for port, kind in zip(ports, kinds, strict=False):  # inputs of a call come last
        if kind is None or not kind.is_per_tensor:
            found.append(PackagePort(port=port))
            continue
        scale, zero_point = float(kind.scale_array[0]), int(kind.zero_point_array[0])
        found.append(PackagePort(port=port, scale=scale, zero_point=zero_point))
    return tuple(found)


def _quantizations(
    compiled: Compiled,
) -> tuple[list[QuantizedType | None], list[QuantizedType | None]]:
    """What the integers of inputs and outputs stand for, where the model's file says it."""
    entry = entry_function(compiled.passes[0].after.program)
    read_as: dict[object, QuantizedType] = {}
    for op in operations(compiled.passes[0].after.module):
        if isinstance(op, BitcastOp):
            kind = element_type_of(op.results[0])
            if isinstance(kind, QuantizedType):
                read_as.setdefault(op.operands[0], kind)
    inputs = [read_as.get(argument) for argument in entry.body.block.args]
    outputs: list[QuantizedType | None] = []
    last = entry.body.block.last_op
    assert isinstance(last, ReturnOp)
    for value in last.operands:
        owner = value.owner
        kind = element_type_of(owner.operands[0]) if isinstance(owner, BitcastOp) else None
        outputs.append(kind if isinstance(kind, QuantizedType) else None)
    return inputs, outputs


# -- vectors -------------------------------------------------------------------------------------


def _vectors(compiled: Compiled) -> tuple[Vector, ...]:
    """Seeded random inputs, and what the just-in-time program computes of them.

    Floats come from the ranges of the table, which the package has; it has no histograms.
    """
    table = compiled.settings.quantization
    ranges = None if table is None else replace(table, observations={})
    known = known_values(compiled.passes[0].after, ranges)
    vectors: list[Vector] = []
    size = 0
    calls = _calls(compiled)
    for seed, sizes in enumerate(calls):
        vector = _vector(compiled, compiled.example_inputs(seed, sizes, known), sizes)
        arrays = [*vector.inputs, *vector.outputs]
        arrays += [a for group in (*vector.npu_inputs, *vector.npu_outputs) for a in group]
        size += sum(array.nbytes for array in arrays)
        if len(vectors) >= max(len(calls) - 1, 1) and size > MAX_VECTOR_BYTES:
            break
        vectors.append(vector)
    return tuple(vectors)


def _calls(compiled: Compiled) -> list[dict[str, int]]:
    """The sizes of each vector: where some are open the largest, the smallest, and between them.

    Those that a relation of the model forbids are left out.
    """
    ranges = compiled.settings.open_ranges
    if not ranges:
        return [{}] * MAX_VECTORS
    shares = ((1, 1), (0, 1), (1, 2), (1, 3))
    found: list[dict[str, int]] = []
    for part, of in shares:
        sizes = {r.name: r.lowest + (r.highest - r.lowest) * part // of for r in ranges}
        try:
            compiled.executable.run(compiled.example_inputs(0, sizes))
        except InputError:
            continue
        if sizes not in found and len(found) <= MAX_VECTORS:
            found.append(sizes)
    if not found:
        raise InputError(
            "neither the largest nor the smallest sizes of all ranges go together",
            hint="`explorer show MODEL --view constraints` lists what the model asks of them",
        )
    return found


def _vector(
    compiled: Compiled, given: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> Vector:
    """One run; of a program with an NPU's parts also what goes into them and comes out."""
    executable, program = compiled.executable, compiled.program
    if program.length is not None:  # states are whole in C, and how much is valid is an input
        given = padded(program.length, given)
    npu: tuple[tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]], ...] = ()
    if isinstance(executable, PartsProgram):
        steps = executable.run_by_part(given)
        computed = steps.outputs
        devices = {part.function: part.device for part in program.parts}
        npu = tuple(
            (step.inputs, step.outputs)
            for step in steps.parts
            if devices[step.function] == compiled.target.name
        )
    else:
        computed = executable.run(given)
    inputs = tuple(np.asarray(given[port.name]) for port in caller_ports(program))
    outputs = tuple(np.asarray(computed[port.name]) for port in program.outputs)
    if compiled.target.queues and not npu:
        npu = ((inputs, outputs),)
    order = [r.name for r in compiled.settings.open_ranges]
    return Vector(
        inputs,
        outputs,
        tuple(sizes[name] for name in order),
        tuple(i for i, _ in npu),
        tuple(o for _, o in npu),
    )


def _accuracy(compiled: Compiled, vectors: Sequence[Vector], strip: bool) -> dict[str, Any]:
    """The largest differences between the vectors' outputs and the source model's."""
    program = compiled.program
    names = [port.name for port in program.outputs]
    worst: dict[str, dict[str, Any]] = {}
    try:
        for vector in vectors:
            given = {
                port.name: array
                for port, array in zip(caller_ports(program), vector.inputs, strict=True)
            }
            wanted = reference(compiled.model, given, names)
            for number, (name, found) in enumerate(zip(names, vector.outputs, strict=True)):
                entry = _difference(found, np.asarray(wanted[name]))
                shown = f"out{number}" if strip else name
                before = worst.get(shown, entry)
                worst[shown] = {key: max(before[key], entry[key]) for key in entry}
    except ExplorerError as error:
        why = "no reference computed them" if strip else error.message  # names tensors
        return {"against": "", "outputs": {}, "note": why}
    return {"against": "the source model's reference", "outputs": worst, "note": ""}


def _difference(found: np.ndarray, wanted: np.ndarray) -> dict[str, Any]:
    a, b = found.astype(np.float64).reshape(-1), wanted.astype(np.float64).reshape(-1)
    both = np.isfinite(a) & np.isfinite(b)
    differences = np.abs(a[both] - b[both])
    return {
        "largest_difference": float(differences.max(initial=0.0)),
        "largest_number": float(np.abs(b[both]).max(initial=0.0)),
        "unequal": int(np.count_nonzero((a != b) & ~(np.isnan(a) & np.isnan(b)))),
    }
