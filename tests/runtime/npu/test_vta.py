"""Streams of VTA give the same bytes in Apache VTA's own functional simulator."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import vta_simulator
from npu_reference import machine

from explorer.runtime.npu import simulate
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.encoding import encode, encode_micro
from explorer.targets.npu.instructions import (
    VECTOR_OPERATIONS,
    Finish,
    Load,
    MicroOperation,
    Multiply,
    Store,
    Vector,
)

IMAGE_BYTES = 1 << 20
ELEMENTS = 24
"""Of each scratchpad, which streams use."""

pytestmark = pytest.mark.skipif(
    bool(vta_simulator.reason_to_skip()), reason=vta_simulator.reason_to_skip() or "it is there"
)


@pytest.fixture(scope="module", params=[16, 32])
def vta(request, tmp_path_factory):
    """Machine and built simulator."""
    folder = tmp_path_factory.mktemp(f"vta{request.param}")
    return machine(f"vta-{request.param}"), vta_simulator.build(folder, request.param)


class Stream:
    """Random rounds of loads, computations and a store, each behind the one before by tokens."""

    def __init__(self, machine, seed):
        self.machine = machine
        self.random = np.random.default_rng(seed)
        self.program = []

    def below(self, most):
        return int(self.random.integers(0, most))

    def load(self, memory, count=ELEMENTS, **tokens):
        """Fills the elements that streams use, in rows with padding where there is room."""
        size = self.machine.by_content[memory].global_bytes
        first = -(-vta_simulator.FIRST_BYTE // size)
        if memory == "micro_operations":  # they lie at the beginning, and stay small
            return Load(memory=memory, scratchpad_address=0, global_address=first, x_size=count,
                        **tokens)  # fmt: skip
        x, y = 2 + self.below(3), 1 + self.below(3)
        pads = {f"x_pad_{side}": self.below(3) for side in ("before", "after")}
        pads |= {f"y_pad_{side}": self.below(2) for side in ("before", "after")}
        return Load(memory=memory, scratchpad_address=self.below(3), y_size=y, x_size=x,
                    x_stride=self.below(6),
                    global_address=first + 64 + self.below(IMAGE_BYTES // 2 // size - first - 100),
                    **pads, **tokens)  # fmt: skip

    def loop(self):
        micro = self.below(4)
        return dict(micro_begin=micro, micro_end=micro + 1 + self.below(3),
                    outer=1 + self.below(3), inner=1 + self.below(3),
                    destination_outer=self.below(3), destination_inner=self.below(3),
                    source_outer=self.below(3), source_inner=self.below(3))  # fmt: skip

    def compute(self):
        if self.below(2):
            return Multiply(**self.loop(), reset=self.below(6) == 0, weight_outer=self.below(3),
                            weight_inner=self.below(3))  # fmt: skip
        operation = VECTOR_OPERATIONS[self.below(5)]
        # C++ does not say what a shift by 32 or more is, so streams shift by immediates only.
        immediate = self.below(2) == 1 or operation == "shift_right"
        value = self.below(63) - 31 if operation == "shift_right" else self.below(65536) - 32768
        return Vector(operation=operation, **self.loop(), use_immediate=immediate,
                      immediate=value * immediate)  # fmt: skip

    def round(self, is_first, is_last):
        size = self.machine.by_content["outputs"].global_bytes
        loads = [self.load("activations", pop_after=not is_first), self.load("weights")]
        loads[-1] = dataclasses.replace(loads[-1], push_after=True)
        sums = self.load("widened" if self.below(2) else "accumulators")
        computes = [sums, *(self.compute() for _ in range(6))]
        computes[0] = dataclasses.replace(computes[0], pop_before=True, pop_after=not is_first)
        computes[-1] = dataclasses.replace(computes[-1], push_after=True, push_before=not is_last)
        store = Store(memory="outputs", scratchpad_address=self.below(4), y_size=1 + self.below(3),
                      x_size=1 + self.below(3), x_stride=3 + self.below(3),
                      global_address=IMAGE_BYTES // 2 // size + self.below(2000),
                      pop_before=True, push_before=True)  # fmt: skip
        self.program += [*loads, *computes, store]

    def fill(self):
        """Every element that is used is written first."""
        micro = self.load("micro_operations", 8)
        self.program.append(micro)
        for memory in ("activations", "weights", "accumulators"):
            size = self.machine.by_content[memory].global_bytes
            self.program.append(Load(memory=memory, scratchpad_address=0, x_size=2 * ELEMENTS,
                                     global_address=-(-8192 // size)))  # fmt: skip


def stream(machine, seed, rounds=20):
    """Encoded instructions and an image for them."""
    made = Stream(machine, seed)
    made.fill()
    for number in range(rounds):
        made.round(number == 0, number == rounds - 1)
    made.program.append(Finish(pop_after=True))
    image = made.random.integers(0, 256, IMAGE_BYTES).astype(np.uint8)
    # Micro-operations address a few elements each.
    fields = micro_operations(machine, made.random)
    image[vta_simulator.FIRST_BYTE : vta_simulator.FIRST_BYTE + len(fields)] = fields
    return encode(made.program, machine), image.tobytes()


def micro_operations(machine, random):
    operations = [MicroOperation(*random.integers(0, 8, 3).tolist()) for _ in range(8)]
    return np.frombuffer(encode_micro(operations, machine), np.uint8)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(3))
def test_random_streams_give_the_same_bytes(vta, seed, tmp_path):
    machine, simulator = vta
    program, image = stream(machine, seed)
    assert check_program(program, image, machine) == []
    ours = simulate(program, image, machine)
    theirs = vta_simulator.run(simulator, program, image, tmp_path)
    assert ours.image != image
    assert ours.image == theirs
