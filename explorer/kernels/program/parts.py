"""From a placed module with several device functions to one program of several parts.

    main: calls main_cpu, then main_cpu_2
    ->   Program(parts=(ProgramPart("main_cpu", ...), ProgramPart("main_cpu_2", ...)), ...)

Who has one device function, of the target, gets its program as it is, without parts. The sum of
several has all kernels and launches in turn. Weights lie side by side; parts of one device share an
arena, for they run in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from explorer.ir.deferred import ArrayForm, Deferred
from explorer.ir.evaluation import entry_function
from explorer.ir.functions.calls import PartCall, calls_of, device_functions, returned_values
from explorer.ir.functions.host_functions import HostFunction
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.sizes.ranges import open_size
from explorer.ir.structure import HOST, device_of, host_reason_of, value_name
from explorer.ir.types import element_type_of, numpy_dtype, shape_of, static_shape
from explorer.kernels.program.build import ALIGNMENT_BYTES, BuiltProgram
from explorer.memory.planners import GreedyPlanner
from explorer.results.memory import BufferLifetime
from explorer.results.program import Argument, Launch, Port, Program, ProgramPart, Tap, WeightSlot
from explorer.results.source import SourceText

UNKNOWN_SIZE = -1
"""Of a port or a tap: only a run tells it."""
BuildPart = Callable[[func.FuncOp, Sequence[str], Sequence[str]], BuiltProgram]
"""Builds a device function, given the names of its inputs and outputs in order."""


def build_parts(
    snapshot: Snapshot,
    target: str,
    build: BuildPart,
    input_names: Sequence[str],
    output_names: Sequence[str],
    keeps_values: bool = False,
) -> BuiltProgram:
    """Builds every device function and puts them together, in the order of the calls.

    `input_names`, `output_names`: the model's, in the order of the entry function.
    `keeps_values`: what goes between parts stays in the arena until the last part has read it.
    """
    calls = calls_of(snapshot.program)
    if is_one_program(snapshot.program, target):
        return build(calls[0].function, input_names, output_names)
    names = value_names(snapshot, calls, input_names)
    built: dict[str, BuiltProgram] = {}
    parts = []
    for call in calls:
        function = call.function.sym_name.data
        given = [value_name(a) for a in call.function.body.block.args]
        made = tuple(names[v] for v in call.results)
        reason = ""
        if device_of(call.function) == HOST:
            host = HostFunction(call.function, snapshot.weights)
            built[function], reason = host_part(host, given, made), host.reason
        else:
            built[function] = build(call.function, given, made)
            if any(map(host_reason_of, call.function.body.block.ops)):
                reason = HostFunction(call.function, snapshot.weights).reason
        parts.append(
            ProgramPart(
                function=function,
                device=device_of(call.function),
                inputs=tuple(names[v] for v in call.operands),
                outputs=made,
                program=built[function].program,
                reason=reason,
            )
        )
    results = tuple(names[v] for v in returned_values(snapshot.program))
    entry = _entry_ports(snapshot, input_names)
    bases = region_bases(parts, input_names, results) if keeps_values else device_bases(parts)
    whole = sum_of(target, parts, entry, output_names, results, bases)
    slots = [
        (built[p.function].packed, base) for p, base in zip(parts, weight_bases(parts), strict=True)
    ]
    form = ArrayForm((whole.weights_bytes,), np.dtype(np.uint8))

    def side_by_side() -> np.ndarray:
        block = np.zeros(whole.weights_bytes, np.uint8)
        for packed, base in slots:
            block[base : base + packed.form.size_bytes] = packed.array()
        return block

    return BuiltProgram(whole, snapshot.weights.later(form, side_by_side), built)


def is_one_program(program: ModuleOp, target: str) -> bool:
    """Whether the target runs the whole program: a companion's function has other ports."""
    calls = calls_of(program)
    functions = [call.function for call in calls]
    is_alone = len(calls) == 1 and functions == device_functions(program)
    return is_alone and device_of(functions[0]) == target


def host_part(
    host: HostFunction, input_names: Sequence[str], output_names: Sequence[str]
) -> BuiltProgram:
    """A part that the host runs: it has ports and taps, and neither kernels nor memory."""
    block = host.function.body.block
    assert block.last_op is not None
    nothing = Deferred(ArrayForm((0,), np.dtype(np.uint8)), lambda: np.zeros(0, np.uint8))
    program = Program(
        target=HOST,
        source=_host_source(host),
        kernels=(),
        launches=(),
        inputs=tuple(_host_port(n, v) for n, v in zip(input_names, block.args, strict=True)),
        outputs=tuple(
            _host_port(n, v) for n, v in zip(output_names, block.last_op.operands, strict=True)
        ),
        taps=tuple(_host_tap(op, result) for op in host.operations for result in op.results),
        weights=(),
        arena_bytes=0,
        weights_bytes=0,
    )
    return BuiltProgram(program, nothing, host=host)


def _host_source(host: HostFunction) -> SourceText:
    """What the host does, a line for each operation, as a comment among the others' code."""
    lines = tuple(f"//   {identity_of(op)}: {host_reason_of(op)}" for op in host.operations)
    return SourceText("c", lines, tuple((identity_of(op),) for op in host.operations))


def _host_port(name: str, value: SSAValue) -> Port:
    shape, dtype = run_time_shape(value), numpy_dtype(element_type_of(value))
    size_bytes = 0 if UNKNOWN_SIZE in shape else prod(shape) * dtype.itemsize
    return Port(
        name=name, element_type=dtype.name, shape=shape, offset_bytes=0, size_bytes=size_bytes
    )


def _host_tap(op: TopOperation, result: OpResult) -> Tap:
    shape, dtype = run_time_shape(result), numpy_dtype(element_type_of(result))
    return Tap(
        operation=identity_of(op),
        result=result.index,
        step=0,
        offset_bytes=0,
        size_bytes=0,
        element_type=dtype.name,
        shape=shape,
        logical_shape=shape,
    )


def run_time_shape(value: SSAValue) -> tuple[int, ...]:
    """The sizes of a value, -1 where only a run tells."""
    return tuple(d if isinstance(d, int) else UNKNOWN_SIZE for d in shape_of(value))


def value_names(
    snapshot: Snapshot, calls: Sequence[PartCall], input_names: Sequence[str]
) -> dict[SSAValue, str]:
    """A name of its own for every value that goes between parts: the model's for its inputs."""
    arguments = entry_function(snapshot.program).body.block.args
    names: dict[SSAValue, str] = dict(zip(arguments, input_names, strict=True))
    for call in calls:
        for index, result in enumerate(call.results):
            name = f"{call.function.sym_name.data}:{index}"
            while name in input_names:
                name += "'"
            names[result] = name
    return names


def _entry_ports(snapshot: Snapshot, names: Sequence[str]) -> list[Port]:
    """The model's inputs, as long as no part has a place for them."""
    ports = []
    entry = entry_function(snapshot.program)
    size = open_size(entry)
    rows = size.inputs if size is not None else (0,) * len(names)
    for name, value, own in zip(names, entry.body.block.args, rows, strict=True):
        shape, dtype = static_shape(value), numpy_dtype(element_type_of(value))
        ports.append(
            Port(
                name=name,
                element_type=dtype.name,
                shape=shape,
                offset_bytes=0,
                size_bytes=prod(shape) * dtype.itemsize,
                rows=own,
            )
        )
    return ports


def sum_of(
    target: str,
    parts: Sequence[ProgramPart],
    inputs: Sequence[Port],
    output_names: Sequence[str],
    results: Sequence[str],
    bases: Sequence[int],
) -> Program:
    """The program of all parts: what each has, with the arenas at `bases`.

    `inputs`: the model's, which no part need read. One lies where the first part that reads it has
    it, an output where it is made.
    """
    programs = [part.program for part in parts if part.program is not None]
    shifted = [
        _shifted(program, arena, weights)
        for program, arena, weights in zip(programs, bases, weight_bases(parts), strict=True)
    ]
    made: dict[str, Port] = {}
    steps = 0
    taps: list[Tap] = []
    known = [part for part in parts if part.program is not None]
    for part, program in zip(known, shifted, strict=True):
        for value, port in zip(part.inputs, program.inputs, strict=True):
            made.setdefault(value, port)
        made |= dict(zip(part.outputs, program.outputs, strict=True))
        taps += [replace(tap, step=tap.step + steps) for tap in program.taps]
        steps += len(program.launches)
    kernels = {kernel.name: kernel for program in shifted for kernel in program.kernels}
    return Program(
        target=target,
        source=_source_of(known, target),
        kernels=tuple(kernels.values()),
        launches=tuple(launch for program in shifted for launch in program.launches),
        inputs=tuple(replace(made.get(port.name, port), name=port.name) for port in inputs),
        outputs=tuple(
            replace(made[v], name=n)
            for n, v in zip(output_names, results, strict=True)
            if v in made
        ),
        taps=tuple(taps),
        weights=tuple(slot for program in shifted for slot in program.weights),
        arena_bytes=max(
            (base + _rounded(p.arena_bytes) for base, p in zip(bases, programs, strict=True)),
            default=0,
        ),
        weights_bytes=sum(_rounded(program.weights_bytes) for program in programs),
        size=next((program.size for program in programs if program.size is not None), None),
        parts=tuple(parts),
        results=tuple(results),
    )


def _source_of(parts: Sequence[ProgramPart], target: str) -> SourceText:
    """The parts' texts below one another, each under a line with its name; in the language of the
    target, where one of them is."""
    lines: list[str] = []
    owners: list[tuple[str, ...]] = []
    languages = [p.program.source.language for p in parts if p.program and p.device == target]
    language = languages[0] if languages else ""
    for part in parts:
        assert part.program is not None
        source = part.program.source
        if part.device != HOST:
            language = language or source.language
        how = ", by the NumPy meaning of its operations" if part.device == HOST else ""
        lines += [f"// {part.function} on {part.device}{how}", *source.lines]
        owners += [(), *source.owners]
    return SourceText(language or "c", tuple(lines), tuple(owners))


def _shifted(program: Program, arena: int, weights: int) -> Program:
    """The same with its arena and weights beginning elsewhere."""
    bases = {"arena": arena, "weights": weights}

    def launch(old: Launch) -> Launch:
        return replace(old, arguments=tuple(argument(a) for a in old.arguments))

    def argument(old: Argument) -> Argument:
        return replace(old, offset_bytes=old.offset_bytes + bases.get(old.space, arena))

    def slot(old: WeightSlot) -> WeightSlot:
        return replace(old, offset_bytes=old.offset_bytes + weights)

    return replace(
        program,
        launches=tuple(map(launch, program.launches)),
        memories=tuple(replace(m, offset_bytes=m.offset_bytes + arena) for m in program.memories),
        inputs=tuple(replace(p, offset_bytes=p.offset_bytes + arena) for p in program.inputs),
        outputs=tuple(replace(p, offset_bytes=p.offset_bytes + arena) for p in program.outputs),
        taps=tuple(replace(t, offset_bytes=t.offset_bytes + arena) for t in program.taps),
        weights=tuple(map(slot, program.weights)),
    )


def device_bases(parts: Sequence[ProgramPart]) -> list[int]:
    """Where the arena of every part begins in that of the whole: parts of one device run in turn,
    and the host copies what goes between them."""
    known = [(part.device, part.program) for part in parts if part.program is not None]
    sizes: dict[str, int] = {}
    for device, program in known:
        sizes[device] = max(sizes.get(device, 0), program.arena_bytes)
    bases = dict(zip(sizes, _bases([*sizes.values()]), strict=True))
    return [bases[device] for device, _ in known]


def region_bases(
    parts: Sequence[ProgramPart], inputs: Sequence[str], results: Sequence[str]
) -> list[int]:
    """The same where all parts are in one arena and run in turn, and a part reads what it takes
    from the regions of those that made it.

    A region lives from its part's run, or from the beginning where it holds an input of the model,
    until the last part has read from it, or to the end where it holds an output.
    """
    known = [part for part in parts if part.program is not None]
    owners: dict[str, int] = {}
    firsts = list(range(len(known)))
    lasts = [first + 1 for first in firsts]
    for number, part in enumerate(known):
        for value in part.inputs:
            if value in inputs:
                owners.setdefault(value, number)
                firsts[number] = 0
            elif value in owners:
                lasts[owners[value]] = max(lasts[owners[value]], number + 1)
        owners |= dict.fromkeys(part.outputs, number)
    for value in results:
        if value in owners:
            lasts[owners[value]] = len(known)
    regions = [
        BufferLifetime(
            id=f"{number} {part.function}",
            values=(),
            size_bytes=_rounded(part.program.arena_bytes),
            first=first,
            last=last,
            alignment_bytes=ALIGNMENT_BYTES,
        )
        for number, (part, first, last) in enumerate(zip(known, firsts, lasts, strict=True))
        if part.program is not None
    ]
    return [placed.offset_bytes for placed in GreedyPlanner()(regions).placements]


def weight_bases(parts: Sequence[ProgramPart]) -> list[int]:
    """Where the weights of every part begin in the block of the whole."""
    return _bases([p.program.weights_bytes for p in parts if p.program is not None])


def _bases(sizes: Sequence[int]) -> list[int]:
    bases, end = [], 0
    for size in sizes:
        bases.append(end)
        end += _rounded(size)
    return bases


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
