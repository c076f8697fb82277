"""`explorer targets [NAME]`: what programs can be made for, and what is known of one of them.

explorer targets                     all targets that ship with the program
explorer targets vta-16              its memories, engines, queues, and formats of instructions
explorer targets boards/mine.toml    the same of a file of one's own, or what is wrong with it
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from explorer.cli import arguments as options
from explorer.cli.terminal import print_json, print_lines

if TYPE_CHECKING:
    from explorer.targets import Target
    from explorer.targets.npu.machine import Machine

SUMMARY = "list and explain targets"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a target, or a file of one")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from explorer.targets import list_targets, load_target

    if arguments.name is not None:
        target = load_target(arguments.name)
        if arguments.json:
            print_json(described(target))
        else:
            print_lines(explained(target))
        return 0
    targets = [load_target(name) for name in list_targets()]
    if arguments.json:
        print_json({"targets": [described(target) for target in targets]})
        return 0
    print_lines(table(("target", "networks", "what it is"), map(overview, targets)))
    return 0


def overview(target: Target) -> tuple[str, str, str]:
    return target.name, "no" if refusal(target) else "compiled", target.description


def refusal(target: Target) -> str:
    """Why networks cannot be compiled for it; empty where they can."""
    from explorer.backends import backend_of
    from explorer.errors import InputError

    try:
        backend_of(target)
    except InputError as error:
        return error.message
    return ""


def described(target: Target) -> dict[str, Any]:
    """All that the file says, and what follows from it."""
    reason = refusal(target)
    found = {**dataclasses.asdict(target), "compiles_networks": not reason, "reason": reason}
    if not target.queues:
        return found
    from explorer.targets.npu.formats import formats_of
    from explorer.targets.npu.machine import describe

    machine = describe(target)
    formats = formats_of(machine)
    return {
        **found,
        "elements": [
            {
                "content": space.content,
                "memory": machine.scratchpads[space.memory].name,
                "element_bytes": space.element_bytes,
                "elements": space.depth,
            }
            for space in machine.spaces
        ],
        "macs_per_cycle": machine.batch * machine.rows * machine.columns,
        "instruction_bits": formats.bits,
        "formats": {
            one.kind: {"opcode": one.opcode, "fields": [dataclasses.asdict(f) for f in one.fields]}
            for one in formats.kinds
        },
    }


def explained(target: Target) -> list[str]:
    """The target for a person."""
    lines = [f"{target.name}: {target.description}" if target.description else target.name]
    if reason := refusal(target):
        lines.append(f"networks: {reason}")
    lines += ["", f"languages: {', '.join(target.languages)}"]
    lines.append(f"data types: {', '.join(target.data_types)}")
    if target.requantization is not None:
        lines.append(f"requantization: {target.requantization}")
    if target.clock_hz:
        lines.append(f"clock: {target.clock_hz / 1e6:g} MHz")
    lines += ["", *table(("memory", "kind", "size", "parts", "holds"), memory_rows(target))]
    if target.queues:
        from explorer.targets.npu.machine import describe

        lines += ["", *machine_lines(describe(target))]
    return lines


def memory_rows(target: Target) -> Iterator[Sequence[str]]:
    from explorer.views.numbers import format_bytes

    for memory in target.memories:
        size = "no limit" if memory.size_bytes is None else format_bytes(memory.size_bytes)
        parts = [
            f"{count} {word}"
            for word, count in (
                ("lanes", memory.lanes), ("banks", memory.banks), ("ports", memory.ports),
            )
            if count > 1
        ]  # fmt: skip
        yield memory.name, memory.kind, size, ", ".join(parts), ", ".join(memory.holds)


def machine_lines(machine: Machine) -> Iterator[str]:
    """Engines, elements, queues and formats of a device that instructions drive."""
    from explorer.targets.npu.formats import formats_of

    batch, rows, columns = machine.batch, machine.rows, machine.columns
    yield (
        f"matrix engine: {batch} x {rows} inputs of {machine.input_bits} bits times "
        f"{rows} x {columns} weights of {machine.weight_bits} bits, "
        f"{batch * rows * columns} multiply-accumulates in a cycle"
    )
    if machine.vector:
        yield (
            f"vector engine: {machine.vector.lanes} lanes, {', '.join(machine.vector.operations)}"
        )
    yield ""
    yield from table(
        ("content", "lies in", "bytes", "elements"),
        (
            (s.content.replace("_", " "), machine.scratchpads[s.memory].name,
             str(s.element_bytes), str(s.depth))
            for s in machine.spaces
        ),
        align="llrr",
    )  # fmt: skip
    yield ""
    yield from table(
        ("moves", "bytes per cycle", "before the first byte"),
        (
            (
                " -> ".join((region, machine.scratchpads[pad].name)[:: 1 if is_load else -1]),
                f"{float(route.bytes_per_cycle):g}",
                f"{route.fixed_cycles} cycles",
            )
            for (region, pad, is_load), route in machine.routes
        ),
        align="lrr",
    )
    yield ""
    yield from table(("queue", "takes"), ((q.name, takes(q)) for q in machine.queues))
    formats = formats_of(machine)
    yield ""
    yield f"instructions of {formats.bits} bits; fields with their bits, | begins a word of 64"
    yield from table(
        ("", "opcode", "fields"),
        ((one.kind, str(one.opcode), fields_in_words(one.fields)) for one in formats.kinds),
    )
    yield f"micro-operation: {fields_in_words(formats.micro_operation.fields)}"


def takes(queue: Any) -> str:
    parts = [f"loads of {', '.join(queue.loads)}"] * bool(queue.loads)
    parts += [f"stores of {', '.join(queue.stores)}"] * bool(queue.stores)
    parts += [f"{', '.join(queue.engines)} engine"] * bool(queue.engines)
    return "; ".join(parts)


def fields_in_words(fields: Sequence[Any]) -> str:
    words: list[str] = []
    for before, field in zip((None, *fields), fields, strict=False):
        words += ["|"] * (before is not None and before.word != field.word)
        words.append(f"{field.name}:{field.bits}")
    return " ".join(words)


def table(header: Sequence[str], rows: Any, align: str | None = None) -> list[str]:
    from explorer.views.parts.plain import WIDTH, columns

    align = align or "l" * len(header)
    return columns(tuple(rows), tuple(header), align=align, indent=0, width=WIDTH)
