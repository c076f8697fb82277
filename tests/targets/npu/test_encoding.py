"""Instructions as records, bytes and text: nothing is lost, and damage is refused."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explorer.errors import InputError
from explorer.runtime.npu.cycles import durations
from explorer.targets import load_target
from explorer.targets.npu.assembly import assemble, disassemble
from explorer.targets.npu.checking.order import queue_of_instructions
from explorer.targets.npu.encoding import (
    CODED,
    MOVED_ON_CHIP,
    NAMES,
    PADS,
    cached_formats,
    decode,
    decode_micro,
    encode,
    encode_micro,
    field_table,
    legal_contents,
    prefetched_contents,
)
from explorer.targets.npu.instructions import (
    RECORDS,
    VECTOR_OPERATIONS,
    Finish,
    Load,
    MicroOperation,
    Multiply,
    Store,
    Vector,
)
from explorer.targets.npu.machine import describe

MACHINES = [
    describe(load_target(name))
    for name in ("vta-16", "vta-32", "edge-64", "tiny-8", "mac-128", "odd-12x20")
]
DECODER = {"engines.dma.decoder": "rice", "engines.dma.decoded_bytes_per_cycle": 8}
MACHINES.append(describe(load_target("odd-12x20", DECODER)))  # with every field
VTA = MACHINES[0]


@st.composite
def instructions(draw, machine):
    """Any instruction of the machine, each field anywhere between its bounds."""
    format = draw(st.sampled_from(cached_formats(machine).kinds))
    record = RECORDS[format.kind]
    values = {}
    for field in format.fields:
        if field.name == "opcode" or field.name not in record.__dataclass_fields__:
            continue
        if field.name == "memory":
            values["memory"] = draw(st.sampled_from(legal_contents(format.kind, machine)))
        elif field.name == "operation":
            values["operation"] = draw(st.sampled_from(VECTOR_OPERATIONS))
        elif (
            (format.kind == "store" and "_pad_" in field.name)
            or (field.name == "on_chip" and values["memory"] not in MOVED_ON_CHIP)
            or (field.name == "prefetch" and values["memory"] not in prefetched_contents(machine))
            or (
                field.name == "coded_bytes"
                and (values["memory"] not in CODED or any(map(values.get, PADS)))
            )
        ):
            continue
        else:
            value = draw(st.integers(field.least, field.most))
            is_flag = record.__dataclass_fields__[field.name].type == "bool"
            values[field.name] = bool(value) if is_flag else value
    return record(**values)


@given(st.data(), st.sampled_from(MACHINES))
@settings(deadline=None)
def test_records_bytes_and_text_hold_the_same(data, machine):
    program = data.draw(st.lists(instructions(machine), max_size=6))
    encoded = encode(program, machine)
    assert len(encoded) == len(program) * cached_formats(machine).size_bytes
    assert list(decode(encoded, machine)) == program
    assert list(assemble(disassemble(program)).instructions) == program


@given(st.data(), st.sampled_from(MACHINES))
@settings(deadline=None)
def test_bytes_are_refused_or_come_back_as_they_were(data, machine):
    """Arbitrary bytes are seldom instructions: those of some are changed in a few places."""
    size = cached_formats(machine).size_bytes
    encoded = bytearray(encode(data.draw(st.lists(instructions(machine), max_size=3)), machine))
    for place in data.draw(st.lists(st.integers(0, max(0, len(encoded) - 1)), max_size=2)):
        encoded[place : place + 1] = data.draw(st.binary(min_size=1, max_size=1))
    encoded += data.draw(st.just(b"") | st.binary(max_size=size))
    try:
        program = decode(bytes(encoded), machine)
    except InputError:
        assume(False)
    assert encode(program, machine) == encoded


@given(st.data(), st.sampled_from(MACHINES))
@settings(deadline=None)
def test_every_bit_of_an_instruction_matters(data, machine):
    (one,) = program = [data.draw(instructions(machine))]
    encoded = bytearray(encode(program, machine))
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    try:
        (other,) = decode(bytes(encoded), machine)
    except InputError:
        return
    assert other != one


def test_only_tensors_are_moved_on_the_chip():
    for machine in MACHINES[2:]:
        load = Load(memory="weights", scratchpad_address=0, global_address=0, x_size=1)
        with pytest.raises(InputError, match="weights are not moved on the chip"):
            encode([dataclasses.replace(load, on_chip=True)], machine)
        encoded = bytearray(encode([load], machine))
        (field,) = [f for f in cached_formats(machine).of("load").fields if f.name == "on_chip"]
        encoded[field.word * 8 + field.shift // 8] |= 1 << field.shift % 8
        with pytest.raises(InputError, match="memory is none that is moved on the chip"):
            decode(bytes(encoded), machine)
    with pytest.raises(InputError, match="vta-16 has no such field"):
        encode([dataclasses.replace(load, memory="activations", on_chip=True)], VTA)


def test_only_what_another_queue_loads_is_prefetched():
    constants = Load(memory="accumulators", scratchpad_address=0, global_address=0, x_size=1)
    weights = dataclasses.replace(constants, memory="weights")
    for machine in MACHINES[2:]:
        program = encode([constants, dataclasses.replace(constants, prefetch=True)], machine)
        table = field_table(program, machine)
        assert queue_of_instructions(table, machine) == [1, 0]
        assert durations(table, machine).queues.tolist() == [1, 0]
        with pytest.raises(InputError, match="activations loads weights anyway"):
            encode([dataclasses.replace(weights, prefetch=True)], machine)
        encoded = bytearray(encode([weights], machine))
        (field,) = [f for f in cached_formats(machine).of("load").fields if f.name == "prefetch"]
        encoded[field.word * 8 + field.shift // 8] |= 1 << field.shift % 8
        with pytest.raises(InputError, match="memory is none that is prefetched"):
            decode(bytes(encoded), machine)
    with pytest.raises(InputError, match="vta-16 has no such field"):
        encode([dataclasses.replace(constants, prefetch=True)], VTA)


@given(st.data(), st.sampled_from(MACHINES))
@settings(deadline=None)
def test_micro_operations_come_back(data, machine):
    fields = cached_formats(machine).micro_operation.fields
    operation = st.builds(
        MicroOperation, **{field.name: st.integers(0, field.most) for field in fields}
    )
    operations = data.draw(st.lists(operation, max_size=5))
    assert list(decode_micro(encode_micro(operations, machine), machine)) == operations
    assert list(assemble(disassemble([], operations)).micro_operations) == operations


def test_vtas_bits_are_those_of_its_structures():
    # Written out by hand from VTAMemInsn, VTAGemInsn and VTAUop of hw_spec.h.
    load = Load(memory="activations", scratchpad_address=5, global_address=7, y_size=2, x_size=3,
                x_stride=4, x_pad_after=1, push_after=True)  # fmt: skip
    low = 0 | 1 << 6 | 2 << 7 | 5 << 10 | 7 << 26
    high = 2 | 3 << 16 | 4 << 32 | 1 << 60
    assert encode([load], VTA) == low.to_bytes(8, "little") + high.to_bytes(8, "little")
    multiply = Multiply(micro_begin=1, micro_end=2, outer=3, inner=4, destination_outer=5,
                        source_inner=6, weight_inner=7, reset=True, pop_before=True)  # fmt: skip
    low = 2 | 1 << 3 | 1 << 7 | 1 << 8 | 2 << 21 | 3 << 35 | 4 << 49
    high = 5 | 6 << 33 | 7 << 54
    assert encode([multiply], VTA) == low.to_bytes(8, "little") + high.to_bytes(8, "little")
    micro = encode_micro([MicroOperation(1, 2, 3)], VTA)
    assert micro == (1 | 2 << 11 | 3 << 22).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Load(memory="weights", scratchpad_address=65536, global_address=0, x_size=1),
         r"instruction 1 \(load\): scratchpad_address is 65536, expected 0 to 65535 \(16 bits\)"),
        (Load(memory="weights", scratchpad_address=0, global_address=0, x_size=1, pad_value=3),
         "pad_value is 3, and vta-16 has no such field"),
        (Load(memory="tables", scratchpad_address=0, global_address=0, x_size=1),
         "vta-16 has no load of tables"),
        (Store(memory="accumulators", scratchpad_address=0, global_address=0, x_size=1),
         "vta-16 has no store of accumulators"),
        (Multiply(micro_begin=0, micro_end=1, batch=2), "batch is 2, and vta-16 has no such field"),
        (Vector(micro_begin=0, micro_end=1, operation="divide"), "operation is 'divide', expected"),
        (RECORDS["table"](micro_begin=0, micro_end=1), "vta-16 has no such instruction"),
    ],
)  # fmt: skip
def test_what_cannot_be_encoded_names_the_instruction_and_the_bound(instruction, message):
    with pytest.raises(InputError, match=message):
        encode([Finish(), instruction], VTA)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytes(15), "15 bytes, expected a multiple of 16: instruction 0 is cut off"),
        (bytes([3]) + bytes(15) + bytes([5]) + bytes(15), "instruction 1: opcode 5 is none of"),
        (bytes([3, 0, 1]) + bytes(13), "instruction 0: has bits outside of the fields of finish"),
        (bytes([0, 2]) + bytes(14), "instruction 0: memory is none that load knows"),
        (bytes([4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0]), "operation is none that"),
        (bytes([0x84]) + bytes(15), "vector has a bit set that is unused"),
        (bytes([1, 2] + [0] * 13 + [16]), "instruction 0: store cannot pad"),
    ],
)
def test_damaged_bytes_name_the_instruction(data, message):
    with pytest.raises(InputError, match=message):
        decode(data, VTA)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("finish\nlaod", r"line 2: no instruction 'laod' \(did you mean 'load'\?\)"),
        ("load weight", r"line 1: no memory 'weight' \(did you mean 'weights'\?\)"),
        ("load weights xsize=1", r"line 1: no field 'xsize' \(did you mean 'x_size'\?\)"),
        ("load weights x_size=1 global_address=0", "line 1: scratchpad_address is missing"),
        ("finish push_before=1", "line 1: 'push_before=1', expected its name alone"),
        ("micro weight=x", "line 1: weight is 'x', expected a whole number"),
        ("micro weight=1 weight=2", "weight stands there twice"),
    ],
)
def test_a_mistake_in_a_text_names_the_line(text, message):
    with pytest.raises(InputError, match=message):
        assemble(text)


def test_records_have_a_field_for_every_field_of_their_formats():
    for machine in MACHINES:
        for format in cached_formats(machine).kinds:
            names = {field.name for field in dataclasses.fields(RECORDS[format.kind])}
            unused = {"opcode", *(["reset"] if format.kind == "vector" else [])}
            assert {field.name for field in format.fields} - unused <= names
    assert set(NAMES) == {"memory", "operation"}


def test_the_page_of_instructions_lists_the_fields_of_every_format():
    page = Path(__file__).resolve().parents[3] / "docs" / "npu-instructions.md"
    rows = [line.split("|") for line in page.read_text("utf-8").splitlines()]
    listed = {
        row[1].strip(" `"): (row[2].strip(), re.findall(r"`(\w+)`", row[3]))
        for row in rows
        if len(row) > 5 and row[2].strip().isdigit()
    }
    for format in cached_formats(MACHINES[-1]).kinds:
        opcode, names = listed[format.kind]
        fields = [f.name for f in format.fields if not f.name.startswith(("opcode", "pop", "push"))]
        assert (int(opcode), names) == (format.opcode, fields)
