"""Quantization parameters of a file become types; what knows nothing of them gets integers."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from explorer.importers.onnx import from_proto, to_top
from explorer.ir.evaluation import outputs_by_name
from explorer.ir.operation import identity_of
from explorer.ir.origins import origin_of
from explorer.ir.program import Snapshot
from explorer.ir.structure import operations
from explorer.ir.top.data import ReturnOp, WeightOp
from explorer.ir.types import QuantizedType, element_type_of

SCALE = np.array(0.1, np.float32)
ZERO = np.array(128, np.uint8)
INPUT = {"x": np.linspace(-12, 12, 24, dtype=np.float32).reshape(1, 2, 3, 4)}


def imported(nodes, initializers=None, inputs=("x",), outputs=("y",)):
    constants = {"s": SCALE, "z": ZERO, **(initializers or {})}
    graph = helper.make_graph(
        [helper.make_node(*parts, **attributes) for *parts, attributes in nodes],
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, INPUT["x"].shape) for n in inputs],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return Snapshot(*to_top(from_proto(proto))), proto


def computing(snapshot):
    return [op for op in operations(snapshot.program) if not isinstance(op, WeightOp | ReturnOp)]


def names(snapshot) -> list[str]:
    return [op.name for op in computing(snapshot)]


QUANTIZE = ("QuantizeLinear", ["x", "s", "z"], ["q"], {"name": "quantize"})


def test_parameters_are_in_the_type_of_the_value():
    snapshot, _ = imported(
        [QUANTIZE, ("DequantizeLinear", ["q", "s", "z"], ["y"], {"name": "dequantize"})]
    )
    assert names(snapshot) == ["top.quantize", "top.dequantize"]
    quantize = computing(snapshot)[0]
    kind = element_type_of(quantize.results[0])
    assert isinstance(kind, QuantizedType)
    assert kind.scale_array.tolist() == [np.float32(0.1)]
    assert kind.zero_point_array.tolist() == [128]
    origin = origin_of(quantize.results[0])
    assert origin is not None and origin.tensor == "q"


def test_movement_keeps_the_type():
    snapshot, _ = imported(
        [
            QUANTIZE,
            ("Transpose", ["q"], ["t"], {"name": "t", "perm": [0, 2, 3, 1]}),
            ("Concat", ["t", "t"], ["c"], {"name": "c", "axis": 3}),
            ("DequantizeLinear", ["c", "s", "z"], ["y"], {"name": "d"}),
        ]
    )
    assert names(snapshot) == ["top.quantize", "top.transpose", "top.concat", "top.dequantize"]


def test_other_operators_get_the_stored_integers():
    snapshot, _ = imported(
        [QUANTIZE, ("Cast", ["q"], ["y"], {"name": "c", "to": TensorProto.INT32})]
    )
    assert names(snapshot) == ["top.quantize", "top.bitcast", "top.cast"]
    values = snapshot.run(INPUT)
    (found,) = outputs_by_name(snapshot.program, values).values()
    expected = np.clip(np.rint(INPUT["x"] / SCALE) + 128, 0, 255)
    np.testing.assert_array_equal(found, expected)


def test_a_model_returns_the_stored_integers():
    snapshot, _ = imported([(*QUANTIZE[:2], ["y"], QUANTIZE[3])])
    assert names(snapshot) == ["top.quantize", "top.bitcast"]
    assert identity_of(computing(snapshot)[1]) != identity_of(computing(snapshot)[0])
    found = outputs_by_name(snapshot.program, snapshot.run(INPUT))["y"]
    assert found.dtype == np.uint8


def test_integers_of_a_file_are_quantized_from_the_start():
    weights = np.arange(-12, 12, dtype=np.int8).reshape(3, 2, 2, 2)
    scales = np.array([0.5, 0.25, 1.0], np.float32)
    snapshot, _ = imported(
        [
            QUANTIZE,
            ("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "s", "z"], ["r"], {"name": "conv"}),
            ("DequantizeLinear", ["r", "s", "z"], ["y"], {"name": "d"}),
        ],
        {"w": weights, "ws": scales, "wz": np.zeros(3, np.int8)},
    )
    assert names(snapshot) == ["top.quantize", "top.conv", "top.requantize", "top.dequantize"]
    conv = computing(snapshot)[1]
    kind = element_type_of(conv.operands[1])
    assert isinstance(kind, QuantizedType) and kind.axis_number == 0
    assert kind.scale_array.tolist() == scales.tolist()


@pytest.mark.parametrize(
    "changes",
    [
        {"s": np.array(-0.1, np.float32)},
        {"s": np.array(0.1, np.float64)},
        {"s": np.array([0.1, 0.2], np.float32), "z": np.array([1, 2], np.uint8)},
    ],
)
def test_what_no_type_says_is_written_out_in_arithmetic(changes):
    """A negative scale, one in double precision; a scale per slice is a type again."""
    nodes = [("QuantizeLinear", ["x", "s", "z"], ["y"], {"name": "q", "axis": 1})]
    if changes["s"].dtype == np.float64:
        nodes = [
            ("Cast", ["x"], ["wide"], {"name": "w", "to": TensorProto.DOUBLE}),
            ("QuantizeLinear", ["wide", "s", "z"], ["y"], {"name": "q"}),
        ]
    snapshot, _ = imported(nodes, changes)
    is_typed = changes["s"].ndim == 1
    assert ("top.quantize" in names(snapshot)) == is_typed
    found = outputs_by_name(snapshot.program, snapshot.run(INPUT))["y"]
    scale = changes["s"].reshape(-1, 1, 1) if is_typed else changes["s"]
    zero = changes.get("z", ZERO)
    zero = zero.reshape(-1, 1, 1) if is_typed else zero
    expected = np.clip(np.rint(INPUT["x"] / scale) + zero, 0, 255)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_binary_operators_of_onnxruntime(operator):
    parameters = ["q", "s", "z", "q", "s", "z", "s", "z"]
    snapshot, proto = imported(
        [
            QUANTIZE,
            (operator, parameters, ["r"], {"name": "b", "domain": "com.microsoft"}),
            ("DequantizeLinear", ["r", "s", "z"], ["y"], {"name": "d"}),
        ]
    )
    compare(snapshot, proto)


@pytest.mark.parametrize("operator", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_unary_operators_of_onnxruntime(operator):
    snapshot, proto = imported(
        [
            QUANTIZE,
            (operator, ["q", "s", "z", "s", "z"], ["r"], {"name": "u", "domain": "com.microsoft"}),
            ("DequantizeLinear", ["r", "s", "z"], ["y"], {"name": "d"}),
        ]
    )
    compare(snapshot, proto)


def test_averages_and_concat_of_onnxruntime():
    snapshot, proto = imported(
        [
            QUANTIZE,
            (
                "QLinearGlobalAveragePool",
                ["q", "s", "z", "s", "z"],
                ["a"],
                {"name": "a", "domain": "com.microsoft"},
            ),
            (
                "QLinearConcat",
                ["s", "z", "a", "s", "z", "a", "s2", "z"],
                ["r"],
                {"name": "c", "axis": 1, "domain": "com.microsoft"},
            ),
            ("DequantizeLinear", ["r", "s", "z"], ["y"], {"name": "d"}),
        ],
        {"s2": np.array(0.2, np.float32)},
    )
    compare(snapshot, proto)


FILTERS = {
    "w": np.random.default_rng(1).integers(-9, 9, (4, 2, 3, 3)).astype(np.int8),
    "ws": np.array([0.05, 0.02, 0.1, 0.03], np.float32),
    "wz": np.zeros(4, np.int8),
    "b": np.array([100, -200, 30, 4], np.int32),
}


def of_microsoft(operator, operands, **attributes):
    """A node of quantized operands between those that make and read them; "q" is the input's."""
    return [
        QUANTIZE,
        ("Transpose", ["q"], ["behind"], {"name": "t", "perm": [0, 2, 3, 1]}),
        (operator, operands, ["r"], {"name": "n", "domain": "com.microsoft", **attributes}),
        ("DequantizeLinear", ["r", "s", "z"], ["y"], {"name": "d"}),
    ]


@pytest.mark.parametrize("is_last", [0, 1])
@pytest.mark.parametrize("scales", ["ws", "one"])
def test_convolution_of_onnxruntime_in_either_layout(is_last, scales):
    x = "behind" if is_last else "q"
    zeros = {"ws": "wz", "one": "zero"}[scales]
    operands = [x, "s", "z", "w", scales, zeros, "s", "z", "b"]
    given = {"channels_last": is_last, "pads": [1, 1, 1, 1], "strides": [2, 1]}
    constants = {**FILTERS, "one": np.array(0.05, np.float32), "zero": np.array(0, np.int8)}
    snapshot, proto = imported(of_microsoft("QLinearConv", operands, **given), constants)
    expected = {"top.conv", "top.requantize"}
    assert expected <= set(names(snapshot)) and "top.cast" not in names(snapshot)
    compare(snapshot, proto)


def test_pools_with_channels_behind():
    given = {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}
    snapshot, proto = imported(of_microsoft("NhwcMaxPool", ["behind"], strides=[1, 2], **given))
    assert "top.bitcast" not in names(snapshot)
    compare(snapshot, proto)
    operands = ["behind", "s", "z", "s", "z"]
    average = of_microsoft("QLinearAveragePool", operands, channels_last=1, **given)
    compare(*imported(average))


@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 11), (2, 7)])
def test_softmax_of_onnxruntime(axis, opset):
    """Its exponentials are whole numbers: the result may be the step beside."""
    operands = ["q", "s", "z", "fine", "zero"]
    nodes = of_microsoft("QLinearSoftmax", operands, axis=axis, opset=opset)
    nodes[-1] = ("DequantizeLinear", ["r", "fine", "zero"], ["y"], {"name": "d"})
    constants = {"fine": np.array(1 / 256, np.float32), "zero": np.array(0, np.uint8)}
    compare(*imported(nodes, constants), atol=1.01 / 256)


def test_choice_of_onnxruntime():
    operands = ["c", "q", "s", "z", "k", "ks", "z", "s", "z"]
    constants = {
        "c": np.array([True, False, True, False]),
        "k": np.arange(120, 144, dtype=np.uint8).reshape(1, 2, 3, 4),
        "ks": np.array(0.3, np.float32),
    }
    compare(*imported(of_microsoft("QLinearWhere", operands), constants))


@pytest.mark.parametrize("axes", [[2, 3], None])
def test_mean_of_quantized_numbers(axes):
    """onnxruntime has no kernel for it."""
    given = {"keepdims": 0} if axes is None else {"axes": axes}
    operands = ["q", "s", "z", "s", "z"]
    snapshot, _ = imported(of_microsoft("QLinearReduceMean", operands, **given))
    found = outputs_by_name(snapshot.program, snapshot.run(INPUT))["y"]
    real = (np.clip(np.rint(INPUT["x"] / SCALE) + 128, 0, 255) - 128) * SCALE
    mean = real.mean(None if axes is None else tuple(axes), keepdims=axes is not None)
    np.testing.assert_allclose(found, np.rint(mean / SCALE) * SCALE, atol=1e-5, rtol=0)


@pytest.mark.parametrize("has_result_type", [True, False])
@pytest.mark.parametrize("is_turned", [0, 1])
def test_gemm_of_onnxruntime(is_turned, has_result_type):
    random = np.random.default_rng(0)
    shape = (5, 4) if is_turned else (4, 5)
    operands = ["m", "s", "z", "w", "ws", "wz", "c", *(["s", "z"] if has_result_type else [])]
    nodes = [
        QUANTIZE,
        ("Reshape", ["q", "shape"], ["m"], {"name": "m"}),
        (
            "QGemm",
            operands,
            ["r" if has_result_type else "y"],
            {"name": "g", "transB": is_turned, "alpha": 1.0, "domain": "com.microsoft"},
        ),
    ]
    if has_result_type:
        nodes.append(("DequantizeLinear", ["r", "s", "z"], ["y"], {"name": "d"}))
    snapshot, proto = imported(
        nodes,
        {
            "shape": np.array([6, 4]),
            "w": random.integers(-9, 9, shape).astype(np.int8),
            "ws": np.array(0.05, np.float32),
            "wz": np.array(0, np.int8),
            "c": np.array([1, -20, 300, 4, 5], np.int32),
        },
    )
    compare(snapshot, proto)


def compare(snapshot: Snapshot, proto, atol: float = 1e-4) -> None:
    """Against onnxruntime: sums in single precision are rounded; a step of 0.1 would be seen."""
    import onnxruntime

    session = onnxruntime.InferenceSession(proto.SerializeToString())
    expected = np.asarray(session.run(None, INPUT)[0])
    found = outputs_by_name(snapshot.program, snapshot.run(INPUT))["y"]
    np.testing.assert_allclose(found, expected, atol=atol, rtol=0)
