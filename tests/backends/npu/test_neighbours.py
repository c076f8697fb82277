"""What an NPU runs only together with what reads it, under any assignment to it and a processor."""

import random

import numpy as np
import pytest

import explorer as ex
from explorer.backends.npu.neighbours import layers_of, needed
from explorer.ir.operation import identity_of
from explorer.npu.layers.layer import LayerError
from explorer.placement.assign import ASSIGNMENT

HEADS = "assign/device/"


@pytest.fixture(scope="module")
def rounded():
    """A model that flattens a picture into a vector, compiled for an NPU and a processor."""
    c = ex.compile(ex.sample("roundings_int8"), target=["tiny-8", "cpu"])
    yield c
    c.close()


def test_a_move_without_a_layer_needs_the_product_that_reads_through_it(rounded):
    from explorer.backends.npu.placement import RefusedLayers
    from explorer.targets import load_target
    from explorer.targets.npu.machine import describe

    before = rounded["find-devices"].after
    machine = RefusedLayers(describe(load_target("tiny-8")))
    ops = before.operations
    flatten, product = ops["reshape1"], ops["matmul2"]
    assert [identity_of(op) for op in machine.needed(flatten, before.weights)] == ["matmul2"]
    assert not machine(flatten, before.weights)
    with pytest.raises(LayerError, match="moves numbers between channels and positions"):
        layers_of(flatten, machine.lowered, before.weights)
    assert needed(product, machine.lowered, before.weights) == []
    assert needed(ops["conv4"], machine.lowered, before.weights) == []


def check(c, seeds) -> None:
    legal = {k.address: k.choices for k in c.knobs if k.address.startswith(HEADS)}
    assert all(len(devices) == 2 for devices in legal.values())
    inputs = c.example_inputs(seed=1)
    plain = ex.compile(c.model, target="cpu")
    expected = plain.run(inputs)
    for seed in seeds:
        chance = random.Random(seed)
        forked = c.fork(decisions={a: chance.choice(d) for a, d in legal.items()})
        for name, array in forked.run(inputs).items():
            np.testing.assert_array_equal(array, expected[name], f"{seed}: {name}")
        forked.close()
    plain.close()


def test_a_move_on_the_npu_whose_product_is_on_the_processor_is_placed_with_it(rounded):
    pins = {HEADS + "reshape1": "tiny-8", HEADS + "matmul2": "cpu", HEADS + "conv4": "tiny-8"}
    forked = rounded.fork(decisions=pins)
    assert forked["assign"].artifacts[ASSIGNMENT].devices["reshape1"] == "cpu"
    declined = next(r for r in forked["assign"].rewrites if r.rule == "needs")
    assert declined.reason == "tiny-8 runs it only together with matmul2, which is on cpu"
    forked.close()


@pytest.mark.sweep
def test_any_assignment_computes_what_the_processor_computes(rounded):
    check(rounded, range(12))


@pytest.mark.parametrize("seed", [3])
def test_an_assignment_that_parts_a_move_from_its_product_computes_the_same(rounded, seed):
    check(rounded, [seed])
