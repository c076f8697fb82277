"""Layer and RMS normalization over channels: the program's own numbers, on machines that have the
instruction."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.dialects.test import TestOp

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, machine

from explorer.ir.top.data import WeightOp
from explorer.ir.top.quantization.integer_normalizations import (
    IntegerLayerNormOp,
    layer_norm_factors,
)
from explorer.ir.types import QuantizedType, tensor_type
from explorer.npu import LayerError, NormalizationLayer, compile_layer
from explorer.npu.layers.from_operations import read_operation
from explorer.npu.layers.value_layout import stored_form
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.encoding import decode, encode
from explorer.targets.npu.instructions import Load, Normalize

SIGNED = IntegerType(8)
UNSIGNED = IntegerType(8, Signedness.UNSIGNED)
WORDS = IntegerType(16)
FULL = ("edge-64", "tiny-8", "mac-128", "odd-12x20")


def weight(name, array, bits):
    return WeightOp.make([], [tensor_type(IntegerType(bits), array.shape)], weight=name).results[0]


def normalization_op(shape, axis, storage=SIGNED, made=None, centered=True, scale=0.02,
                     factors=None, epsilon=1e-5):  # fmt: skip
    """The operation, its weights, and its multipliers and offsets. `factors`: shape of these."""
    random, count = np.random.default_rng(0), int(np.prod(shape[axis:]))
    low = 0 if storage is UNSIGNED else -(1 << storage.width.data - 1)
    zero = low + (1 << storage.width.data) * 2 // 5
    made_zero = 90 if made is UNSIGNED else -3
    kinds = [QuantizedType.get(storage, [scale], [zero]),
             QuantizedType.get(made or SIGNED, [0.03], [made_zero])]  # fmt: skip
    of = (count,) if factors is None else factors
    multipliers, offsets, bits = layer_norm_factors(
        random.normal(1, 0.5, of), random.normal(0, 0.5, of), count, kinds[1]
    )
    value = TestOp(result_types=[tensor_type(kinds[0], shape)]).results[0]
    operands = [value, weight("m", multipliers, 32), weight("b", offsets, 64)]
    op = IntegerLayerNormOp.make(operands, axis=axis, epsilon=epsilon, fraction_bits=bits,
                                 centered=centered, to=kinds[1])  # fmt: skip
    TestOp(operands=[op.results[0]])
    return op, {"m": multipliers, "b": offsets}


def layer_of(shape, axis, **options):
    op, weights = normalization_op(shape, axis, **options)
    (found,) = read_operation(op, weights)
    assert isinstance(found.layer, NormalizationLayer)
    return op, weights, found.layer


def numbers(storage, shape, random):
    """Any of the type; a row of its lowest, one of its highest, and one of both in turn."""
    half = 1 << storage.width.data - 1
    low = 0 if storage.signedness.data == Signedness.UNSIGNED else -half
    x = random.integers(low, low + 2 * half, shape)
    rows = x.reshape(-1, shape[-1])
    rows[0], rows[1], rows[2], rows[2, ::2] = low, low + 2 * half - 1, low, low + 2 * half - 1
    kind = f"{'u' if low == 0 else ''}int{storage.width.data}"
    return rows.reshape(shape).astype(kind)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("shape", [(3, 7, 45), (5, 1), (4, 256)])
@pytest.mark.parametrize("storage", [SIGNED, UNSIGNED, WORDS])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("epsilon", [1e-5, 10.0])
def test_a_layer_means_what_the_operation_means(shape, storage, centered, epsilon):
    op, weights, layer = layer_of(shape, len(shape) - 1, storage=storage, made=storage,
                                  centered=centered, epsilon=epsilon)  # fmt: skip
    x = numbers(storage, shape, np.random.default_rng(1))
    (expected,) = op.evaluate(x, weights["m"], weights["b"])
    found = layer.run(stored_form(op.input).signed(x))
    np.testing.assert_array_equal(stored_form(op.output).logical(found), expected)


@pytest.mark.parametrize("factors", [(1,), (1, 1, 45)])
def test_factors_are_broadcast_to_channels(factors):
    op, weights, layer = layer_of((3, 7, 45), 2, factors=factors)
    x = numbers(SIGNED, (3, 7, 45), np.random.default_rng(1))
    (expected,) = op.evaluate(x, weights["m"], weights["b"])
    found = layer.run(stored_form(op.input).signed(x))
    np.testing.assert_array_equal(stored_form(op.output).logical(found), expected)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("channels", [1, 10, 64, 137])
@pytest.mark.parametrize("centered", [True, False])
def test_every_full_machine_computes_it_in_the_predicted_cycles(name, channels, centered):
    _, _, layer = layer_of((5, 11, channels), 2, centered=centered)
    found = machine(name)
    x = numbers(SIGNED, (5, 11, channels), np.random.default_rng(1))
    given = [x.astype(np.int64).reshape(-1, channels).T.reshape(layer.input_shape)]
    made, _ = compared(layer, found, np.random.default_rng(1), given)
    (row, *_) = [op for op in decode(made.program, found) if isinstance(op, Normalize)]
    assert row.count == -(-channels // found.columns)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("shape", "axis"), [((2, 9, 3, 11), 3), ((2, 9, 5, 7), 2)])
@pytest.mark.parametrize("name", FULL)
def test_rows_along_positions_are_transposed_before_and_behind(name, shape, axis):
    op, weights = normalization_op(shape, axis, factors=shape[axis:])
    x = numbers(SIGNED, shape, np.random.default_rng(1))
    (expected,) = op.evaluate(x, weights["m"], weights["b"])
    made = [stored_form(op.input).signed(x)]
    for read in read_operation(op, weights):
        index = 0 if read.reads == (op.input,) else 1 + read.reads[0]
        given = made[index].reshape(read.layer.inputs[0].shape)
        compared(read.layer, machine(name), np.random.default_rng(2), given=[given])
        made.append(read.layer.run(given))
    assert len(made) == 4
    np.testing.assert_array_equal(stored_form(op.output).logical(made[-1]), expected)


def test_words_are_normalized_by_machines_of_words():
    wide = {"engines.matrix.input_bits": 16, "engines.matrix.weight_bits": 16}
    words = machine("odd-12x20", **wide)
    _, _, layer = layer_of((5, 11, 45), 2, storage=WORDS, made=WORDS, centered=False)
    compared(layer, words, np.random.default_rng(1))


def test_rows_in_several_tiles_are_whole_in_each():
    small = machine("odd-12x20", **{"memories.accumulators.size_bytes": 7 * 800})
    _, _, layer = layer_of((4, 30, 45), 2)
    made, _ = compared(layer, small, np.random.default_rng(2))
    tiles = list(made.tiled.tiles())
    assert len(tiles) > 1 and {tuple(tile.blocks) for tile in tiles} == {(0, 1, 2)}


@pytest.mark.parametrize(
    ("shape", "axis", "options", "message"),
    [
        ((1, 4, 6, 6), 1, {"factors": (4, 6, 6)},
         r"it is over axes \[1, 2, 3\], along which lie positions"),
        ((3, 7, 5), 1, {"factors": (7, 5)}, r"it is over axes \[1, 2\], along which lie positions"),
        ((3, 7, 5), 2, {"factors": (7, 1)}, "its factors differ along positions"),
        ((1, 4), 1, {"storage": WORDS}, "it makes i8 of i16, of another width"),
    ],
)  # fmt: skip
def test_what_is_no_layer_says_why(shape, axis, options, message):
    with pytest.raises(LayerError, match=message):
        layer_of(shape, axis, **options)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("vta-16", {}, "its vector engine has no normalize"),
        ("odd-12x20", {"engines.vector.operations": ["add", "requantize", "table"]},
         "its vector engine has no normalize"),
        ("odd-12x20", {"engines.matrix.input_bits": 16, "engines.matrix.weight_bits": 16},
         "its numbers have 8 bits, those of the machine 16"),
        ("odd-12x20", {"memories.accumulators.size_bytes": 7 * 80},
         "10 accumulators, and there are 7"),
    ],
)  # fmt: skip
def test_machines_that_cannot_say_why(name, overrides, message):
    _, _, layer = layer_of((1, 25), 1)
    with pytest.raises(LayerError, match=message):
        compile_layer(layer, machine(name, **overrides))


def test_constants_that_are_loaded_in_part_are_found():
    found = machine("odd-12x20")
    _, _, layer = layer_of((6, 45), 1)
    made = compile_layer(layer, found)
    image = made.image_with(np.zeros(layer.input_shape, np.int64))
    whole = found.row_constants("normalize", 3)

    def shorter(op):
        is_list = isinstance(op, Load) and op.memory == "accumulators" and op.x_size == whole
        return dataclasses.replace(op, x_size=whole - 1) if is_list else op

    program = [shorter(op) for op in decode(made.program, found)]
    (finding, *_) = check_program(encode(program, found), image, found)
    assert finding.kind == "unwritten" and "normalize" in finding.text
