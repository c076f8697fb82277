"""Operators of TFLite that choose, sort, or index by data: what LiteRT's kernels compute."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.importers.tflite.file.reading import read
from explorer.references.interface import reference_of
from tests.importers.tflite_nodes import Case, case, check, fixed, floats, random, whole
from verification.conformance.tflite.models import OperatorOf, TensorOf, model_of, one_operator

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

X = (2, 6, 5, 4)


def flags(name: str, *shape: int) -> TensorOf:
    return TensorOf(name=name, shape=shape, element_type="bool")


CASES: list[Case] = [
    case("ATAN2", [floats("a", *X), floats("b", *X)], X),
    case("BITCAST", [floats("x", *X)], X, dtype="int32"),
    case("RIGHT_SHIFT", [whole("x", 3, 4), fixed("n", [[1, 0, 2, 31]] * 3)], (3, 4),
         dtype="int32"),
    case("FAKE_QUANT", [floats("x", *X)], X, "FakeQuantOptions",
         {"Min": -1.3, "Max": 2.9, "NumBits": 8}),
    case("FAKE_QUANT", [floats("x", *X)], X, "FakeQuantOptions",
         {"Min": -0.1, "Max": 2.9, "NumBits": 5}),
    case("BROADCAST_ARGS", [fixed("a", [3, 1, 4]), fixed("b", [5, 1])], (3,), dtype="int32"),
    *(case(kind, [flags("x", 3, 4, 2), fixed("axes", [1])], (3, 2), "ReducerOptions",
           dtype="bool") for kind in ("REDUCE_ALL", "REDUCE_ANY")),
    case("LOCAL_RESPONSE_NORMALIZATION", [floats("x", 2, 3, 3, 9)], (2, 3, 3, 9),
         "LocalResponseNormalizationOptions",
         {"Radius": 2, "Bias": 1.5, "Alpha": 0.3, "Beta": 0.6}),
    case("L2_POOL_2D", [floats("x", *X)], (2, 3, 3, 4), "Pool2DOptions",
         {"StrideW": 2, "StrideH": 2, "FilterWidth": 3, "FilterHeight": 3,
          "FusedActivationFunction": 1}),
    *(case("BATCH_MATMUL", [floats("a", 2, 3, *((4, 5) if not x else (5, 4))),
                            floats("b", 3, *((5, 6) if not y else (6, 5)))], (2, 3, 4, 6),
           "BatchMatMulOptions", {"AdjX": x, "AdjY": y}) for x, y in ((0, 0), (1, 0), (0, 1))),
    *(case("CONV_3D", [floats("x", 1, 4, 6, 5, 3), fixed("w", random(3, 2, 3, 3, 3, 4), "float32"),
                       fixed("b", random(4, 4), "float32")], shape, "Conv3DOptions",
           {"Padding": padding, "StrideD": 1, "StrideH": 2, "StrideW": 1,
            "FusedActivationFunction": 1})
      for padding, shape in ((0, (1, 4, 3, 5, 4)), (1, (1, 3, 2, 3, 4)))),
    *(case("CUMSUM", [floats("x", 3, 4, 2), fixed("axis", -2)], (3, 4, 2), "CumsumOptions",
           values) for values in ({}, {"Exclusive": True}, {"Reverse": True})),
    case("WHERE", [flags("x", 3, 4)], (0, 2), dtype="int64"),
    case("BUCKETIZE", [floats("x", 5, 4)], (5, 4), "BucketizeOptions",
         {"Boundaries": np.array([-1, 0.25, 1.5], np.float32)}, dtype="int32"),
    case("GATHER_ND", [floats("x", *X), fixed("i", [[0, 3], [1, 5], [1, 0]])], (3, 5, 4)),
    case("SCATTER_ND", [fixed("i", [[0, 3], [1, 2], [0, 3]]), floats("u", 3, 5),
                        fixed("s", [2, 4, 5])], (2, 4, 5), "ScatterNdOptions"),
    case("SPARSE_TO_DENSE", [fixed("i", [1, 4]), fixed("s", [6]), floats("v", 2),
                             fixed("d", -1.5, "float32")], (6,), "SparseToDenseOptions"),
    case("SPARSE_TO_DENSE", [fixed("i", [[1, 0], [2, 3]]), fixed("s", [3, 4]), floats("v"),
                             fixed("d", 0.5, "float32")], (3, 4), "SparseToDenseOptions"),
    case("SEGMENT_SUM", [floats("x", 4, 3), fixed("i", [0, 0, 1, 2])], (3, 3),
         "SegmentSumOptions"),
    *(case(f"UNSORTED_SEGMENT_{kind}", [floats("x", 5, 3), fixed("i", [2, 0, 2, -1, 0]),
                                        fixed("n", 4)], (4, 3))
      for kind in ("SUM", "PROD", "MAX", "MIN")),
    case("EMBEDDING_LOOKUP", [fixed("i", [2, 0, 2]), fixed("t", random(1, 4, 3), "float32")],
         (3, 3)),
    case("DYNAMIC_UPDATE_SLICE", [floats("x", 4, 5), floats("u", 2, 3), fixed("b", [3, 1])],
         (4, 5)),
    *(case("ONE_HOT", [fixed("i", [[0, 3, -1], [4, 1, 2]]), fixed("d", 4),
                       fixed("on", 2.5, "float32"), fixed("off", -1, "float32")], shape,
           "OneHotOptions", {"Axis": axis}) for axis, shape in ((-1, (2, 3, 4)), (0, (4, 2, 3)))),
    case("REVERSE_SEQUENCE", [floats("x", 3, 4, 2), fixed("n", [2, 4, 1])], (3, 4, 2),
         "ReverseSequenceOptions", {"SeqDim": 1, "BatchDim": 0}),
    case("MATRIX_DIAG", [floats("x", 2, 3)], (2, 3, 3)),
    *(case("MATRIX_SET_DIAG", [floats("x", 2, rows, columns), floats("d", 2, 3)],
           (2, rows, columns)) for rows, columns in ((3, 5), (5, 3))),
    *(case(f"STABLEHLO_{kind}", [floats("a", 3, 4), floats("b", 3, 4)], (3, 4))
      for kind in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")),
    case("STABLEHLO_SHIFT_LEFT", [whole("a", 4), fixed("b", [1, 0, 3, 31])], (4,),
         dtype="int32"),
    case("STABLEHLO_AND", [flags("a", 4, 5), flags("b", 4, 5)], (4, 5), dtype="bool"),
    case("STABLEHLO_PAD", [floats("x", 3, 4), fixed("v", 1.5, "float32")], (6, 8),
         "StablehloPadOptions", {"EdgePaddingLow": np.array([1, -1]),
                                 "EdgePaddingHigh": np.array([0, 2]),
                                 "InteriorPadding": np.array([1, 1])}),
    case("DILATE", [floats("x", 3, 4), fixed("n", [2, 3]), fixed("v", -1.5, "float32")],
         (5, 10)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][0]}-{n}")
def test_it_computes_what_litert_does(number: int):
    check(CASES[number], number)


def state(*shape: int) -> TensorOf:
    return TensorOf(name="h", shape=shape, is_variable=True)


RECURRENT: list[Case] = [
    case("RNN", [floats("x", 2, 3), fixed("w", random(1, 4, 3), "float32"),
                 fixed("r", random(2, 4, 4), "float32"), fixed("b", random(3, 4), "float32"),
                 state(2, 4)], (2, 4), "RNNOptions", {"FusedActivationFunction": 1}),
    case("UNIDIRECTIONAL_SEQUENCE_RNN",
         [floats("x", 2, 5, 3), fixed("w", random(1, 4, 3), "float32"),
          fixed("r", random(2, 4, 4), "float32"), fixed("b", random(3, 4), "float32"),
          state(2, 4)], (2, 5, 4), "SequenceRNNOptions", {"FusedActivationFunction": 1}),
    case("SVDF", [floats("x", 2, 3), fixed("w", random(1, 8, 3), "float32"),
                  fixed("t", random(2, 8, 5), "float32"), fixed("b", random(3, 4), "float32"),
                  state(2, 40)], (2, 4), "SVDFOptions",
         {"Rank": 2, "FusedActivationFunction": 1}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(RECURRENT)), ids=lambda n: RECURRENT[n][0])
def test_layers_go_on_from_their_states(number: int):
    kind, operands, results, options, values = RECURRENT[number]
    places = range(len(operands))
    node = OperatorOf(
        kind=kind, inputs=places, outputs=[len(operands)], options=options, values=values
    )
    content = model_of([*operands, *results], [node], [0], [len(operands)])
    model = read(memoryview(content), kind)
    inputs = {value.name: random(9, *value.shape) for value in model.inputs}
    names = ["y0", "h:next"]

    assert [(s.input, s.output) for s in model.states] == [("h", "h:next")]
    expected = dict(reference_of(model).tensors(model, inputs, names))
    found = ex.interpret(model, inputs)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-6, atol=2e-6)


def test_the_greatest_elements_come_with_their_places():
    results = [floats("v", 3, 2), whole("i", 3, 2)]
    check(("TOPK_V2", [floats("x", 3, 5), fixed("k", 2)], results, "TopKV2Options", {}), 1)


def test_different_elements_come_as_they_first_appear():
    results = [whole("v", 0), whole("i", 9)]
    check(("UNIQUE", [whole("x", 9)], results, "UniqueOptions", {"IdxOutType": 2}), 2)


def test_atan2_tells_zeros_with_a_minus_apart():
    signs = np.array([-2.0, -0.0, 0.0, 2.0], np.float32)
    y, x = (np.ascontiguousarray(grid) for grid in np.meshgrid(signs, signs))
    one = case("ATAN2", [floats("y", 4, 4), floats("x", 4, 4)], (4, 4))
    model = read(memoryview(one_operator(*one)), "ATAN2")
    expected = np.arctan2(y, x)
    compilation = ex.compile(model)
    for found in (ex.interpret(model, {"y": y, "x": x}), compilation.run({"y": y, "x": x})):
        np.testing.assert_allclose(found["y0"], expected, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(found["y0"]), np.signbit(expected))
    compilation.close()
