"""A small decoder as language models are published: two blocks, a cache, sizes that are open.

language_model("com.microsoft")   MatMulNBits, GroupQueryAttention with its rotary embedding,
                                  SkipSimplifiedLayerNormalization, GatherBlockQuantized
language_model("")                the same of ONNX's operators: DequantizeLinear with blocks,
                                  RotaryEmbedding, Attention with a past, RMSNormalization
"""

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
LAYERS, HEADS, SHARED, SIZE, INNER, WORDS, BLOCK = 2, 4, 2, 16, 96, 32, 32
WIDTH = HEADS * SIZE
PREFIX = "past_key_values"


class _Decoder:
    """Nodes and weights of one model, added in order."""

    def __init__(self, domain: str, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.domain = domain
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights[name] = numpy_helper.from_array(array, name)
        return name

    def constant(self, *numbers: int) -> str:
        return self.weight("_".join(["constant", *map(str, numbers)]), np.array(numbers, np.int64))

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        results: int = 1,
        domain: str = "",
        **attributes: object,
    ) -> list[str]:
        name = f"{operator}_{len(self.nodes)}"
        outputs = [f"{name}_{index}" if index else name for index in range(results)]
        self.nodes.append(
            helper.make_node(operator, inputs, outputs, name, domain=domain, **attributes)
        )
        return outputs

    def parameters(self, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of four bits (columns, rows), scales and zero points (columns, blocks)."""
        numbers = self.random.integers(0, 16, (columns, rows))
        scales = self.random.uniform(0.5, 1.5, (columns, rows // BLOCK)) / (4 * np.sqrt(rows))
        zeros = self.random.integers(6, 10, (columns, rows // BLOCK))
        return numbers, scales.astype(np.float32), zeros

    def linear(self, x: str, name: str, rows: int, columns: int) -> str:
        numbers, scales, zeros = self.parameters(rows, columns)
        scale = self.weight(f"{name}.scale", scales)
        if self.domain:
            packed = _packed(numbers).reshape(columns, rows // BLOCK, BLOCK // 2)
            zero = self.weight(f"{name}.zero", _packed(zeros))
            operands = [x, self.weight(name, packed), scale, zero]
            attributes = {"N": columns, "K": rows, "bits": 4, "block_size": BLOCK}
            return self.add("MatMulNBits", operands, 1, MICROSOFT, **attributes)[0]
        kind = ml_dtypes.uint4
        operands = [self.weight(name, numbers.astype(kind)), scale]
        operands.append(self.weight(f"{name}.zero", zeros.astype(kind)))
        (real,) = self.add("DequantizeLinear", operands, axis=1, block_size=BLOCK)
        (turned,) = self.add("Transpose", [real], perm=[1, 0])
        return self.add("MatMul", [x, turned])[0]

    def embedded(self, tokens: str) -> str:
        numbers, scales, zeros = self.parameters(WIDTH, WORDS)
        if self.domain:
            scale = self.weight("words.scale", scales)
            zero = self.weight("words.zero", _packed(zeros))
            operands = [self.weight("words", _packed(numbers)), tokens, scale, zero]
            attributes = {"bits": 4, "block_size": BLOCK, "quantize_axis": 1}
            return self.add("GatherBlockQuantized", operands, 1, MICROSOFT, **attributes)[0]
        table = self.weight("words", (numbers - 8).astype(np.float32) / 8)
        return self.add("Gather", [table, tokens])[0]

    def norm_weight(self, name: str) -> str:
        return self.weight(name, self.random.uniform(0.5, 1.5, WIDTH).astype(np.float32))

    def added(self, x: str, skip: str, name: str) -> tuple[str, str]:
        """The sum's normalization, and the sum."""
        scale = self.norm_weight(name)
        if self.domain:
            operator = "SkipSimplifiedLayerNormalization"
            results = self.add(operator, [x, skip, scale], 4, MICROSOFT, epsilon=1e-5)
            self.nodes[-1].output[1] = self.nodes[-1].output[2] = ""
            return results[0], results[3]
        (total,) = self.add("Add", [x, skip])
        return self.add("RMSNormalization", [total, scale], epsilon=1e-5)[0], total

    def attended(self, x: str, layer: int) -> str:
        name = f"layers.{layer}.attention"
        query = self.linear(x, f"{name}.query", WIDTH, HEADS * SIZE)
        key = self.linear(x, f"{name}.key", WIDTH, SHARED * SIZE)
        value = self.linear(x, f"{name}.value", WIDTH, SHARED * SIZE)
        past = [f"{PREFIX}.{layer}.{part}" for part in ("key", "value")]
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        if self.domain:
            operands = [query, key, value, *past, "lasts", "total", "cosines", "sines"]
            attributes = {"num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": 1}
            result, *_ = self.add("GroupQueryAttention", operands, 3, MICROSOFT, **attributes)
        else:
            query, key = (
                self.add("RotaryEmbedding", [v, "cosines", "sines", "positions"], num_heads=n)[0]
                for v, n in ((query, HEADS), (key, SHARED))
            )
            attributes = {"q_num_heads": HEADS, "kv_num_heads": SHARED, "is_causal": 1}
            operands = [query, key, value, "", *past]
            result, *_ = self.add("Attention", operands, 3, **attributes)
        self.nodes[-1].output[1:] = present
        return self.linear(result, f"{name}.output", HEADS * SIZE, WIDTH)

    def forward(self, x: str, layer: int) -> str:
        name = f"layers.{layer}.forward"
        gate = self.linear(x, f"{name}.gate", WIDTH, INNER)
        up = self.linear(x, f"{name}.up", WIDTH, INNER)
        (sigmoid,) = self.add("Sigmoid", [gate])
        (silu,) = self.add("Mul", [gate, sigmoid])
        (product,) = self.add("Mul", [silu, up])
        return self.linear(product, f"{name}.down", INNER, WIDTH)

    def positions(self) -> None:
        """What says where tokens stand: their lengths from the mask, or positions from shapes."""
        angles = np.outer(np.arange(64), 1e4 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
        self.weight("cosines", np.cos(angles).astype(np.float32))
        self.weight("sines", np.sin(angles).astype(np.float32))
        if self.domain:
            (count,) = self.add("ReduceSum", ["attention_mask", self.constant(1)], keepdims=0)
            (last,) = self.add("Sub", [count, self.constant(1)])
            self.add("Cast", [last], to=TensorProto.INT32)
            self.nodes[-1].output[0] = "lasts"
            (shape,) = self.add("Shape", ["attention_mask"])
            one = self.weight("one", np.array(1, np.int64))
            (size,) = self.add("Gather", [shape, one])
            self.add("Cast", [size], to=TensorProto.INT32)
            self.nodes[-1].output[0] = "total"
            return
        (counts,) = self.add(
            "CumSum", ["attention_mask", self.weight("axis", np.array(1, np.int64))]
        )
        (places,) = self.add("Sub", [counts, self.constant(1)])
        (rows,) = self.add("Shape", ["input_ids"], start=1, end=2)
        (begin,) = self.add("Neg", [rows])
        end, axis = self.constant(2**31), self.weight("axes", np.array([1], np.int64))
        self.add("Slice", [places, begin, end, axis])
        self.nodes[-1].output[0] = "positions"


def _packed(numbers: np.ndarray) -> np.ndarray:
    """Two numbers of four bits in a byte, along the last axis."""
    pairs = np.pad(numbers, [(0, 0), (0, numbers.shape[1] % 2)])
    return (pairs[:, ::2] | pairs[:, 1::2] << 4).astype(np.uint8)


def language_model(domain: str) -> onnx.ModelProto:
    """Sizes: batch, rows (new tokens), past, total (both together)."""
    decoder = _Decoder(domain)
    decoder.positions()
    x = decoder.embedded("input_ids")
    normalized = decoder.add("RMSNormalization", [x, decoder.norm_weight("first")], epsilon=1e-5)[0]
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        attended = decoder.attended(normalized, layer)
        normalized, x = decoder.added(x, attended, f"{name}.norm1")
        forward = decoder.forward(normalized, layer)
        normalized, x = decoder.added(x, forward, f"{name}.norm2")
    decoder.linear(normalized, "head", WIDTH, WORDS)
    decoder.nodes[-1].output[0] = "logits"
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "rows"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]),
        *_cache(PREFIX, "past"),
    ]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "rows", WORDS])
    outputs = [logits, *_cache("present", "total")]
    weights = list(decoder.weights.values())
    graph = helper.make_graph(decoder.nodes, "decoder", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 23)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


def _cache(name: str, rows: str) -> list[onnx.ValueInfoProto]:
    shape = ["batch", SHARED, rows, SIZE]
    return [
        helper.make_tensor_value_info(f"{name}.{layer}.{part}", TensorProto.FLOAT, shape)
        for layer in range(LAYERS)
        for part in ("key", "value")
    ]


def model_inputs(
    tokens: np.ndarray, past: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Inputs for new tokens (batch, rows) behind the cache that an earlier run returned."""
    batch, rows = tokens.shape
    length = 0 if past is None else past["present.0.key"].shape[2]
    inputs = {"input_ids": tokens, "attention_mask": np.ones((batch, length + rows), np.int64)}
    for layer in range(LAYERS):
        for part in ("key", "value"):
            empty = np.zeros((batch, SHARED, 0, SIZE), np.float32)
            present = empty if past is None else past[f"present.{layer}.{part}"]
            inputs[f"{PREFIX}.{layer}.{part}"] = present
    return inputs
