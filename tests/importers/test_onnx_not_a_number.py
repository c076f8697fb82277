"""NaN and infinity in every operator that compares, orders or selects: as NumPy and ONNX have it.

One model holds them all; the interpreter, C and OpenCL are compared with onnx's reference. It
leaves NaN out of windows of pools, for which it is padding, and multiplies with a slope that is not
asked for: there the expected numbers are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import explorer
from explorer.compilation import Compilation
from explorer.ir.evaluation import outputs_by_name

nan, inf = np.nan, np.inf
A = np.float32(
    [
        [1, nan, 3, nan, -2, 0],
        [inf, -inf, 2, inf, 5, -0.0],
        [nan, nan, nan, nan, nan, nan],
        [4, 1, 4, -inf, 4, 1],
        [-inf, -inf, nan, inf, 0, 3],
    ]
)
B = np.float32([[0], [nan], [inf], [2], [-inf]])
IMAGE = np.arange(50, dtype=np.float32).reshape(1, 2, 5, 5) - 20
IMAGE[0, 0, 1, 1], IMAGE[0, 1, 3, 2], IMAGE[0, 1, 0, 0] = nan, inf, -inf
INPUTS = {"a": A, "b": B, "image": IMAGE}
CONSTANTS = {
    "k": np.int64([6]),
    "k3": np.int64([3]),
    "axis": np.int64(1),
    "axes": np.int64([1]),
    "low": np.float32(-1),
    "high": np.float32(3),
    "six": np.arange(6, dtype=np.float32),
    "picked": np.int64([[0, 3], [1, 1], [2, 5], [4, 0], [3, 2]]),
}
Node = tuple[str, list[str], dict[str, object]]

ELEMENTWISE: list[Node] = [
    *[(op, ["a"], {}) for op in ("Relu", "LeakyRelu", "Elu", "Sigmoid", "Tanh", "Sign", "Abs")],
    *[(op, ["a"], {}) for op in ("Floor", "Ceil", "Round", "IsNaN", "IsInf", "Softsign", "Neg")],
    *[(op, ["a"], {}) for op in ("HardSigmoid", "HardSwish", "Gelu", "Mish", "Softplus", "Exp")],
    ("ThresholdedRelu", ["a"], {}),
    ("Shrink", ["a"], {}),
    ("Clip", ["a", "low", "high"], {}),
    ("Clip", ["a", "low", ""], {}),
    ("PRelu", ["a", "b"], {}),
    *[(op, ["a", "b"], {}) for op in ("Max", "Min", "Add", "Mul", "Div", "Mean")],
    *[(op, ["a", "b"], {}) for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")],
]
ORDERING: list[Node] = [
    *[
        (op, ["a"], {"axis": axis, "select_last_index": last, "keepdims": 0})
        for op in ("ArgMax", "ArgMin")
        for axis in (0, 1)
        for last in (0, 1)
    ],
    *[("TopK", ["a", k], {"largest": largest}) for k in ("k", "k3") for largest in (0, 1)],
    ("Hardmax", ["a"], {"axis": 1}),
    *[(op, ["a", "axes"], {}) for op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean")],
    *[(op, ["a", "axes"], {}) for op in ("ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare")],
    ("GlobalMaxPool", ["image"], {}),
    ("GlobalAveragePool", ["image"], {}),
]
MOVING: list[Node] = [
    ("CumSum", ["a", "axis"], {}),
    ("CumSum", ["a", "axis"], {"exclusive": 1, "reverse": 1}),
    ("Softmax", ["a"], {}),
    ("LogSoftmax", ["a"], {}),
    ("Trilu", ["a"], {"upper": 0}),
    ("Gather", ["a", "k3"], {"axis": 1}),
    ("GatherElements", ["a", "picked"], {"axis": 1}),
    ("AveragePool", ["image"], {"kernel_shape": [2, 2]}),
    ("MaxPool", ["image"], {"kernel_shape": [2, 2]}),
    ("Transpose", ["image"], {}),
    ("DepthToSpace", ["image"], {"blocksize": 1}),
]
WINDOWS = np.lib.stride_tricks.sliding_window_view(IMAGE, (2, 2), (2, 3))
with np.errstate(invalid="ignore"):
    INSTEAD = {
        "PRelu": np.where(A >= 0, A, A * B),
        "AveragePool": WINDOWS.mean((-2, -1)),
        "MaxPool": WINDOWS.max((-2, -1)),
    }
NODES = [*ELEMENTWISE, *ORDERING, *MOVING]
LABELS = [
    " ".join([op, *map(str, inputs[1:]), *(f"{n}={v}" for n, v in given.items())])
    for op, inputs, given in NODES
]


def model_of_all() -> onnx.ModelProto:
    nodes, outputs = [], []
    for number, (op, inputs, attributes) in enumerate(NODES):
        results = [f"{number}_{i}" for i in range(2 if op == "TopK" else 1)]
        nodes.append(helper.make_node(op, inputs, results, name=f"{op}_{number}", **attributes))
        outputs += [onnx.ValueInfoProto(name=result) for result in results]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in INPUTS.items()
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()]
    graph = helper.make_graph(nodes, "specials", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    evaluator = ReferenceEvaluator(model_of_all())
    with np.errstate(all="ignore"):
        found = evaluator.run(None, INPUTS)
    return dict(zip(evaluator.output_names, found, strict=True))


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Callable[[str], dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("specials") / "specials.onnx"
    onnx.save(model_of_all(), path)
    programs: dict[str, Compilation] = {}
    known: dict[str, dict[str, np.ndarray]] = {}

    def results(form: str) -> dict[str, np.ndarray]:
        target = "opencl" if form == "opencl" else "cpu"
        if target not in programs:
            programs[target] = explorer.compile(path, target, tuned=False)
        if form not in known:
            c = programs[target]
            imported = c["import"].after
            values = imported.run(INPUTS) if form == "interpreter" else {}
            known[form] = outputs_by_name(imported.module, values) if values else c.run(INPUTS)
        return known[form]

    return results


FORMS = ["interpreter", "c", pytest.param("opencl", marks=pytest.mark.opencl)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", range(len(NODES)), ids=LABELS)
def test_specials_are_what_the_reference_has(found, expected, form, number):
    names = [name for name in expected if name.split("_")[0] == str(number)]
    for name in names:
        wanted = INSTEAD.get(NODES[number][0], expected[name])
        np.testing.assert_allclose(found(form)[name], wanted, rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize("form", FORMS)
def test_positions_of_the_best_are_a_permutation(found, form):
    for number, (op, inputs, _) in enumerate(NODES):
        if op == "TopK" and inputs[1] == "k":
            positions = np.sort(found(form)[f"{number}_1"], axis=1)
            np.testing.assert_array_equal(positions, np.tile(np.arange(6), (len(A), 1)))
