"""Layers to try, and how one is compared with all that is said of it."""

import numpy as np

from explorer.ir.requantization import Requantization, fixed_point
from explorer.npu import Convolution, LayerError, Rescaling, compile_layer, predict
from explorer.npu.search.convolution import ConvolutionSpace
from explorer.runtime.npu import simulate
from explorer.targets import load_target
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.machine import describe


def machine(name, **overrides):
    return describe(load_target(name, overrides))


def rescaling(machine, outputs, random, **fields):
    how = Requantization(machine.scheme, machine.rounding)
    factors = fixed_point(random.uniform(0.0003, 0.01, outputs), how)
    half = 1 << machine.input_bits - 1
    limits = {"zero_point": 3, "low": -half + 2, "high": half - 1}
    return Rescaling(how=how, multipliers=factors.multipliers, shifts=factors.shifts,
                     **{**limits, **fields})  # fmt: skip


def convolution(machine, random, inputs=20, outputs=37, size=(13, 11), kernel=(3, 3), groups=1,
                zero_point=None, **fields):  # fmt: skip
    scaling = fields.pop("rescaling", rescaling(machine, outputs, random))
    half = 1 << machine.weight_bits - 1
    is_vta = machine.set == "vta"
    return Convolution(
        name="layer",
        input_shape=(inputs, *size),
        weights=random.integers(-half, half, (outputs, inputs // groups, *kernel)),
        bias=random.integers(-5000, 5000, outputs),
        rescaling=scaling,
        groups=groups,
        input_zero_point=(0 if is_vta else -3) if zero_point is None else zero_point,
        **fields,
    )


def compared(layer, machine, random, given=None, **options):
    """Runs a layer and compares everything; what the simulation says. `given`: other inputs than
    random ones."""
    made = compile_layer(layer, machine, **options)
    half = 1 << machine.input_bits - 1
    inputs = given or [random.integers(-half, half, tensor.shape) for tensor in layer.inputs]
    image = made.image_with(*inputs)
    assert check_program(made.program, image, machine) == []
    found = simulate(made.program, image, machine)
    np.testing.assert_array_equal(made.output_of(found.image), layer.run(*inputs))
    predicted = predict(made.tiled)
    expected = predicted.traffic
    micro = made.micro_operations_loaded * machine.by_content["micro_operations"].global_bytes
    assert found.counters.macs == expected.macs
    assert found.counters.loaded_bytes == {**expected.loaded_bytes, "micro_operations": micro}
    assert found.counters.stored_bytes == expected.stored_bytes
    assert predicted.micro_operation_bytes == micro
    assert (predicted.cycles, predicted.waits) == (found.cycles, found.stalls)
    return made, found


def compare_points(layer, machine, random, count):
    """Points of a layer's space at random: each computes the same, in no less than its bound."""
    space = ConvolutionSpace(layer, machine, "full", {})
    for point in random.integers(0, len(space), count).tolist():
        try:
            space.tiled(point)
        except LayerError:
            continue
        _, run = compared(layer, machine, random, choices=space.choices(point))
        assert run.cycles >= space.bound[point], space.choices(point)
