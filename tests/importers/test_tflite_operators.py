"""Operators of TFLite on floats and plain integers: what LiteRT's reference kernels compute.

One node a model, small shapes: roundings of integers have a test of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.tflite.file.reading import read
from explorer.importers.tflite.operators.register import converters
from explorer.references.interface import reference_of
from tests.importers.tflite_nodes import Case, case, check, fixed, floats, random, whole
from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of, one_operator

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

X = (2, 6, 5, 4)


def unary(kind: str) -> Case:
    return case(kind, [floats("x", *X)], X)


def binary(kind: str, dtype: str = "float32") -> Case:
    return case(kind, [floats("a", *X), floats("b", 1, 1, 5, 4)], X, dtype=dtype)


def same(**more: int) -> dict[str, int]:
    return {"Padding": 0, "StrideW": 2, "StrideH": 2, **more}


CASES: list[Case] = [
    *map(unary, ("ABS", "COS", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG",
                 "RELU", "RELU6", "RELU_N1_TO_1", "SIN", "SQUARE", "TANH", "SIGN")),
    *map(binary, ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_MOD", "FLOOR_DIV")),
    *(binary(kind, "bool") for kind in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER",
                                        "GREATER_EQUAL")),
    case("ADD", [floats("a", *X), floats("b", 1, 1, 5, 4)], X, "AddOptions",
         {"FusedActivationFunction": 3}),
    case("DIV", [floats("a", *X), floats("b", *X)], X, "DivOptions",
         {"FusedActivationFunction": 1}),
    case("LEAKY_RELU", [floats("x", *X)], X, "LeakyReluOptions", {"Alpha": 0.3}),
    case("PRELU", [floats("x", *X), fixed("s", random(1, 1, 1, 4), "float32")], X),
    case("GELU", [floats("x", *X)], X, "GeluOptions", {"Approximate": True}),
    case("CAST", [floats("x", *X)], X, dtype="int32"),
    case("CONV_2D", [floats("x", *X), fixed("w", random(2, 8, 3, 3, 4), "float32"),
                     fixed("b", random(3, 8), "float32")], (2, 3, 3, 8), "Conv2DOptions",
         same(FusedActivationFunction=1)),
    case("CONV_2D", [floats("x", *X), fixed("w", random(2, 8, 3, 3, 2), "float32"),
                     fixed("b", random(3, 8), "float32")],
         (2, 2, 3, 8), "Conv2DOptions",
         {"Padding": 1, "StrideW": 1, "StrideH": 1, "DilationHFactor": 2}),
    case("DEPTHWISE_CONV_2D", [floats("x", *X), fixed("w", random(4, 1, 3, 3, 8), "float32"),
                               fixed("b", random(5, 8), "float32")], (2, 3, 3, 8),
         "DepthwiseConv2DOptions", same(DepthMultiplier=2, FusedActivationFunction=3)),
    case("FULLY_CONNECTED", [floats("x", 2, 3, 5), fixed("w", random(6, 7, 5), "float32"),
                             fixed("b", random(7, 7), "float32")], (6, 7),
         "FullyConnectedOptions", {"FusedActivationFunction": 1}),
    case("FULLY_CONNECTED", [floats("x", 2, 3, 5), fixed("w", random(6, 7, 5), "float32")],
         (2, 3, 7), "FullyConnectedOptions", {"KeepNumDims": True}),
    case("TRANSPOSE_CONV", [fixed("s", [2, 12, 10, 3]),
                            fixed("w", random(8, 3, 3, 3, 4), "float32"), floats("x", *X)],
         (2, 12, 10, 3), "TransposeConvOptions", same()),
    case("TRANSPOSE_CONV", [fixed("s", [2, 13, 11, 3]),
                            fixed("w", random(8, 3, 3, 3, 4), "float32"), floats("x", *X),
                            fixed("b", random(9, 3), "float32")],
         (2, 13, 11, 3), "TransposeConvOptions", {"Padding": 1, "StrideW": 2, "StrideH": 2}),
    *(case(kind, [floats("x", *X)], (2, 3, 3, 4), "Pool2DOptions",
           same(FilterWidth=3, FilterHeight=3)) for kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D")),
    case("SOFTMAX", [floats("x", *X)], X, "SoftmaxOptions", {"Beta": 0.7}),
    case("LOG_SOFTMAX", [floats("x", *X)], X),
    case("L2_NORMALIZATION", [floats("x", *X)], X),
    case("MEAN", [floats("x", *X), fixed("axes", [1, -1])], (2, 5), "ReducerOptions"),
    *(case(kind, [floats("x", *X), fixed("axes", [1])], (2, 1, 5, 4), "ReducerOptions",
           {"KeepDims": True}) for kind in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")),
    *(case(kind, [floats("x", *X), fixed("axis", 2)], (2, 6, 4), "ArgMaxOptions",
           {"OutputType": 4}, "int64") for kind in ("ARG_MAX",)),
    case("RESHAPE", [floats("x", *X), fixed("s", [2, -1])], (2, 120), "ReshapeOptions"),
    case("EXPAND_DIMS", [floats("x", *X), fixed("axis", -1)], (*X, 1)),
    case("SQUEEZE", [floats("x", 1, 4, 1)], (4, 1), "SqueezeOptions", {"SqueezeDims": [0]}),
    case("TRANSPOSE", [floats("x", *X), fixed("p", [0, 3, 1, 2])], (2, 4, 6, 5)),
    case("CONCATENATION", [floats("a", *X), floats("b", 2, 6, 3, 4)], (2, 6, 8, 4),
         "ConcatenationOptions", {"Axis": -2}),
    case("PACK", [floats("a", 3, 4), floats("b", 3, 4)], (3, 2, 4), "PackOptions",
         {"Axis": 1, "ValuesCount": 2}),
    case("UNPACK", [floats("x", 3, 2, 4)], (3, 4), "UnpackOptions", {"Axis": 1, "Num": 2},
         count=2),
    case("SPLIT", [fixed("axis", 1), floats("x", *X)], (2, 2, 5, 4), "SplitOptions",
         {"NumSplits": 3}, count=3),
    case("SPLIT_V", [floats("x", *X), fixed("sizes", [3, -1]), fixed("axis", 1)], (2, 3, 5, 4),
         "SplitVOptions", {"NumSplits": 2}, count=2),
    case("PAD", [floats("x", *X), fixed("p", [[0, 0], [1, 2], [0, 1], [3, 0]])], (2, 9, 6, 7)),
    case("PADV2", [floats("x", *X), fixed("p", [[0, 0], [1, 2], [0, 1], [3, 0]]),
                   fixed("v", -2.5, "float32")], (2, 9, 6, 7)),
    case("MIRROR_PAD", [floats("x", *X), fixed("p", [[0, 0], [1, 2], [2, 1], [0, 0]])],
         (2, 9, 8, 4), "MirrorPadOptions", {"Mode": 0}),
    case("MIRROR_PAD", [floats("x", *X), fixed("p", [[0, 0], [1, 2], [2, 1], [0, 0]])],
         (2, 9, 8, 4), "MirrorPadOptions", {"Mode": 1}),
    case("SLICE", [floats("x", *X), fixed("b", [0, 1, 2, 0]), fixed("s", [1, 3, -1, 4])],
         (1, 3, 3, 4)),
    case("STRIDED_SLICE", [floats("x", *X), fixed("b", [0, 5, 1, 0]), fixed("e", [2, 0, 4, 3]),
                           fixed("s", [1, -2, 1, 2])], (2, 3, 3, 2), "StridedSliceOptions"),
    case("STRIDED_SLICE", [floats("x", *X), fixed("b", [0, 1, 0, 0]), fixed("e", [0, 2, 0, -1]),
                           fixed("s", [1, 1, -1, 1])], (2, 5, 3), "StridedSliceOptions",
         {"BeginMask": 5, "EndMask": 5, "ShrinkAxisMask": 2}),
    case("TILE", [floats("x", 2, 3), fixed("n", [2, 3])], (4, 9)),
    case("GATHER", [floats("x", *X), fixed("i", [[3, 0], [1, 1]])], (2, 2, 2, 5, 4),
         "GatherOptions", {"Axis": 1}),
    case("SHAPE", [floats("x", *X)], (4,), "ShapeOptions", {"OutType": 2}, "int32"),
    case("REVERSE_V2", [floats("x", *X), fixed("axes", [2])], X),
    case("SPACE_TO_BATCH_ND", [floats("x", 2, 6, 5, 4), fixed("b", [2, 3]),
                               fixed("p", [[0, 0], [0, 1]])], (12, 3, 2, 4)),
    case("BATCH_TO_SPACE_ND", [floats("x", 12, 3, 2, 4), fixed("b", [2, 3]),
                               fixed("c", [[1, 0], [0, 1]])], (2, 5, 5, 4)),
    case("SPACE_TO_DEPTH", [floats("x", 2, 6, 4, 3)], (2, 3, 2, 12), "SpaceToDepthOptions",
         {"BlockSize": 2}),
    case("DEPTH_TO_SPACE", [floats("x", 2, 3, 2, 12)], (2, 6, 4, 3), "DepthToSpaceOptions",
         {"BlockSize": 2}),
    *(case(kind, [floats("x", *X), fixed("s", [9, 11])], (2, 9, 11, 4), options, values)
      for kind, options in (("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                            ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"))
      for values in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True})),
    case("SELECT_V2", [TensorOf(name="c", shape=(6, 1, 4), element_type="bool"), floats("a", *X),
                       floats("b", *X)], X),
    case("ADD", [whole("a", 3, 4), whole("b", 3, 4)], (3, 4), "AddOptions", {}, "int32"),
    case("DEQUANTIZE", [fixed("h", random(10, 3, 4), "float16")], (3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][0]}-{n}")
def test_it_computes_what_litert_does(number: int):
    check(CASES[number], number)


def test_an_lstm_goes_on_from_its_states():
    size, width, steps = 3, 4, 5
    operands = [
        floats("x", 2, steps, width),
        *(fixed(f"w{i}", random(i, size, width), "float32") for i in range(4)),
        *(fixed(f"r{i}", random(9 + i, size, size), "float32") for i in range(4)),
        *(fixed(f"b{i}", random(20 + i, size), "float32") for i in range(4)),
        *(replace(floats(name, 2, size), is_variable=True) for name in ("h", "c")),
    ]
    places = [*range(9), -1, -1, -1, *range(9, 13), -1, -1, 13, 14, -1, -1, -1, -1]
    node = OperatorOf(
        kind="UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs=places,
        outputs=[15],
        options="UnidirectionalSequenceLSTMOptions",
        values={"FusedActivationFunction": 4, "CellClip": 0.8},
    )
    tensors = [*operands, floats("y", 2, steps, size)]
    model = read(memoryview(model_of(tensors, [node], [0], [15])), "lstm")
    inputs = {"x": random(30, 2, steps, width), "h": random(31, 2, size), "c": random(32, 2, size)}
    names = ["y", "h:next", "c:next"]

    assert [(s.input, s.output) for s in model.states] == [("h", "h:next"), ("c", "c:next")]
    expected = dict(reference_of(model).tensors(model, inputs, names))
    found = ex.interpret(model, inputs)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-6, atol=2e-6)


def test_every_operator_says_what_becomes_of_it():
    assert all(convert.__doc__ for convert in converters().values())


def test_what_has_no_form_is_refused_by_name():
    content = one_operator("RFFT2D", [floats("x", 4)], [floats("y", 4)])
    with pytest.raises(UnsupportedError) as refused:
        ex.interpret(read(memoryview(content), "net"), {"x": np.zeros(4, np.float32)})
    assert refused.value.problems == ("node RFFT2D_0: RFFT2D: unknown operator",)
