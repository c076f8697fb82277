"""Operators that call other subgraphs of a file mean what LiteRT computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from flatbuffers import flexbuffers

import explorer as ex
from explorer.errors import UnsupportedError
from explorer.importers.model import SourceModel
from explorer.importers.tflite.file.reading import read
from explorer.importers.tflite.importer import TfliteImporter
from explorer.references.interface import reference_of
from verification.conformance.tflite.models import GraphOf, OperatorOf, TensorOf, model_of

pytest.importorskip("ai_edge_litert", reason="LiteRT judges here: the extra tflite")

NOTHING = np.frombuffer(bytes(flexbuffers.Dumps({})), np.uint8)
BYTES = {"element_type": "int8", "scales": [0.05], "zeros": [3]}


def numbers(name: str, *shape: int) -> TensorOf:
    return TensorOf(name=name, shape=shape)


def whole(name: str, *shape: int) -> TensorOf:
    return TensorOf(name=name, shape=shape, element_type="int32")


def fixed(name: str, data: object, dtype: str = "float32") -> TensorOf:
    array = np.asarray(data, dtype)
    return TensorOf(name=name, shape=array.shape, element_type=dtype, data=array)


def flag(name: str) -> TensorOf:
    return TensorOf(name=name, shape=(), element_type="bool")


def operator(
    kind: str, inputs: Sequence[int], output: int, options: str = "", **values: object
) -> OperatorOf:
    return OperatorOf(kind=kind, inputs=inputs, outputs=[output], options=options, values=values)


def assert_is_litert(model: SourceModel, inputs: dict[str, np.ndarray], compiles: bool) -> None:
    names = [value.name for value in model.outputs]
    expected = dict(reference_of(model).tensors(model, inputs, names))
    found = [ex.interpret(model, inputs)]
    if compiles:
        compilation = ex.compile(model)
        found.append(compilation.run(inputs))
        compilation.close()
    for ours in found:
        for name, right in expected.items():
            np.testing.assert_allclose(ours[name], right, rtol=1e-6)


def branches(condition: TensorOf) -> SourceModel:
    negated = GraphOf(
        tensors=[numbers("a", 3, 4), numbers("b", 3, 4)],
        operators=[operator("NEG", [0], 1)],
        inputs=[0],
        outputs=[1],
    )
    moved = GraphOf(
        tensors=[numbers("a", 3, 4), fixed("two", [2.0]), numbers("b", 3, 4)],
        operators=[operator("ADD", [0, 1], 2, "AddOptions")],
        inputs=[0],
        outputs=[2],
    )
    tensors = [condition, numbers("x", 3, 4), numbers("y", 3, 4)]
    node = operator("IF", [0, 1], 2, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    given = [index for index, t in enumerate(tensors[:2]) if t.data is None]
    return read(memoryview(model_of(tensors, [node], given, [2], others=[negated, moved])), "if")


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_branch_is_taken_by_its_condition(is_taken: bool):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    inputs = {"c": np.array(is_taken), "x": x}
    assert_is_litert(branches(flag("c")), inputs, compiles=is_taken)


def test_a_known_condition_leaves_one_branch():
    program = TfliteImporter().open_program(branches(fixed("c", False, "bool"))).module
    kinds = {op.name for op in program.walk()}
    assert "top.binary" in kinds and not {"top.if", "top.unary"} & kinds


def counting(limit: int) -> SourceModel:
    """while (i < limit) { i += 1; x = x * 2 of bytes }"""
    scaled = {**BYTES, "scales": [0.1]}
    condition = GraphOf(
        tensors=[whole("i", 1), TensorOf(name="x", shape=(2, 3), **BYTES),
                 fixed("n", [limit], "int32"), TensorOf(name="c", shape=(1,), element_type="bool")],
        operators=[operator("LESS", [0, 2], 3, "LessOptions")],
        inputs=[0, 1],
        outputs=[3],
    )  # fmt: skip
    body = GraphOf(
        tensors=[whole("i", 1), TensorOf(name="x", shape=(2, 3), **BYTES),
                 fixed("one", [1], "int32"), whole("j", 1),
                 TensorOf(name="y", shape=(2, 3), **scaled),
                 TensorOf(name="z", shape=(2, 3), **BYTES)],
        operators=[
            operator("ADD", [0, 2], 3, "AddOptions"), operator("ADD", [1, 1], 4, "AddOptions"),
            operator("QUANTIZE", [4], 5),
        ],
        inputs=[0, 1],
        outputs=[3, 5],
    )  # fmt: skip
    tensors = [whole("i", 1), TensorOf(name="x", shape=(2, 3), **BYTES), whole("last", 1),
               TensorOf(name="y", shape=(2, 3), **BYTES)]  # fmt: skip
    node = OperatorOf(
        kind="WHILE", inputs=[0, 1], outputs=[2, 3], options="WhileOptions",
        values={"CondSubgraphIndex": 1, "BodySubgraphIndex": 2},
    )  # fmt: skip
    content = model_of(tensors, [node], [0, 1], [2, 3], others=[condition, body])
    return read(memoryview(content), "while")


@pytest.mark.parametrize("start", [0, 2, 9])
def test_a_loop_ends_when_its_condition_says_so(start: int):
    x = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    inputs = {"i": np.array([start], np.int32), "x": x}
    assert_is_litert(counting(3), inputs, compiles=False)


def composite(calls: int) -> SourceModel:
    inside = GraphOf(
        tensors=[numbers("a", 4), numbers("b", 4)],
        operators=[operator("STABLEHLO_COMPOSITE", [0], 1, "StableHLOCompositeOptions",
                            Name="inner", DecompositionSubgraphIndex=calls,
                            CompositeAttributes=NOTHING)
                   if calls else operator("EXP", [0], 1)],
        inputs=[0],
        outputs=[1],
    )  # fmt: skip
    node = operator(
        "STABLEHLO_COMPOSITE", [0], 1, "StableHLOCompositeOptions",
        Name="outer", DecompositionSubgraphIndex=1, CompositeAttributes=NOTHING,
    )  # fmt: skip
    tensors = [numbers("x", 4), numbers("y", 4)]
    return read(memoryview(model_of(tensors, [node], [0], [1], others=[inside])), "composite")


def test_a_composite_is_what_it_consists_of():
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    assert_is_litert(composite(0), {"x": x}, compiles=True)


def test_a_subgraph_that_calls_itself_is_refused():
    with pytest.raises(UnsupportedError, match="calls itself"):
        ex.interpret(composite(1), {"x": np.zeros(4, np.float32)})
