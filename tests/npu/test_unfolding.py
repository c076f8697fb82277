"""Neighbours as channels: two layers compute what one did, bit by bit."""

import dataclasses

import numpy as np
import pytest

from explorer.npu import Convolution, compile_layer, predict
from explorer.npu.layers.unfolding import unfolded, unfolded_forms, written_by_host
from explorer.runtime.npu import simulate
from explorer.targets import load_target
from explorer.targets.npu.machine import describe

SHAPES = {
    "stem": ((3, 11, 13), (5, 3, 7, 7), (2, 2)),
    "same": ((3, 8, 8), (4, 3, 3, 3), (1, 1)),
    "speech": ((1, 12, 6), (3, 1, 10, 4), (2, 2)),
    "uneven strides": ((2, 9, 11), (2, 2, 3, 5), (3, 2)),
    "one axis": ((1, 1, 9), (2, 1, 1, 5), (1, 2)),
    "strides beyond the window": ((3, 9, 10), (4, 3, 2, 1), (3, 4)),
    "one position": ((2, 3, 3), (2, 2, 3, 3), (1, 1)),
}
PADS = [(0, 0, 0, 0), (3, 1, 2, 0), (0, 0, 0, 3), (0, -1, -1, 0)]


def convolution(shape, weights, strides, pads=(0, 0, 0, 0), zero_point=-7):
    random = np.random.default_rng(5)
    numbers = random.choice([-128, -127, -1, 0, 1, 127], weights)
    return Convolution(
        name="conv", input_shape=shape, weights=numbers, bias=random.integers(-99, 99, weights[0]),
        rescaling=None, strides=strides, pads=pads, input_zero_point=zero_point,
    )  # fmt: skip


def all_neighbours(layer):
    counts = [{1, min(k, s), k} for k, s in zip(layer.kernel, layer.strides, strict=True)]
    return [(r, c) for r in counts[0] for c in counts[1] if (r, c) != (1, 1)]


@pytest.mark.parametrize("name", SHAPES)
def test_every_form_has_the_same_sums(name):
    random, tried = np.random.default_rng(1), 0
    for pads in PADS:
        layer = convolution(*SHAPES[name], pads)
        if min(layer.output_shape) < 1:
            continue
        x = random.choice([-128, -7, 0, 127], layer.input_shape)
        for neighbours in all_neighbours(layer):
            moving, summing = unfolded(layer, neighbours).layers
            moved = moving.run(x)
            assert moved.shape == summing.input_shape
            assert set(np.unique(moved)) <= set(np.unique(x)) | {-7}
            np.testing.assert_array_equal(summing.run(moved), layer.run(x))
            tried += 1
    assert tried


@pytest.mark.parametrize("target", ["vta-16", "mac-128"])
@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("name", SHAPES)
def test_a_layer_reads_what_the_host_writes(name, zero_point, target):
    """Machines that pad with zeros alone get all other padding written."""
    machine = describe(load_target(target))
    random, tried = np.random.default_rng(1), 0
    for pads in PADS:
        layer = convolution(*SHAPES[name], pads, zero_point)
        if min(layer.output_shape) < 1:
            continue
        x = random.choice([-128, -7, 0, 127], layer.input_shape)
        for neighbours in all_neighbours(layer):
            form = written_by_host(layer, neighbours, machine)
            assert not form.unfolding.problem(layer.input_shape)
            written = form.unfolding.apply(x)
            assert written.shape == form.summing.input_shape
            np.testing.assert_array_equal(form.summing.run(written), layer.run(x))
            if zero_point and target == "vta-16":
                assert max(form.summing.pads) == 0
            tried += 1
    assert tried


def test_groups_of_padding_are_not_written():
    machine = describe(load_target("mac-128"))
    layer = convolution((3, 224, 224), (64, 3, 7, 7), (2, 2), (3, 3, 3, 3))
    form = written_by_host(layer, (2, 2), machine)
    assert form.summing.input_shape == (12, 113, 113) and form.summing.pads == (1, 1, 1, 1)


@pytest.mark.parametrize("target", ["vta-16", "mac-128", "odd-12x20"])
def test_both_layers_run_on_the_machine(target):
    machine = describe(load_target(target))
    zero_point = 0 if target == "vta-16" else -7
    layer = convolution(*SHAPES["stem"], (3, 3, 3, 3), zero_point)
    x = np.random.default_rng(2).integers(-128, 128, layer.input_shape)
    form, value = unfolded(layer, (2, 2)), x
    for one in form.layers:
        made = compile_layer(one, machine)
        found = simulate(made.program, made.image_with(value), machine)
        assert found.cycles == predict(made.tiled).cycles
        value = made.output_of(found.image)
    np.testing.assert_array_equal(value, layer.run(x))


def test_forms_take_fewer_steps_of_the_array():
    machine = describe(load_target("vta-16"))
    stem = convolution((3, 224, 224), (64, 3, 7, 7), (2, 2), (3, 3, 3, 3))
    forms = {form.neighbours: form for form in unfolded_forms(stem, machine)}
    assert forms[2, 2].moving.output_shape == (12, 115, 115)
    assert forms[2, 2].summing.weights.shape == (64, 12, 4, 4)
    assert forms[7, 1].summing.kernel == (1, 7)


@pytest.mark.parametrize(
    "changed",
    [
        {"groups": 3, "weights": np.ones((6, 1, 3, 3), np.int64)},
        {"dilations": (2, 1)},
        {"within": (16, 2)},
        {"input_shape": (9, 8, 8), "weights": np.ones((4, 9, 3, 3), np.int64)},
        {"weights": np.ones((4, 3, 1, 1), np.int64)},
    ],
    ids=["groups", "dilations", "part of a picture", "many channels", "no window"],
)
def test_other_layers_have_no_form(changed):
    layer = convolution(*SHAPES["same"])
    machine = describe(load_target("vta-16"))
    many = dataclasses.replace(layer, weights=np.ones((64, 3, 3, 3), np.int64))
    assert unfolded_forms(many, machine)
    assert not unfolded_forms(dataclasses.replace(many, **changed), machine)
