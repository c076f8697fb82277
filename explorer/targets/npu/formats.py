"""Where each field of each instruction lies, in bits.

    load   opcode:4 pop_before:1 ... scratchpad_address:16 global_address:32 | y_size:16 ...

An instruction is a row of 64-bit words, least significant bits first; a field that does not fit
into the rest of a word begins the next one, as bit-fields of C do. Widths follow from the sizes of
memories unless the target's file gives them. With `set = "vta"` formats are those of Apache VTA
(`VTAMemInsn`, `VTAGemInsn`, `VTAAluInsn`, `VTAUop` in its `hw_spec.h`), which have 128 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from explorer.targets.npu.instructions import RECORDS, RowLoop
from explorer.targets.npu.machine import Machine, index_bits, refuse

WORD_BITS = 64
MIN_BITS = 128
"""Of an instruction whose length the target's file does not give."""

OPCODES = {
    "load": 0, "store": 1, "multiply": 2, "finish": 3, "vector": 4, "table": 5, "requantize": 6,
    "softmax": 7, "normalize": 8,
}  # fmt: skip
MAX_PADDING = 15
"""Positions that a load pads with at most on each side, where the target's file gives no width."""
OPTIONAL = ("prefetch", "on_chip")
"""Fields that are left out, in this order, where instructions of a given length have no room."""
VTA_KINDS = ("load", "store", "multiply", "finish", "vector")
TOKENS = ("pop_before", "pop_after", "push_before", "push_after")


@dataclass(frozen=True)
class Field:
    name: str
    bits: int
    word: int
    """Which word of 64 bits it lies in."""
    shift: int
    """Of its lowest bit in that word."""
    is_signed: bool = False

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def most(self) -> int:
        return (1 << (self.bits - self.is_signed)) - 1


@dataclass(frozen=True)
class Format:
    """The fields of one kind of instruction, in order."""

    kind: str
    opcode: int
    fields: tuple[Field, ...]

    @property
    def bits(self) -> int:
        """What the fields take, rest of words between them included."""
        last = self.fields[-1]
        return last.word * WORD_BITS + last.shift + last.bits


@dataclass(frozen=True)
class Formats:
    """All formats of a machine; each instruction takes `bits`."""

    bits: int
    kinds: tuple[Format, ...]
    micro_operation: Format

    @property
    def size_bytes(self) -> int:
        return self.bits // 8

    def of(self, kind: str) -> Format | None:
        return next((one for one in self.kinds if one.kind == kind), None)

    def of_opcode(self, opcode: int) -> Format | None:
        return next((one for one in self.kinds if one.opcode == opcode), None)


@lru_cache(maxsize=64)
def formats_of(machine: Machine) -> Formats:
    """The formats of a machine. Raises `Contradiction` where an instruction is too short."""
    widths = _widths(machine)
    kinds = [
        _packed(kind, OPCODES[kind], _fields(kind, machine, widths)) for kind in _kinds(machine)
    ]
    own, given = machine.instruction_set, machine.instructions.bits
    if own.bits is not None and given not in (None, own.bits):
        refuse("instructions.bits", f"is {given}, expected {own.bits} (those of {own.title})")
    given = own.bits or given
    for name in OPTIONAL:
        if given is not None and any(one.bits > given for one in kinds):
            kinds = [_without(name, one) for one in kinds]
    needed = max(MIN_BITS, *(one.bits for one in kinds))
    bits = given or -(-needed // WORD_BITS) * WORD_BITS
    for one in kinds:
        if one.bits > bits:
            first = next(f for f in one.fields if f.word * WORD_BITS + f.shift + f.bits > bits)
            refuse(
                "instructions.bits",
                f"is {bits}, expected at least {one.bits}: {one.kind} has no room for "
                f"{first.name} of {first.bits} bits (smaller memories have shorter addresses)",
            )
    return Formats(bits, tuple(kinds), _packed("micro_operation", 0, _micro_fields(machine)))


def _without(name: str, one: Format) -> Format:
    return replace(one, fields=tuple(field for field in one.fields if field.name != name))


def moves_on_chip(machine: Machine) -> bool:
    """Whether transfers have the field for it."""
    return all("on_chip" in limits_of(machine, kind) for kind in ("load", "store"))


def prefetches(machine: Machine) -> bool:
    """Whether loads have the field for it."""
    return "prefetch" in limits_of(machine, "load")


@lru_cache(maxsize=256)
def limits_of(machine: Machine, kind: str) -> Mapping[str, int]:
    """The greatest number of each field of a kind of instruction; empty where there is none."""
    found = formats_of(machine).of(kind)
    return {} if found is None else {field.name: field.most for field in found.fields}


def _kinds(machine: Machine) -> list[str]:
    kinds = [*VTA_KINDS] if machine.vector else ["load", "store", "multiply", "finish"]
    own = ("table", "requantize", "softmax", "normalize")
    return kinds + [kind for kind in own if kind in machine.operations]


def side_by_side(machine: Machine) -> int:
    """Activations of one position that lie side by side in global memory: a tensor's blocks of
    channels are those that both rows and columns of the array divide."""
    return math.lcm(machine.rows, machine.columns) // machine.rows


def _widths(machine: Machine) -> dict[str, int]:
    """Those of the target's file, of VTA, or as many bits as the memories' sizes ask for."""
    deepest = max(space.depth for space in machine.spaces)
    address = index_bits(deepest)
    smallest = min(space.global_bytes for space in machine.spaces)
    total = machine.global_bytes
    if total is not None:  # an address on the chip has the same field
        pad = machine.scratchpads[machine.by_content["activations"].memory]
        total = max(total, pad.size_bytes or 0)
    derived = {
        "scratchpad_address": address,
        "global_address": 32 if total is None else index_bits(-(-total // smallest)),
        "size": deepest.bit_length(),
        "stride": max(16, deepest.bit_length()),
        "step": 8,
        "pad": (MAX_PADDING * side_by_side(machine)).bit_length(),
        "iterations": deepest.bit_length(),
        "immediate": 16,
    }
    given: dict[str, int] = dict(machine.instructions.widths)
    own = machine.instruction_set
    if own.widths is not None:
        derived = dict(own.widths)
        if given:
            text = f'has {min(given)}, and set = "{own.name}" has those of {own.title}'
            refuse("instructions.widths", text)
    name = "scratchpad_address"
    if given.get(name, address) < address:
        refuse(
            f"instructions.widths.{name}",
            f"is {given[name]}, expected at least {address}: a scratchpad has {deepest} elements",
        )
    if derived[name] < address:
        refuse("memories", f"have a scratchpad of {deepest} elements, expected at most "
               f"{1 << derived[name]} (a {name} has {derived[name]} bits)")  # fmt: skip
    for name, bits in given.items():
        if bits > 32:
            refuse(f"instructions.widths.{name}", f"is {bits}, expected at most 32")
    return {**derived, **given}


Wanted = tuple[str, int] | tuple[str, int, bool]


def _fields(kind: str, machine: Machine, widths: dict[str, int]) -> Sequence[Wanted]:
    start: list[Wanted] = [
        ("opcode", machine.instruction_set.opcode_bits),
        *((name, 1) for name in TOKENS),
    ]
    if kind == "finish":
        return start
    if kind in ("load", "store"):
        return [*start, *_transfer_fields(kind, machine, widths)]
    sums = index_bits(machine.depth("accumulators"))
    inputs = index_bits(machine.depth("activations"))
    sources = inputs if kind == "multiply" else sums
    micro = machine.depth("micro_operations")
    loop: list[Wanted] = [
        ("reset", 1),
        ("micro_begin", index_bits(micro)),
        # One bit more than an index in VTA, whose depths are powers of two; as many are needed.
        ("micro_end", micro.bit_length()),
        ("outer", widths["iterations"]),
        ("inner", widths["iterations"]),
        ("destination_outer", sums),
        ("destination_inner", sums),
        ("source_outer", sources),
        ("source_inner", sources),
    ]
    if kind != "multiply" and not machine.instruction_set.has_unused_fields:
        loop = loop[1:]  # VTA's vector instructions have the bit, too, and do not use it
    return [*start, *loop, *_operation_fields(kind, machine, widths, sums, inputs)]


def _transfer_fields(kind: str, machine: Machine, widths: dict[str, int]) -> list[Wanted]:
    fields: list[Wanted] = [
        ("memory", 4 if "diagonals" in machine.by_content else 3),
        ("scratchpad_address", widths["scratchpad_address"]),
        ("global_address", widths["global_address"]),
        ("y_size", widths["size"]),
        ("x_size", widths["size"]),
        ("x_stride", widths["stride"]),
    ]
    own = machine.instruction_set
    if own.skips_elements:
        fields.append(("x_step", widths["step"]))
    if kind == "load" or own.has_unused_fields:
        pads = ("y_pad_before", "y_pad_after", "x_pad_before", "x_pad_after")
        fields += [(name, widths["pad"]) for name in pads]
    if kind == "load" and own.pads_with_values:
        fields.append(("pad_value", machine.input_bits, True))
    if own.moves_on_chip:
        fields.append(("on_chip", 1))
    if kind == "load" and own.prefetches:
        fields.append(("prefetch", 1))
    if kind == "load" and machine.decodes_weights:
        space = machine.by_content["weights"]
        fields.append(("coded_bytes", (space.depth * space.global_bytes).bit_length()))
    return fields


def _operation_fields(
    kind: str, machine: Machine, widths: dict[str, int], sums: int, inputs: int
) -> list[Wanted]:
    if kind == "multiply":
        weights = index_bits(machine.depth("weights"))
        fields: list[Wanted] = [("weight_outer", weights), ("weight_inner", weights)]
        if machine.batch > 1 and not machine.instruction_set.elements_hold_batch:
            fields += [
                ("batch", machine.batch.bit_length()),
                ("destination_step", sums),
                ("source_step", inputs),
            ]
        if machine.replaces_sums:
            fields.append(("replace", 1))
        return fields
    if kind == "vector":
        return [("operation", 3), ("use_immediate", 1), ("immediate", widths["immediate"], True)]
    if kind == "table":
        return [("table", index_bits(machine.depth("tables")))]
    limits: list[Wanted] = [
        (name, machine.input_bits + 1, True) for name in ("offset", "low", "high")
    ]
    if issubclass(RECORDS[kind], RowLoop):
        count = machine.depth("accumulators").bit_length()
        row: list[Wanted] = [
            ("count", count), ("step", sums), ("valid", machine.columns.bit_length()), *limits
        ]  # fmt: skip
        return [*row, ("centered", 1), ("shift", 6)] if kind == "normalize" else row
    biased: list[Wanted] = [("biased", 1)] if machine.instruction_set.adds_biases else []
    return [("wide", 1), *limits, *biased]


def _micro_fields(machine: Machine) -> list[Wanted]:
    sums = index_bits(machine.depth("accumulators"))
    return [
        ("destination", sums),
        ("source", max(sums, index_bits(machine.depth("activations")))),
        ("weight", index_bits(machine.depth("weights"))),
        *([("first", 1)] if machine.replaces_sums else []),
    ]


def _packed(kind: str, opcode: int, wanted: Sequence[Wanted]) -> Format:
    """The fields one behind the other, none across the border of two words."""
    fields: list[Field] = []
    word = shift = 0
    for name, bits, *signed in wanted:
        if shift + bits > WORD_BITS:
            word, shift = word + 1, 0
        fields.append(Field(name, bits, word, shift, bool(signed and signed[0])))
        shift += bits
    return Format(kind, opcode, tuple(fields))
