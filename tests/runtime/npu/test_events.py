"""In which cycle instructions run, and what they wait for."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_reference import machine, tile_image, tiles

from explorer.runtime.npu import simulate
from explorer.targets.npu.encoding import encode, encode_micro
from explorer.targets.npu.instructions import Finish, Load, MicroOperation, Multiply

# 64 cycles of latency, 8 bytes in a cycle: 16 activations of 16 bytes take 64 + 32.
VTA = machine("vta-16")
IMAGE = tile_image(VTA)


def run(*program, machine=VTA, image=IMAGE):
    return simulate(encode([*program, Finish()], machine), image, machine)


def load(memory="activations", count=16, at=0, **tokens):
    return Load(memory=memory, scratchpad_address=at, global_address=0, x_size=count, **tokens)


def multiply(steps=100, **fields):
    return Multiply(micro_begin=0, micro_end=1, outer=steps, **fields)


def spans(result):
    return [(event.start_cycle, event.end_cycle) for event in result.events]


def waits(result, number):
    return dict(result.events[number].waits)


def test_transfers_take_their_latency_and_their_bytes():
    result = run(load(), load("weights", 2), load(count=0))
    assert spans(result)[:3] == [(1, 97), (97, 97 + 64 + 64), (225, 226)]
    assert waits(result, 0) == {"fetch": 1}


def test_padding_is_written_and_not_read():
    plain = machine("odd-12x20", **{"memories.inputs.lane_bytes_per_cycle": 4})
    micro = encode_micro([MicroOperation()], plain).ljust(65536, b"\1")
    padded = Load(memory="activations", scratchpad_address=0, global_address=0, x_size=1,
                  x_pad_before=9, x_pad_after=10)  # fmt: skip
    found = run(padded, machine=plain, image=micro)
    assert found.counters.loaded_bytes == {"activations": 12}
    # 20 elements of 12 bytes through 4 bytes in a cycle; the 12 bytes alone would take 2 cycles.
    assert spans(found)[0] == (1, 1 + 37 + 60)


def test_a_token_holds_an_instruction_back_until_it_is_given():
    result = run(load(push_after=True), load(), multiply(pop_before=True))
    assert spans(result)[2] == (97, 197)
    assert waits(result, 2) == {"fetch": 3, "token": 94}
    assert result.stalls["compute"]["token"] == 94
    free = run(load(), load(), multiply())
    assert spans(free)[2] == (3, 103)


def test_tokens_wait_where_there_is_no_room_for_more():
    narrow = machine("vta-16", **{"queues.compute.tokens": 1})
    program = [load(push_after=True), load(push_after=True), multiply(1000, pop_before=True),
               multiply(pop_before=True)]  # fmt: skip
    # The second push needs room, which is there as soon as the first token is taken.
    assert spans(run(*program))[1] == (97, 193)
    result = run(*program, machine=narrow)
    assert spans(result)[1] == (97, 193)
    late = [load(push_after=True), load(push_after=True), multiply(1000), multiply(pop_before=True),
            multiply(pop_before=True)]  # fmt: skip
    result = run(*late, machine=narrow)
    assert waits(result, 1)["room"] == spans(result)[2][1] - 97


def test_a_full_queue_holds_the_fetch_back():
    narrow = machine("vta-16", **{"queues.load.entries": 1})
    result = run(load(), load(), load(), multiply(), machine=narrow)
    # The third load is fetched when the second has begun, and the multiplication behind it.
    assert spans(result)[:3] == [(1, 97), (97, 193), (193, 289)]
    assert spans(result)[3][0] == 98
    assert spans(run(load(), load(), load(), multiply()))[3][0] == 4


def test_channels_of_a_dma_engine_are_shared():
    result = run(load(), load("accumulators", 2))
    assert spans(result)[1] == (2, 2 + 64 + 16)
    one = machine("vta-16", **{"engines.dma.channels": 1})
    result = run(load(), load("accumulators", 2), machine=one)
    assert spans(result)[1][0] == 97
    assert waits(result, 1) == {"fetch": 2, "channel": 95}


@pytest.mark.parametrize("at", [0, 1024])
def test_two_accesses_to_one_bank_wait_for_each_other(at):
    banked = machine("vta-16", **{"memories.inputs.banks": 2, "memories.inputs.ports": 1})
    # The load takes elements 0 to 15, of the first bank; the multiplication reads element `at`.
    image = encode_micro([MicroOperation(source=at)], banked).ljust(65536, b"\1")
    micro = load("micro_operations", 1)
    result = run(load(count=1), micro, multiply(1), load(), multiply(), machine=banked, image=image)
    loading, multiplying = spans(result)[3], spans(result)[4]
    overlap = min(loading[1], multiplying[1]) - max(loading[0], multiplying[0])
    assert (overlap > 0) == (at == 1024)
    assert ("bank" in result.stalls["compute"] or "bank" in result.stalls["load"]) == (at == 0)


def test_double_buffering_costs_the_same_bytes_and_fewer_cycles():
    single, double = run(*tiles(6, 1)), run(*tiles(6, 2))
    assert single.counters == double.counters
    assert double.cycles < 0.7 * single.cycles
    assert single.stalls["load"]["token"] > double.stalls["load"].get("token", 0)


def test_a_run_is_the_same_every_time():
    assert run(*tiles(6, 2)) == run(*tiles(6, 2))


def test_instructions_of_a_queue_follow_one_another():
    result = run(*tiles(6, 2))
    last = {}
    for event in result.events:
        assert event.start_cycle >= last.get(event.queue, 0)
        last[event.queue] = event.end_cycle
    busy = sum(e.end_cycle - e.start_cycle for e in result.events if e.queue == "load")
    assert result.busy_cycles["load"] == busy
    macs = VTA.batch * VTA.rows * VTA.columns
    assert result.utilization == result.counters.macs / (macs * result.cycles)
