"""Sums, products and maxima of two tensors, bit-equal on every machine."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, machine

from explorer.ir.requantization import Requantization, fixed_point
from explorer.npu import Elementwise, ElementwiseOperand, LayerError, compile_layer
from explorer.targets.npu.instructions import Multiply, Requantize, Vector

NPUS = ["edge-64", "mac-128", "odd-12x20", "tiny-8", "vta-16", "vta-32"]
SHAPE = (45, 9, 7)


def factor(how, ratio):
    found = fixed_point(np.array(ratio), how)
    return int(found.multipliers), int(found.shifts)


def layer_of(machine, kind="add", shapes=(SHAPE, SHAPE), constant=None, **fields):
    """As a quantized program has them: sums are lifted, products scaled once."""
    how = Requantization(machine.scheme, machine.rounding)
    is_sum, is_product = kind in ("add", "sub"), kind in ("mul", "scale")
    # A shift cannot make numbers larger: ratios below 1.
    ratios = [None, None] if is_product else [0.5, 0.31] if is_sum else [0.9, 0.4]
    result = {True: 2 / 2**20, False: None}[is_sum] if not is_product else 0.02
    operands = [
        ElementwiseOperand(shape=shape, zero_point=zero,
                           factor=None if ratio is None else factor(how, ratio))
        for shape, zero, ratio in zip(shapes, (-11, 5), ratios, strict=False)
    ]  # fmt: skip
    if constant is not None:
        operands[1] = ElementwiseOperand(**{**vars(operands[1]), "constant": constant})
    return Elementwise(
        name="layer", kind=kind, left=operands[0], right=operands[1] if operands[1:] else None,
        how=how, lift=20 if is_sum else 0,
        factor=None if result is None else factor(how, result), zero_point=3,
        **{"low": -100, "high": 120, **fields},
    )  # fmt: skip


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "max", "min"])
@pytest.mark.parametrize("name", NPUS)
def test_two_scales_are_combined_bit_by_bit(name, kind):
    found = machine(name)
    compared(layer_of(found, kind), found, np.random.default_rng(1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
@pytest.mark.parametrize("name", ["odd-12x20", "tiny-8", "vta-16"])
def test_operands_are_read_again_along_rows_and_columns(name, kind):
    found, random = machine(name), np.random.default_rng(2)
    for shape in ((45, 1, 1), (45, 9, 1), (45, 1, 7)):
        compared(layer_of(found, kind, (SHAPE, shape)), found, random, sizes=(4, 3, 2))
    compared(layer_of(found, kind, ((45, 1, 1), SHAPE)), found, random)


@pytest.mark.parametrize(
    ("name", "shift", "lifts"),
    [("tiny-8", 19, 1), ("tiny-8", 20, 0), ("tiny-8", 31, 0), ("tiny-8", 62, 0),
     ("mac-128", 19, 1), ("mac-128", 20, 0), ("mac-128", 31, 0), ("mac-128", 32, 1)],
)  # fmt: skip
def test_a_lift_is_part_of_a_factor_where_that_rounds_alike(name, shift, lifts):
    found = machine(name)
    layer = layer_of(found, shapes=((9, 4, 5), (9, 4, 5)))
    multiplier = 1 << 10 if shift < 31 else (1 << 30) + 12345
    layer = replace(layer, left=replace(layer.left, factor=(multiplier, shift)))
    layer = replace(layer, right=replace(layer.right, factor=(1 << 30, 31)))
    made, _ = compared(layer, found, np.random.default_rng(5), sizes=(1, 20, 2))
    operations = [op.operation for op in made.instructions if isinstance(op, Vector)]
    assert operations.count("shift_right") == lifts
    # Zero points are added where sides are scaled; the left side is where the result is made.
    assert operations.count("add") == 1
    biased = [op.biased for op in made.instructions if isinstance(op, Requantize)]
    assert biased == [True, True, False]
    assert not any(isinstance(op, Multiply) for op in made.instructions)


@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
@pytest.mark.parametrize("name", ["odd-12x20", "tiny-8", "vta-16"])
def test_constants_are_scaled_beforehand(name, kind):
    found, random = machine(name), np.random.default_rng(3)
    for shape in (SHAPE, (45, 1, 1)):
        constant = random.integers(-128, 128, shape)
        made, run = compared(layer_of(found, kind, (SHAPE, shape), constant), found, random)
        assert [tensor.name for tensor in made.layer.inputs] == ["left"]
        assert run.counters.loaded_bytes["accumulators"] > 0


@pytest.mark.parametrize("name", NPUS)
def test_numbers_of_one_scale_become_those_of_another(name):
    found = machine(name)
    compared(layer_of(found, "scale", (SHAPE,)), found, np.random.default_rng(4))


def test_what_a_machine_cannot_combine_is_refused_by_name():
    odd = machine("odd-12x20")
    for layer, message in (
        (layer_of(odd, shapes=(SHAPE, (1, 9, 7))), "an operand has 1 channels and the result 45"),
        (layer_of(odd, high=300), "limits -100 to 300 are no numbers of 8 bits"),
        (layer_of(machine("mac-128")), "not by doubling high multiply"),
    ):
        with pytest.raises(LayerError, match=f"layer cannot be computed by odd-12x20: .*{message}"):
            compile_layer(layer, odd)


def test_sides_without_zero_points_have_no_biases():
    found = machine("mac-128")
    layer = layer_of(found)
    sides = [replace(side, zero_point=0) for side in (layer.left, layer.right)]
    plain = replace(layer, left=sides[0], right=sides[1])
    _, with_biases = compared(layer, found, np.random.default_rng(6))
    made, without = compared(plain, found, np.random.default_rng(6))
    assert not any(op.biased for op in made.instructions if isinstance(op, Requantize))
    assert without.counters.loaded_bytes["accumulators"] == 2 * 3 * 32
    assert with_biases.counters.loaded_bytes["accumulators"] == 3 * 3 * 32
