"""Random models of operators that call subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from flatbuffers import flexbuffers

from verification.conformance.tflite.drawing import Draw, Drawn
from verification.conformance.tflite.models import GraphOf, OperatorOf, TensorOf

UNARY = ("ABS", "NEG", "COS", "EXP", "FLOOR", "RELU", "SQUARE", "TANH")
NOTHING = np.frombuffer(bytes(flexbuffers.Dumps({})), np.uint8)


def _chain(draw: Draw, shape: Sequence[int]) -> GraphOf:
    """One to three functions of each element, one behind the other."""
    count = draw.integer(1, 3)
    return GraphOf(
        tensors=[TensorOf(name=f"t{draw.kind}{k}", shape=shape) for k in range(count + 1)],
        operators=[
            OperatorOf(kind=draw.choice(*UNARY), inputs=[k], outputs=[k + 1]) for k in range(count)
        ],
        inputs=[0],
        outputs=[count],
    )


def branch(draw: Draw) -> Drawn:
    shape = draw.shape()
    return Drawn(
        inputs=[TensorOf(name="c", shape=(), element_type="bool"), draw.tensor("x", shape)],
        results=[draw.tensor("y", shape)],
        options="IfOptions",
        values={"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2},
        others=[_chain(draw, shape), _chain(draw, shape)],
        ranges={"x": (-1, 1)},
    )


def composite(draw: Draw) -> Drawn:
    shape = draw.shape()
    return Drawn(
        inputs=[draw.tensor("x", shape)],
        results=[draw.tensor("y", shape)],
        options="StableHLOCompositeOptions",
        values={
            "Name": "vendor.op", "DecompositionSubgraphIndex": 1, "CompositeAttributes": NOTHING,
        },
        others=[_chain(draw, shape)],
        ranges={"x": (-1, 1)},
    )  # fmt: skip


def loop(draw: Draw) -> Drawn:
    """while (i < n) { i = i + step; x = function(x) }"""
    shape = draw.shape()
    number = draw.constant("n", [draw.integer(0, 6)])
    step = draw.constant("d", [draw.integer(1, 3)])
    count, flag = (
        TensorOf(name=name, shape=(1,), element_type=dtype)
        for name, dtype in (("i", "int32"), ("c", "bool"))
    )
    condition = GraphOf(
        tensors=[count, draw.tensor("x", shape), number, flag],
        operators=[OperatorOf(kind="LESS", inputs=[0, 2], outputs=[3], options="LessOptions")],
        inputs=[0, 1],
        outputs=[3],
    )
    body = GraphOf(
        tensors=[count, draw.tensor("x", shape), step, count, draw.tensor("y", shape)],
        operators=[
            OperatorOf(kind="ADD", inputs=[0, 2], outputs=[3], options="AddOptions"),
            OperatorOf(kind=draw.choice("ABS", "NEG", "COS", "TANH"), inputs=[1], outputs=[4]),
        ],
        inputs=[0, 1],
        outputs=[3, 4],
    )
    return Drawn(
        inputs=[count, draw.tensor("x", shape)],
        results=[TensorOf(name="last", shape=(1,), element_type="int32"), draw.tensor("y", shape)],
        options="WhileOptions",
        values={"CondSubgraphIndex": 1, "BodySubgraphIndex": 2},
        others=[condition, body],
        ranges={"i": (-3, 3), "x": (-1, 1)},
    )


DRAWS: dict[str, Callable[[Draw], Drawn]] = {
    "IF": branch,
    "WHILE": loop,
    "STABLEHLO_COMPOSITE": composite,
}
