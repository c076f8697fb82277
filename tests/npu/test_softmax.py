"""Softmax over channels: the program's own numbers, on machines that have the instruction."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.dialects.test import TestOp

sys.path.insert(0, str(Path(__file__).parent))
from npu_layers import compared, machine

from explorer.errors import InputError
from explorer.ir.top.quantization.integer_normalizations import IntegerSoftmaxOp
from explorer.ir.types import QuantizedType, tensor_type
from explorer.npu import LayerError, SoftmaxLayer, compile_layer
from explorer.npu.layers.from_operations import read_operation
from explorer.npu.layers.value_layout import stored_form
from explorer.npu.tiling.vector import tile_vectors
from explorer.runtime.npu import simulate
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.encoding import decode, encode
from explorer.targets.npu.instructions import Load, Softmax

SIGNED = IntegerType(8)
UNSIGNED = IntegerType(8, Signedness.UNSIGNED)
FULL = ("edge-64", "tiny-8", "mac-128", "odd-12x20")


def softmax_op(shape, axis, storage=SIGNED, made=None, scale=0.07):
    kinds = [QuantizedType.get(storage, [scale], [3]),
             made or QuantizedType.get(UNSIGNED, [1 / 256], [0])]  # fmt: skip
    value = TestOp(result_types=[tensor_type(kinds[0], shape)]).results[0]
    op = IntegerSoftmaxOp.make([value], axis=axis, to=kinds[1])
    TestOp(operands=[op.results[0]])
    return op


def layer_of(shape, axis, **options):
    op = softmax_op(shape, axis, **options)
    (found,) = read_operation(op, {})
    assert isinstance(found.layer, SoftmaxLayer)
    return op, found.layer


@pytest.mark.parametrize(("shape", "axis"), [((3, 7, 45), 2), ((1, 45), 1), ((2, 45, 3, 5), 1)])
@pytest.mark.parametrize("storage", [SIGNED, UNSIGNED])
@pytest.mark.parametrize("scale", [0.002, 0.07, 3.0])
def test_a_layer_means_what_the_operation_means(shape, axis, storage, scale):
    op, layer = layer_of(shape, axis, storage=storage, scale=scale)
    is_unsigned = storage is UNSIGNED
    low, kind = (0, np.uint8) if is_unsigned else (-128, np.int8)
    x = np.random.default_rng(0).integers(low, low + 256, shape).astype(kind)
    (expected,) = op.evaluate(x)
    found = layer.run(stored_form(op.input).signed(x))
    np.testing.assert_array_equal(stored_form(op.output).logical(found), expected)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("channels", [1, 10, 64, 137])
def test_every_full_machine_computes_it_in_the_predicted_cycles(name, channels):
    _, layer = layer_of((5, 11, channels), 2)
    found = machine(name)
    made, _ = compared(layer, found, np.random.default_rng(1))
    (row, *_) = [op for op in decode(made.program, found) if isinstance(op, Softmax)]
    assert row.count == -(-channels // found.columns)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 64, 1), 1), ((3, 20, 24), 1), ((7, 45), 0), ((2, 9, 3, 11), 3), ((2, 9, 11, 1), 2),
     ((2, 3, 1, 12, 7), 3)],
)  # fmt: skip
@pytest.mark.parametrize("name", FULL)
def test_rows_along_positions_are_transposed_before_and_behind(name, shape, axis):
    op, found = softmax_op(shape, axis), machine(name)
    x = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)
    (expected,) = op.evaluate(x)
    made = [stored_form(op.input).signed(x)]
    for read in read_operation(op, {}):
        index = 0 if read.reads == (op.input,) else 1 + read.reads[0]
        given = made[index].reshape(read.layer.inputs[0].shape)
        compared(read.layer, found, np.random.default_rng(4), given=[given])
        made.append(read.layer.run(given))
    assert len(made) == 4
    np.testing.assert_array_equal(stored_form(op.output).logical(made[-1]), expected)


def test_rows_in_several_tiles_are_whole_in_each():
    small = machine("odd-12x20", **{"memories.accumulators.size_bytes": 7 * 800})
    _, layer = layer_of((4, 30, 45), 2)
    made, _ = compared(layer, small, np.random.default_rng(2))
    tiles = list(made.tiled.tiles())
    assert len(tiles) > 1 and {tuple(tile.blocks) for tile in tiles} == {(0, 1, 2)}
    with pytest.raises(LayerError, match="1 blocks of channels, and it needs all 3"):
        tile_vectors(layer, small, sizes=(1, 1, 1))


@pytest.mark.parametrize(
    ("shape", "axis", "options", "message"),
    [
        ((1, 4, 6, 6), 2, {}, r"it is over axes \[2\], along which lie positions"),
        ((3, 7, 5), 0, {}, r"it is over axes \[0\], along which lie positions"),
        ((1, 4), 1, {"storage": IntegerType(16)}, "it makes ui8 of i16, expected bytes"),
        ((1, 4), 1, {"made": QuantizedType.get(IntegerType(16), [2**-15], [0])},
         "it makes i16 of i8, expected bytes"),
    ],
)  # fmt: skip
def test_what_is_no_layer_says_why(shape, axis, options, message):
    with pytest.raises(LayerError, match=message):
        layer_of(shape, axis, **options)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("vta-16", {}, "its vector engine has no softmax"),
        ("odd-12x20", {"engines.vector.operations": ["add", "requantize", "table"]},
         "its vector engine has no softmax"),
        ("odd-12x20", {"engines.matrix.input_bits": 16, "engines.matrix.weight_bits": 16},
         "its numbers have 8 bits, those of the machine 16"),
        ("odd-12x20", {"memories.accumulators.size_bytes": 7 * 160},
         "16 accumulators, and there are 14"),
    ],
)  # fmt: skip
def test_machines_that_cannot_say_why(name, overrides, message):
    _, layer = layer_of((1, 10), 1)
    with pytest.raises(LayerError, match=message):
        compile_layer(layer, machine(name, **overrides))


def broken(layer, found, changed):
    """The layer's program with one of its instructions changed, and its image."""
    made = compile_layer(layer, found)
    image = made.image_with(np.zeros(layer.input_shape, np.int64))
    program = [changed(op) for op in decode(made.program, found)]
    return encode(program, found), image


def test_rows_and_lists_that_leave_the_accumulators_are_found():
    found = machine("odd-12x20")
    _, layer = layer_of((6, 45), 1)
    depth = found.depth("accumulators")

    def further(op):
        is_row = isinstance(op, Softmax)
        return dataclasses.replace(op, step=depth // 2) if is_row else op

    program, image = broken(layer, found, further)
    (finding, *_) = check_program(program, image, found)
    assert finding.kind == "bounds" and "touches element" in finding.text
    with pytest.raises(InputError, match="elements, and element"):
        simulate(program, image, found)


def test_a_list_that_is_loaded_in_part_is_found():
    found = machine("odd-12x20")
    _, layer = layer_of((6, 45), 1)
    whole = found.row_constants("softmax", 3)

    def shorter(op):
        is_list = isinstance(op, Load) and op.memory == "accumulators" and op.x_size == whole
        return dataclasses.replace(op, x_size=whole - 1) if is_list else op

    program, image = broken(layer, found, shorter)
    (finding, *_) = check_program(program, image, found)
    assert finding.kind == "unwritten" and "softmax" in finding.text
