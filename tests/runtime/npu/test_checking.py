"""Deadlocks, races and accesses outside of memories, found before a program runs."""

import dataclasses
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from npu_flips import flipped, is_idle, noticed_by
from npu_reference import machine, tile_image, tiles

from explorer.runtime.npu import SimulationFault, simulate
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.checking.accesses import _Indices
from explorer.targets.npu.encoding import cached_formats, encode, encode_micro
from explorer.targets.npu.instructions import (
    Finish,
    Load,
    MicroOperation,
    Multiply,
    Store,
    Vector,
)

VTA = machine("vta-16")
MICRO = [MicroOperation(), MicroOperation(1, 1, 1), MicroOperation(2, 2, 2)]
IMAGE = (
    encode_micro(MICRO, VTA)
    + np.random.default_rng(3).integers(0, 256, 65536).astype(np.uint8).tobytes()
)[:65536]


def findings(*program, found=VTA, image=IMAGE):
    """All but those of reading what is not loaded: most programs here load nothing."""
    every = check_program(encode(program, found), image, found)
    return [finding for finding in every if finding.kind != "unwritten"]


def only(*program, **options):
    (finding,) = findings(*program, **options)
    return finding


def load(memory="activations", count=1, at=0, **fields):
    return Load(memory=memory, scratchpad_address=at, global_address=0, x_size=count, **fields)


def multiply(**fields):
    return Multiply(**{"micro_begin": 0, "micro_end": 1, **fields})


@pytest.mark.parametrize("buffers", [1, 2])
def test_a_right_program_has_no_findings(buffers):
    program = encode([*tiles(6, buffers), Finish()], VTA)
    assert check_program(program, tile_image(VTA), VTA) == []


def test_reading_what_nobody_wrote_is_found():
    program = [load("micro_operations", 3), load("weights", push_after=True),
               multiply(reset=True, pop_before=True), multiply(), Finish()]  # fmt: skip
    (finding,) = check_program(encode(program, VTA), IMAGE, VTA)
    assert (finding.kind, finding.instruction) == ("unwritten", 3)
    assert "reads activations 0, which no instruction before it has written" in finding.text


@pytest.mark.parametrize("at", [0, 127])
def test_a_table_over_micro_operations_is_found(at):
    """`tiny-8` has both in one scratchpad, of which each counts in its own elements."""
    tiny = machine("tiny-8")
    assert tiny.depth("tables") == 128
    program = [
        Load(memory="micro_operations", scratchpad_address=0, global_address=0, x_size=1),
        Load(memory="tables", scratchpad_address=at, global_address=1, x_size=1),
        Multiply(micro_begin=0, micro_end=1, reset=True),
        Finish(),
    ]
    found = check_program(encode(program, tiny), IMAGE, tiny)
    assert [f.kind for f in found] == ["overwritten"] * (at == 0)
    if found:
        assert found[0].instruction == 2
        assert "reads micro operations 0, where tables were written" in found[0].text


FLAGS = ("pop_before", "pop_after", "push_before", "push_after")


def test_every_flipped_token_is_found():
    program = [*tiles(4, 2), Finish()]
    for number, flag in itertools.product(range(len(program)), FLAGS):
        other = dataclasses.replace(program[number], **{flag: not getattr(program[number], flag)})
        changed = [*program[:number], other, *program[number + 1 :]]
        assert {f.kind for f in findings(*changed, image=tile_image(VTA))} & {
            "deadlock",
            "token",
        }, (number, flag)


def test_a_buffer_that_is_written_too_early_is_a_race_with_both_instructions():
    program = [*tiles(4, 2), Finish()]
    # Without the tokens that say that a buffer is free, which are given as often as taken.
    raced = [
        dataclasses.replace(op, pop_after=False) if isinstance(op, Load)
        else dataclasses.replace(op, push_before=False) if isinstance(op, Multiply) else op
        for op in program
    ]  # fmt: skip
    found = findings(*raced, image=tile_image(VTA))
    assert {f.kind for f in found} == {"race"}
    first = found[0]
    assert (type(program[first.instruction]), type(program[first.other])) in [
        (Load, Multiply), (Multiply, Load),
    ]  # fmt: skip
    assert f"instruction {first.instruction} (" in first.text
    assert f"instruction {first.other} (" in first.text
    assert "no token orders them" in first.text


def test_a_race_in_global_memory_is_found():
    store = Store(memory="outputs", scratchpad_address=0, global_address=512, x_size=4)
    reading = Load(memory="activations", scratchpad_address=0, global_address=513, x_size=1)
    finding = only(store, reading, Finish())
    assert finding.kind == "race"
    assert "byte 8208 of global memory" in finding.text
    beside = dataclasses.replace(reading, global_address=516)
    assert findings(store, beside, Finish()) == []
    # Rows with gaps: the load reads what lies between.
    gaps = dataclasses.replace(store, y_size=2, x_size=1, x_stride=2)
    assert findings(gaps, reading, Finish()) == []


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (load(count=9, at=2040), "activations have 2048 elements, and it touches element 2048"),
        (load(count=5000), "global memory has 65536 bytes, and it touches byte 79999"),
        (multiply(micro_end=8193), "micro operations have 8192 elements, and it touches 8192"),
        (multiply(outer=2, destination_outer=2047, inner=2, destination_inner=1),
         "accumulators have 2048 elements, and it touches element 2048"),
        (multiply(outer=3, weight_outer=512), "weights have 1024 elements, and it touches element"),
        (multiply(outer=3, source_outer=1024), "activations have 2048 elements"),
        (Vector(operation="add", micro_begin=0, micro_end=1, outer=3, source_outer=1024),
         "accumulators have 2048 elements"),
    ],
)  # fmt: skip
def test_an_access_outside_names_the_memory_and_the_element(instruction, text):
    finding = only(load("micro_operations", 3), instruction, Finish())
    assert (finding.kind, finding.instruction) == ("bounds", 1)
    assert text in finding.text
    program = encode([load("micro_operations", 3), instruction, Finish()], VTA)
    with pytest.raises(SimulationFault, match="instruction 1"):
        simulate(program, IMAGE, VTA)


def test_micro_operations_are_read_out_of_memory():
    finding = only(load("micro_operations", 3), multiply(micro_begin=1, micro_end=3, outer=2,
                   source_outer=2046), Finish())  # fmt: skip
    assert "touches element 2048" in finding.text  # 2 of the third micro-operation + 2046
    # Not loaded, they are zeros.
    late = multiply(micro_begin=1, micro_end=3, outer=2, source_outer=2046)
    assert findings(late, Finish()) == []


@pytest.mark.parametrize(("at", "kinds"), [(0, {"micro_operations", "race"}), (1, set())])
def test_micro_operations_that_the_program_writes_are_refused(at, kinds):
    """Three of them are 12 bytes, and a result is 16."""
    store = Store(memory="outputs", scratchpad_address=0, global_address=at, x_size=1)
    found = findings(store, load("micro_operations", 3), Finish())
    assert {f.kind for f in found} == kinds


def test_a_transfer_across_two_memories_is_refused():
    found = machine("mac-128")
    size = 4 * 2**20
    across = Load(
        memory="activations", scratchpad_address=0, global_address=size // 8 - 1, x_size=2
    )
    image = np.zeros(size + 64, np.uint8)
    finding = only(across, Finish(), found=found, image=image)
    assert "crosses the end of memory sram at byte 4194304" in finding.text


def test_a_program_ends_with_finish():
    assert only(load()).kind == "end"
    assert "finish is not the last instruction" in only(Finish(), load()).text


def test_what_the_vector_engine_cannot_do_is_found():
    small = machine("vta-16", **{"engines.vector.operations": ["add"]})
    finding = only(Vector(operation="maximum", micro_begin=0, micro_end=0), Finish(), found=small)
    assert finding.kind == "engine"
    assert "has no maximum" in finding.text


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), max_size=3),
)
def test_the_elements_of_loops_are_all_sums(first, steps):
    indices = _Indices(first)
    for count, size in steps:
        indices.step(count, size)
    choices = [[size * i for i in range(count)] for count, size in steps]
    expected = {f + sum(rest) for f in first for rest in itertools.product(*choices)}
    assert indices.elements().tolist() == sorted(expected)
    assert indices.last == max(expected)


@st.composite
def token_programs(draw):
    """Few instructions of all three queues with any tokens, on two elements."""
    program = []
    for _ in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["load", "multiply", "store"]))
        legal = {"load": ("pop_after", "push_after"), "store": ("pop_before", "push_before")}
        tokens = {flag: draw(st.booleans()) for flag in legal.get(kind, FLAGS)}
        at = draw(st.integers(0, 1))
        if kind == "load":
            program.append(load(at=at, **tokens))
        elif kind == "store":
            to = 512 + draw(st.integers(0, 1))
            program.append(
                Store(
                    memory="outputs", scratchpad_address=at, x_size=1, global_address=to, **tokens
                )
            )
        else:
            program.append(multiply(outer=at + 1, destination_outer=1, source_outer=1, **tokens))
    return [*program, Finish()]


def happens_before(program):
    """[a, b]: whether a has ended before b begins: queues and tokens, closed transitively."""
    queues = [0 if isinstance(o, Load) else 2 if isinstance(o, Store) else 1 for o in program]
    before = np.zeros((len(program), len(program)), bool)
    for a, b in itertools.combinations(range(len(program)), 2):
        before[a, b] = queues[a] == queues[b]
    for giver, taker in ((0, 1), (1, 0), (1, 2), (2, 1)):
        side = "after" if taker > giver else "before"
        back = "before" if taker > giver else "after"
        pushes = [i for i, o in enumerate(program) if queues[i] == giver
                  and getattr(o, f"push_{side}")]  # fmt: skip
        pops = [i for i, o in enumerate(program) if queues[i] == taker
                and getattr(o, f"pop_{back}")]  # fmt: skip
        for a, b in zip(pushes, pops, strict=False):
            before[a, b] = True
    for k in range(len(program)):
        before |= before[:, k : k + 1] & before[k]
    return before


def touched(op):
    """(place, is written) of what the programs above touch; both memories together."""
    if isinstance(op, Load):
        return {(("in", op.scratchpad_address), True)}
    if isinstance(op, Store):
        return {(("out", op.scratchpad_address), False), (("dram", op.global_address), True)}
    if isinstance(op, Multiply):
        return {((kind, i), kind == "out") for kind in ("in", "out") for i in range(op.outer)}
    return set()


@given(token_programs())
@settings(deadline=None, max_examples=150)
def test_races_are_those_of_the_definition_and_deadlocks_those_of_the_simulator(program):
    found = findings(*program)
    is_stuck = any(f.kind == "deadlock" for f in found)
    if is_stuck:
        with pytest.raises(SimulationFault, match="waits forever"):
            simulate(encode(program, VTA), IMAGE, VTA)
        return
    before = happens_before(program)
    raced = {
        (a, b)
        for a, b in itertools.combinations(range(len(program)), 2)
        if not before[a, b] and not before[b, a]
        for place, writes in touched(program[a])
        for other, other_writes in touched(program[b])
        if place == other and (writes or other_writes)
    }
    reported = {tuple(sorted((f.instruction, f.other))) for f in found if f.kind == "race"}
    assert bool(reported) == bool(raced)
    assert reported <= raced


def test_each_field_of_each_instruction_is_noticed_when_it_is_flipped():
    program = [
        load("micro_operations", 3, push_before=True),
        Load(memory="activations", scratchpad_address=0, global_address=64, y_size=3, x_size=4,
             x_stride=6, x_pad_before=1, y_pad_after=1, pop_after=True),
        Load(memory="weights", scratchpad_address=0, global_address=8, x_size=8, push_after=True),
        multiply(micro_end=3, outer=5, inner=2, destination_outer=3, destination_inner=1,
                 reset=True, pop_before=True),
        multiply(micro_end=3, outer=5, inner=2, destination_outer=3, destination_inner=1,
                 source_outer=3, source_inner=3, weight_outer=1, weight_inner=1),
        Vector(operation="shift_right", use_immediate=True, immediate=4, micro_begin=0,
               micro_end=3, outer=5, destination_outer=3, source_outer=3),
        Vector(operation="maximum", micro_begin=1, micro_end=3, outer=4, destination_outer=3,
               source_outer=2, push_after=True),
        Store(memory="outputs", scratchpad_address=0, global_address=1024, y_size=3, x_size=5,
              x_stride=6, pop_before=True, push_before=True),
        Finish(pop_after=True),
    ]  # fmt: skip
    assert check_program(encode(program, VTA), IMAGE, VTA) == []
    right = simulate(encode(program, VTA), IMAGE, VTA)
    formats = cached_formats(VTA)
    encoded = encode(program, VTA)
    unnoticed = []
    for number, op in enumerate(program):
        for field in formats.of(op.kind).fields:
            is_behind = field.name.endswith("_pad_after") and op.y_size == 1
            if is_behind or is_idle(op, field.name):
                continue
            changed = flipped(encoded, VTA, number, field, 0)
            if not noticed_by(changed, IMAGE, VTA, right):
                unnoticed.append((number, field.name))
    assert unnoticed == []
