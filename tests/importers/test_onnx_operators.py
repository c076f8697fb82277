"""Each operator as a model of one node: imported, executed, compared with onnxruntime.

Operands in capitals are weights of the model, others are inputs. Tolerance: 2e-6 of the largest
number, some roundings of single precision; integers and booleans must be equal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import helper

from explorer.importers.onnx import from_proto

TOLERANCE = 2e-6


@dataclass(frozen=True)
class Case:
    operator: str
    opset: int
    operands: dict[str, np.ndarray | None]
    attributes: dict[str, object] = field(default_factory=dict)
    results: int = 1
    domain: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        shown = [f"{k}={v}" for k, v in self.attributes.items() if not isinstance(v, list)]
        return "-".join([self.operator, str(self.opset), *filter(None, [self.label]), *shown])

    def model(self) -> tuple[list[onnx.NodeProto], dict, dict]:
        names = [name if array is not None else "" for name, array in self.operands.items()]
        results = [f"y{i}" for i in range(self.results)]
        node = helper.make_node(
            self.operator, names, results, name="node", domain=self.domain, **self.attributes
        )
        given = {n: a for n, a in self.operands.items() if a is not None}
        inputs = {n: a for n, a in given.items() if not n.isupper()}
        weights = {n: a for n, a in given.items() if n.isupper()}
        return [node], inputs, weights


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape).astype(np.float32)


def integers(*shape: int, low: int = 0, high: int = 4, dtype: type = np.int64) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


def booleans(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


def vector(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def number(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


X = floats(2, 3, 4, 5)

ANY_NUMBER = ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Abs", "Neg", "Floor", "Ceil")
UNARY = [
    *[Case(o, 13, {"x": X}) for o in ANY_NUMBER],
    *[Case(o, 13, {"x": positive(2, 3)}) for o in ("Log", "Sqrt", "Reciprocal")],
    *[Case(o, 7, {"x": X}) for o in ("Sin", "Cos", "Softplus", "Elu", "Selu", "LeakyRelu")],
    *[Case(o, 9, {"x": X}) for o in ("Sinh", "Cosh", "Atan", "Asinh", "Tan")],
    *[Case(o, 9, {"x": np.tanh(X)}) for o in ("Asin", "Acos", "Atanh")],
    Case("Acosh", 9, {"x": positive(2, 3) + 1}),
    Case("BitwiseNot", 18, {"x": integers(3, 4, dtype=np.uint8)}),
    Case("IsInf", 10, {"x": np.float32([0, -np.inf, np.inf, np.nan])}),
    Case("IsInf", 10, {"x": np.float32([0, -np.inf, np.inf])}, {"detect_negative": 0}),
    Case("Sign", 13, {"x": np.float32([-2, 0, 3])}),
    Case("Round", 11, {"x": np.float32([-2.5, -1.5, 0.5, 1.5, 2.4])}),
    Case("HardSigmoid", 6, {"x": X}, {"alpha": 0.3, "beta": 0.4}),
    Case("HardSwish", 14, {"x": X}),
    Case("Gelu", 20, {"x": X}),
    Case("Gelu", 20, {"x": X}, {"approximate": "tanh"}),
    Case("Mish", 18, {"x": X}),
    Case("LeakyRelu", 16, {"x": X}, {"alpha": 0.2}),
    Case("Celu", 12, {"x": X}, {"alpha": 1.5}),
    Case("ThresholdedRelu", 10, {"x": X}, {"alpha": 0.5}),
    Case("Softsign", 1, {"x": X}),
    Case("Shrink", 9, {"x": X}, {"lambd": 0.5, "bias": 0.1}),
    Case("Not", 1, {"x": booleans(3, 4)}),
    Case("IsNaN", 13, {"x": np.float32([0, np.nan, np.inf])}),
    Case("Identity", 13, {"x": X}),
    Case("Clip", 6, {"x": X}, {"min": -0.5, "max": 0.5}),
    Case("Clip", 6, {"x": X}, {"min": 0.25}),
    Case("Clip", 13, {"x": X, "LOW": number(-0.5), "HIGH": number(0.5)}),
    Case("Clip", 13, {"x": X, "LOW": None, "HIGH": number(0.5)}, label="no-low"),
    Case("Clip", 13, {"x": X, "low": number(-0.5), "HIGH": number(1)}, label="computed"),
    Case("Clip", 13, {"x": integers(3, 4, low=-9, high=9), "LOW": number(-2, np.int64)}),
    Case("Cast", 13, {"x": X}, {"to": onnx.TensorProto.INT32}),
    Case("Cast", 13, {"x": integers(3, 4)}, {"to": onnx.TensorProto.BOOL}),
    Case("Cast", 13, {"x": integers(3, 4)}, {"to": onnx.TensorProto.FLOAT16}),
    Case("CastLike", 15, {"x": X, "like": integers(1)}),
]

BINARY = [
    *[Case(o, 13, {"a": X, "b": floats(4, 1, seed=1)}) for o in ("Add", "Sub", "Mul", "Div")],
    *[Case(o, 13, {"a": integers(4), "b": vector(1, 2, 3, 2)}) for o in ("Add", "Div")],
    Case("Div", 13, {"a": vector(-7, 7, -7, 7), "b": vector(2, -2, -2, 2)}, label="signs"),
    *[
        Case(o, 16, {"a": integers(3, 4), "b": integers(4)})
        for o in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    ],
    *[Case(o, 7, {"a": booleans(3, 4), "b": booleans(4, seed=1)}) for o in ("And", "Or", "Xor")],
    Case("Pow", 13, {"a": positive(3, 4), "b": floats(4)}),
    Case("Pow", 13, {"a": X, "B": number(2, np.int64)}, label="integer-exponent"),
    Case("Mod", 13, {"a": vector(-7, 7, -7, 7), "b": vector(3, -3, -3, 3)}),
    Case("Mod", 13, {"a": vector(-7, 7, -7, 7), "b": vector(3, -3, -3, 3)}, {"fmod": 1}),
    Case("Mod", 13, {"a": X, "b": positive(5)}, {"fmod": 1}),
    *[
        Case(o, 18, {"a": integers(3, 4, high=99), "b": integers(4, high=99)})
        for o in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ],
    *[
        Case("BitShift", 11, {"a": A, "b": B}, {"direction": direction})
        for A, B in [(np.arange(9, dtype=np.uint32) * 77, np.arange(9, dtype=np.uint32))]
        for direction in ("LEFT", "RIGHT")
    ],
    Case("PRelu", 16, {"a": X, "SLOPE": positive(3, 1, 1)}),
    *[
        Case(o, 13, {"a": X, "b": floats(5, seed=1), "c": floats(4, 5, seed=2)})
        for o in ("Sum", "Mean", "Max", "Min")
    ],
    Case("Where", 16, {"c": booleans(4, 1), "a": X, "b": floats(5, seed=1)}),
    Case("Gemm", 13, {"a": floats(3, 4), "B": floats(4, 5), "C": floats(5)}),
    Case(
        "Gemm",
        13,
        {"a": floats(4, 3), "B": floats(5, 4), "C": floats(3, 1)},
        {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    Case("Gemm", 11, {"a": floats(3, 4), "B": floats(4, 5)}, label="no-c"),
    Case("MatMul", 13, {"a": floats(2, 3, 4), "b": floats(4, 5, seed=1)}),
    Case("MatMul", 13, {"a": floats(4), "b": floats(2, 4, 5, seed=1)}, label="row"),
    Case("MatMul", 13, {"a": floats(2, 3, 4), "b": floats(4, seed=1)}, label="column"),
    Case("MatMul", 13, {"a": floats(4), "b": floats(4, seed=1)}, label="dot"),
]

IMAGE, FILTERS = floats(2, 4, 9, 10), floats(6, 4, 3, 3, seed=1)
CONVOLUTIONS = [
    Case("Conv", 11, {"x": IMAGE, "W": FILTERS, "B": floats(6, seed=2)}, {"pads": [1, 0, 2, 1]}),
    Case("Conv", 11, {"x": IMAGE, "W": FILTERS}, {"strides": [2, 1], "dilations": [1, 2]}),
    Case("Conv", 11, {"x": IMAGE, "W": floats(6, 2, 3, 3)}, {"group": 2}),
    Case("Conv", 11, {"x": IMAGE, "W": floats(4, 1, 3, 3)}, {"group": 4}),
    *[
        Case("Conv", 11, {"x": IMAGE, "W": FILTERS}, {"auto_pad": auto, "strides": [2, 2]})
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ],
    Case("Conv", 11, {"x": floats(2, 3, 9), "W": floats(4, 3, 3)}, label="1d"),
    Case("Conv", 11, {"x": floats(1, 2, 5, 6, 7), "W": floats(3, 2, 2, 3, 2)}, label="3d"),
    Case(
        "ConvTranspose",
        11,
        {"x": floats(2, 4, 5, 6), "W": floats(4, 3, 3, 3), "B": floats(3)},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]},
    ),
    Case("ConvTranspose", 11, {"x": floats(2, 4, 5), "W": floats(4, 2, 3)}, {"group": 2}),
    Case(
        "ConvTranspose",
        11,
        {"x": floats(1, 2, 4, 4), "W": floats(2, 3, 2, 2)},
        {"strides": [2, 2], "pads": [2, 2, 2, 2]},
        label="pads-beyond-window",
    ),
    Case("ConvTranspose", 11, {"x": floats(1, 2, 4), "W": floats(2, 3, 3)}, {"dilations": [2]}),
    *[
        Case(
            "ConvTranspose",
            11,
            {"x": floats(1, 2, 4, 5), "W": floats(2, 3, 3, 3)},
            {"strides": [2, 2], "auto_pad": auto, "output_shape": [8, 9]},
        )
        for auto in ("SAME_UPPER", "SAME_LOWER")
    ],
    Case(
        "ConvTranspose",
        11,
        {"x": floats(1, 2, 4), "W": floats(2, 3, 3)},
        {"strides": [2], "output_shape": [10]},
        label="beyond-reach",
    ),
]

POOL = {"kernel_shape": [3, 2], "strides": [2, 3]}
POOLS = [
    *[
        Case(operator, 12, {"x": IMAGE}, {**POOL, **extra}, label=label)
        for operator in ("MaxPool", "AveragePool")
        for label, extra in (
            ("plain", {}),
            ("pads", {"pads": [1, 0, 1, 1]}),
            ("ceil", {"ceil_mode": 1}),
            ("ceil-pads", {"ceil_mode": 1, "pads": [1, 1, 1, 1]}),
            ("upper", {"auto_pad": "SAME_UPPER"}),
            ("lower", {"auto_pad": "SAME_LOWER"}),
        )
    ],
    Case("MaxPool", 12, {"x": IMAGE}, {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    Case("MaxPool", 8, {"x": floats(1, 2, 9)}, {"kernel_shape": [3]}),
    *[
        Case(
            "MaxPool",
            12,
            {"x": IMAGE},
            {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "storage_order": order},
            results=2,
        )
        for order in (0, 1)
    ],
    Case("MaxPool", 12, {"x": floats(1, 2, 9)}, {"kernel_shape": [3]}, results=2, label="1d"),
    *[
        Case("LpPool", 18, {"x": IMAGE}, {"kernel_shape": [2, 3], "p": p, "pads": [0, 1, 0, 1]})
        for p in (1, 2, 3)
    ],
    *[Case("GlobalLpPool", 2, {"x": IMAGE}, {"p": p}) for p in (1, 2, 3)],
    Case("AveragePool", 19, {"x": IMAGE}, {**POOL, "count_include_pad": 1, "pads": [1, 1, 1, 1]}),
    Case(
        "AveragePool",
        19,
        {"x": IMAGE},
        {**POOL, "count_include_pad": 1, "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    Case("GlobalAveragePool", 1, {"x": IMAGE}),
    Case("GlobalMaxPool", 1, {"x": IMAGE}),
]

PER_CHANNEL = [floats(4, seed=s) for s in range(3)]
NORMALIZATIONS = [
    *[
        Case(
            "BatchNormalization",
            opset,
            {
                "x": IMAGE,
                "S": PER_CHANNEL[0],
                "B": PER_CHANNEL[1],
                "M": PER_CHANNEL[2],
                "V": positive(4),
            },
            {"epsilon": 1e-3},
        )
        for opset in (7, 9, 15)
    ],
    Case("InstanceNormalization", 6, {"x": IMAGE, "S": PER_CHANNEL[0], "B": PER_CHANNEL[1]}),
    Case("LayerNormalization", 17, {"x": X, "S": floats(5), "B": floats(5, seed=1)}),
    Case("LayerNormalization", 17, {"x": X, "S": floats(4, 5)}, {"axis": 2, "epsilon": 1e-2}),
    Case("LayerNormalization", 17, {"x": X, "S": floats(4, 5)}, {"axis": 2}, results=3),
    *[Case("LpNormalization", 1, {"x": X}, {"axis": 2, "p": p}) for p in (1, 2)],
    Case("Hardmax", 13, {"x": X}, {"axis": 1}),
    Case("Hardmax", 11, {"x": X}, {"axis": 2}),
    Case(
        "GroupNormalization",
        21,
        {"x": IMAGE, "S": PER_CHANNEL[0], "B": PER_CHANNEL[1]},
        {"num_groups": 2},
    ),
    Case("LRN", 13, {"x": floats(1, 7, 4, 4)}, {"size": 5, "alpha": 0.1, "bias": 1.5}),
    *[Case("Softmax", 11, {"x": X}, {"axis": axis}) for axis in (0, 1, -1)],
    Case("Softmax", 11, {"x": floats(2, 5, 1, 1)}, label="default-axis"),
    *[Case("Softmax", 13, {"x": X}, {"axis": axis}) for axis in (1, -1)],
    Case("LogSoftmax", 11, {"x": X}),
    Case("LogSoftmax", 13, {"x": X}, {"axis": 1}),
    Case("Dropout", 7, {"x": X}),
    Case("Dropout", 13, {"x": X, "RATIO": number(0.5)}),
    Case("Dropout", 13, {"x": X, "RATIO": number(0.5)}, results=2, label="mask"),
    Case("MeanVarianceNormalization", 13, {"x": X}),
]

REDUCED = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
)
REDUCTIONS = [
    *[
        Case(operator, 13 if operator != "ReduceSum" else 11, {"x": positive(2, 3, 4)}, attributes)
        for operator in REDUCED
        for attributes in ({"axes": [-1, 0], "keepdims": 0}, {"keepdims": 1})
    ],
    Case("ReduceSum", 13, {"x": X, "AXES": vector(1, -1)}, {"keepdims": 0}),
    Case("ReduceSum", 13, {"x": X, "AXES": vector()}, {"noop_with_empty_axes": 1}),
    Case("ReduceMean", 18, {"x": X, "AXES": vector(2)}),
    Case("ReduceMax", 18, {"x": X}, label="all"),
    Case("ArgMax", 13, {"x": X}, {"axis": 2, "keepdims": 0}),
    Case("ArgMin", 13, {"x": integers(4, 5).astype(np.float32)}, {"select_last_index": 1}),
    Case("CumSum", 14, {"x": X, "AXIS": number(-2, np.int64)}),
    Case("CumSum", 14, {"x": X, "AXIS": number(1, np.int64)}, {"exclusive": 1, "reverse": 1}),
    Case("TopK", 11, {"x": X, "K": vector(3)}, results=2),
    Case("TopK", 11, {"x": X, "K": vector(2)}, {"axis": 1, "largest": 0}, results=2),
    Case("TopK", 1, {"x": X}, {"k": 2, "axis": -1}, results=2),
]

MOVEMENTS = [
    Case("Reshape", 13, {"x": X, "SHAPE": vector(0, -1, 5)}),
    Case("Reshape", 13, {"x": X, "shape": vector(6, 4, 5)}, label="computed"),
    Case(
        "Reshape",
        14,
        {"x": floats(0, 3), "SHAPE": vector(3, 0)},
        {"allowzero": 1},
    ),
    *[Case("Flatten", 13, {"x": X}, {"axis": axis}) for axis in (0, 1, 2, -1, 4)],
    Case("Squeeze", 11, {"x": floats(1, 3, 1, 2)}, {"axes": [0, -2]}),
    Case("Squeeze", 13, {"x": floats(1, 3, 1, 2), "AXES": vector(2)}),
    Case("Squeeze", 13, {"x": floats(1, 3, 1, 2)}, label="all"),
    Case("Unsqueeze", 11, {"x": floats(2, 3)}, {"axes": [0, 3]}),
    Case("Unsqueeze", 13, {"x": floats(2, 3), "AXES": vector(-1, 1)}),
    Case("Transpose", 13, {"x": X}, {"perm": [0, 2, 3, 1]}),
    Case("Transpose", 13, {"x": X}, label="reversed"),
    Case("Concat", 13, {"a": X, "b": floats(2, 1, 4, 5)}, {"axis": -3}),
    Case("Split", 11, {"x": X}, {"axis": 3, "split": [1, 4]}, results=2),
    Case("Split", 13, {"x": X, "PARTS": vector(3, 1)}, {"axis": 2}, results=2),
    Case("Split", 13, {"x": X}, {"axis": 2}, results=2),
    Case("Split", 18, {"x": X}, {"axis": -1, "num_outputs": 2}, results=2),
    Case("Slice", 9, {"x": X}, {"starts": [0, -2], "ends": [1000, -1], "axes": [1, 3]}),
    Case("Slice", 13, {"x": X, "A": vector(1), "B": vector(2**31 - 1), "C": vector(-1)}),
    *[
        Case(
            "Slice",
            13,
            {"x": X, "A": vector(start), "B": vector(stop), "C": vector(3), "D": vector(-1)},
            label=f"{start}-to-{stop}-backwards",
        )
        for start, stop in ((-1, -(2**31)), (-1, 0), (3, 1), (100, -4))
    ],
    Case(
        "Slice",
        13,
        {"x": X, "a": vector(0, 1), "B": vector(3, 4), "C": vector(3, 2), "D": vector(2, 1)},
        label="computed",
    ),
    Case("Gather", 13, {"x": X, "i": integers(2, 2, high=3)}, {"axis": 1}),
    Case("Gather", 13, {"x": X, "I": number(-1, np.int64)}, {"axis": -1}, label="scalar"),
    Case("GatherElements", 13, {"x": X, "i": integers(2, 3, 2, 5)}, {"axis": 2}),
    Case("GatherND", 13, {"x": X, "i": integers(3, 2, high=2)}),
    Case("GatherND", 13, {"x": X, "i": integers(2, 3, 1, high=3)}, {"batch_dims": 1}),
    Case("ScatterND", 16, {"x": floats(5, 2), "I": vector(1, 3).reshape(2, 1), "u": floats(2, 2)}),
    Case("Trilu", 14, {"x": X}, {"upper": 0}),
    Case("Trilu", 14, {"x": X, "K": number(-1, np.int64)}),
    *[
        Case("DepthToSpace", 13, {"x": floats(1, 8, 2, 3)}, {"blocksize": 2, "mode": m})
        for m in ("DCR", "CRD")
    ],
    Case("SpaceToDepth", 13, {"x": floats(1, 2, 4, 6)}, {"blocksize": 2}),
    Case("Pad", 2, {"x": X}, {"pads": [0, 0, 1, 2, 0, 1, 0, 3], "value": 1.5}),
    Case("Pad", 13, {"x": X, "P": vector(0, 0, 1, -1, 0, 1, 0, -2), "V": number(0.5)}),
    Case("Pad", 13, {"x": floats(2, 3), "p": vector(0, 1, 2, 0)}, label="computed"),
    *[
        Case("Pad", 13, {"x": X, "P": vector(0, 0, 2, 1, 0, 0, 1, 3)}, {"mode": mode})
        for mode in ("reflect", "edge")
    ],
    Case("Pad", 19, {"x": X, "P": vector(0, 0, 2, 1, 0, 0, 1, 3)}, {"mode": "wrap"}),
    Case("Pad", 18, {"x": X, "P": vector(1, 2), "V": number(0), "A": vector(-2)}),
]

SHAPES = [
    Case("Shape", 13, {"x": X}),
    Case("Shape", 15, {"x": X}, {"start": 1, "end": -1}),
    Case("Size", 13, {"x": X}),
    Case("Expand", 13, {"x": floats(3, 1), "SHAPE": vector(2, 1, 4)}),
    Case("Expand", 13, {"x": floats(3, 1), "shape": vector(2, 1, 4)}, label="computed"),
    Case("ConstantOfShape", 9, {"SHAPE": vector(2, 3)}),
    Case(
        "ConstantOfShape",
        9,
        {"shape": vector(2, 3)},
        {"value": helper.make_tensor("v", onnx.TensorProto.INT64, [1], [7])},
        label="computed",
    ),
    Case("Tile", 13, {"x": floats(2, 3), "TIMES": vector(2, 3)}),
    Case("Range", 11, {"A": number(1), "B": number(6), "C": number(2)}),
    Case(
        "Range", 11, {"a": number(8, np.int64), "B": number(0, np.int64), "C": number(-3, np.int64)}
    ),
    Case("OneHot", 11, {"i": integers(2, 3, low=-4), "D": number(4, np.int64), "V": floats(2)}),
    Case("OneHot", 11, {"i": integers(3), "D": vector(4), "V": floats(2)}, {"axis": 0}),
    Case("Constant", 13, {}, {"value_floats": [1.0, 2.5]}),
    Case("Constant", 13, {}, {"value_int": 3}),
]

SMALL = floats(1, 2, 4, 5)
RESIZES = [
    *[
        Case("Upsample", 9, {"x": SMALL, "S": np.float32([1, 1, 2, 3])}, {"mode": mode})
        for mode in ("nearest", "linear")
    ],
    Case("Upsample", 7, {"x": SMALL}, {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "nearest"}),
    *[
        Case("Resize", 10, {"x": SMALL, "S": np.float32([1, 1, *scales])}, {"mode": mode})
        for mode in ("nearest", "linear")
        for scales in ((2, 1.5), (0.5, 0.6))
    ],
    *[
        Case(
            "Resize",
            13,
            {"x": SMALL, "R": None, "S": np.float32([1, 1, 1.7, 0.6])},
            {"mode": mode, "coordinate_transformation_mode": coordinates},
        )
        for mode in ("nearest", "linear", "cubic")
        for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    ],
    *[
        Case(
            "Resize",
            13,
            {"x": SMALL, "R": None, "S": None, "SIZES": vector(1, 2, 6, 3)},
            {
                "mode": "nearest",
                "nearest_mode": mode,
                "coordinate_transformation_mode": coordinates,
            },
        )
        for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for coordinates in ("half_pixel", "asymmetric")
    ],
    Case(
        "Resize",
        13,
        {"x": SMALL, "R": None, "S": None, "SIZES": vector(1, 2, 7, 8)},
        {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    ),
    Case(
        "Resize",
        19,
        {"x": SMALL, "R": None, "S": np.float32([2, 2])},
        {"mode": "linear", "axes": [2, 3]},
    ),
]

HIDDEN = 3
RECURRENT = [
    Case(
        "LSTM",
        14,
        {
            "x": floats(5, 2, 4),
            "W": floats(1, 4 * HIDDEN, 4),
            "R": floats(1, 4 * HIDDEN, HIDDEN, seed=1),
            "B": floats(1, 8 * HIDDEN, seed=2),
            "L": None,
            "h": floats(1, 2, HIDDEN, seed=3),
            "c": floats(1, 2, HIDDEN, seed=4),
        },
        {"hidden_size": HIDDEN},
        results=3,
    ),
    Case(
        "LSTM",
        14,
        {
            "x": floats(3, 2, 4),
            "W": floats(2, 4 * HIDDEN, 4),
            "R": floats(2, 4 * HIDDEN, HIDDEN, seed=1),
        },
        {"hidden_size": HIDDEN, "direction": "bidirectional"},
        results=3,
    ),
    *[
        Case(
            "GRU",
            14,
            {
                "x": floats(4, 2, 4),
                "W": floats(1, 3 * HIDDEN, 4),
                "R": floats(1, 3 * HIDDEN, HIDDEN, seed=1),
                "B": floats(1, 6 * HIDDEN, seed=2),
            },
            {"hidden_size": HIDDEN, "linear_before_reset": linear, "direction": direction},
            results=2,
        )
        for linear in (0, 1)
        for direction in ("forward", "reverse")
    ],
    Case(
        "RNN",
        14,
        {"x": floats(4, 2, 4), "W": floats(1, HIDDEN, 4), "R": floats(1, HIDDEN, HIDDEN)},
        {"hidden_size": HIDDEN, "activations": ["Relu"]},
        results=2,
    ),
]

BYTES = integers(1, 4, 5, 5, high=255, dtype=np.uint8)
QUANTIZATIONS = [
    Case("QuantizeLinear", 13, {"x": X, "S": number(0.05), "Z": number(120, np.uint8)}),
    Case(
        "QuantizeLinear", 13, {"x": X, "S": positive(3) / 50, "Z": np.int8([0, 3, -4])}, {"axis": 1}
    ),
    Case("DequantizeLinear", 13, {"x": BYTES, "S": number(0.05), "Z": number(120, np.uint8)}),
    Case("DequantizeLinear", 13, {"x": BYTES, "S": positive(4)}, {"axis": 1}),
    Case(
        "QLinearConv",
        10,
        {
            "x": BYTES,
            "XS": number(0.02),
            "XZ": number(128, np.uint8),
            "W": integers(3, 4, 3, 3, low=-90, high=90, dtype=np.int8),
            "WS": positive(3) / 100,
            "WZ": np.zeros(3, np.int8),
            "YS": number(0.2),
            "YZ": number(100, np.uint8),
            "B": integers(3, low=-500, high=500, dtype=np.int32),
        },
        {"pads": [1, 1, 1, 1]},
    ),
    Case(
        "QLinearMatMul",
        10,
        {
            "x": integers(3, 4, high=255, dtype=np.uint8),
            "XS": number(0.02),
            "XZ": number(128, np.uint8),
            "W": integers(4, 5, high=255, dtype=np.uint8),
            "WS": number(0.01),
            "WZ": number(130, np.uint8),
            "YS": number(0.05),
            "YZ": number(100, np.uint8),
        },
    ),
]

MICROSOFT = "com.microsoft"
EXTENSIONS = [
    Case("Gelu", 13, {"x": X}, domain=MICROSOFT),
    Case("BiasGelu", 13, {"x": X, "B": floats(5)}, domain=MICROSOFT),
    Case("FastGelu", 13, {"x": X, "B": floats(5)}, domain=MICROSOFT),
    Case("QuickGelu", 13, {"x": X}, {"alpha": 1.5}, domain=MICROSOFT),
    Case(
        "SkipLayerNormalization",
        13,
        {"x": floats(2, 3, 4), "s": floats(2, 3, 4, seed=1), "G": floats(4), "B": floats(4)},
        {"epsilon": 1e-5},
        domain=MICROSOFT,
    ),
    Case(
        "FusedMatMul",
        13,
        {"a": floats(2, 4, 3), "b": floats(2, 5, 4)},
        {"transA": 1, "transB": 1, "alpha": 0.5},
        domain=MICROSOFT,
    ),
    Case("Affine", 7, {"x": X}, {"alpha": 2.0, "beta": 0.5}),
    Case("ImageScaler", 7, {"x": X}, {"scale": 0.5, "bias": [1.0, 2.0, 3.0]}),
    Case("Crop", 7, {"x": X}, {"border": [1, 0, 2, 1]}),
]

CASES = [
    *UNARY,
    *BINARY,
    *CONVOLUTIONS,
    *POOLS,
    *NORMALIZATIONS,
    *REDUCTIONS,
    *MOVEMENTS,
    *SHAPES,
    *RESIZES,
    *RECURRENT,
    *QUANTIZATIONS,
    *EXTENSIONS,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operator_computes_what_onnxruntime_computes(
    case: Case, make_model: Callable, compare: Callable
) -> None:
    nodes, inputs, weights = case.model()
    proto = make_model(nodes, inputs, weights, case.opset, [case.domain] if case.domain else [])
    assert compare(from_proto(proto), inputs) <= TOLERANCE
