"""Layers of a quantized network, out of the program, give the network's own numbers."""

import functools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.test import TestOp

import explorer
from explorer.ir.structure import operations, value_name
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.movement.reshape import ReshapeOp
from explorer.ir.top.movement.slices import SliceOp
from explorer.ir.top.movement.transpose import TransposeOp
from explorer.ir.top.pooling import PoolOp
from explorer.ir.types import QuantizedType, element_type_of, tensor_type
from explorer.npu import (
    Convolution,
    Elementwise,
    LayerError,
    Pieces,
    WindowLayer,
    compile_layer,
    predict,
)
from explorer.npu.layers.from_operations import read_layers, read_operation
from explorer.npu.layers.fusion import is_read_through, stays
from explorer.npu.layers.value_layout import stored_form
from explorer.runtime.npu import simulate
from explorer.targets import load_target
from explorer.targets.npu.checking import check_program
from explorer.targets.npu.machine import describe


@pytest.fixture(scope="module")
def quantized(sample_models):
    """digits_cnn, its table of thresholds, and a digit."""
    model = sample_models / "digits_cnn.onnx"
    images = np.load(sample_models / "digits_test.npz")["images"]
    examples = {"image": images[:20]}
    table = explorer.calibrate(model, examples, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    return model, table, {"image": images[200:201]}


def compiled(quantized, machine):
    """The network's layers as the machine scales them, and the program that they are of."""
    model, table, _ = quantized
    c = explorer.compile(model, quantization=table, target=machine.name)
    snapshot = c["fuse-quantization"].after
    return read_layers(snapshot), snapshot


@pytest.fixture(scope="module")
def read(quantized):
    """Machine and what `compiled` says, by the machine's name; each is compiled once."""

    @functools.cache
    def of(name):
        machine = describe(load_target(name))
        return machine, *compiled(quantized, machine), quantized[2]

    return of


def checked(found, snapshot, inputs, machine):
    """Every layer's simulated run against the program's values; how many there were."""
    values = snapshot.run(inputs)
    forms = {
        value_name(value): stored_form(value)
        for op in operations(snapshot.program)
        for value in (*op.operands, *op.results)
        if isinstance(element_type_of(value), QuantizedType)
    }
    for one in found.layers:
        tensors = (*one.layer.inputs, one.layer.output)
        *given, expected = (
            forms[name].signed(values[name]).reshape(tensor.shape)
            for name, tensor in zip((*one.inputs, one.output), tensors, strict=True)
        )
        made = compile_layer(one.layer, machine)
        image = made.image_with(*given)
        assert check_program(made.program, image, machine) == []
        result = simulate(made.program, image, machine)
        output = made.output_of(result.image)
        np.testing.assert_array_equal(output, one.layer.run(*given))
        np.testing.assert_array_equal(output, expected)
        assert predict(made.tiled).cycles == result.cycles


@pytest.mark.parametrize("name", ["vta-16", "mac-128", "odd-12x20"])
def test_every_layer_of_a_network_gives_its_numbers(read, name):
    machine, found, snapshot, inputs = read(name)
    assert found.refused == ()
    kinds = [type(one.layer) for one in found.layers]
    pool, product = WindowLayer, Convolution
    assert kinds == [product, product, pool, product, pool, product, product]
    assert found.layers[-1].layer.rescaling is None  # the classes' sums
    checked(found, snapshot, inputs, machine)


def test_unquantized_operations_are_refused_by_name(sample_models):
    plain = explorer.compile(sample_models / "digits_cnn.onnx")
    found = read_layers(plain["fuse-activation"].after)
    assert not found.layers
    assert {reason for _, reason in found.refused} == {
        "its input is not quantized", "its numbers are no integers",
    }  # fmt: skip


def model_of(nodes, shape, tmp_path, *constants, outputs=("z",)):
    """A model of the nodes, whose first value is x, and its input."""
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", infos, made, [*constants])
    path = tmp_path / "small.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    table = explorer.calibrate(path, {"x": x}, method="min-max", corrections=(),
                               arithmetic="integer")  # fmt: skip
    return path, table, {"x": x}


@pytest.mark.parametrize("name", ["tiny-8", "vta-16"])
def test_a_function_of_a_network_is_read_as_a_table(name, tmp_path):
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["y"]),
        helper.make_node("AveragePool", ["y"], ["z"], **window),
    ]
    model = model_of(nodes, (1, 19, 6, 6), tmp_path)
    machine = describe(load_target(name))
    found, snapshot = compiled(model, machine)
    function, average = found.layers
    assert len(function.layer.table) == 256
    assert average.layer.kernel == (2, 2)
    checked(found, snapshot, model[2], machine)


def floats(name, random, *shape):
    return numpy_helper.from_array(random.normal(0, 1, shape).astype(np.float32), name)


def numbers(name, *values):
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


MOVES = {
    "shuffled channels": ([("Reshape", ["r", "five"], {}),
                           ("Transpose", ["0"], {"perm": [0, 2, 1, 3, 4]}),
                           ("Reshape", ["1", "four"], {})], 1, 44),
    "a slice": ([("Slice", ["r", "starts", "ends", "axes", "steps"], {})], 1, 19),
    "joined channels": ([("Concat", ["r", "x"], {"axis": 1})], 1, 88),
    "joined rows": ([("Concat", ["r", "x"], {"axis": 2})], 2, 44),
    "padded": ([("Pad", ["r", "pads"], {})], 1, 47),
    "repeated rows and columns": ([("Resize", ["r", "", "", "sizes"],
                                    {"mode": "nearest", "nearest_mode": "floor",
                                     "coordinate_transformation_mode": "asymmetric"})], 6, 44),
    "zeros between": ([("ConvTranspose", ["r", "spread"],
                        {"strides": [2, 2], "pads": [1, 1, 0, 0]})], 4, 13),
    "depth as space": ([("DepthToSpace", ["r"], {"blocksize": 2})], 4, 11),
}  # fmt: skip


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """A model whose branches each move what one convolution makes, before another takes it."""
    random = np.random.default_rng(1)
    constants = [
        numbers("five", 1, 4, 11, 5, 7), numbers("four", 1, 44, 5, 7), numbers("starts", 3, 1),
        numbers("ends", 40, 6), numbers("axes", 1, 3), numbers("steps", 2, 2),
        numbers("sizes", 1, 44, 10, 21), numbers("pads", 0, 0, 1, 2, 0, 3, 0, 1),
        floats("filters", random, 44, 44, 1, 1), floats("spread", random, 44, 13, 3, 2),
    ]  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", "filters"], ["r"])]
    outputs = []
    for branch, (listed, _, channels) in enumerate(MOVES.values()):
        for index, (operator, inputs, fields) in enumerate(listed):
            inputs = [f"{branch}.{name}" if name.isdigit() else name for name in inputs]
            nodes.append(helper.make_node(operator, inputs, [f"{branch}.{index}"], **fields))
        constants.append(floats(f"last{branch}", random, 5, channels, 1, 1))
        last = nodes[-1].output[0]
        outputs.append(f"z{branch}")
        nodes.append(helper.make_node("Conv", [last, f"last{branch}"], outputs[-1:]))
    folder = tmp_path_factory.mktemp("moves")
    return model_of(nodes, (1, 44, 5, 7), folder, *constants, outputs=outputs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["odd-12x20", "vta-16"])
def test_moves_are_read_off_where_numbers_come_from(name, moving):
    machine = describe(load_target(name))
    found, snapshot = compiled(moving, machine)
    assert found.refused == ()
    layers = [one.layer for one in found.layers if not isinstance(one.layer, Elementwise)]
    first, *layers = layers
    lasts = [one for one in layers if isinstance(one, Convolution) and one.weights.shape[0] == 5]
    assert (first.weights.shape[0], len(lasts)) == (44, len(MOVES))
    counts = [
        len(one.pieces) if isinstance(one, Pieces) else 1
        for one in layers
        if not any(one is last for last in lasts)
    ]
    # A transposed convolution is one behind the pieces that put zeros between.
    assert sorted(counts) == sorted([1, *(count for _, count, _ in MOVES.values())])
    checked(found, snapshot, moving[2], machine)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["tiny-8", "vta-16"])
def test_what_is_made_larger_is_joined_as_it_is(name, tmp_path):
    """As in networks that look at several sizes: no layer picks channels of two of them at once."""
    random = np.random.default_rng(2)
    constants = [
        floats("fine", random, 12, 6, 1, 1), floats("coarse", random, 10, 6, 2, 2),
        floats("last", random, 5, 28, 1, 1), numbers("sizes", 1, 10, 12, 14),
    ]  # fmt: skip
    nearest = {"mode": "nearest", "nearest_mode": "floor",
               "coordinate_transformation_mode": "asymmetric"}  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "fine"], ["f"]),
        helper.make_node("Conv", ["x", "coarse"], ["c"], strides=[2, 2]),
        helper.make_node("Resize", ["c", "", "", "sizes"], ["r"], **nearest),
        helper.make_node("Concat", ["r", "f", "x"], ["j"], axis=1),
        helper.make_node("Conv", ["j", "last"], ["z"]),
    ]
    model = model_of(nodes, (1, 6, 12, 14), tmp_path, *constants)
    machine = describe(load_target(name))
    found, snapshot = compiled(model, machine)
    assert found.refused == ()
    checked(found, snapshot, model[2], machine)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_a_flattened_picture_is_read_as_it_lies(order):
    """Nothing is moved for a product: its weights are put in the order of the picture."""
    random = np.random.default_rng(3)
    of_x, of_w = (QuantizedType.get(IntegerType(8), [0.1], [zero]) for zero in (3, 0))
    made = TestOp(result_types=[tensor_type(of_x, (1, 3, 4, 5))])
    matrix = WeightOp.make([], [tensor_type(of_w, (60, 7))], weight="w")
    moved = TransposeOp.make([made.results[0]], permutation=order)
    flat = ReshapeOp.make([moved.output], shape=[1, 60])
    op = MatMulOp.make([flat.output, matrix.output])
    weights = {"w": random.integers(-128, 128, (60, 7))}
    assert (stays(moved) or is_read_through(moved)) and is_read_through(flat)
    (read,) = read_operation(op, weights)
    assert read.reads == (made.results[0],)
    x = random.integers(-128, 128, (1, 3, 4, 5))
    expected = (x.transpose(order).reshape(1, 60) - 3) @ weights["w"]
    np.testing.assert_array_equal(read.layer.run(x[0]).reshape(1, 7), expected)


@pytest.mark.parametrize(
    ("shape", "other", "is_view"),
    [
        ((1, 8, 4, 2), (1, 8, 8, 1), True),
        ((1, 8, 1, 1), (1, 8), True),
        ((6, 5), (2, 3, 5), True),
        ((1, 8, 4, 2), (8, 8), False),
        ((1, 8, 1, 8), (8, 8), False),  # eight channels both times, but not the same
    ],
)
def test_reshapes_stay_where_no_number_moves(shape, other, is_view):
    kind = QuantizedType.get(IntegerType(8), [0.1], [3])
    made = TestOp(result_types=[tensor_type(kind, shape)])
    assert stays(ReshapeOp.make([made.results[0]], shape=list(other))) is is_view


@pytest.mark.parametrize("size", [(2, 3), (9, 10)])
def test_positions_that_become_rows_are_read_through_as_they_lie(size):
    """A reshape alone would make channels of positions, and the transpose undoes that."""
    kind = QuantizedType.get(IntegerType(8), [0.1], [3])
    made = TestOp(result_types=[tensor_type(kind, (1, 5, *size))])
    count = size[0] * size[1]
    flat = ReshapeOp.make([made.results[0]], shape=[1, 5, count])
    swap = TransposeOp.make([flat.results[0]], permutation=[0, 2, 1])
    TestOp(operands=[swap.results[0]])
    assert is_read_through(flat)
    (read,) = read_operation(swap, {})
    assert read.reads == (made.results[0],) and read.layer.kernel == (1, 1)
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, *size))
    found = read.layer.run(stored_form(made.results[0]).signed(x).reshape(read.layer.input_shape))
    expected = x.reshape(1, 5, count).swapaxes(1, 2)
    np.testing.assert_array_equal(stored_form(swap.results[0]).logical(found), expected)


def test_a_part_that_is_turned_is_not_what_it_was_made_of():
    """Tokens of a picture behind others, as a tracker takes them apart."""
    kind = QuantizedType.get(IntegerType(8), [0.1], [3])
    made = TestOp(result_types=[tensor_type(kind, (1, 20, 6))])
    part = SliceOp.make([made.results[0]], starts=[0, 4, 0], stops=[1, 20, 6], steps=[1, 1, 1])
    turned = TransposeOp.make([part.results[0]], permutation=[0, 2, 1])
    picture = ReshapeOp.make([turned.output], shape=[1, 6, 4, 4])
    TestOp(operands=[picture.results[0]])
    assert not is_read_through(part) and is_read_through(turned)
    (read,) = read_operation(picture, {})
    assert read.reads == (made.results[0],)
    x = np.random.default_rng(0).integers(-128, 128, (1, 20, 6))
    (given,) = read.layer.inputs
    found = read.layer.run(stored_form(made.results[0]).signed(x).reshape(given.shape))
    expected = x[:, 4:].swapaxes(1, 2).reshape(1, 6, 4, 4)
    np.testing.assert_array_equal(stored_form(picture.results[0]).logical(found), expected)


def test_several_results_of_a_position_become_rows():
    """The head of a detector: channels are several boxes of each position, which become rows."""
    kind = QuantizedType.get(IntegerType(8), [0.1], [3])
    made = TestOp(result_types=[tensor_type(kind, (1, 12, 9, 10))])
    moved = TransposeOp.make([made.results[0]], permutation=[0, 2, 3, 1])
    boxes = ReshapeOp.make([moved.output], shape=[1, 270, 4])
    TestOp(operands=[boxes.results[0]])
    assert is_read_through(moved)
    (read,) = read_operation(boxes, {})
    assert read.reads == (made.results[0],)
    assert isinstance(read.layer, Pieces) and len(read.layer.pieces) == 3
    x = np.random.default_rng(0).integers(-128, 128, (1, 12, 9, 10))
    (given,) = read.layer.inputs
    found = read.layer.run(stored_form(made.results[0]).signed(x).reshape(given.shape))
    expected = x.transpose(0, 2, 3, 1).reshape(1, 270, 4)
    np.testing.assert_array_equal(stored_form(boxes.results[0]).logical(found), expected)


def test_sums_are_not_moved():
    kind = QuantizedType.get(IntegerType(32), [0.1], [0])
    made = TestOp(result_types=[tensor_type(kind, (1, 4, 5, 6))])
    moved = TransposeOp.make([made.results[0]], permutation=[0, 2, 3, 1])
    with pytest.raises(LayerError, match="sums have 32 bits, and what moves numbers takes bytes"):
        read_operation(moved, {})


def test_what_crosses_pictures_of_a_batch_is_refused_by_name():
    kind = QuantizedType.get(IntegerType(8), [0.1], [3])
    made = TestOp(result_types=[tensor_type(kind, (2, 5, 4, 4))])
    window = {"kind": "max", "window": [2, 2], "dilations": [1, 1], "pads": [0, 0, 0, 0]}
    even = PoolOp.make([made.results[0]], strides=[2, 2], **window)
    (read,) = read_operation(even, {})
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 4, 4))
    (expected,) = even.evaluate(x.astype(np.int8))
    found = read.layer.run(stored_form(even.operands[0]).signed(x))
    np.testing.assert_array_equal(stored_form(even.results[0]).logical(found), expected)
    for fields in ({"strides": [1, 2]}, {"strides": [2, 2], "pads": [1, 0, 1, 0]}):
        with pytest.raises(LayerError, match="its windows do not end where a picture"):
            read_operation(PoolOp.make([made.results[0]], **{**window, **fields}), {})


def test_columns_of_a_picture_are_no_channels():
    """Of four channels and four columns, a product with the columns has the same sizes."""
    of_x, of_w = (QuantizedType.get(IntegerType(8), [0.1], [zero]) for zero in (3, 0))
    made = TestOp(result_types=[tensor_type(of_x, (1, 4, 5, 4))])
    matrix = WeightOp.make([], [tensor_type(of_w, (4, 4))], weight="w")
    op = MatMulOp.make([made.results[0], matrix.output])
    with pytest.raises(LayerError, match="it adds up columns of pictures"):
        read_operation(op, {"w": np.ones((4, 4), np.int64)})
