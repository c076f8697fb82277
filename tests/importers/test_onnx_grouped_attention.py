"""onnxruntime's GroupQueryAttention with its cache, compared with onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from explorer.accuracy.oracle import reference
from explorer.errors import UnsupportedError
from explorer.importers.onnx import from_proto
from explorer.ir.evaluation import outputs_by_name

MICROSOFT = "com.microsoft"
HEADS, SHARED, SIZE = 4, 2, 16
OPERANDS = [
    "query",
    "key",
    "value",
    "past_key",
    "past_value",
    "seqlens_k",
    "total_sequence_length",
    "cos_cache",
    "sin_cache",
    "position_ids",
    "attention_bias",
    "head_sink",
    "k_scale",
    "v_scale",
    "q_norm",
    "k_norm",
    "query_seqlens",
]
# Sums of up to 16 float32 products in another order, then exponentials.
TOLERANCE = 1e-5


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def attention(
    make_model,
    rows=3,
    past=None,
    lengths=None,
    total=None,
    batch=2,
    packed=False,
    rotary=False,
    results=3,
    at_run_time=("seqlens_k",),
    extra=None,
    shared=SHARED,
    **attributes,
):
    """A model of one node and its inputs; `past` is the capacity of the cache."""
    operands = dict.fromkeys(OPERANDS)
    if packed:
        operands["query"] = floats(batch, rows, (HEADS + 2 * shared) * SIZE)
    else:
        operands["query"] = floats(batch, rows, HEADS * SIZE)
        operands["key"] = floats(batch, rows, shared * SIZE, seed=1)
        operands["value"] = floats(batch, rows, shared * SIZE, seed=2)
    if past is not None:
        operands["past_key"] = floats(batch, shared, past, SIZE, seed=3)
        operands["past_value"] = floats(batch, shared, past, SIZE, seed=4)
    total = total or (past or 0) + rows
    lengths = [total] * batch if lengths is None else lengths
    operands["seqlens_k"] = np.array(lengths, np.int32) - 1
    operands["total_sequence_length"] = np.array(total, np.int32)
    if rotary:
        angles = floats(16, SIZE // 2, seed=5)
        operands |= {"cos_cache": np.cos(angles), "sin_cache": np.sin(angles)}
    operands |= extra or {}
    while operands and next(reversed(operands.values())) is None:
        operands.popitem()
    given = {name: array for name, array in operands.items() if array is not None}
    parameters = {"seqlens_k", "total_sequence_length"} - set(at_run_time)
    inputs = {name: array for name, array in given.items() if name not in parameters}
    names = [name if name in given else "" for name in operands]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["y", "present_key", "present_value", "scores"][:results],
        name="n",
        domain=MICROSOFT,
        num_heads=HEADS,
        kv_num_heads=shared,
        do_rotary=int(rotary),
        **attributes,
    )
    weights = {name: given[name] for name in parameters}
    model = make_model([node], inputs, weights, 17, [MICROSOFT])
    for output in model.graph.output:  # onnxruntime does not infer the type of the scores
        kind = helper.make_tensor_value_info(output.name, TensorProto.FLOAT, None)
        output.CopyFrom(kind)
    return from_proto(model), inputs


CASES = {
    "first tokens": {},
    "in one tensor": {"packed": True},
    "as many keys": {"shared": HEADS},
    "one head of keys": {"shared": 1},
    "turned": {"rotary": True},
    "turned in pairs": {"rotary": True, "rotary_interleaved": 1},
    "padded": {"lengths": [1, 2], "rotary": True},
    "into a buffer": {"past": 8, "total": 3, "rotary": True},
    "behind an empty past": {"past": 0},
    "a token": {"rows": 1, "past": 4, "rotary": True},
    "a packed token": {"rows": 1, "past": 4, "rotary": True, "packed": True},
    "tokens at places of their own": {"rows": 1, "past": 4, "lengths": [3, 5], "rotary": True},
    "a token in a buffer": {"rows": 1, "past": 8, "total": 5, "lengths": [3, 5], "rotary": True},
    "some tokens": {"batch": 1, "past": 4, "rotary": True},
    "some tokens in a buffer": {"batch": 1, "past": 9, "total": 6, "rotary": True},
    "a window": {"rows": 6, "local_window_size": 3},
    "a window behind a past": {"rows": 1, "past": 6, "lengths": [4, 7], "local_window_size": 3},
    "capped": {"softcap": 2.0},
    "smooth": {"smooth_softmax": 1},
    "sinks": {"extra": {"head_sink": floats(HEADS)}},
    "capped with sinks": {
        "rows": 1,
        "past": 4,
        "softcap": 1.5,
        "extra": {"head_sink": floats(HEADS)},
    },
    "scaled": {"scale": 0.2},
    "a bias": {"extra": {"attention_bias": floats(2, HEADS, 3, 3)}},
    "a bias shorter than the buffer": {
        "rows": 1,
        "past": 8,
        "total": 5,
        "extra": {"attention_bias": floats(2, 1, 1, 5)},
    },
    "first positions": {
        "rotary": True,
        "extra": {"position_ids": np.array([[5, 1, 7], [2, 6, 9]])},
    },
    "positions": {
        "rows": 1,
        "past": 4,
        "rotary": True,
        "extra": {"position_ids": np.array([[9], [3]])},
    },
    "both directions": {"causal": 0},
    "both directions behind a past": {"causal": 0, "rows": 1, "past": 4, "lengths": [3, 5]},
    "scores before": {"qk_output": 1, "results": 4},
    "scores behind": {"qk_output": 2, "results": 4, "rows": 1, "past": 4, "lengths": [3, 5]},
    "constant lengths": {"rows": 1, "past": 4, "lengths": [3, 5], "at_run_time": ()},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_grouped_attention(make_model, compare, options):
    assert compare(*attention(make_model, **options)) <= TOLERANCE


def test_a_chunk_with_padding(make_model, snapshot):
    """Rows of the result, and places of the cache, behind the last token are unspecified."""
    extra = {"query_seqlens": np.array([2, 3], np.int32)}
    model, inputs = attention(make_model, past=8, total=8, lengths=[5, 8], rotary=True, extra=extra)
    program = snapshot(model)
    found = outputs_by_name(program.module, program.run(inputs))
    expected = reference(model, inputs, list(found))
    for entry, (rows, tokens) in enumerate(((2, 5), (3, 8))):
        for name, count in (("y", np.s_[:rows]), ("present_key", np.s_[:, :tokens])):
            specified = (arrays[name][entry][count] for arrays in (found, expected))
            assert np.allclose(*specified, rtol=0, atol=TOLERANCE)


def test_queries_and_keys_are_normalized_head_by_head(make_model, snapshot):
    """Only GPUs have it in onnxruntime: compared with operands that were normalized before."""

    def normalized(x, weight):
        heads = x.reshape(*x.shape[:2], -1, SIZE).astype(np.float64)
        mean = np.mean(heads**2, axis=-1, keepdims=True)
        return (heads / np.sqrt(mean + 1e-5) * weight).reshape(x.shape).astype(np.float32)

    weights = {"q_norm": floats(SIZE, seed=6), "k_norm": floats(SIZE, seed=7)}
    found = []
    for is_before in (False, True):
        extra = {} if is_before else weights
        model, inputs = attention(make_model, rotary=True, extra=extra, qk_norm_epsilon=1e-5)
        if is_before:
            inputs["query"] = normalized(inputs["query"], weights["q_norm"])
            inputs["key"] = normalized(inputs["key"], weights["k_norm"])
        program = snapshot(model)
        found.append(outputs_by_name(program.module, program.run(inputs)))
    for name in ("y", "present_key"):
        assert np.allclose(found[0][name], found[1][name], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k_quant_type": "PER_TENSOR"}, "a cache of quantized keys and values"),
        ({"sliding_window_cache": 1, "past": 8}, "a cache that holds a window"),
        (
            {"past": 4, "at_run_time": ("total_sequence_length",)},
            "how long the new cache is depends on total_sequence_length",
        ),
    ],
)
def test_what_is_not_supported_says_why(make_model, snapshot, options, message):
    model, _ = attention(make_model, **options)
    with pytest.raises(UnsupportedError, match=message):
        snapshot(model)
