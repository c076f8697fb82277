"""What the simulator computes, against the definition of each instruction; damage ends no one."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from npu_reference import Reference, computed, in_order, machine, pack, unpack, wrapped

from explorer.errors import DeviceError, InputError
from explorer.ir.requantization import (
    ROUNDINGS,
    SCHEMES,
    FixedPoint,
    Requantization,
    multiplied,
)
from explorer.runtime.npu import SimulationFault, Tap, simulate
from explorer.targets.npu.encoding import (
    MOVED_ON_CHIP,
    cached_formats,
    encode,
    encode_micro,
    legal_contents,
)
from explorer.targets.npu.instructions import (
    VECTOR_OPERATIONS,
    Finish,
    Load,
    MicroOperation,
    Multiply,
    Normalize,
    Requantize,
    Softmax,
    Store,
    Table,
    Vector,
)

SMALL = {
    "memories.micro_operations.size_bytes": 60,
    "memories.inputs.size_bytes": 60,
    "memories.inputs.banks": 1,
    "memories.weights.size_bytes": 60,
    "memories.weights.banks": 1,
    "memories.accumulators.size_bytes": 240,
    "memories.accumulators.banks": 1,
    "memories.tables.size_bytes": 48,
    "memories.dram.size_bytes": 4096,
    "engines.matrix.batch": 2,
    "engines.matrix.rows": 2,
    "engines.matrix.columns": 4,
    "engines.vector.table_entries": 8,
}


def small(set_="full", input_bits=8, weight_bits=8, accumulator_bits=32, scheme="multiplier_shift",
          rounding="nearest_up", batch=2):  # fmt: skip
    """A machine with a few elements of each content, so that random indices often lie inside."""
    operations = list(VECTOR_OPERATIONS)
    if set_ == "full":
        operations += ["table"] + ["requantize"] * (accumulator_bits == 32)
    return in_order(
        **{
            **SMALL,
            "instructions.set": set_,
            "engines.matrix.input_bits": input_bits,
            "engines.matrix.weight_bits": weight_bits,
            "engines.matrix.accumulator_bits": accumulator_bits,
            "engines.matrix.batch": batch,
            "engines.vector.operations": operations,
            "requantization.scheme": scheme,
            "requantization.rounding": rounding,
        }
    )


MACHINES = [
    small(),
    small(batch=1, scheme="doubling_high_multiply"),
    small(input_bits=4, weight_bits=4, accumulator_bits=16),
    small(input_bits=16, weight_bits=4, rounding="nearest_even"),
    small(input_bits=4, weight_bits=16, scheme="shift", rounding="to_zero"),
    small(scheme="multiplier_shift", rounding="nearest_away_from_zero"),
]
VTA_LIKE = {"loads": ["activations", "weights", "micro_operations", "accumulators"],
            "stores": ["accumulators"], "engines": ["matrix", "vector"]}  # fmt: skip
VTA_SMALL = machine(
    "vta-16",
    queues={"all": VTA_LIKE},
    **{
        "memories.micro_operations.size_bytes": 64,
        "memories.inputs.size_bytes": 64,
        "memories.weights.size_bytes": 64,
        "memories.accumulators.size_bytes": 256,
        "engines.matrix.batch": 2,
        "engines.matrix.rows": 2,
        "engines.matrix.columns": 4,
    },
)
IMAGE_BYTES = 1024


@st.composite
def transfers(draw, machine, kind):
    content = draw(st.sampled_from(legal_contents(kind, machine)))
    space = machine.by_content[content]
    on_chip = content in MOVED_ON_CHIP and machine.set == "full" and draw(st.booleans())
    chip = machine.by_content["activations"]
    elements = (chip.depth * chip.element_bytes if on_chip else IMAGE_BYTES) // space.global_bytes
    y, x = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    pads = [draw(st.integers(0, 1)) if kind == "load" else 0 for _ in range(4)]
    size = (y + pads[0] + pads[1]) * (x + pads[2] + pads[3])
    stride = draw(st.integers(0, 4))
    step = draw(st.integers(0, 3)) if machine.set == "full" else 1
    reach = max(0, y - 1) * stride + (max(0, x - 1) * step + 1 if x else 0)
    if size > space.depth or reach > elements:
        y = x = 0
        size = reach = 0
    values = dict(
        memory=content, y_size=y, x_size=x, x_stride=stride, x_step=step,
        scratchpad_address=draw(st.integers(0, max(0, space.depth - max(size, 1)))),
        global_address=draw(st.integers(0, elements - max(reach, 1))),
    )  # fmt: skip
    if on_chip:
        first, at = values["scratchpad_address"], values["global_address"]
        is_clear = content != "activations" or first + size <= at or at + reach <= first
        values["on_chip"] = is_clear  # of ends that share bytes nothing is defined
    if kind == "store":
        return Store(**values)
    values |= dict(zip(("y_pad_before", "y_pad_after", "x_pad_before", "x_pad_after"), pads,
                       strict=True))  # fmt: skip
    if machine.set == "full":
        half = 1 << machine.input_bits - 1
        values["pad_value"] = draw(st.integers(-half, half - 1))
    return Load(**values)


@st.composite
def loops(draw, machine, record):
    micro = machine.depth("micro_operations")
    begin = draw(st.integers(0, micro - 1))
    values = dict(micro_begin=begin, micro_end=draw(st.integers(begin, min(begin + 3, micro))))
    values |= {name: draw(st.integers(0, 2)) for name in ("outer", "inner")}
    names = ["destination_outer", "destination_inner", "source_outer", "source_inner"]
    if record is Multiply:
        names += ["weight_outer", "weight_inner"]
        values["reset"] = draw(st.booleans())
        if machine.set == "full":
            values["replace"] = draw(st.booleans())
        if machine.set == "full" and machine.batch > 1:
            values["batch"] = draw(st.integers(0, machine.batch))
            values |= {n: draw(st.integers(0, 1)) for n in ("destination_step", "source_step")}
    values |= {name: draw(st.integers(0, 1)) for name in names}
    if record is Vector:
        values["operation"] = draw(st.sampled_from(VECTOR_OPERATIONS))
        values["use_immediate"] = draw(st.booleans())
        values["immediate"] = draw(st.integers(-40, 40))
    if record is Table:
        values["table"] = draw(st.integers(0, machine.depth("tables") - 1))
    if record is Requantize:
        values |= dict(offset=draw(st.integers(-3, 3)), low=-7, high=draw(st.integers(0, 7)),
                       wide=draw(st.booleans()), biased=draw(st.booleans()))  # fmt: skip
    return record(**values)


@st.composite
def programs(draw, machine):
    kinds = {format.kind for format in cached_formats(machine).kinds}
    records = [r for r in (Multiply, Vector, Table, Requantize) if r.kind in kinds]
    one = st.one_of(
        transfers(machine, "load"),
        transfers(machine, "store"),
        *(loops(machine, record) for record in records),
    )
    content = [c for c in legal_contents("load", machine) if c != "widened"]
    filling = [
        Load(memory=c, scratchpad_address=0, global_address=number,
             x_size=min(machine.depth(c), 4))
        for number, c in enumerate(content)
    ]  # fmt: skip
    return [*filling, *draw(st.lists(one, max_size=12)), Finish()]


@given(st.data(), st.sampled_from([*MACHINES, VTA_SMALL]), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_every_instruction_computes_what_its_definition_says(data, machine, seed):
    program = data.draw(programs(machine))
    random = np.random.default_rng(seed)
    image = random.integers(0, 256, IMAGE_BYTES).astype(np.uint8).tobytes()
    reference = Reference(machine, image)
    try:
        reference.run(program)
    except AssertionError:  # an index outside: the simulator has to say so, too
        event("an index lies outside")
        with pytest.raises(SimulationFault, match="elements, and element"):
            simulate(encode(program, machine), image, machine)
        return
    assert simulate(encode(program, machine), image, machine).image == bytes(reference.image)


EDGES = [0, 1, -1, 2, -2, 3, -3, 5, -5, 6, -6, 77, -77, 2**30, -(2**30), 2**31 - 1, -(2**31)]


def lists_of_numbers(machine, *rows):
    """An image with lists of accumulators, and the loads that bring them in, one element each."""
    image = encode_micro([MicroOperation(0, 1)], machine).ljust(64, b"\0")
    size = machine.by_content["accumulators"].element_bytes
    image = image.ljust(-(-len(image) // size) * size, b"\0")
    first = len(image) // size
    loads = [Load(memory="micro_operations", scratchpad_address=0, global_address=0, x_size=1)]
    loads.append(Load(memory="accumulators", scratchpad_address=0, global_address=first,
                      x_size=len(rows)))  # fmt: skip
    image += b"".join(pack(row, 32) for row in rows)
    store = Store(memory="accumulators", scratchpad_address=0, global_address=first, x_size=1)
    return image, loads, store, len(rows[0]) * 4, first * size


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "float"])
def test_requantization_rounds_as_the_one_reference(scheme, rounding):
    columns = 2 * len(EDGES)
    found = in_order(
        **{
            "requantization.scheme": scheme,
            "requantization.rounding": rounding,
            "engines.matrix.columns": columns,
            "engines.matrix.input_bits": 16,
        }
    )
    numbers = np.array(EDGES * 2, np.int64)
    multipliers = np.array([3] * len(EDGES) + [2**31 - 1] * len(EDGES), np.int64)
    shifts = np.array([2] * len(EDGES) + [40] * len(EDGES), np.int64)
    image, loads, store, size, at = lists_of_numbers(found, numbers, multipliers, shifts)
    scaling = Requantize(micro_begin=0, micro_end=1, offset=5, low=-30000, high=30000)
    encoded = encode([*loads, scaling, store], found)
    out = unpack(simulate(encoded, image, found).image[at : at + size], 32)
    factors = FixedPoint(np.ones_like(shifts) if scheme == "shift" else multipliers, shifts)
    expected = multiplied(numbers, factors, Requantization(scheme, rounding)) + 5
    np.testing.assert_array_equal(out, np.clip(expected, -30000, 30000))


@given(st.data(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_a_softmax_computes_what_its_definition_says(data, seed):
    """Rows whose ends leave an element, or the next row, in part; exponentials of any sign."""
    found = in_order(**{"engines.matrix.columns": 20})
    random, size = np.random.default_rng(seed), found.by_content["accumulators"].element_bytes
    bound = data.draw(st.sampled_from([2**30 + 1, 2**31]))
    exponentials = random.integers(data.draw(st.sampled_from([0, -bound])), bound, 260)
    spread = data.draw(st.sampled_from([1, 40, 300, 2**31]))
    numbers = random.integers(-spread, spread, (8, 20))
    multiplier = data.draw(st.sampled_from([*EDGES, 12345678]))
    constants = [np.full(20, multiplier), np.full(20, data.draw(st.integers(-3, 70)))]
    rows = [*numbers, *constants, *exponentials.reshape(-1, 20)]
    image, loads, _, _, at = lists_of_numbers(found, *rows)
    count, step = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
    op = Softmax(
        micro_begin=0, micro_end=1, inner=2, destination_inner=data.draw(st.integers(0, 3)),
        count=count, step=step, valid=data.draw(st.integers(0, 31)), offset=7, low=-256,
        high=data.draw(st.integers(-256, 255)),
    )  # fmt: skip
    micro = encode_micro([MicroOperation(0, 8)], found)
    image = micro + image[len(micro) :]
    store = Store(memory="accumulators", scratchpad_address=0, global_address=at // size, x_size=8)
    program = [*loads, op, store]
    reference = Reference(found, image)
    reference.run(program)
    assert simulate(encode(program, found), image, found).image == bytes(reference.image)


@given(st.data(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_a_normalization_computes_what_its_definition_says(data, seed):
    """Rows whose ends leave the next one in part; numbers so large that products wrap around."""
    found = in_order(**{"engines.matrix.columns": 20})
    random, size = np.random.default_rng(seed), found.by_content["accumulators"].element_bytes
    bounds = st.sampled_from([1, 40, 300, 2**20, 2**31])
    spread, largest = data.draw(bounds), data.draw(bounds)
    numbers = random.integers(-spread, spread, (8, 20))
    epsilon = [np.full(20, data.draw(st.sampled_from(EDGES))) for _ in range(2)]
    constants = random.integers(-largest, largest, (9, 20))
    image, loads, _, _, at = lists_of_numbers(found, *numbers, *epsilon, *constants)
    op = Normalize(
        micro_begin=0, micro_end=1, inner=2, destination_inner=data.draw(st.integers(0, 3)),
        count=data.draw(st.integers(0, 3)), step=data.draw(st.integers(0, 2)),
        valid=data.draw(st.integers(0, 31)), offset=7, low=-256,
        high=data.draw(st.integers(-256, 255)), centered=data.draw(st.booleans()),
        shift=data.draw(st.integers(0, 63)),
    )  # fmt: skip
    micro = encode_micro([MicroOperation(0, 8)], found)
    image = micro + image[len(micro) :]
    store = Store(memory="accumulators", scratchpad_address=0, global_address=at // size, x_size=8)
    program = [*loads, op, store]
    reference = Reference(found, image)
    reference.run(program)
    assert simulate(encode(program, found), image, found).image == bytes(reference.image)


@pytest.mark.parametrize(("record", "divisions"), [(Softmax, 1), (Normalize, 2)])
def test_a_row_takes_its_passes_its_trees_and_its_divisions(record, divisions):
    found = in_order(**{"engines.vector.lanes": 7, "engines.vector.division_cycles": 50})
    image, loads, *_ = lists_of_numbers(found, *np.zeros((24, 20), np.int64))
    op = record(micro_begin=0, micro_end=1, inner=3, destination_inner=1, count=2, step=3, valid=9)
    last = simulate(encode([*loads, op], found), image, found).events[-1]
    row = 3 * 2 * -(-20 // 7) + 2 * 5 + divisions * 50
    assert last.end_cycle - last.start_cycle == 3 * row + found.vector.latency_cycles


@pytest.mark.parametrize(
    ("lanes", "step", "cycles"),
    [(7, 1, 2 * 7 * 3), (20, 1, 2 * 7), (39, 1, 2 * 7), (60, 1, 2 * 3), (60, 0, 2 * 7),
     (400, 1, 2)],
)  # fmt: skip
def test_lanes_take_several_elements_of_the_inner_loop_at_once(lanes, step, cycles):
    """Of 20 numbers each, where these are not one element again and again."""
    found = in_order(**{"engines.vector.lanes": lanes})
    image, loads, *_ = lists_of_numbers(found, *np.zeros((24, 20), np.int64))
    op = Vector(operation="add", micro_begin=0, micro_end=1, outer=2, inner=7,
                destination_outer=7, destination_inner=step)  # fmt: skip
    last = simulate(encode([*loads, op], found), image, found).events[-1]
    assert last.end_cycle - last.start_cycle == cycles + found.vector.latency_cycles


@pytest.mark.parametrize("operation", VECTOR_OPERATIONS)
def test_vector_operations_wrap_around_and_shift_both_ways(operation):
    found = in_order(**{"engines.matrix.columns": len(EDGES) ** 2 + 1})
    x = np.array([a for a in EDGES for b in EDGES] + [0])
    y = np.array([b for a in EDGES for b in EDGES] + [0])
    image, loads, store, size, at = lists_of_numbers(found, x, y)
    encoded = encode(
        [*loads, Vector(operation=operation, micro_begin=0, micro_end=1), store], found
    )
    out = unpack(simulate(encoded, image, found).image[at : at + size], 32)
    expected = [wrapped(computed(operation, a, b), 32) for a, b in zip(x, y, strict=True)]
    assert out.tolist() == expected


def sum_of_products(machine, rows=5):
    """Loads `rows` inputs and a weight, multiplies and stores the sums as outputs."""
    micro = encode_micro([MicroOperation()], machine)
    space = machine.by_content
    image = bytearray(np.random.default_rng(1).integers(0, 256, 65536).astype(np.uint8).tobytes())
    at = -(-32768 // space["micro_operations"].global_bytes)
    image[at * len(micro) : (at + 1) * len(micro)] = micro
    out = -(-49152 // space["outputs"].global_bytes)
    program = [
        Load(memory="micro_operations", scratchpad_address=0, global_address=at, x_size=1),
        Load(memory="activations", scratchpad_address=0, global_address=0, x_size=rows),
        Load(memory="weights", scratchpad_address=0, global_address=0, x_size=1, push_after=True),
        Multiply(micro_begin=0, micro_end=1, outer=rows, destination_outer=1, reset=True,
                 pop_before=True),
        Multiply(micro_begin=0, micro_end=1, outer=rows, destination_outer=1, source_outer=1,
                 push_after=True),
        Store(memory="outputs", scratchpad_address=0, global_address=out, x_size=rows,
              pop_before=True, push_before=True),
        Finish(pop_after=True),
    ]  # fmt: skip
    return program, bytes(image)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_no_damage_to_a_program_ends_or_hangs_the_simulator(data):
    found = machine(data.draw(st.sampled_from(["vta-16", "tiny-8", "mac-128"])))
    program, image = sum_of_products(found)
    encoded = bytearray(encode(program, found))
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
        encoded[bit // 8] ^= 1 << bit % 8
    encoded = encoded[: data.draw(st.integers(0, len(encoded)))]
    try:
        simulate(bytes(encoded), image, found, max_work=1 << 24, time_limit_seconds=60)
    except InputError as error:
        assert "instruction" in str(error)  # noqa: PT017  both endings are right, a crash is none


def test_the_counters_count_bytes_and_multiplications():
    found = machine("vta-16")
    program, image = sum_of_products(found)
    counters = simulate(encode(program, found), image, found).counters
    assert counters.macs == 5 * 256
    assert counters.loaded_bytes == {"micro_operations": 4, "weights": 256, "activations": 80}
    assert counters.stored_bytes == {"outputs": 80}


@pytest.mark.parametrize(
    ("position", "instruction", "message"),
    [
        (1, Load(memory="activations", scratchpad_address=2040, global_address=0, x_size=9),
         r"instruction 1 \(load activations .*\): activations has 2048 elements, and element 2048"),
        (1, Load(memory="activations", scratchpad_address=0, global_address=4090, x_size=9),
         "activations end at byte 65584 of global memory, of which there are 65536"),
        (4, Multiply(micro_begin=0, micro_end=1, outer=3000, destination_outer=1),
         r"instruction 4 .*: accumulators has 2048 elements, and element 2999"),
        (4, Multiply(micro_begin=8000, micro_end=8193), "micro operations has 8192 elements"),
        (4, Multiply(micro_begin=0, micro_end=1, outer=16383, inner=16383),
         "the program takes more than 1000000 steps of work"),
        (5, Store(memory="outputs", scratchpad_address=0, global_address=0, x_size=1,
                  pop_before=True), r"instruction 6 \(finish pop_after\): it waits forever: 6 "),
        (1, Load(memory="activations", scratchpad_address=0, global_address=0, x_size=1,
                 pop_before=True), "pop_before, and no queue stands before load"),
    ],
)  # fmt: skip
def test_a_program_that_cannot_go_on_names_the_instruction(position, instruction, message):
    found = machine("vta-16")
    program, image = sum_of_products(found)
    program[position] = instruction
    with pytest.raises(SimulationFault, match=message):
        simulate(encode(program, found), image, found, max_work=1_000_000)


def test_a_run_that_takes_too_long_is_ended():
    found = machine("vta-16")
    program, image = sum_of_products(found)
    program[4] = Multiply(micro_begin=0, micro_end=1, outer=16383, inner=16383)
    with pytest.raises(DeviceError, match=r"did not end within 0\.2 s, it was at instruction 4"):
        simulate(encode(program, found), image, found, max_work=2**60, time_limit_seconds=0.2)


def test_taps_read_memory_when_their_instruction_has_ended():
    found = machine("vta-16")
    program, image = sum_of_products(found)
    at = program[5].global_address * 16
    taps = [Tap(name="after", instruction=5, offset_bytes=at, size_bytes=16),
            Tap(name="before", instruction=4, offset_bytes=at, size_bytes=16)]  # fmt: skip
    result = simulate(encode(program, found), image, found, taps=taps)
    assert result.taps["before"] == image[at : at + 16]
    assert result.taps["after"] == result.image[at : at + 16] != result.taps["before"]
    with pytest.raises(InputError, match="tap x lies outside of the image"):
        simulate(encode(program, found), image, found,
                 taps=[Tap(name="x", instruction=0, offset_bytes=65530, size_bytes=8)])  # fmt: skip


def test_numbers_are_packed_with_the_low_half_first():
    assert pack([1, -1], 4) == b"\xf1"
