"""Mixtures of experts (MoE, QMoE) and distances of onnxruntime's domain, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import explorer
from explorer.accuracy.metrics import tensor_error
from explorer.accuracy.oracle import reference
from explorer.errors import ModelError, UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

MICROSOFT = "com.microsoft"
EXPERTS, WIDTH, INNER, ROWS = 4, 32, 16, 5
# Sums of up to 32 float32 products in another order, twice.
TOLERANCE = 1e-5
SWIGLU = {
    "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702,
    "activation_beta": 1.0, "swiglu_limit": 1.5,
}  # fmt: skip


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layers(fusion: int = 1, dtype: type = np.float32) -> dict[str, np.ndarray]:
    shapes = {
        "x": (1, ROWS, WIDTH), "scores": (ROWS, EXPERTS),
        "w1": (EXPERTS, fusion * INNER, WIDTH), "b1": (EXPERTS, fusion * INNER),
        "w2": (EXPERTS, WIDTH, INNER), "b2": (EXPERTS, WIDTH),
    }  # fmt: skip
    return {n: floats(*s, seed=i).astype(dtype) for i, (n, s) in enumerate(shapes.items())}


def model_of(make_model, operator, operands, **attributes):
    names = [name if array is not None else "" for name, array in operands.items()]
    node = helper.make_node(operator, names, ["y"], name="n", domain=MICROSOFT, **attributes)
    given = {name: array for name, array in operands.items() if array is not None}
    return from_proto(make_model([node], given, {}, 17, [MICROSOFT])), given


@pytest.mark.parametrize("normalize", [0, 1])
@pytest.mark.parametrize("k", [1, 2, EXPERTS])
@pytest.mark.parametrize(
    "activation", [*({"activation_type": n} for n in ("relu", "gelu", "silu", "identity")), SWIGLU]
)
def test_chosen_experts_are_mixed(make_model, compare, activation, k, normalize):
    operands = layers(2 if activation is SWIGLU else 1)
    attributes = {**activation, "k": k, "normalize_routing_weights": normalize}
    model, given = model_of(make_model, "MoE", operands, **attributes)
    assert compare(model, given) <= TOLERANCE


def test_experts_without_biases_and_limits(make_model, compare):
    operands = layers(2) | {"b1": None, "b2": None}
    attributes = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2}
    model, given = model_of(make_model, "MoE", operands, **attributes)
    assert compare(model, given) <= TOLERANCE


def test_experts_of_half_floats(make_model, compare):
    model, given = model_of(make_model, "MoE", layers(1, np.float16), k=2)
    assert compare(model, given) <= 2**-9


@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")
def test_scores_far_apart_and_an_infinite_expert_that_is_not_chosen(make_model, compare):
    operands = layers()
    operands["scores"] = np.full((ROWS, EXPERTS), -1e4, np.float32)
    operands["scores"][:, :2] = [1e4, 1e4 - 1]
    operands["w1"][3] = np.inf
    operands["b2"][2] = np.nan
    for normalize in (0, 1):
        model, given = model_of(
            make_model, "MoE", operands, k=2, normalize_routing_weights=normalize
        )
        assert compare(model, given) <= TOLERANCE


@pytest.mark.parametrize("fusion", [0, 2])
def test_layouts_of_gates_that_no_kernel_for_processors_has(make_model, snapshot, fusion):
    """The formula of onnxruntime's documentation, in float64."""
    operands = layers(1 if fusion == 0 else 2)
    if fusion == 0:
        operands |= {
            "w3": floats(EXPERTS, INNER, WIDTH, seed=7),
            "b3": floats(EXPERTS, INNER, seed=8),
        }
    model, given = model_of(make_model, "MoE", operands, **SWIGLU | {"swiglu_fusion": fusion})
    made = snapshot(model)
    found = outputs_by_name(made.module, made.run(given))["y"]
    x, scores, w1, b1, w2, b2, *third = (a.astype(np.float64) for a in given.values())
    for row, scored, y in zip(x[0], scores, found[0], strict=True):
        e = int(np.argmax(scored))
        hidden = w1[e] @ row + b1[e]
        gate, line = np.split(hidden, 2) if fusion else (hidden, third[0][e] @ row + third[1][e])
        gate, line = np.minimum(gate, 1.5), np.clip(line, -1.5, 1.5)
        inner = gate / (1 + np.exp(-1.702 * gate)) * (line + 1)
        share = np.exp(scored[e]) / np.exp(scored).sum()
        np.testing.assert_allclose(y, share * (w2[e] @ inner + b2[e]), rtol=1e-4, atol=1e-5)


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Several in a byte, the first one in its lowest bits; the last byte is filled up with ones."""
    per_byte = 8 // bits
    padding = [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % per_byte)]
    wide = np.pad(numbers, padding, constant_values=(1 << bits) - 1).astype(np.uint8)
    apart = wide.reshape(*wide.shape[:-1], -1, per_byte)
    shifted = apart << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(shifted, -1).astype(np.uint8)


def quantized(bits: int, block: int, with_zeros: bool, rows: int = ROWS) -> dict:
    numbers = np.random.default_rng(bits)
    shapes = {"1": (EXPERTS, 2 * INNER, WIDTH), "2": (EXPERTS, WIDTH, INNER)}
    made = {"x": floats(rows, WIDTH), "scores": floats(rows, EXPERTS, seed=1)}
    for name, shape in shapes.items():
        scales = (*shape[:2], shape[2] // block) if block else shape[:2]
        made[f"w{name}"] = packed(numbers.integers(0, 1 << bits, shape), bits)
        made[f"s{name}"] = numbers.uniform(0.01, 0.2, scales).astype(np.float32) / 2**bits
        made[f"b{name}"] = floats(*shape[:2], seed=2)
    made |= {"w3": None, "s3": None, "b3": None, "z1": None, "z2": None, "z3": None}
    if with_zeros:
        for name in shapes:
            zeros = numbers.integers(0, 1 << bits, made[f"s{name}"].shape)
            made[f"z{name}"] = packed(zeros, bits)
    return made


@pytest.mark.parametrize("normalize", [0, 1])
@pytest.mark.parametrize(("block", "with_zeros"), [(0, False), (0, True), (16, False), (16, True)])
@pytest.mark.parametrize("bits", [4, 8])
def test_experts_with_weights_of_few_bits(make_model, compare, bits, block, with_zeros, normalize):
    operands = quantized(bits, block, with_zeros)
    attributes = {"expert_weight_bits": bits, "normalize_routing_weights": normalize, "k": 2}
    attributes |= {"block_size": block} if block else {}
    model, given = model_of(make_model, "QMoE", operands, **attributes, **SWIGLU)
    assert compare(model, given) <= TOLERANCE


@pytest.mark.parametrize("normalize", [0, 1])
def test_other_numbers_may_mix_the_experts(make_model, compare, normalize):
    operands = quantized(4, 0, False) | {"mixing": np.abs(floats(ROWS, EXPERTS, seed=9))}
    attributes = {"normalize_routing_weights": normalize, "k": 2}
    model, given = model_of(make_model, "QMoE", operands, **attributes, **SWIGLU)
    assert compare(model, given) <= TOLERANCE


def test_one_program_in_c_for_all_numbers_of_rows(make_model):
    operands = {**layers(), "x": floats(ROWS, WIDTH)}
    weights = {name: operands.pop(name) for name in ("w1", "w2")}
    operands = {name: operands[name] for name in ("x", "scores")}
    names = ["x", "scores", "w1", "", "w2"]
    node = helper.make_node("MoE", names, ["y"], name="n", domain=MICROSOFT, k=2)
    proto = make_model([node], operands, weights, 17, [MICROSOFT])
    for value in proto.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    model = from_proto(proto)
    program = explorer.compile(model, dimensions={"rows": (1, ROWS)})
    for rows in (1, 3, ROWS):
        given = {name: array[:rows] for name, array in operands.items()}
        found, expected = program.run(given)["y"], reference(model, given)["y"]
        assert tensor_error("y", "", found, expected).max_relative <= TOLERANCE


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"quant_type": "fp4"}, "fp4"),
        ({"weights_prepacked": 1}, "weights_prepacked"),
        ({"use_sparse_mixer": 1}, "sparse mixer"),
        ({"expert_weight_bits": 3}, "3 bits"),
        ({"activation_type": "geglu"}, "geglu"),
    ],
)
def test_other_experts_are_refused_by_name(make_model, snapshot, attributes, words):
    model, _ = model_of(make_model, "QMoE", quantized(4, 0, False), **attributes)
    with pytest.raises(UnsupportedError) as refused:
        snapshot(model)
    assert words in str(refused.value)


def test_more_experts_than_there_are(make_model, snapshot):
    model, _ = model_of(make_model, "MoE", layers(), k=5)
    with pytest.raises(ModelError, match="5 of 4 experts"):
        snapshot(model)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_distances_of_all_rows(make_model, compare, rows, metric, dtype):
    operands = {"a": floats(rows, 7).astype(dtype), "b": floats(4, 7, seed=1).astype(dtype)}
    model, given = model_of(make_model, "CDist", operands, metric=metric)
    assert compare(model, given) <= 1e-5


def test_equal_rows_far_from_zero_have_no_distance(make_model, snapshot):
    """onnxruntime's difference of squares and products is a multiple of 64 there."""
    rows = np.full((2, 7), 1e4, np.float32) + np.arange(2, dtype=np.float32)[:, None] / 1024
    model, given = model_of(make_model, "CDist", {"a": rows, "b": rows}, metric="euclidean")
    made = snapshot(model)
    found = outputs_by_name(made.module, made.run(given))["y"]
    wide = rows.astype(np.float64)
    expected = np.sqrt(((wide[:, None] - wide[None]) ** 2).sum(-1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
