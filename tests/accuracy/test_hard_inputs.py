"""Each kind of hard input finds the fault that it is made for, planted into a NumPy kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
from onnx import parser

from explorer.accuracy.hard_inputs import HardInput, hard_inputs, values
from explorer.accuracy.hard_inputs.documented import documented, documented_by_values
from explorer.accuracy.hard_inputs.judging import compared, judge_part
from explorer.accuracy.hard_inputs.products import product_of
from explorer.accuracy.hard_inputs.rounding import (
    half_steps,
    product_ties,
    requantization_ties,
)
from explorer.accuracy.oracle import random_inputs, reference
from explorer.errors import UnsupportedError
from explorer.importers.onnx.file.reading import from_proto
from explorer.references.interface import reference_of
from explorer.references.parts import Operand, Part

Kernel = Callable[..., np.ndarray]
HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


def part_of(text: str) -> Part:
    """The last operation of a model."""
    model = from_proto(parser.parse_model(f"{HEAD} g {text}"))
    example = random_inputs(model, 0)
    known = {**model.constants, **example, **reference(model, example)}
    part = list(reference_of(model).parts(model, known))[-1]
    assert isinstance(part, Part)
    return part


@dataclass
class Planted:
    """A program that is one NumPy function."""

    kernel: Kernel
    outputs: tuple[str, ...]

    def run(self, inputs):
        with np.errstate(all="ignore"):
            return {self.outputs[0]: self.kernel(*inputs.values())}

    def outside_indices(self, inputs):
        del inputs
        return ()


def hard(kind: str, **arrays: np.ndarray) -> HardInput:
    return HardInput(kind=kind, arrays=arrays)


def states(part: Part, kernel: Kernel) -> dict[str, str]:
    @contextmanager
    def compile(model) -> Iterator[Planted]:
        del model
        yield Planted(kernel, part.outputs)

    return {verdict.kind: verdict.state for verdict in judge_part(part, compile, 1e-4)}


def log_softmax(x: np.ndarray) -> np.ndarray:
    top = x - x.max(-1, keepdims=True)
    return top - np.log(np.exp(top).sum(-1, keepdims=True))


def wrong_log_softmax(x: np.ndarray) -> np.ndarray:
    top = x.max(-1, keepdims=True)
    return x - (top + np.log(np.exp(x - top).sum(-1, keepdims=True)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    apart = wide - wide.mean(-1, keepdims=True)
    return (apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5)).astype(np.float32)


def one_pass_norm(x: np.ndarray) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    variance = (x * x).mean(-1, keepdims=True) - mean * mean
    return (x - mean) / np.sqrt(variance + np.float32(1e-5))


def dequantized(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32) - 3) * np.float32(0.5)


def gathered(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    return x[i]


def quantized(x: np.ndarray, rounded: Callable = np.rint) -> np.ndarray:
    return np.clip(rounded(x / np.float32(0.25)) - 5, -128, 127).astype(np.int8)


def product(x: np.ndarray, rounded: Callable = np.rint) -> np.ndarray:
    sums = (x.astype(np.int64) - 4) @ np.array([[1, 3], [2, 5]]) / 8
    return np.clip(rounded(sums) + 9, 0, 255).astype(np.uint8)


def half_up(x: np.ndarray) -> np.ndarray:
    return np.floor(x + 0.5)


F, Y = "(float[4,8] x) => (float[a,b] y)", "float[a,b] y"
PRODUCT = """(uint8[64,2] x) => (uint8[64,2] y) <float s = {0.5}, uint8 z = {4},
uint8[2,2] w = {1, 3, 2, 5}, float t = {0.25}, uint8 n = {0}, float o = {1.0}, uint8 p = {9}>
{ y = QLinearMatMul(x, s, z, w, t, n, o, p) }"""
CASES = {
    "integer ends": (
        "(int32[7,7] x, int32[7,7] z) => (int32[a,b] y) { y = Add(x, z) }",
        lambda x, z: x + z,
        lambda x, z: np.clip(x.astype(np.int64) + z, -(2**31), 2**31 - 1).astype(np.int32),
    ),
    "every byte": (
        f"(uint8[16,16] x) => ({Y}) <float s = {{0.5}}, uint8 z = {{3}}> "
        "{ y = DequantizeLinear(x, s, z) }",
        dequantized,
        lambda x: dequantized(np.where(x == 201, 200, x)),
    ),
    "signed zeros": (f"{F} {{ y = Reciprocal(x) }}", lambda x: 1 / x, lambda x: 1 / (x + 0)),
    "infinities": (
        f"{F} {{ y = Sigmoid(x) }}",
        lambda x: 1 / (1 + np.exp(-x)),
        lambda x: np.exp(x) / (1 + np.exp(x)),
    ),
    "NaN": (
        f"{F} {{ y = Relu(x) }}",
        lambda x: np.maximum(x, 0),
        lambda x: np.where(x > 0, x, np.float32(0)),
    ),
    "denormals": (
        f"{F} {{ y = Log(x) }}",
        np.log,
        lambda x: np.log(np.where(np.abs(x) < 1.2e-38, 0 * x, x)),
    ),
    "large numbers": (
        f"{F} {{ y = Softplus(x) }}",
        lambda x: np.logaddexp(x, np.float32(0)),
        lambda x: np.log(1 + np.exp(x)),
    ),
    "offset 1e6": (f"{F} {{ y = LogSoftmax(x) }}", log_softmax, wrong_log_softmax),
    "offset 1e8": (f"{F} {{ y = LogSoftmax(x) }}", log_softmax, wrong_log_softmax),
    "offset 1e4": (
        f"(float[4,8] x) => ({Y}) <float[8] s = {{1, 1, 1, 1, 1, 1, 1, 1}}> "
        "{ y = LayerNormalization(x, s) }",
        layer_norm,
        one_pass_norm,
    ),
    "masked rows": (
        f"{F} {{ y = Softmax(x) }}",
        softmax,
        lambda x: np.nan_to_num(softmax(x), nan=0.0) if not np.isnan(x).any() else softmax(x),
    ),
    "ties": (
        "(float[4,8] x) => (int64[a,b] y) { y = ArgMax<axis=1>(x) }",
        lambda x: x.argmax(1)[:, None],
        lambda x: (x.shape[1] - 1 - x[:, ::-1].argmax(1))[:, None],
    ),
    "half steps": (
        "(float[16,20] x) => (int8[a,b] y) <float s = {0.25}, int8 z = {-5}> "
        "{ y = QuantizeLinear(x, s, z) }",
        lambda x: quantized(np.nan_to_num(x, nan=-1e9)),
        lambda x: quantized(np.nan_to_num(x, nan=-1e9), half_up),
    ),
    "requantization ties": (PRODUCT, product, lambda x: product(x, half_up)),
    "index ends": (
        "(float[8,8] x, int64[6] i) => (float[a,b] y) { y = Gather(x, i) }",
        gathered,
        lambda x, i: x[np.maximum(i, 0)],
    ),
    "size 0": (
        f"(float[4,8] x) => ({Y}) <int64[1] a = {{-1}}> {{ y = ReduceSum(x, a) }}",
        lambda x: x.sum(-1, keepdims=True),
        lambda x: x.sum(-1, keepdims=True) if x.size else np.ones((*x.shape[:-1], 1), np.float32),
    ),
    "size 1": (
        f"{F} {{ y = Softmax(x) }}",
        softmax,
        lambda x: x if x.shape[-1] == 1 else softmax(x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_a_kind_of_input_finds_its_fault(kind):
    text, right, wrong = CASES[kind]
    part = part_of(text)
    assert states(part, right)[kind] == "right"
    assert states(part, wrong)[kind] == "broken"


def test_a_fault_of_sizes_breaks_no_other_kind():
    text, _, wrong = CASES["size 0"]
    found = states(part_of(text), wrong)
    assert [kind for kind, state in found.items() if state == "broken"] == ["size 0"]


def test_what_the_compiler_refuses_is_not_judged():
    @contextmanager
    def refuse(model):
        raise UnsupportedError("no such operator")
        yield model

    found = judge_part(part_of(f"{F} {{ y = Relu(x) }}"), refuse, 1e-4)
    assert {verdict.state for verdict in found} == {"not judged"}
    assert all("no such operator" in verdict.reason for verdict in found)


def test_results_that_the_reference_does_not_show_are_not_judged():
    part = part_of(f"{F} {{ y = Relu(x) }}")
    hard = HardInput(kind="NaN", arrays=part.inputs)
    verdict = compared(part, part.model_for(part.inputs), hard, part.inputs, {}, 1e-4)
    assert verdict.state == "not judged"


def test_float64_that_overflows_excuses_nothing():
    part = part_of(f"{F} {{ y = Softplus(x) }}")
    large = HardInput(kind="large numbers", arrays={"x": np.full((4, 8), 3e38, np.float32)})
    found = {"y": np.full((4, 8), np.inf, np.float32)}
    model = part.model_for(part.inputs)
    assert compared(part, model, large, found, {"y": large.arrays["x"]}, 1e-4).state == "broken"


PAIRS = """(float[1,2,4,4] x) => (uint8[1,3,4,4] y)
<float s = {0.5}, uint8 zx = {100}, int8[3,2,1,1] w = {1, -3, 5, 7, -2, 9}, float[3] t = {0.25, 0.5,
 1.0}, int8[3] zw = {0, 0, 0}, float u = {0.5}, uint8 zy = {110}> {
  q = QuantizeLinear (x, s, zx) a = DequantizeLinear (q, s, zx)
  b = DequantizeLinear<axis = 0> (w, t, zw) c = Conv (a, b) y = QuantizeLinear (c, u, zy) }"""


def fused(rounding: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """The product of integers of `PAIRS`, as a compiler fuses it."""
    weights = np.array([[1, -3], [5, 7], [-2, 9]]) * np.array([[0.25], [0.5], [1.0]])

    def kernel(q: np.ndarray) -> np.ndarray:
        sums = np.einsum("oc,nchw->nohw", weights, (q.astype(int) - 100) * 0.5)
        return np.clip(rounding(sums / 0.5) + 110, 0, 255).astype(np.uint8)

    return kernel


def test_ties_reach_products_between_pairs():
    """Either neighbour of a tie is right; what is cut off is not."""
    part = part_of(PAIRS)
    assert part.operator == "QDQConv"
    nearest, upwards, cut = (states(part, fused(r)) for r in
                             (np.rint, lambda x: np.floor(x + 0.5), np.floor))  # fmt: skip
    assert {nearest["requantization ties"], upwards["requantization ties"]} == {"right"}
    assert states(part, fused(lambda x: np.rint(x - 0.01)))["requantization ties"] == "right"
    assert (cut["every byte"], cut["requantization ties"]) == ("right", "broken")
    array = next(h.arrays["q"] for h in hard_inputs(part) if h.kind == "requantization ties")
    assert part.unrounded is not None
    (exact,) = part.unrounded({"q": array}).values()
    assert np.count_nonzero(np.abs(exact - np.floor(exact) - 0.5) < 1e-9) > 4


def test_a_documented_difference_is_no_failure():
    part = part_of("(float[4,8] x) => (int64[a,b] y) { y = ArgMax<axis=1>(x) }")
    assert states(part, lambda x: x.argmax(1)[:, None])["NaN"] in ("documented", "right")
    assert documented(part, "NaN", True) and not documented(part, "ties", True)


def test_nan_in_an_lstm_is_documented():
    kinds = {"NaN": True, "infinities": False, "ties": False}
    part = replace(part_of(f"{F} {{ y = Relu(x) }}"), operator="LSTM")
    assert {kind: bool(documented(part, kind, False)) for kind in kinds} == kinds


def test_equal_elements_of_a_mean_variance_normalization_are_documented():
    part = part_of("(float[1,2,2,2] x) => (float[1,2,2,2] y) { y = MeanVarianceNormalization (x) }")
    assert documented(part, "zeros", False)
    assert not documented(part, "infinities", False)


def test_an_integer_result_of_a_cast_is_documented_and_a_float_one_is_not():
    part = part_of("(float[4,8] x) => (float16[a,b] y) { y = Cast<to=10>(x) }")
    assert documented(part, "NaN", True) and not documented(part, "NaN", False)


@pytest.mark.parametrize(
    ("to", "kind", "state"), [(6, np.int32, "documented"), (10, np.float16, "broken")]
)
def test_the_type_of_the_result_decides_whether_a_cast_of_nan_may_differ(
    to: int, kind: type, state: str
):
    part = part_of(f"(float[2] x) => (y) {{ y = Cast<to={to}>(x) }}")
    (name,) = part.outputs
    nan = hard("NaN", x=np.array([np.nan, 1], np.float32))
    found, expected = np.array([7, 1], kind), np.array([-7, 1], kind)
    model = part.model_for(part.inputs)
    verdict = compared(part, model, nan, {name: found}, {name: expected}, 1e-4)
    assert verdict.state == state


def test_a_clamp_of_lite_rt_is_documented_for_special_inputs_alone():
    operand = Operand(name="x", array=np.zeros(3, np.float32), is_constant=False)
    part = Part(
        node="n", operator="FULLY_CONNECTED", operands=(operand,), outputs=("y",), form="",
        model_for=lambda _: from_proto(parser.parse_model(f"{HEAD} g {F} {{ y = Relu(x) }}")),
    )  # fmt: skip
    largest = np.finfo(np.float32).max
    ours = np.array([np.inf, np.nan, 2.0], np.float32)
    clamped = np.array([largest, 0.0, 2.0], np.float32)
    assert documented_by_values(part, "tflite", hard("NaN"), ours, clamped, 1e-4)
    assert not documented_by_values(part, "tflite", hard("ties"), ours, clamped, 1e-4)
    assert not documented_by_values(part, "onnx", hard("NaN"), ours, clamped, 1e-4)
    assert not documented_by_values(
        part, "tflite", hard("NaN"), ours, clamped + np.float32(0.5), 1e-4
    )


@pytest.mark.parametrize(
    ("ours", "is_known"), [([0, 7, 8, 0], True), ([0, 7, 9, 0], False), ([1, 7, 8, 0], False)]
)
def test_energies_outside_of_the_band_are_documented_where_they_are_0(ours, is_known):
    x = Operand(name="x", array=np.zeros(8, np.int16), is_constant=False)
    part = Part(
        node="n", operator="custom.SignalEnergy", operands=(x,), outputs=("y",), form="",
        attributes={"start_index": 1, "end_index": 3},
        model_for=lambda _: from_proto(parser.parse_model(f"{HEAD} g {F} {{ y = Relu(x) }}")),
    )  # fmt: skip
    left = np.array([99, 7, 8, 4265913280], np.uint32)
    found = np.array(ours, np.uint32)
    known = documented_by_values(part, "tflite", hard("integer ends"), found, left, 0.0)
    assert bool(known) == is_known


def test_nan_in_rows_that_become_bytes_is_documented_where_nan_alone_differs():
    x = Operand(name="x", array=np.zeros(3, np.float32), is_constant=False)
    w = Operand(name="w", array=np.zeros(3, np.int8), is_constant=True)
    part = Part(
        node="n", operator="CONV_2D", operands=(x, w), outputs=("y",), form="",
        model_for=lambda _: from_proto(parser.parse_model(f"{HEAD} g {F} {{ y = Relu(x) }}")),
    )  # fmt: skip
    expected = np.array([0.25, 1.5, 3.0], np.float32)
    nothing = np.full(3, np.nan, np.float32)
    assert documented_by_values(part, "tflite", hard("NaN"), nothing, expected, 1e-4)
    assert not documented_by_values(part, "tflite", hard("NaN"), expected * 2, expected, 1e-4)
    floats = replace(part, operands=(x, replace(w, array=np.zeros(3, np.float32))))
    assert not documented_by_values(floats, "tflite", hard("NaN"), nothing, expected, 1e-4)


def test_positions_of_equal_numbers_are_documented_for_pytorch_alone():
    x = Operand(name="x", array=np.zeros((1, 4), np.float32), is_constant=False)
    part = Part(
        node="n", operator="aten.topk", operands=(x,), outputs=("v", "i"), form="",
        model_for=lambda _: from_proto(parser.parse_model(f"{HEAD} g {F} {{ y = Relu(x) }}")),
    )  # fmt: skip
    ties = hard("ties", x=np.array([[2, 1, 2, 1]], np.float32))
    first, other, wrong = (np.array([row]) for row in ([0, 2], [2, 0], [0, 1]))
    assert documented_by_values(part, "pytorch", ties, first, other, 1e-4)
    assert not documented_by_values(part, "pytorch", ties, wrong, other, 1e-4)
    assert not documented_by_values(part, "onnx", ties, first, other, 1e-4)


def test_operands_meet_in_all_pairs():
    numbers = values.integer_ends(np.dtype(np.int8), (7, 7), 0)
    others = values.integer_ends(np.dtype(np.int8), (7, 7), 1)
    pairs = set(zip(numbers.ravel().tolist(), others.ravel().tolist(), strict=True))
    assert len(pairs) == 49 and {(-128, -1), (127, 127), (-128, -128)} <= pairs


def test_no_divisor_is_zero_or_traps():
    for dtype in (np.int8, np.int64, np.uint8):
        assert not set(values.divisors(np.dtype(dtype), (64,)).tolist()) & {0, -1}


def test_ends_of_64_bits_are_exact():
    ends = values.integer_ends(np.dtype(np.uint64), (16,)).tolist()
    assert 2**64 - 1 in ends and 0 in ends


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3,)])
def test_constructors_take_every_shape(shape):
    for construct in (values.infinities, values.denormals, values.largest, values.signed_zeros):
        assert construct(np.dtype(np.float16), shape).shape == shape
    base = np.ones(shape, np.float32)
    assert values.planted(base, [np.nan]).shape == values.offsets(base, 1e4).shape == shape
    if shape:
        assert values.masked_rows(base).shape == shape


def test_half_steps_lie_half_way_and_beyond_the_range():
    found = half_steps(np.array(0.25), np.array(-5), np.dtype(np.int8), (300,)) / 0.25 - 5
    assert np.all(found - np.floor(found) == 0.5)
    assert found.min() < -128 and found.max() > 127


def test_sums_at_ties_of_a_multiplier():
    multiplier, shift = 1518500250, 33
    found = requantization_ties(multiplier, shift, 3, -128, 127)
    exact = np.array([int(s) * multiplier / 2**shift for s in found])
    distance = np.abs(exact - np.floor(exact) - 0.5)
    assert distance.max() <= multiplier / 2**shift
    assert len(found) == 2 * 256


def test_bytes_of_a_product_meet_its_ties():
    part = part_of(PRODUCT)
    found = product_of(part)
    assert found is not None
    arrays = list(product_ties(found, (64, 2), np.dtype(np.uint8)))
    sums = np.concatenate([(a.astype(int) - 4) @ np.array([[1, 3], [2, 5]]) for a in arrays]) / 8
    assert np.count_nonzero(sums - np.floor(sums) == 0.5) > 50
