"""From a placed module with several device functions to one program of several parts.

    main: calls main_cpu, then main_cpu_2   ->   Program(parts=(Part("main_cpu", ...),
                                                                Part("main_cpu_2", ...)), ...)

Who has one device function gets its program as it is, without parts. The sum of several has all
kernels and launches in turn; arenas and weights lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects import func
from xdsl.ir import SSAValue

from explorer.ir.calls import Call, calls_of, device_functions, returned_values
from explorer.ir.deferred import ArrayForm
from explorer.ir.evaluation import entry_function
from explorer.ir.program import Snapshot
from explorer.ir.structure import device_of, value_name
from explorer.ir.types import element_type_of, numpy_dtype, shape_of
from explorer.kernels.program import ALIGNMENT_BYTES, BuiltProgram
from explorer.results.program import Argument, Launch, Part, Port, Program, Tap, WeightSlot
from explorer.results.source import SourceText

BuildPart = Callable[[func.FuncOp, Sequence[str], Sequence[str]], BuiltProgram]
"""Builds a device function, given the names of its inputs and outputs in order."""


def build_parts(
    snapshot: Snapshot,
    target: str,
    build: BuildPart,
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> BuiltProgram:
    """Builds every device function and puts them together, in the order of the calls.

    `input_names`, `output_names`: the model's, in the order of the entry function. Parts on the
    host are listed, and not built.
    """
    calls, on_devices = calls_of(snapshot.program), device_functions(snapshot.program)
    if len(calls) == 1 and calls[0].function in on_devices:
        return build(calls[0].function, input_names, output_names)
    names = _value_names(snapshot, calls, input_names)
    built: dict[str, BuiltProgram] = {}
    parts = []
    for call in calls:
        function = call.function.sym_name.data
        given = [value_name(a) for a in call.function.body.block.args]
        made = tuple(names[v] for v in call.results)
        if call.function in on_devices:
            built[function] = build(call.function, given, made)
        parts.append(
            Part(
                function,
                device_of(call.function),
                tuple(names[v] for v in call.operands),
                made,
                built[function].program if function in built else None,
            )
        )
    returned = returned_values(snapshot.program)
    results = tuple(names[v] for v in returned)
    inputs = _ports(entry_function(snapshot.program).body.block.args, input_names)
    whole = sum_of(target, parts, inputs, _ports(returned, output_names), results)
    bases = _bases([b.program.weights_bytes for b in built.values()])
    slots = [(b.packed, base) for b, base in zip(built.values(), bases, strict=True)]
    form = ArrayForm((whole.weights_bytes,), np.dtype(np.uint8))

    def side_by_side() -> np.ndarray:
        block = np.zeros(whole.weights_bytes, np.uint8)
        for packed, base in slots:
            block[base : base + packed.form.size_bytes] = packed.array()
        return block

    return BuiltProgram(whole, snapshot.weights.later(form, side_by_side), built)


def _value_names(
    snapshot: Snapshot, calls: Sequence[Call], input_names: Sequence[str]
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


def _ports(values: Sequence[SSAValue], names: Sequence[str]) -> list[Port]:
    """The model's inputs or outputs as long as no part has a place for them.

    A size that is known at run time only is -1.
    """
    ports = []
    for name, value in zip(names, values, strict=True):
        shape = tuple(n if isinstance(n, int) else -1 for n in shape_of(value))
        dtype = numpy_dtype(element_type_of(value))
        size_bytes = 0 if -1 in shape else prod(shape) * dtype.itemsize
        ports.append(Port(name, dtype.name, shape, 0, size_bytes))
    return ports


def sum_of(
    target: str,
    parts: Sequence[Part],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    results: Sequence[str],
) -> Program:
    """The program of all parts: what each has, with offsets counted from the first part's.

    `inputs`, `outputs`: the model's. An input lies where the first part that reads it has it, an
    output where it is made, unless that is on the host.
    """
    programs = [part.program for part in parts if part.program is not None]
    shifted = [
        _shifted(program, arena, weights)
        for program, arena, weights in zip(
            programs, _arena_bases(parts), _weight_bases(parts), strict=True
        )
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
        target,
        _source_of(known),
        tuple(kernels.values()),
        tuple(launch for program in shifted for launch in program.launches),
        tuple(replace(made.get(port.name, port), name=port.name) for port in inputs),
        tuple(
            replace(made.get(value, port), name=port.name)
            for port, value in zip(outputs, results, strict=True)
        ),
        tuple(taps),
        tuple(slot for program in shifted for slot in program.weights),
        sum(_rounded(program.arena_bytes) for program in programs),
        sum(_rounded(program.weights_bytes) for program in programs),
        next((program.size for program in programs if program.size is not None), None),
        parts=tuple(parts),
        results=tuple(results),
    )


def _source_of(parts: Sequence[Part]) -> SourceText:
    """The parts' texts below one another, each under a line with its name."""
    lines: list[str] = []
    owners: list[tuple[str, ...]] = []
    language = ""
    for part in parts:
        assert part.program is not None
        source = part.program.source
        language = language or source.language
        lines += [f"// {part.function} on {part.device}", *source.lines]
        owners += [(), *source.owners]
    return SourceText(language, tuple(lines), tuple(owners))


def _shifted(program: Program, arena: int, weights: int) -> Program:
    """The same with its arena and weights beginning elsewhere."""
    bases = {"arena": arena, "weights": weights}

    def launch(old: Launch) -> Launch:
        return replace(old, arguments=tuple(argument(a) for a in old.arguments))

    def argument(old: Argument) -> Argument:
        return replace(old, offset_bytes=old.offset_bytes + bases[old.space])

    def slot(old: WeightSlot) -> WeightSlot:
        return replace(old, offset_bytes=old.offset_bytes + weights)

    return replace(
        program,
        launches=tuple(map(launch, program.launches)),
        inputs=tuple(replace(p, offset_bytes=p.offset_bytes + arena) for p in program.inputs),
        outputs=tuple(replace(p, offset_bytes=p.offset_bytes + arena) for p in program.outputs),
        taps=tuple(replace(t, offset_bytes=t.offset_bytes + arena) for t in program.taps),
        weights=tuple(map(slot, program.weights)),
    )


def _arena_bases(parts: Sequence[Part]) -> list[int]:
    return _bases([p.program.arena_bytes for p in parts if p.program is not None])


def _weight_bases(parts: Sequence[Part]) -> list[int]:
    return _bases([p.program.weights_bytes for p in parts if p.program is not None])


def _bases(sizes: Sequence[int]) -> list[int]:
    bases, end = [], 0
    for size in sizes:
        bases.append(end)
        end += _rounded(size)
    return bases


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
