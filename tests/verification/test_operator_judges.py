"""What judges say of operands of several types, of illegal shapes, and of sequences."""

import mpmath
import numpy as np
import onnx
import onnx.parser
import pytest

from verification.operators.drawing import Case
from verification.operators.judges import ONNX, NoOpinion, ask, is_illegal, narrowest_float
from verification.operators.nodes import node_cases
from verification.operators.pairs import Pair
from verification.operators.proofs import proof
from verification.operators.seeded import REGIONS, try_seeded
from verification.operators.verdicts import Disagreement, verdict


def model_of(text: str, opset: int = 24) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')


TWO_TYPES = "g (double[2,3] x, float[3] s) => (float[2,3] y) { y = RMSNormalization (x, s) }"
HALF = """g (float[2] x, float[2] z) => (float[2] y) {
  a_inside = Cast <to = 16> (x)
  y_inside = Add (a_inside, z)
  y = Cast <to = 1> (y_inside)
}"""


def test_a_result_has_the_type_that_the_operator_is_defined_to_have():
    """onnx's reference keeps the type of the first operand, its inference, too."""
    inputs = {"x": np.eye(2, 3), "s": np.ones(3, np.float32)}
    (found,) = ask(model_of(TWO_TYPES), inputs)[ONNX]  # type: ignore[misc]
    assert found.dtype == np.float32


def test_statistics_have_their_own_type_next_to_half_floats():
    text = """g (float[2,1,3] x, float[1] s, float[1] b, float[1] m, float[1] v)
        => (float[2,1,3] y, float[1] n, float[1] w) {
      x_inside = Cast <to = 16> (x)
      y_inside, n, w = BatchNormalization <training_mode = 1> (x_inside, s, b, m, v)
      y = Cast <to = 1> (y_inside)
    }"""
    one = np.ones(1, np.float32)
    inputs = {"x": np.eye(2, 3, dtype=np.float32)[:, None], **dict.fromkeys("sbmv", one)}
    found = ask(model_of(text), inputs)[ONNX]
    assert [array.dtype.name for array in found] == ["float32"] * 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HALF, "bfloat16"),
        (TWO_TYPES, "float32"),
        ("g (int64[2] x) => (int64[2] y) { y = Neg (x) }", ""),
    ],
)
def test_results_are_as_exact_as_the_coarsest_float_that_is_read(text: str, name: str):
    assert narrowest_float(model_of(text)) == name


def test_a_coarser_operand_allows_its_rounding_and_no_more():
    opinions = {"onnx": [np.array([0.5, 1.0])]}
    near, far = ([np.array([0.5, 1.0]) * (1 + e)] for e in (2**-8, 2**-4))
    pair = Pair("Attention", "float64")
    assert verdict(pair, opinions, near, [], {}).status == "differs"
    assert verdict(pair, opinions, near, [], {}, "bfloat16").status == "right"
    assert verdict(pair, opinions, far, [], {}, "bfloat16").status == "differs"
    assert verdict(Pair("Neg", "bfloat16"), opinions, near, [], {}, "float64").status == "right"


def test_shapes_are_illegal_whatever_their_type_is():
    heads = "g (double[1,1,2,4] q, double[1,1,2,4] k, double[1,3,2,4] v) => (double[1,1,2,4] y) "
    inputs = {name: np.ones((1, n, 2, 4)) for name, n in (("q", 1), ("k", 1), ("v", 3))}
    assert is_illegal(model_of(heads + "{ y = Attention (q, k, v) }"), inputs)
    fine = {name: array[:, :1] for name, array in inputs.items()}
    legal = model_of(heads.replace("1,3,2", "1,1,2") + "{ y = Attention (q, k, v) }")
    assert not is_illegal(legal, fine)


def test_a_mask_of_whole_numbers_is_judged_with_infinities():
    """Written into whole numbers, minus infinity is 0 for one judge and an error for the other."""
    text = """g (float[1,1,2,4] q, float[1,1,2,4] k, float[1,1,2,4] v, int8[2,2] m)
      => (float[1,1,2,4] y) { y = Attention <is_causal = 1> (q, k, v, m) }"""
    v = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    inputs = {"q": v, "k": v, "v": v, "m": np.zeros((2, 2), np.int8)}
    found = ask(model_of(text), inputs)["float64"]
    assert not isinstance(found, NoOpinion)
    np.testing.assert_array_equal(found[0][0, 0, 0], v[0, 0, 0])


def test_operands_that_do_not_fit_have_no_proof():
    model = model_of("g (int64[2,2] a, int64[2,3] b, int64[2] c) => (int64[2,3] y) "
                     "{ y = Gemm (a, b, c) }", 13)  # fmt: skip
    inputs = {"a": np.ones((2, 2), int), "b": np.ones((2, 3), int), "c": np.ones(2, int)}
    assert proof(model, inputs) is None


def test_a_node_that_makes_an_empty_sequence_is_tried_alone():
    model = model_of("""g (float[2] x) => (float[2] y, int64 n) {
      y = Neg (x)
      e = SequenceEmpty <dtype = 1> ()
      n = SequenceLength (e)
    }""")
    inputs = {"x": np.ones(2, np.float32)}
    case = Case(Pair("chain", "float32"), 0, model, inputs, "normal", 24)
    found = [node.op_type for node, _ in node_cases(case)]
    assert found == ["Neg", "SequenceEmpty", "SequenceLength"]


def test_numbers_of_images_are_no_hostile_floats():
    assert "x1" in REGIONS["ROIPooling"]
    for seed in range(3):
        answer = try_seeded("caffe", "ROIPooling", seed, ("INTERPRETER",))
        assert answer["status"] == "right", answer


@pytest.mark.parametrize("bias", [None, -0.25])
def test_the_proof_of_a_fast_gelu_keeps_the_digits_of_its_tail(bias: float | None):
    """0.5 x (1 + tanh(u)) has three digits at -3 in float32, and onnxruntime no more."""
    inputs = "x, b" if bias is not None else "x"
    text = f"g (float[3] x, float[3] b) => (float[3] y) {{ y = com.microsoft.FastGelu ({inputs}) }}"
    x = np.array([-3, 0.5, 6], np.float32)
    arrays = {"x": x, "b": np.full(3, bias or 0, np.float32)}
    found = proof(model_of(text), arrays)
    assert found is not None
    exact = [
        n / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (n + mpmath.mpf("0.044715") * n**3)))
        for n in (mpmath.mpf(float(v)) + (bias or 0) for v in x)
    ]
    np.testing.assert_allclose(found[0], [float(n) for n in exact], 1e-12)


@pytest.mark.parametrize("seed", [8000049, 49, 196])
def test_nan_is_above_all_boundaries_of_a_bucketize(seed: int):
    """As LiteRT, whose search ends at the first boundary that is above."""
    assert try_seeded("tflite", "BUCKETIZE", seed, ("INTERPRETER",))["status"] == "right"


def test_entries_of_nested_operators_explain_the_operator_around_them():
    found, right = [np.array([1.0])], [np.array([2.0])]
    table = [Disagreement(("Hardmax",), (), "onnx", "why")]
    opinions = {"onnxruntime": right}
    pair = Pair("Loop", "float32")
    assert verdict(pair, opinions, found, table, {}).status == "differs"
    assert verdict(pair, opinions, found, table, {}, inner=["Hardmax"]).status == "documented"
