"""onnxruntime's attention operators and rotary embeddings, compared with onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

MICROSOFT = "com.microsoft"

# Sums of up to 24 float32 products in another order, then exponentials.
TOLERANCE = 1e-5


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compared(
    make_model, compare, operator, operands, results=1, dimensions=None, weights=(), **attributes
):
    """The largest error against onnxruntime, and the operations of the imported model."""
    names = [name if array is not None else "" for name, array in operands.items()]
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(operator, names, outputs, name="n", domain=MICROSOFT, **attributes)
    inputs = {name: array for name, array in operands.items() if array is not None}
    constants = {name: inputs.pop(name) for name in weights}
    model = from_proto(make_model([node], inputs, constants, 17, [MICROSOFT]))
    return compare(model, inputs, dimensions)


MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, MASK])
def test_attention(make_model, compare, mask, unidirectional):
    operands = {"x": floats(2, 5, 8), "w": floats(8, 36) / 3, "b": floats(36), "mask": mask}
    attributes = {"num_heads": 3, "unidirectional": unidirectional}
    assert compared(make_model, compare, "Attention", operands, **attributes) <= TOLERANCE


MASKS = {
    "raw": MASK,
    "raw, none left": np.array([[1, 1, 2, 0, 0], [0, 0, 0, 0, 0]], np.int32),
    "per query": np.random.default_rng(1).integers(0, 2, (2, 5, 5)).astype(np.int32),
    "lengths": np.array([3, 5], np.int32),
    "no length": np.array([0, 2], np.int32),
    "ends and begins": np.array([4, 5, 1, 2], np.int32),
    "lengths and offsets": np.array([3, 5, 0, 3, 8, 0, 3, 8], np.int32),
}


@pytest.mark.parametrize("hidden", [1, 3, 5])
@pytest.mark.parametrize("lowest", [-1e4, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("operator", ["Attention", "MultiHeadAttention"])
def test_rows_that_see_masked_keys_alone(make_model, compare, operator, lowest, hidden):
    """By the lowest number later keys have the same share as masked ones; by -10000 none."""
    mask = np.ones((1, 5), np.int32)
    mask[0, :hidden] = 0
    operands = {"x": floats(1, 5, 8), "w": floats(8, 24) / 3, "b": floats(24), "mask": mask}
    if operator == "MultiHeadAttention":
        keys = {"k": floats(1, 5, 8, seed=1), "v": floats(1, 5, 8, seed=2)}
        operands = {"x": floats(1, 5, 8), **keys, "bias": None, "mask": mask}
    attributes = {"num_heads": 2, "unidirectional": 1, "mask_filter_value": lowest}
    assert compared(make_model, compare, operator, operands, **attributes) <= TOLERANCE


@pytest.mark.sampled(10)
@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize(
    ("operator", "mask"),
    [
        (operator, mask)
        for operator in ("Attention", "MultiHeadAttention")
        for form, mask in MASKS.items()
        if operator == "Attention" or form != "ends and begins"
    ],
)
def test_masks_in_all_forms(make_model, compare, operator, mask, unidirectional):
    """A query whose keys are all masked still sees no later ones."""
    if operator == "Attention":
        operands = {"x": floats(2, 5, 8), "w": floats(8, 36) / 3, "b": floats(36), "mask": mask}
    else:
        operands = {name: floats(2, 5, 24, seed=i) for i, name in enumerate("qkv")}
        operands |= {"b": floats(72), "mask": mask}
    attributes = {"num_heads": 3, "unidirectional": unidirectional}
    assert compared(make_model, compare, operator, operands, **attributes) <= TOLERANCE


@pytest.mark.parametrize(
    "mask", [np.array([4, 5], np.int32), np.array([[1, 1, 0, 1, 1]] * 2, "i4")]
)
@pytest.mark.parametrize("operator", ["Attention", "MultiHeadAttention"])
def test_masks_count_the_keys_of_the_past(make_model, compare, operator, mask):
    if operator == "Attention":
        operands = {"x": floats(2, 2, 8), "w": floats(8, 36) / 3, "b": floats(36), "mask": mask}
        operands |= {"past": floats(2, 2, 3, 3, 4)}
    else:
        operands = {name: floats(2, 2, 24, seed=i) for i, name in enumerate("qkv")}
        operands |= {"b": None, "mask": mask, "bias": floats(1, 3, 2, 5)}
        operands |= {"pk": floats(2, 3, 3, 8), "pv": floats(2, 3, 3, 8, seed=5)}
    results = 2 if operator == "Attention" else 3
    error = compared(
        make_model, compare, operator, operands, results, num_heads=3, unidirectional=1
    )
    assert error <= TOLERANCE


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_gives_its_scores(make_model, compare, unidirectional):
    operands = {name: floats(2, 5, 24, seed=i) for i, name in enumerate("qkv")}
    operands |= {"b": floats(72), "mask": None, "bias": floats(2, 3, 5, 5)}
    node = helper.make_node(
        "MultiHeadAttention",
        [n if a is not None else "" for n, a in operands.items()],
        ["y", "", "", "scores"],
        name="n",
        domain=MICROSOFT,
        num_heads=3,
        unidirectional=unidirectional,
    )
    inputs = {n: a for n, a in operands.items() if a is not None}
    model = make_model([node], inputs, {}, 17, [MICROSOFT])
    for output in model.graph.output:  # onnxruntime does not infer the type of the scores
        output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, None))
    assert compare(from_proto(model), inputs) <= TOLERANCE


def test_attention_with_values_of_another_size_and_a_bias(make_model, compare):
    operands = {
        "x": floats(2, 5, 8),
        "w": floats(8, 24 + 24 + 12) / 3,
        "b": floats(60),
        "mask": None,
        "past": None,
        "bias": floats(2, 3, 5, 5),
    }
    sizes = [24, 24, 12]
    error = compared(
        make_model, compare, "Attention", operands, num_heads=3, qkv_hidden_sizes=sizes
    )
    assert error <= TOLERANCE


def test_attention_with_a_past(make_model, compare):
    operands = {
        "x": floats(2, 2, 8),
        "w": floats(8, 24) / 3,
        "b": floats(24),
        "mask": MASK,
        "past": floats(2, 2, 2, 3, 4),
    }
    error = compared(make_model, compare, "Attention", operands, 2, num_heads=2, unidirectional=1)
    assert error <= TOLERANCE


QUERY, KEYS = floats(2, 4, 24, seed=1), floats(2, 5, 24, seed=2)
VALUES = floats(2, 5, 24, seed=3)


@pytest.mark.parametrize(
    "operands",
    [
        {"q": QUERY, "k": KEYS, "v": VALUES},
        {"q": QUERY, "k": KEYS, "v": VALUES, "b": floats(72)},
        {"q": QUERY, "k": KEYS, "v": VALUES, "b": None, "mask": MASK},
        {"q": QUERY, "k": KEYS, "v": VALUES, "b": None, "m": None, "bias": floats(2, 3, 4, 5)},
        {"q": QUERY, "k": floats(2, 3, 5, 8), "v": floats(2, 3, 5, 8, seed=4)},
    ],
    ids=["plain", "bias", "mask", "scores", "split"],
)
def test_multi_head_attention(make_model, compare, operands):
    error = compared(make_model, compare, "MultiHeadAttention", operands, num_heads=3)
    assert error <= TOLERANCE


@pytest.mark.parametrize("packed", [3, 2])
def test_packed_operands_are_the_same_as_separate_ones(make_model, snapshot, packed):
    """onnxruntime has no packed form on the processor, hence no comparison with it."""
    query, key, value = (floats(2, 5, 3, 8, seed=seed) for seed in range(3))
    separate = {n: a.reshape(2, 5, 24) for n, a in (("q", query), ("k", key), ("v", value))}
    if packed == 3:
        joined = {"q": np.stack([query, key, value], axis=3)}
    else:
        joined = {"q": separate["q"], "k": np.stack([key, value], axis=3)}
    results = []
    for operands in (separate, joined):
        node = helper.make_node(
            "MultiHeadAttention", list(operands), ["y"], domain=MICROSOFT, num_heads=3
        )
        model = from_proto(make_model([node], operands, {}, 17, [MICROSOFT]))
        program = snapshot(model)
        (array,) = outputs_by_name(program.module, program.run(operands)).values()
        results.append(array)
    assert np.array_equal(*results)


def test_multi_head_attention_gives_keys_and_values_back(make_model, compare):
    operands = {"q": QUERY[:, :2], "k": KEYS[:, :2], "v": VALUES[:, :2], "b": None, "m": None}
    operands |= {"a": None, "pk": floats(2, 3, 3, 8), "pv": floats(2, 3, 3, 8, seed=5)}
    error = compared(
        make_model, compare, "MultiHeadAttention", operands, 3, num_heads=3, unidirectional=1
    )
    assert error <= TOLERANCE


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [np.array([2]), np.array([[0, 1, 2, 3], [4, 3, 2, 1]])])
@pytest.mark.parametrize("shape", [(2, 4, 24), (2, 3, 4, 8)])
def test_rotary_embedding(make_model, compare, shape, positions, interleaved):
    angles = floats(8, 4)
    operands = {"x": floats(*shape), "p": positions, "c": np.cos(angles), "s": np.sin(angles)}
    error = compared(make_model, compare, "RotaryEmbedding", operands, interleaved=interleaved)
    assert error <= TOLERANCE


@pytest.mark.parametrize("shape", [(2, 4, 24), (2, 3, 4, 8)])
def test_a_part_of_each_head_may_be_turned(make_model, compare, shape):
    angles = floats(8, 2)
    operands = {
        "x": floats(*shape),
        "p": np.array([[0, 1, 2, 3], [4, 3, 2, 1]]),
        "c": np.cos(angles),
        "s": np.sin(angles),
    }
    error = compared(
        make_model, compare, "RotaryEmbedding", operands, num_heads=3, rotary_embedding_dim=4
    )
    assert error <= TOLERANCE


def test_operators_become_one_operation_each(make_model, snapshot):
    node = helper.make_node("Attention", ["x", "w"], ["y"], domain=MICROSOFT, num_heads=2)
    inputs = {"x": floats(1, 5, 8)}
    model = make_model([node], inputs, {"w": floats(8, 24)}, 17, [MICROSOFT])
    names = [op.name for op in snapshot(from_proto(model)).operations.values()]
    assert names.count("top.attention") == 1 and "top.softmax" not in names


def test_causal_attention_of_open_sizes_computes_its_mask(make_model, compare):
    """The same numbers, whether the length is known when the model is imported or not."""
    node = helper.make_node(
        "Attention", ["x", "w", "b"], ["y"], domain=MICROSOFT, num_heads=2, unidirectional=1
    )
    inputs = {"x": floats(1, 5, 8)}
    model = make_model([node], inputs, {"w": floats(8, 24), "b": floats(24)}, 17, [MICROSOFT])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "rows"
    assert compare(from_proto(model), inputs) <= TOLERANCE
    assert compare(from_proto(model), inputs, {"rows": 5}) <= TOLERANCE


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, "raw", "lengths", "ends and begins"])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_attention_of_bytes(make_model, compare, kind, mask, unidirectional):
    """Both ends of both types, with zero points; weights of one scale, or of one per column."""
    numbers = np.random.default_rng(3)
    x = numbers.integers(0, 256, (2, 5, 8)).astype(np.uint8)
    w = numbers.integers(0, 256, (8, 24)).astype(np.uint8).view(kind)
    columns = mask is None
    operands = {
        "x": x, "w": w, "b": floats(24), "sx": np.float32(0.02).reshape(()),
        "sw": numbers.uniform(0.001, 0.01, 24 if columns else ()).astype(np.float32),
        "mask": None if mask is None else MASKS[mask],
        "zx": np.array(130, np.uint8), "zw": np.zeros(24 if columns else (), kind),
    }  # fmt: skip
    operands = {n: a if a is None else np.asarray(a) for n, a in operands.items()}
    attributes = {"num_heads": 2, "unidirectional": unidirectional, "weights": ("w", "zx", "zw")}
    assert compared(make_model, compare, "QAttention", operands, **attributes) <= TOLERANCE


def test_attention_of_bytes_with_a_past(make_model, compare):
    numbers = np.random.default_rng(4)
    operands = {
        "x": numbers.integers(0, 256, (2, 5, 8)).astype(np.uint8),
        "w": numbers.integers(-128, 128, (8, 24)).astype(np.int8), "b": floats(24),
        "sx": np.array(0.02, np.float32), "sw": np.array(0.005, np.float32), "mask": None,
        "zx": np.array(255, np.uint8), "zw": np.array(-3, np.int8), "past": floats(2, 2, 2, 3, 4),
    }  # fmt: skip
    attributes = {"num_heads": 2, "unidirectional": 1, "weights": ("w", "zx", "zw")}
    assert compared(make_model, compare, "QAttention", operands, 2, **attributes) <= TOLERANCE
